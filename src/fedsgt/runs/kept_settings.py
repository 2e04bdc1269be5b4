"""Settings with which a run may be continued: those that it keeps for good, and those that may differ."""

from __future__ import annotations

from typing import Any

from fedsgt.config import Config

# Settings that may differ when a run is continued: they say how it is carried out and served, not what it is.
FREE_SECTIONS = ("engine", "unlearning", "serving")
# The exception: another ledger would know of no deletion.
FIXED_KEY = ("unlearning", "ledger")


def with_kept_settings(config: Config, stored: Config) -> Config:
    """Return a configuration that continues a run, with the settings that the run keeps for good."""
    kept: dict[str, Any] = {"erase": stored.data.erase}
    if not stored.data.test_share:  # it has a test part, whatever share would be kept without
        kept["test_share"] = 0.0
    if config.data.clients is None:  # as many as there were when the run was made
        given = config.data.partition in ("given", "remote")
        kept["clients"] = stored.data.clients if given else config.client_count()
    found: dict[str, Any] = {"data": config.data.model_copy(update=kept)}
    # Runs of earlier versions, and those with noise, have no statistics unless somebody wants them.
    if "heads" not in config.model_fields_set:
        found["heads"] = stored.heads
    return config.model_copy(update=found)


def changed_keys(old: Config, new: Config) -> list[str]:
    """Return `section.key: old -> new` for each setting that differs and may not."""
    was, now = old.model_dump(mode="json"), new.model_dump(mode="json")
    return [
        f"{section}.{key}: {_shown(value)} -> {_shown(now[section][key])}"
        for section, values in was.items()
        for key, value in values.items()
        if value != now[section][key] and (section not in FREE_SECTIONS or (section, key) == FIXED_KEY)
    ]


def _shown(value: Any) -> str:
    return "not given" if value is None else repr(value)
