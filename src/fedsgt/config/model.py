"""Configuration of a run: all sections of its TOML file, and checks that they fit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pydantic import Field, ValidationInfo, model_validator

from fedsgt.config.sections import (
    Data,
    Engine,
    Grouping,
    Heads,
    Model,
    Peft,
    PlanSection,
    Privacy,
    Section,
    Serving,
    Store,
    Training,
    Unlearning,
)
from fedsgt.errors import InputError
from fedsgt.window import order_passes
from fedsgt.words import counted

SIMULATED_CLIENTS = 10
"""Number of clients that records are dealt to unless the settings say otherwise."""


class Config(Section):
    """Configuration of a run; the defaults are the paper's setting."""

    data: Data = Field(default_factory=Data)
    grouping: Grouping = Field(default_factory=Grouping)
    plan: PlanSection = Field(default_factory=PlanSection)
    model: Model = Field(default_factory=Model)
    peft: Peft = Field(default_factory=Peft)
    training: Training = Field(default_factory=Training)
    heads: Heads = Field(default_factory=Heads)
    privacy: Privacy = Field(default_factory=Privacy)
    engine: Engine = Field(default_factory=Engine)
    store: Store = Field(default_factory=Store)
    unlearning: Unlearning = Field(default_factory=Unlearning)
    serving: Serving = Field(default_factory=Serving)

    def client_count(self) -> int:
        """Return the number of clients; raise if only the data tell it."""
        found = self.known_clients
        if found is None:
            raise InputError(
                f"data.clients: not given, and with data.partition {self.data.partition} only the data tell "
                "it; give the number of clients"
            )
        return found

    @property
    def known_clients(self) -> int | None:
        """Number of clients; None if only the data tell it."""
        simulated = self.data.partition in ("iid", "dirichlet")
        return SIMULATED_CLIENTS if simulated and self.data.clients is None else self.data.clients

    def with_clients(self, clients: int) -> Config:
        """Return the settings with the number of clients that the data have; raise if it does not fit."""
        if self.data.clients == clients:
            return self
        found = self.model_copy(update={"data": self.data.model_copy(update={"clients": clients})})
        problems = _contradictions(found, set())
        if problems:
            raise InputError.of("", problems)
        return found

    def slices_per_client(self) -> list[int]:
        """Return the number of slices of each client."""
        slices = self.grouping.slices
        return [slices] * self.client_count() if isinstance(slices, int) else slices

    @model_validator(mode="after")
    def _check_consistency(self, info: ValidationInfo) -> Config:
        """Raise with a line for each contradiction between settings that are right in themselves."""
        found = _contradictions(self, {".".join(key) for key in (info.context or {}).get("wrong", ())})
        if found:
            raise ValueError("\n".join(found))
        return self


def _contradictions(config: Config, wrong: set[str]) -> list[str]:
    """Return a line for each contradiction between settings that are not wrong in themselves."""
    found = []
    for key, others, check in _CHECKS:
        needed = (key, *others)
        if wrong.isdisjoint({*needed, *(name.partition(".")[0] for name in needed)}):
            problem = check(config)
            if problem is not None:
                found.append(f"{key}: {problem}")
                wrong.add(key)  # later checks that rely on it would say nothing new
    return found


def _names_problem(config: Config) -> str | None:
    twice, times = Counter(config.data.label_names or ("",)).most_common(1)[0]
    return f"{twice!r} is there twice; give each label a name of its own" if times > 1 else None


def _labels_problem(config: Config) -> str | None:
    names, labels = config.data.label_names, config.data.labels
    if names is None or labels in (None, len(names)):
        return None
    return f"{labels}, but data.label_names has {len(names)}; leave it out"


def _list_problem(value: int | list[int] | None, clients: int | None) -> str | None:
    # Without a number of clients, lists are checked once the data are read.
    if not isinstance(value, list) or clients is None or len(value) == clients:
        return None
    return f"{counted(len(value), 'value')} for {counted(clients, 'client')}; give one for each"


def _groups_problem(config: Config) -> str | None:
    if config.known_clients is None:
        return None
    groups, total = config.grouping.groups, sum(config.slices_per_client())
    if groups > total:
        return f"{groups} is more than the {counted(total, 'slice')}; at most {total}"
    return None


def _clusters_problem(config: Config) -> str | None:
    clients, groups = config.known_clients, config.grouping.groups
    # This method puts whole clients into clusters.
    if config.grouping.method == "updates" and clients is not None and groups > clients:
        return f"{groups} clusters of {counted(clients, 'client')}; with updates at most {clients}"
    return None


def _shards_problem(config: Config) -> str | None:
    groups, shards = config.grouping.groups, config.plan.shards
    return f"{shards} for {counted(groups, 'group')}; at most one for each group" if shards > groups else None


def _passes_problem(config: Config) -> str | None:
    groups, shards, passes = config.grouping.groups, config.plan.shards, config.plan.passes
    # A single sequence trains on 1, 2, ... groups in turn, or on as many as the window allows.
    largest = -(-groups // shards)
    least = order_passes(largest, config.training.window)
    if passes is not None and passes < least:
        return f"{passes:g} is too little; {counted(largest, 'group')} need at least {least:g}"
    return None


def _threshold_problem(config: Config) -> str | None:
    retrain, threshold = config.unlearning.retrain, config.unlearning.threshold
    needed = retrain in ("below-modules", "below-accuracy")
    if needed and threshold is None:
        return f"is missing; unlearning.retrain {retrain} needs one"
    if threshold is not None and not needed:
        return (
            f"{threshold:g}, but unlearning.retrain is {retrain}; set that to below-modules or "
            "below-accuracy, or leave the threshold out"
        )
    if retrain == "below-accuracy" and threshold is not None and threshold > 1:
        return f"{threshold:g} is no accuracy; give a share, 0 to 1"
    return None


def _heads_problem(config: Config) -> str | None:
    # On by default, so only somebody who asked for it has to be told.
    if (
        config.privacy.epsilon is None
        or not config.heads.solve
        or "solve" not in config.heads.model_fields_set
    ):
        return None
    return (
        "true, but privacy.epsilon is given, and statistics have no noise; set heads.solve to false, or "
        "leave one of them out"
    )


# The key that a check is about, the others that it relies on, and the check itself.
_CHECKS: tuple[tuple[str, tuple[str, ...], Callable[[Config], str | None]], ...] = (
    ("data.label_names", (), _names_problem),
    ("data.labels", ("data.label_names",), _labels_problem),
    (
        "grouping.slices",
        ("data.clients", "data.partition"),
        lambda config: _list_problem(config.grouping.slices, config.known_clients),
    ),
    (
        "grouping.limits",
        ("data.clients", "data.partition"),
        lambda config: _list_problem(config.grouping.limits, config.known_clients),
    ),
    ("grouping.groups", ("data.clients", "data.partition", "grouping.slices"), _groups_problem),
    ("grouping.groups", ("data.clients", "data.partition", "grouping.method"), _clusters_problem),
    ("plan.shards", ("grouping.groups",), _shards_problem),
    ("plan.passes", ("grouping.groups", "plan.shards", "training.window"), _passes_problem),
    ("unlearning.threshold", ("unlearning.retrain",), _threshold_problem),
    ("heads.solve", ("privacy.epsilon",), _heads_problem),
)
