"""Makes the certificate of a request from the run's ledger and store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedsgt.certificates.content import (
    Certificate,
    Configuration,
    DeletedPart,
    DestroyedArtefact,
    LedgerEntry,
    RequestEntry,
    RunKey,
    ServedChain,
    ServedHeads,
    ServedModule,
    ServedModules,
    SourceFile,
)
from fedsgt.certificates.keys import public_keys, signing_key
from fedsgt.certificates.signatures import BadSignature, read_certificate, write_certificate
from fedsgt.errors import InputError
from fedsgt.ledger.ledger import Entry
from fedsgt.runs.artefacts import BARE, CERTIFICATES
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import note_of, statistics_in_force
from fedsgt.store import StoreError

# Packages whose versions a certificate names: they made the modules, the ledger or the signature.
SOFTWARE = (
    "fedsgt",
    "torch",
    "transformers",
    "numpy",
    "safetensors",
    "sqlalchemy",
    "cryptography",
    "rfc8785",
)


def certificate_path(folder: RunFolder, position: int) -> Path:
    """Return the path of the certificate of the request at this position, written or not."""
    return folder.path / CERTIFICATES / f"{position:06d}.json"


def read_own_certificate(folder: RunFolder, path: Path) -> Certificate:
    """Return the certificate if any key of this run signed it: the key may have changed since then."""
    refused = InputError(f"{path}: there is no public key to check it with")
    for key in public_keys(folder):
        try:
            return read_certificate(path, key)
        except BadSignature as error:
            refused = error
    raise refused


def certify(folder: RunFolder, request: Entry, condemned: Entry, destroyed: Entry) -> Path:
    """Write the certificate of this request: what the ledger says of it, and what is served from now on."""
    # First, as the ledger gets an entry if the key is new, and the certificate lists all of those.
    key = signing_key(folder)
    live = folder.live()
    # The ledger's parts have more fields, such as the client's number, which say nothing to others.
    parts = [
        DeletedPart(**{name: part[name] for name in DeletedPart.model_fields})
        for part in request.body["parts"]
    ]
    certificate = Certificate.of(
        run=live.description.id,
        request=RequestEntry(
            position=request.position, ledger_hash=request.hash, time=request.time, parts=parts
        ),
        completion=LedgerEntry(position=destroyed.position, ledger_hash=destroyed.hash, time=destroyed.time),
        destroyed=_destroyed(condemned, destroyed),
        served=_served(folder, live),
        configuration=Configuration(
            config_hash=live.description.config_hash,
            backbone=live.description.backbone,
            profile=live.description.profile,
        ),
        software=_software(),
        data_dependent_choices=data_dependent_choices(live),
        groups_hit=_groups_hit(live, request),
        sources=[_source_file(source) for source in destroyed.body.get("sources", [])],
        keys=[RunKey(position=entry.position, key=entry.body["key"]) for entry in live.keys],
    )
    return write_certificate(folder.path / CERTIFICATES, certificate, key)


def data_dependent_choices(live: Live) -> list[str]:
    """Return the choices that were made by looking at data content (docs/definitions.md, 8)."""
    description = live.description
    return [f"grouping: {description.grouping} looked at data content"] if description.looks_at_data else []


def _groups_hit(live: Live, request: Entry) -> dict[str, str]:
    """Return the groups that the request hit with the fingerprints that they had, as far as known."""
    hit = request.body.get("hit")
    if hit is not None:
        return dict(hit)
    # Requests of earlier versions name the groups only; a newer description has other fingerprints.
    if live.description.as_of >= request.position:
        return {}
    return live.description.fingerprints_of(request.body["groups"])


def _destroyed(condemned: Entry, destroyed: Entry) -> list[DestroyedArtefact]:
    """Return what was condemned, but for rows of a source that could not be rewritten."""
    kept = {source["file"] for source in destroyed.body.get("sources", []) if source["action"] == "left"}
    return [
        DestroyedArtefact(**artefact)
        for artefact in condemned.body["artefacts"]
        if artefact["kind"] != "source" or artefact["name"] not in kept
    ]


def _source_file(source: dict[str, Any]) -> SourceFile:
    # The folders say how somebody's machine is laid out, which is not for others to know.
    return SourceFile(**{**source, "file": Path(source["file"]).name})


def _served(folder: RunFolder, live: Live) -> ServedModules:
    # A live prefix serves all modules of its chain, so its own prefixes are listed too.
    chains = _readable_prefixes(folder, live)
    modules = []
    for prefix in sorted({chain[:end] for chain in chains for end in range(1, len(chain) + 1)}):
        key = live.description.keys[prefix]
        sha256 = folder.modules.manifest(key).sha256
        modules.append(ServedModule(key=key, sha256=sha256, prefix=list(prefix)))
    groups = sorted({group for module in modules for group in module.prefix})
    return ServedModules(
        groups={str(group): live.description.group_fingerprints[group] for group in groups},
        modules=modules,
        heads=_heads(folder, live, [module.key for module in modules]),
    )


def _heads(folder: RunFolder, live: Live, served: Sequence[str]) -> ServedHeads:
    """Return the statistics that count, by their headers: there may be a thousand files."""
    there, chains, marks = statistics_in_force(folder, live), [], dict[str, str]()
    for chain in (BARE, *served):
        notes = {name: note for name in there.get(chain, ()) if (note := note_of(folder, name)) is not None}
        if notes:
            lines = (f"{name.client} {note.sha256}\n" for name, note in notes.items())
            chains.append(
                ServedChain(
                    chain=chain,
                    clients=[name.client for name in notes],
                    records=sum(note.records for note in notes.values()),
                    sha256=hashlib.sha256("".join(lines).encode()).hexdigest(),
                )
            )
            marks |= {str(name.client): name.mark for name in notes}
    return ServedHeads(marks=marks, chains=chains)


def _readable_prefixes(folder: RunFolder, live: Live) -> list[tuple[int, ...]]:
    """Return the live prefixes, each cut at a module whose manifest is damaged: nobody serves that either."""
    present = set(folder.present())
    for key in {entry.key for entry in live.modules()} & present:
        try:
            folder.modules.manifest(key)
        except StoreError:
            present.remove(key)
    return live.prefixes(present)


def _software() -> dict[str, str]:
    found = {}
    for name in SOFTWARE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # deleting needs neither torch nor transformers
    return found
