"""Content of a certificate: the request, the destroyed files, the served modules, and what this proves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedsgt.certificates.statement import not_proved_by, proved_by
from fedsgt.files.encoding import MAX_INTEGER
from fedsgt.words import counted

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
# A group's number as a JSON key: without leading zeros, so that one group has one name.
GroupName = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
Time = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|\+00:00)$")
]
# Bounded, as a text of a certificate is shown to people.
Name = Annotated[str, Field(min_length=1, max_length=1000)]
# Plain names sort alike everywhere, so that the canonical form can be made with common tools.
Values = dict[Annotated[str, Field(pattern=r"^[!-~][ -~]{0,99}$")], str]
Sentences = Annotated[list[Name], Field(min_length=1)]
# Number of a client in the run's description, as a JSON key.
ClientNumber = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
FORMAT: Final = 3
FORMATS: Final = (1, 2, FORMAT)


class Content(BaseModel):
    """Part of a certificate; a field that is not listed here is refused, since nobody would check it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DeletedPart(Content):
    """Deleted records of one client."""

    client: Hash = Field(description="salted hash of the client's name")
    scope: Literal["records", "slice", "client"]
    slices: list[Count] = Field(min_length=1, description="numbers of the slices that hold them")
    records: list[Hash] = Field(description="salted hashes of the records; empty if whole slices were named")
    count: Count = Field(description="number of records")

    @model_validator(mode="after")
    def _check_count(self) -> Self:
        # A request for whole slices names no records, and still has a count.
        if len(self.records) not in (0, self.count):
            raise ValueError(
                f"{counted(len(self.records), 'record')} with a count of {self.count}; all are named or none"
            )
        return self


class LedgerEntry(Content):
    """Position in the run's ledger, and the chain's hash there, which fixes all entries before it."""

    position: Count
    ledger_hash: Hash
    time: Time


class RequestEntry(LedgerEntry):
    """Ledger entry of the deletion request."""

    parts: list[DeletedPart] = Field(min_length=1)


class DestroyedArtefact(Content):
    """File or object that was removed."""

    name: Name
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    sha256: Hash
    module: Hash | None = Field(description="key of the module that it belonged to; null if to none")


class ServedModule(Content):
    """Live module and the groups that it depends on."""

    key: Hash
    sha256: Hash
    prefix: list[Count] = Field(
        min_length=1, description="groups that it depends on, in the order of training"
    )


class ServedChain(Content):
    """Statistics under one chain of live modules, from which its head is solved."""

    chain: Hash | Literal["backbone"] = Field(description="key of its last module, or the bare backbone")
    clients: list[Count] = Field(min_length=1, description="numbers of the clients whose statistics count")
    records: Count = Field(description="number of records in these statistics")
    sha256: Hash = Field(
        description="hash of a line for each client in order: its number, a blank, its statistic's hash"
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.clients != sorted(set(self.clients)):
            raise ValueError("the clients of a chain are not in order, each once")
        return self


class ServedHeads(Content):
    """All statistics that heads may be solved from, until new ones of retained records are made."""

    marks: dict[ClientNumber, Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]] = Field(
        description="mark of the deletions that each client's records are without"
    )
    chains: list[ServedChain]

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if len({chain.chain for chain in self.chains}) < len(self.chains):
            raise ValueError("a chain has two heads")
        numbers = {str(number) for chain in self.chains for number in chain.clients}
        if unmarked := numbers ^ self.marks.keys():
            raise ValueError(f"client {min(unmarked, key=int)} has a statistic or a mark, and not both")
        return self

    @property
    def files(self) -> set[str]:
        """Names of all the statistics in the run's folder."""
        return {
            f"statistics/{chain.chain}/{number}-{self.marks[str(number)]}.safetensors"
            for chain in self.chains
            for number in chain.clients
        }


class ServedModules(Content):
    """All modules that predictions may use from now on, and what their heads are solved from."""

    groups: dict[GroupName, Hash] = Field(description="fingerprint of each group that a prefix names")
    modules: list[ServedModule]
    # Since format 3.
    heads: ServedHeads | None = Field(None, description="statistics that count")

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        known = {module.key for module in self.modules} | {"backbone"}
        if self.heads and (unknown := {chain.chain for chain in self.heads.chains} - known):
            raise ValueError(f"a head is solved for module {min(unknown)[:12]}, which is not served")
        return self

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        unknown = {str(group) for module in self.modules for group in module.prefix} - self.groups.keys()
        if unknown:
            raise ValueError(f"group {min(unknown)} is in a prefix and has no fingerprint")
        if len({module.key for module in self.modules}) < len(self.modules):
            raise ValueError("a module is listed twice")
        return self


class Configuration(Content):
    """Everything but data that the bytes of a module depend on."""

    config_hash: Hash
    backbone: Hash
    profile: Values = Field(description="how modules are computed: versions, threads, kernels")


class SourceFile(Content):
    """Outcome of a deletion for one file, or one folder of images, that deleted records were in."""

    file: Name = Field(description="name without its folder")
    action: Literal["rewritten", "removed", "left"] = Field(
        description="`removed` if it is a folder, whose images were removed"
    )
    rows: Count = Field(description="rows or images that were taken out, or were left in it")
    reason: Name | None = Field(description="why it was left, or where else the rows still are; or null")


class RunKey(Content):
    """Key that signed the run's certificates from a position of its ledger on."""

    position: Count
    key: Hash


class Statement(Content):
    """Plain sentences on what the certificate proves and what it cannot."""

    proved: Sentences
    not_proved: Sentences


class Certificate(Content):
    """Text that is signed after a deletion."""

    # Both are signed, so that no text of another kind or version passes for a certificate.
    format: Literal[1, 2, 3]
    kind: Literal["fedsgt unlearning certificate"]
    run: Name
    request: RequestEntry
    completion: LedgerEntry = Field(description="ledger entry that says the bytes are destroyed")
    destroyed: list[DestroyedArtefact]
    served: ServedModules
    configuration: Configuration
    software: Values
    data_dependent_choices: list[Name] = Field(description="choices made by looking at data content")
    statement: Statement
    # Since format 2; certificates of format 1 have none of these.
    groups_hit: dict[GroupName, Hash] = Field(
        default_factory=dict, description="groups that lost records, with their fingerprints at that time"
    )
    sources: list[SourceFile] = Field(default_factory=list)
    keys: list[RunKey] = Field(default_factory=list, description="all signing keys that the ledger names")

    @classmethod
    def of(
        cls,
        *,
        run: str,
        request: RequestEntry,
        completion: LedgerEntry,
        destroyed: Sequence[DestroyedArtefact],
        served: ServedModules,
        configuration: Configuration,
        software: dict[str, str],
        data_dependent_choices: Sequence[str],
        groups_hit: dict[str, str],
        sources: Sequence[SourceFile],
        keys: Sequence[RunKey],
    ) -> Self:
        """Return the certificate of these facts, with the sentences that go with them."""
        return cls(
            format=FORMAT,
            kind="fedsgt unlearning certificate",
            run=run,
            request=request,
            completion=completion,
            destroyed=list(destroyed),
            served=served,
            configuration=configuration,
            software=software,
            data_dependent_choices=list(data_dependent_choices),
            statement=Statement(
                proved=proved_by(
                    request.position,
                    completion.position,
                    len(destroyed),
                    len(served.modules),
                    sources,
                    served.heads,
                ),
                not_proved=not_proved_by(data_dependent_choices, sources, served.heads),
            ),
            groups_hit=groups_hit,
            sources=list(sources),
            keys=list(keys),
        )

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        newer = {"groups_hit", "sources", "keys"}
        found = newer & self.model_fields_set
        if self.format == 1 and found:
            raise ValueError(f"{min(found)} is no field of format 1")
        if self.format != 1 and found != newer:
            raise ValueError(f"{min(newer - found)} is missing")
        # The field is there in every certificate of format 3: one without it would say nothing of heads.
        if (self.served.heads is not None) != (self.format == FORMAT):
            verb = "is missing" if self.format == FORMAT else f"is no field of format {self.format}"
            raise ValueError(f"served.heads {verb}")
        return self

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.completion.position <= self.request.position:
            raise ValueError("completion is not after the request in the ledger")
        # A certificate that contradicts itself is not signed, and not accepted from others.
        gone = {artefact.module for artefact in self.destroyed if artefact.kind == "module"}
        if gone & {module.key for module in self.served.modules}:
            raise ValueError("a module is both destroyed and served")
        if self.served.heads and self.served.heads.files & {artefact.name for artefact in self.destroyed}:
            raise ValueError("a statistic is both destroyed and served")
        # A group that was trained again without the deleted records has another fingerprint.
        again = {group for group, was in self.groups_hit.items() if self.served.groups.get(group) == was}
        for module in self.served.modules:
            if hit := again.intersection(map(str, module.prefix)):
                raise ValueError(f"group {min(hit, key=int)} was hit, and is served as it was")
        positions = [entry.position for entry in self.keys]
        if positions != sorted(set(positions)):
            raise ValueError("the keys are not in the order of the ledger")
        return self
