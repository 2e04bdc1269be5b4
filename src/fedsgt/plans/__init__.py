"""Groups to a plan, the forest of modules to train, with its cost and exact scores."""

from fedsgt.plans.cyclic import rotations
from fedsgt.plans.kinds import KINDS, make
from fedsgt.plans.plan import Plan, PlannedModule, Prefix, check_prior
from fedsgt.plans.scoring.montecarlo import Estimate
from fedsgt.plans.selection import MERGED, STRATEGIES, STRATEGY_NAMES, Choice, choose, live_prefix, select

__all__ = [
    "KINDS",
    "MERGED",
    "STRATEGIES",
    "STRATEGY_NAMES",
    "Choice",
    "Estimate",
    "Plan",
    "PlannedModule",
    "Prefix",
    "check_prior",
    "choose",
    "live_prefix",
    "make",
    "rotations",
    "select",
]
