"""Nobody is lost: each module was trained by every client with records of its prefix, on all of them."""

from __future__ import annotations

from collections.abc import Mapping

from fedsgt.errors import InputError
from fedsgt.runs.description import Description, ModuleEntry
from fedsgt.runs.folder import RunFolder
from fedsgt.store import Manifest


def check_participation(folder: RunFolder) -> None:
    """Hold the manifests of the modules that are there against the records that the run has now.

    A run that was retrained has every client but what was deleted; `InputError` names the first that it lacks
    or has too much. To be asked where all clients must take part: remote ones may have been left out.
    """
    with folder.publishing() as live:  # nothing is destroyed meanwhile
        description, present = live.description, folder.present()
        for entry in description.modules:
            if entry.key in present:
                _check_module(description, entry, folder.modules.manifest(entry.key))


def _check_module(description: Description, entry: ModuleEntry, manifest: Manifest) -> None:
    expected = records_of(description, entry.groups)
    for number, found in enumerate(manifest.participants, start=1):
        client = _first_unlike(expected, found)
        if client is not None:
            raise InputError(
                f"module {entry.key[:12]}, round {number}: client {client} took part with "
                f"{found.get(client, 0)} records, but holds {expected.get(client, 0)} of its groups; train "
                'into another folder with -o, or set engine.absent to "go-on" if clients may be missing'
            )


def records_of(description: Description, groups: list[int]) -> dict[str, int]:
    """How many records of these groups each client holds that holds any."""
    held = {
        client.name: sum(
            records for records, group in zip(client.records, own, strict=True) if group in groups
        )
        for client, own in zip(description.clients, description.groups_of, strict=True)
    }
    return {name: records for name, records in held.items() if records}


def _first_unlike(expected: Mapping[str, int], found: Mapping[str, int]) -> str | None:
    unlike = (name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name))
    return next(unlike, None)
