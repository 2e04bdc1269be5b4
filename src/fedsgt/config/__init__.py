"""One run, from one TOML file with dotted overrides; unknown keys are errors."""

from fedsgt.config.load import load, to_toml
from fedsgt.config.model import Run

__all__ = ["Run", "load", "to_toml"]
