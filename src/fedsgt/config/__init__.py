"""Configuration of a run, from one TOML file with dotted overrides; unknown keys are errors."""

from fedsgt.config.load import load, to_toml
from fedsgt.config.model import Config
from fedsgt.config.systems import SYSTEMS, System, system_settings

__all__ = ["SYSTEMS", "Config", "System", "load", "system_settings", "to_toml"]
