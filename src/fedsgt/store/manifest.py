"""Manifest of a module: how it was made, the hash of its tensors, and what another making says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from fedsgt.errors import InputError
from fedsgt.files.encoding import text_bytes
from fedsgt.files.formats import check_format
from fedsgt.words import counted, first_problem

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
# One dict for each round: the number of records that each client used.
Participants = list[dict[str, Count]]


class Origin(BaseModel):
    """Origin of a module, without times, so that the same training gives the same text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    format: Literal[1] = 1
    key: Hash
    parent: Hash | None = Field(description="key of the module below, which was frozen")
    groups: list[Count] = Field(description="groups of the prefix by their number in the plan, in order")
    prefix: list[Hash] = Field(description="fingerprints of these groups")
    config_hash: Hash
    config: dict[str, JsonValue] = Field(description="settings that shaped the bytes")
    backbone: Hash
    rounds: Count
    participants: Participants
    seed: Count
    versions: dict[str, str]
    profile: dict[str, JsonValue] = Field(description="how it was computed: threads, precision, kernels")
    machine: dict[str, JsonValue] = Field(description="processor that computed it")
    metrics: dict[str, float]

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if len(self.groups) != len(self.prefix):
            raise ValueError(
                f"{counted(len(self.groups), 'group')} with {counted(len(self.prefix), 'fingerprint')}; one "
                "for each"
            )
        if len(self.participants) != self.rounds:
            raise ValueError(
                f"participants of {counted(len(self.participants), 'round')}; there were {self.rounds}"
            )
        return self


class Manifest(Origin):
    """Origin of a stored module, with the hash of its tensors."""

    sha256: Hash

    def to_bytes(self) -> bytes:
        """Return the only text of this manifest that is accepted."""
        text = json.dumps(self.model_dump(), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
        return text_bytes(text + "\n")

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read a manifest; refuse any other text of the same content, since the text is hashed."""
        values = _json(data)
        check_format(values, 1, "manifest")
        manifest = cls._checked(values)
        # A key given twice, for one, reads as the last of the two here and as the first elsewhere.
        if manifest.to_bytes() != data:
            raise InputError(
                "manifest is not as it was written; it has sorted keys, once each, indented by 2"
            )
        return manifest

    @classmethod
    def of(cls, origin: Origin, sha256: str) -> Manifest:
        """Return the manifest of tensors with this hash; refuse an origin that names another hash."""
        if isinstance(origin, Manifest) and origin.sha256 != sha256:
            raise InputError(f"module {origin.key}: tensors hash to {sha256}, not to {origin.sha256} as said")
        return cls._checked({**origin.model_dump(), "sha256": sha256})

    @classmethod
    def _checked(cls, values: Any) -> Manifest:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise InputError(first_problem(error, "manifest")) from None


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"manifest is not JSON ({error})") from None


@dataclass(frozen=True)
class Comparison:
    """Verdict on two makings of a module."""

    verdict: Literal["same", "different", "not comparable"]
    reason: str
    """One line on why."""


def compare(ours: Manifest, theirs: Manifest) -> Comparison:
    """Compare two makings of a module; other bytes prove something only if both were made alike."""
    # Equal bytes are the same however they were made, so the conditions are looked at after the hash.
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
    # Everything in a key but the execution profile, which has a verdict of its own.
    return manifest.config_hash, manifest.backbone, manifest.prefix


def _differences(name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {key} {_shown(ours, key)} against {_shown(theirs, key)}"
        for key in sorted({*ours, *theirs})
        if (key in ours) != (key in theirs) or ours.get(key) != theirs.get(key)
    ]


def _shown(values: Mapping[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else "none"
