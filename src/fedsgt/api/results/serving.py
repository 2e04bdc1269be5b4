"""Results of predictions and evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, overload

from fedsgt.api.results.shown import accuracy_text, table
from fedsgt.plans import STRATEGY_NAMES
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.serving.accuracy import Accuracy
    from fedsgt.serving.accuracy import Evaluation as FullEvaluation
    from fedsgt.serving.heads import DamagedStatistic
    from fedsgt.serving.predictor import Predictions as FullPredictions


@dataclass(frozen=True)
class Prediction:
    """Answer for one record."""

    id: str
    label: int
    name: str | None
    """Name of the label, if the run has names."""
    probability: float
    """Probability of this label."""
    probabilities: tuple[float, ...] = field(repr=False)
    """Probability of each label."""
    names: tuple[str, ...] | None = field(default=None, repr=False)
    """Names of all labels, if the run has names."""

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        named = {} if self.name is None else {"name": self.name}
        return {"id": self.id, "label": self.label, **named, "probabilities": list(self.probabilities)}


@dataclass(frozen=True, repr=False)
class Predictions(Sequence[Prediction]):
    """Answers for some records, in their order, and what they were computed with."""

    answers: tuple[Prediction, ...]
    position: int
    """Ledger position at which every module that was used was live."""
    strategy: str
    detail: FullPredictions = field(compare=False)
    accuracy: Accuracy | None = None
    """Share of right answers, if the true labels are known."""

    @classmethod
    def of(
        cls, found: FullPredictions, names: Sequence[str] | None, truth: Sequence[int | None] | None = None
    ) -> Predictions:
        """Make the answers of the predictor's probabilities; `truth` has the true labels, if known."""
        known_names = None if names is None else tuple(names)
        answers = tuple(
            Prediction(
                name,
                label,
                None if known_names is None else known_names[label],
                float(row[label]),
                tuple(map(float, row)),
                known_names,
            )
            for name, label, row in zip(found.ids, found.labels, found.probabilities, strict=True)
        )
        known = None
        if truth is not None:
            from fedsgt.serving.accuracy import Accuracy

            known = Accuracy.of(found.probabilities, [label or 0 for label in truth])
        return cls(answers, found.position, found.strategy, found, known)

    @property
    def labels(self) -> list[int]:
        """Labels of the records, in their order."""
        return [answer.label for answer in self.answers]

    @property
    def problems(self) -> list[str]:
        """Modules that are missing, damaged or not destroyed, in words; none of them was used."""
        from fedsgt.runs.health import problem_lines

        return problem_lines(self.detail.problems)

    @property
    def damaged_statistics(self) -> Sequence[DamagedStatistic]:
        """Statistics that should count and are damaged; the heads that answered do without them."""
        return self.detail.damaged_statistics

    def about(self) -> dict[str, Any]:
        """Return what the answers were computed with, for programs."""
        found = self.detail
        agreed = {} if found.agreement is None else {"agreement": found.agreement}
        return {
            "position": found.position,
            "strategy": found.strategy,
            "sequences": [
                {
                    "index": sequence.index,
                    "groups": sequence.groups,
                    "weight": sequence.weight,
                    "solved": sequence.solved,
                }
                for sequence in found.sequences
            ],
            "damaged": found.damaged,
            "problems": [module.to_json() for module in found.problems],
            "damaged_statistics": [one.to_json() for one in found.damaged_statistics],
            "bare_backbone": found.bare_backbone,
            "floor": found.floor,
            "solved_from": found.solved_from,
            **agreed,
            **({} if self.accuracy is None else asdict(self.accuracy)),
        }

    def to_json(self) -> dict[str, Any]:
        """Return all of it for programs."""
        return {**self.about(), "records": [answer.to_json() for answer in self.answers]}

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Prediction]: ...
    def __getitem__(self, index: int | slice) -> Prediction | Sequence[Prediction]:
        return self.answers[index]

    def __len__(self) -> int:
        return len(self.answers)

    def __repr__(self) -> str:
        shown = ", ".join(f"{one.id}: {_label(one)} {one.probability:.1%}" for one in self.answers[:3])
        more = ", ..." if len(self) > 3 else ""
        return f"<Predictions of {counted(len(self), 'record')} by {self._by()}: {shown}{more}>"

    def _repr_html_(self) -> str:
        rows = [(one.id, _label(one), f"{one.probability:.1%}") for one in self.answers[:50]]
        return table(("id", "label", "probability"), rows, f"by {self._by()}")

    @property
    def solved_from(self) -> int:
        """Number of records that the heads were solved from; 0 if trained heads answered."""
        return self.detail.solved_from if self.detail.floor else 0

    def by(self) -> str:
        """Return in words what answered: the sequences, the bare backbone, and the records behind heads."""
        found = self.detail
        if found.bare_backbone:
            return "the bare backbone without a head, every label equally likely"
        sequences = counted(len(found.sequences), "sequence")
        heads = f"heads of {counted(found.solved_from, 'record')}"
        if not found.floor:
            return f"{STRATEGY_NAMES[self.strategy]} of {sequences}"
        if not found.sequences:
            return f"the bare backbone, {heads}"
        floor = f"the bare backbone ({found.floor:.1%})"
        return f"{STRATEGY_NAMES[self.strategy]} of {sequences} and {floor}, {heads}"

    def _by(self) -> str:
        return f"{self.by()}, ledger position {self.position}"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Accuracies on the test records, each with its 95 % interval."""

    strategy: str
    """Strategy that the run serves with."""
    strategies: Mapping[str, Accuracy]
    """Accuracy of each strategy; empty if nothing is served."""
    records: int
    """Number of test records."""
    position: int
    detail: FullEvaluation = field(compare=False)

    @classmethod
    def of(cls, found: FullEvaluation, strategy: str) -> Evaluation:
        """Make the result of an evaluation of a run with this strategy."""
        return cls(strategy, found.strategies, found.records, found.position, found)

    @property
    def accuracy(self) -> Accuracy | None:
        """Accuracy of what is served; None if nothing is."""
        return self.strategies.get(self.strategy)

    @property
    def bare_backbone(self) -> Accuracy | None:
        """Accuracy of the bare backbone with a solved head (ridge); None if it has no such head."""
        return self.detail.floor

    @property
    def trained_heads(self) -> Mapping[str, Accuracy]:
        """Accuracy of each strategy with trained heads; empty if no solved head is in force."""
        return self.detail.trained

    @property
    def damaged_statistics(self) -> Sequence[DamagedStatistic]:
        """Statistics that should count and are damaged; heads were solved without them."""
        return self.detail.damaged_statistics

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation for programs."""
        return {"strategy": self.strategy, **asdict(self.detail)}

    def __repr__(self) -> str:
        if self.accuracy is None:
            return "<Evaluation: nothing is served>"
        return (
            f"<Evaluation: {STRATEGY_NAMES[self.strategy]} {accuracy_text(self.accuracy)} on "
            f"{counted(self.records, 'test record')}>"
        )

    def _repr_html_(self) -> str:
        trained = self.detail.with_trained_heads()
        rows = [
            (STRATEGY_NAMES[name], f"{one.accuracy:.1%}", f"{one.low:.1%} to {one.high:.1%}")
            for name, one in self.strategies.items()
            if name not in trained or name in self.trained_heads
        ]
        others = [
            *((f"{STRATEGY_NAMES[name]}, trained heads", one) for name, one in trained.items()),
            *([] if self.bare_backbone is None else [("bare backbone alone", self.bare_backbone)]),
        ]
        rows += [(name, f"{one.accuracy:.1%}", f"{one.low:.1%} to {one.high:.1%}") for name, one in others]
        return table(("strategy", "accuracy", "95 % interval"), rows, f"{self.records} test records")


def _label(answer: Prediction) -> str:
    return str(answer.label) if answer.name is None else answer.name
