"""The retraining policy: when dead modules are trained again (paper, discussion)."""

from __future__ import annotations

from collections.abc import Callable

from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import module_health
from fedsgt.runs.state import Live
from fedsgt.words import counted


def due(folder: RunFolder, live: Live, accuracy: Callable[[], float]) -> str | None:
    """Return in words why the run's policy asks for retraining now; None if it does not.

    `accuracy` returns the accuracy of what is served; it takes long and only one policy calls it.
    """
    settings = folder.config.unlearning
    wanted = len(live.description.modules)
    # The policy comes first: the modules need not be read for one that looks at none.
    if settings.retrain == "never" or (served := len(served_keys(folder, live))) == wanted:
        return None
    if settings.retrain == "now":
        return f"{counted(wanted - served, 'module')} dead or missing"
    # Solved heads answer without a module: whether that is good enough, the accuracy says.
    solved = folder.config.heads.solve and folder.config.serving.heads == "statistics"
    if not served and not (solved and settings.retrain == "below-accuracy"):
        return "no module is live"
    if settings.retrain == "when-exhausted":
        return None
    threshold = settings.threshold
    assert threshold is not None  # the configuration checks it
    if settings.retrain == "below-modules":
        return f"{counted(served, 'module')} live, below {threshold:g}" if served < threshold else None
    found = accuracy()
    return f"the accuracy is {found:.3f}, below {threshold:g}" if found < threshold else None


def served_keys(folder: RunFolder, live: Live) -> set[str]:
    """Return the keys of the modules in the live prefix of any sequence."""
    chain = live.description.chain
    return {key for prefix in module_health(folder, live).prefixes for key in chain(prefix)}
