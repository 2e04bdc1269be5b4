"""What is signed after a deletion: the request, what was destroyed, what is served, and what that shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedsgt.certificates.signing import (
    BadSignature,
    PublicKey,
    SigningKey,
    parts,
    sign,
    verify,
)
from fedsgt.errors import InputError
from fedsgt.files.durable import read_limited, sync_folder, write_once
from fedsgt.files.encoding import MAX_INTEGER, parse_json
from fedsgt.words import printable

# Ten thousand modules and a million records fit; an endless file does not.
MAX_BYTES = 2**27

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
GroupName = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
Time = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|\+00:00)$")
]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
# Plain names sort alike everywhere, so that the canonical form can be made with common tools.
Values = dict[Annotated[str, Field(pattern=r"^[!-~][ -~]{0,99}$")], str]
Sentences = Annotated[list[Name], Field(min_length=1)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DeletedPart(Part):
    """What was to be deleted of one client."""

    client: Hash = Field(description="salted hash of the client's name")
    scope: Literal["records", "slice", "client"]
    slices: list[Count] = Field(min_length=1, description="the slices that were hit")
    records: list[Hash] = Field(
        description="salted hashes of the records, or none if whole slices were named"
    )
    count: Count = Field(description="how many records")

    @model_validator(mode="after")
    def _counts_its_records(self) -> Self:
        if len(self.records) not in (0, self.count):
            raise ValueError(
                f"{len(self.records)} records with a count of {self.count}; all are named or none"
            )
        return self


class LedgerEntry(Part):
    """A place in the run's ledger, and the chain's hash there, which fixes all that came before."""

    position: Count
    ledger_hash: Hash
    time: Time


class Request(LedgerEntry):
    parts: list[DeletedPart] = Field(min_length=1)


class Destroyed(Part):
    """A file or object that is no more."""

    name: Name
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    sha256: Hash
    module: Hash | None = Field(description="the key of the module that it belonged to, if to one")


class ServedModule(Part):
    key: Hash
    sha256: Hash
    prefix: list[Count] = Field(
        min_length=1, description="the groups it depends on, in the order of training"
    )


class Served(Part):
    """What predictions may use from now on."""

    groups: dict[GroupName, Hash] = Field(description="the fingerprint of each group that a prefix names")
    modules: list[ServedModule]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        unknown = {str(group) for module in self.modules for group in module.prefix} - self.groups.keys()
        if unknown:
            raise ValueError(f"group {min(unknown)} is in a prefix and has no fingerprint")
        if len({module.key for module in self.modules}) < len(self.modules):
            raise ValueError("a module is listed twice")
        return self


class Configuration(Part):
    config_hash: Hash
    backbone: Hash
    profile: Values = Field(description="how modules are computed: versions, threads, kernels")


class Statement(Part):
    """In plain sentences."""

    proved: Sentences
    not_proved: Sentences


class Certificate(Part):
    """The signed text."""

    format: Literal[1]
    kind: Literal["fedsgt unlearning certificate"]
    run: Name
    request: Request
    completion: LedgerEntry = Field(description="the entry that says the bytes are destroyed")
    destroyed: list[Destroyed]
    served: Served
    configuration: Configuration
    software: Values
    data_dependent_choices: list[Name] = Field(description="what was decided by looking at data content")
    statement: Statement

    @classmethod
    def of(
        cls,
        *,
        run: str,
        request: Request,
        completion: LedgerEntry,
        destroyed: Sequence[Destroyed],
        served: Served,
        configuration: Configuration,
        software: dict[str, str],
        data_dependent_choices: Sequence[str],
    ) -> Self:
        """The certificate of these facts, with the sentences that go with them."""
        return cls(
            format=1,
            kind="fedsgt unlearning certificate",
            run=run,
            request=request,
            completion=completion,
            destroyed=list(destroyed),
            served=served,
            configuration=configuration,
            software=software,
            data_dependent_choices=list(data_dependent_choices),
            statement=statement_for(
                request.position,
                completion.position,
                len(destroyed),
                len(served.modules),
                data_dependent_choices,
            ),
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.completion.position <= self.request.position:
            raise ValueError("completion is not after the request in the ledger")
        gone = {artefact.module for artefact in self.destroyed if artefact.kind == "module"}
        if gone & {module.key for module in self.served.modules}:
            raise ValueError("a module is both destroyed and served")
        return self


def statement_for(
    requested: int, completed: int, destroyed: int, served: int, choices: Sequence[str]
) -> Statement:
    """What such a certificate shows and what it cannot, for a reader who trusts nobody."""
    proved = [
        "The holder of the signing key signed exactly this text. What follows is that holder's word; each "
        "sentence names how to test it.",
        f"The run's ledger holds the request at position {requested}, and at position {completed} that the "
        "destruction was complete. Test: a ledger with other chain hashes there was rewritten.",
        f"The artefacts listed as destroyed ({destroyed}) were removed from the run's folder and store "
        "before this was signed. Test: `fedsgt audit` looks for anything there that depends on deleted data.",
        _served_sentence(completed, served),
    ]
    not_proved = [
        "That no copies are left outside the run's folder and store: backups, exports given away, copies "
        "made by others.",
        "That predictions already made are undone, or what was learned from them.",
        "That a storage device has overwritten the blocks that were freed.",
        "That a client told the truth about its data, or erased its own copies.",
        "That the operator's machine ran unmodified software and its clock was right.",
        "Who owns the signing key: take the public key from a source you trust.",
    ]
    if choices:
        not_proved.append(
            "That the choices which looked at data content carry no trace of the deleted data; they are "
            f"listed as data-dependent ({len(choices)})."
        )
    return Statement(proved=proved, not_proved=not_proved)


def _served_sentence(completed: int, served: int) -> str:
    since = f"From position {completed} on, until training adds modules,"
    if not served:
        return f"{since} no module is served. Test: `fedsgt status` shows none live."
    return (
        f"{since} only the modules listed ({served}) are served. Each has the hash given and depends on the "
        "configuration, the backbone and its prefix's groups with the fingerprints given, on no other data. "
        "Test: whoever holds the retained data rebuilds them and compares the hashes with `fedsgt verify`."
    )


def write_certificate(folder: Path, certificate: Certificate, key: SigningKey) -> Path:
    """Signs it into the folder, on disk when this returns; the same again is fine, another is an error."""
    envelope = sign(certificate.model_dump(mode="json"), key)
    path = folder / f"{certificate.request.position:06d}.json"
    text = json.dumps(envelope, indent=1, ensure_ascii=False) + "\n"
    _make_folder(folder)
    try:
        write_once(path, text.encode(), mode=0o666)
    except FileExistsError:
        if _read(path) != envelope:
            raise InputError(
                f"{path}: another certificate of this request is there; it is never replaced, so move it away"
            ) from None
        sync_folder(folder)
    return path


def read_certificate(path: Path, key: PublicKey | None) -> Certificate:
    """The certificate, once its signature is found to hold; without a key it is anybody's word."""
    envelope = _read(path)
    try:
        body = parts(envelope)[0] if key is None else verify(envelope, key)
        return Certificate.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "certificate"
        problem = printable(f"{where[:200]}: {first['msg'].removeprefix('Value error, ')}")
        raise InputError(f"{path}: not a certificate of format 1 ({problem})") from None
    except BadSignature as error:
        raise BadSignature(f"{path}: {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read(path: Path) -> Any:
    return parse_json(read_limited(path, MAX_BYTES), path)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        try:
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)
        except OSError as error:
            raise InputError(f"{folder}: cannot make this folder ({error.strerror})") from None
