"""Two makings of a module, compared: verification by building it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedsgt.store.manifest import Manifest


@dataclass(frozen=True)
class Comparison:
    """A verdict, and in one line why."""

    verdict: Literal["same", "different", "not comparable"]
    reason: str


def compare(ours: Manifest, theirs: Manifest) -> Comparison:
    """Equal bytes are the same however they were made; other bytes tell something only if made alike."""
    if ours.sha256 == theirs.sha256:
        return Comparison("same", f"both hash to {ours.sha256}")
    if _made_of(ours) != _made_of(theirs):
        return Comparison("not comparable", f"other modules: key {ours.key} against {theirs.key}")
    unlike = [
        *_differences("profile", ours.profile, theirs.profile),
        *_differences("machine", ours.machine, theirs.machine),
    ]
    if unlike:
        return Comparison("not comparable", f"made under other conditions: {', '.join(unlike)}")
    versions = ", ".join(_differences("versions", ours.versions, theirs.versions))
    hashes = f"hash {ours.sha256} against {theirs.sha256}, made under the same conditions"
    return Comparison("different", hashes + (f" but for {versions}" if versions else ""))


def _made_of(manifest: Manifest) -> tuple[str, str, list[str]]:
    """All of a key but the execution profile, which has a verdict of its own."""
    return manifest.config_hash, manifest.backbone, manifest.prefix


def _differences(name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {key} {_shown(ours, key)} against {_shown(theirs, key)}"
        for key in sorted({*ours, *theirs})
        if (key in ours) != (key in theirs) or ours.get(key) != theirs.get(key)
    ]


def _shown(values: Mapping[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else "none"
