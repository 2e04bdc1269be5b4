"""Changes that a request makes: whose records go, and which files are destroyed or rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedsgt.ledger.kinds import Kind
from fedsgt.runs.artefacts import claimed_files
from fedsgt.runs.dependencies import Dead
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records_left import records_left
from fedsgt.runs.state import Live
from fedsgt.unlearning.erase import source_plan
from fedsgt.unlearning.recovery import entry_of
from fedsgt.unlearning.request import Scope


@dataclass(frozen=True)
class ClientShare:
    """The records that a request deletes of one client."""

    client: str
    scope: Scope
    records: int
    slices: list[int]
    left: int
    """Number of records that the client has left afterwards."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Changes:
    """Everything that a request changes, by client and by file."""

    clients: list[ClientShare]
    destroyed: list[str]
    """Files of the run that go."""
    rewritten: list[str]
    """Files of the run that lose lines."""
    sources: list[dict[str, Any]]
    """What happens to each file of the clients' records: `file`, `action`, `rows` and `reason`."""

    def to_json(self) -> dict[str, Any]:
        """Return the changes for programs."""
        return asdict(self)


def client_shares(after: Live, body: Mapping[str, Any]) -> list[ClientShare]:
    """Return whose records a request deletes; `after` is a state in which it is in force."""
    return [
        ClientShare(
            after.description.clients[part["number"]].name,
            part["scope"],
            part["count"],
            part["slices"],
            sum(records_left(after, part["number"])),
        )
        for part in body["parts"]
    ]


def destroyed_files(folder: RunFolder, position: int) -> list[str]:
    """Return the names of the run's files that the request at this position destroyed or cut."""
    condemned = entry_of(folder, Kind.CONDEMNED, position)
    artefacts = condemned.body["artefacts"] if condemned else []
    return [artefact["name"] for artefact in artefacts if artefact["kind"] != "source"]


def planned_changes(folder: RunFolder, after: Live, body: Mapping[str, Any]) -> Changes:
    """Return what a request would change; `after` is the state if it were in force. Nothing is changed."""
    dead = Dead.at(after)
    found = [(kind, file) for kind, file in claimed_files(folder) if dead.reaches(kind.made_of(file))]
    return Changes(
        client_shares(after, body),
        [file.name for kind, file in found if kind.split is None or not file.plain],
        [file.name for kind, file in found if kind.split is not None and file.plain],
        [outcome.to_json() for outcome in source_plan(folder, after.description, body["parts"])],
    )
