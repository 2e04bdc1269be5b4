"""Configuration of a run: all sections of its TOML file, and checks that they fit together."""

from __future__ import annotations

from pydantic import Field, model_validator

from fedsgt.config.sections import (
    Data,
    Engine,
    Grouping,
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


class Config(Section):
    """Configuration of a run; the defaults are the paper's setting."""

    data: Data = Field(default_factory=Data)
    grouping: Grouping = Field(default_factory=Grouping)
    plan: PlanSection = Field(default_factory=PlanSection)
    model: Model = Field(default_factory=Model)
    peft: Peft = Field(default_factory=Peft)
    training: Training = Field(default_factory=Training)
    privacy: Privacy = Field(default_factory=Privacy)
    engine: Engine = Field(default_factory=Engine)
    store: Store = Field(default_factory=Store)
    unlearning: Unlearning = Field(default_factory=Unlearning)
    serving: Serving = Field(default_factory=Serving)

    def slices_per_client(self) -> list[int]:
        """Return the number of slices of each client."""
        slices = self.grouping.slices
        return [slices] * self.data.clients if isinstance(slices, int) else slices

    @model_validator(mode="after")
    def _check_consistency(self) -> Config:
        # The order matters: each check relies on those before it.
        self._check_lists()
        self._check_groups()
        self._check_plan()
        self._check_threshold()
        return self

    def _check_lists(self) -> None:
        clients = self.data.clients
        for key in ("slices", "limits"):
            value = getattr(self.grouping, key)
            if isinstance(value, list) and len(value) != clients:
                raise ValueError(
                    f"grouping.{key}: {len(value)} values for {clients} clients; give one for each"
                )

    def _check_groups(self) -> None:
        clients, groups = self.data.clients, self.grouping.groups
        total = sum(self.slices_per_client())
        if groups > total:
            raise ValueError(f"grouping.groups: {groups} is more than the {total} slices; at most {total}")
        # This method puts whole clients into clusters.
        if self.grouping.method == "updates" and groups > clients:
            raise ValueError(
                f"grouping.groups: {groups} clusters of {clients} clients; with updates at most {clients}"
            )

    def _check_plan(self) -> None:
        groups, shards, passes = self.grouping.groups, self.plan.shards, self.plan.passes
        if shards > groups:
            raise ValueError(f"plan.shards: {shards} for {groups} groups; at most one for each group")
        # A single sequence trains on 1, 2, ... groups in turn: (n + 1) / 2 passes for n groups.
        largest = -(-groups // shards)
        least = (largest + 1) / 2
        if passes is not None and passes < least:
            raise ValueError(
                f"plan.passes: {passes:g} is too little; {largest} groups take at least {least:g}"
            )

    def _check_threshold(self) -> None:
        retrain, threshold = self.unlearning.retrain, self.unlearning.threshold
        if (retrain in ("below-modules", "below-accuracy")) != (threshold is not None):
            raise ValueError(
                f"unlearning.threshold: {threshold}; given exactly when unlearning.retrain is"
                f" below-modules or below-accuracy (it is {retrain})"
            )
        if retrain == "below-accuracy" and threshold is not None and threshold > 1:
            raise ValueError(f"unlearning.threshold: {threshold:g} is no accuracy; give a share, 0 to 1")
