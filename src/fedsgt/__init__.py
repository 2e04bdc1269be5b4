"""FedSGT: exact federated unlearning by sequential group-based training.

    run = fedsgt.train("my.toml", output="runs/my")
    run.predict(["a text"])
    run.unlearn(client="hospital-7", records=["p-17"])
    run.verify().passed

Everything that is listed in `__all__` is public. It is imported when it is first used, so that `import
fedsgt` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsgt.api.compare import compare
    from fedsgt.api.results.comparison import Comparison
    from fedsgt.api.run import Run, open_run
    from fedsgt.api.train import train
    from fedsgt.config import Config
    from fedsgt.errors import InputError
    from fedsgt.serving.predictor import Exhausted
    from fedsgt.unlearning.request import AlreadyDeleted, Deletion
    from fedsgt.unlearning.unlearn import KeyUsed, OutcomeUnknown

__version__ = "0.1.0"
__all__ = [
    "AlreadyDeleted",
    "Comparison",
    "Config",
    "Deletion",
    "Exhausted",
    "InputError",
    "KeyUsed",
    "OutcomeUnknown",
    "Run",
    "compare",
    "open_run",
    "train",
]

_PLACES = {
    "AlreadyDeleted": "fedsgt.unlearning.request",
    "Comparison": "fedsgt.api.results.comparison",
    "Config": "fedsgt.config",
    "Deletion": "fedsgt.unlearning.request",
    "Exhausted": "fedsgt.serving.predictor",
    "InputError": "fedsgt.errors",
    "KeyUsed": "fedsgt.unlearning.unlearn",
    "OutcomeUnknown": "fedsgt.unlearning.unlearn",
    "Run": "fedsgt.api.run",
    "compare": "fedsgt.api.compare",
    "open_run": "fedsgt.api.run",
    "train": "fedsgt.api.train",
}


# Hidden from type checkers, which know the names above and no others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for."""
        if name not in _PLACES:
            raise AttributeError(f"module 'fedsgt' has no attribute {name!r}")
        found = getattr(import_module(_PLACES[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
