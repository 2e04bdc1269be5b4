"""Groups to a plan, the forest of modules to train, with its cost and exact scores."""

from fedsgt.plans.cyclic import rotations
from fedsgt.plans.kinds import KINDS, make
from fedsgt.plans.plan import NO_MODULES, Plan, PlannedModule, Prefix, check_prior
from fedsgt.plans.scoring.montecarlo import Estimate
from fedsgt.plans.selection import (
    FLOOR,
    MERGED,
    STRATEGIES,
    STRATEGY_NAMES,
    Choice,
    choose,
    choose_solved,
    live_prefix,
    select,
)

__all__ = [
    "FLOOR",
    "KINDS",
    "MERGED",
    "NO_MODULES",
    "STRATEGIES",
    "STRATEGY_NAMES",
    "Choice",
    "Estimate",
    "Plan",
    "PlannedModule",
    "Prefix",
    "check_prior",
    "choose",
    "choose_solved",
    "live_prefix",
    "make",
    "rotations",
    "select",
]
