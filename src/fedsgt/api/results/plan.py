"""The plan of a run as a tree of modules, and what is live of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.plans import Plan
    from fedsgt.reporting.status import RunStatus
    from fedsgt.runs.description import Description
    from fedsgt.window import Window


@dataclass(frozen=True, repr=False)
class PlanTree:
    """Sequences of groups, a module for each step; equal beginnings are one module."""

    kind: str
    """Kind of plan, such as rotations or tree."""
    groups: int
    sequences: tuple[tuple[int, ...], ...]
    live: tuple[tuple[int, ...], ...]
    """Live part of each sequence."""
    modules: int
    passes: float
    """Training cost in passes over the data."""
    plan: Plan = field(compare=False)
    """The plan itself, which can be scored."""
    detail: RunStatus = field(compare=False)

    @classmethod
    def of(cls, status: RunStatus, description: Description, window: Window) -> PlanTree:
        """Make the tree of a run with this status and window."""
        plan = description.plan_made().with_window(window)
        return cls(
            plan.kind,
            plan.groups,
            plan.sequences,
            tuple(status.prefixes),
            len(plan.modules),
            plan.passes,
            plan,
            status,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {
            "kind": self.kind,
            "groups": self.groups,
            "modules": self.modules,
            "passes": self.passes,
            "sequences": [
                {"groups": list(order), "live": len(prefix)}
                for order, prefix in zip(self.sequences, self.live, strict=True)
            ],
        }

    def __repr__(self) -> str:
        return (
            f"<Plan {self.kind}: {counted(len(self.sequences), 'sequence')} of "
            f"{counted(self.groups, 'group')}, {counted(self.modules, 'module')}, {self.passes:g} passes>"
        )

    def _repr_html_(self) -> str:
        from fedsgt.reporting.module_tree import draw_tree

        return draw_tree(self.detail)[0]
