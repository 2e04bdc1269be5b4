"""The retraining policy: when dead modules are trained again (paper, discussion)."""

from __future__ import annotations

from collections.abc import Callable

from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live


def due(folder: RunFolder, live: Live, accuracy: Callable[[], float]) -> str | None:
    """Return in words why the run's policy asks for retraining now; None if it does not.

    `accuracy` returns the accuracy of what is served; it takes long and only one policy calls it.
    """
    settings = folder.config.unlearning
    served = served_keys(folder, live)
    missing = len(live.description.modules) - len(served)
    if not missing or settings.retrain == "never":
        return None
    if settings.retrain == "now":
        return f"{missing} modules are dead or missing"
    if not served:
        return "no module is live"
    if settings.retrain == "when-exhausted":
        return None
    threshold = settings.threshold
    assert threshold is not None  # the configuration checks it
    if settings.retrain == "below-modules":
        return f"{len(served)} modules are live, below {threshold:g}" if len(served) < threshold else None
    found = accuracy()
    return f"the accuracy is {found:.3f}, below {threshold:g}" if found < threshold else None


def served_keys(folder: RunFolder, live: Live) -> set[str]:
    """Return the keys of the modules in the live prefix of any sequence."""
    chain = live.description.chain
    return {key for prefix in live.prefixes(folder.present()) for key in chain(prefix)}
