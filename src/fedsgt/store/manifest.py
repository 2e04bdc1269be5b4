"""What is written beside a module: how it was made, and the hash that its bytes must have."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from fedsgt.errors import InputError
from fedsgt.files.encoding import text_bytes

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
# For each round: how many records each client used.
Participants = list[dict[str, Count]]


class Origin(BaseModel):
    """How a module was made. No clock: the same training gives the same text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    format: Literal[1] = 1
    key: Hash
    parent: Hash | None = Field(description="the module below, which was frozen")
    groups: list[Count] = Field(description="the plan's numbers of the prefix's groups, in order")
    prefix: list[Hash] = Field(description="the fingerprints of these groups")
    config_hash: Hash
    config: dict[str, JsonValue] = Field(description="the settings that shaped the bytes")
    backbone: Hash
    rounds: Count
    participants: Participants
    seed: Count
    versions: dict[str, str]
    profile: dict[str, JsonValue] = Field(description="how it was computed: threads, precision, kernels")
    machine: dict[str, JsonValue] = Field(description="what computed it: the processor")
    metrics: dict[str, float]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if len(self.groups) != len(self.prefix):
            raise ValueError(f"{len(self.groups)} groups with {len(self.prefix)} fingerprints; one for each")
        if len(self.participants) != self.rounds:
            raise ValueError(f"participants of {len(self.participants)} rounds; there were {self.rounds}")
        return self


class Manifest(Origin):
    """The origin of a stored module and the canonical hash of its tensors."""

    sha256: Hash

    def to_bytes(self) -> bytes:
        """The one text of this manifest."""
        text = json.dumps(self.model_dump(), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
        return text_bytes(text + "\n")

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest that was written as these bytes; any other text of the same is refused."""
        manifest = cls._checked(_json(data))
        if manifest.to_bytes() != data:
            raise InputError(
                "manifest is not as it was written; it has sorted keys, once each, indented by 2"
            )
        return manifest

    @classmethod
    def of(cls, origin: Origin, sha256: str) -> Manifest:
        """The manifest of tensors with this hash; an origin that names another is refused."""
        if isinstance(origin, Manifest) and origin.sha256 != sha256:
            raise InputError(f"module {origin.key}: tensors hash to {sha256}, not to {origin.sha256} as said")
        return cls._checked({**origin.model_dump(), "sha256": sha256})

    @classmethod
    def _checked(cls, values: Any) -> Manifest:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "manifest"
            raise InputError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"manifest is not JSON ({error})") from None
