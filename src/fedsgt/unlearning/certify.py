"""A request's certificate, from the ledger and the store."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedsgt.build.liveness import Live
from fedsgt.build.run import CERTIFICATES, RunFolder
from fedsgt.store import MissingModule
from fedsgt.store.ledger import Entry
from fedsgt.unlearning.certificate import (
    Certificate,
    Configuration,
    DeletedPart,
    Destroyed,
    LedgerEntry,
    Request,
    Served,
    ServedModule,
    write_certificate,
)
from fedsgt.unlearning.signing import SigningKey

SIGNING_KEY, PUBLIC_KEY = "signing.key", "signing.pub"
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
    return folder.path / CERTIFICATES / f"{position:06d}.json"


def signing_key(folder: RunFolder) -> SigningKey:
    """The key that the configuration names, or the run's own, made when first needed."""
    named = folder.config.unlearning.key
    key = SigningKey.read(Path(named)) if named else SigningKey.read_or_make(folder.path / SIGNING_KEY)
    public = folder.path / PUBLIC_KEY
    if not public.exists():
        public.write_text(key.public_text, encoding="utf-8")
    return key


def certify(folder: RunFolder, live: Live, request: Entry, condemned: Entry, destroyed: Entry) -> Path:
    """Sign what the ledger says of this request and what is served from now on."""
    parts = [
        DeletedPart(**{name: part[name] for name in DeletedPart.model_fields})
        for part in request.body["parts"]
    ]
    certificate = Certificate.of(
        run=live.description.id,
        request=Request(position=request.position, ledger_hash=request.hash, time=request.time, parts=parts),
        completion=LedgerEntry(position=destroyed.position, ledger_hash=destroyed.hash, time=destroyed.time),
        destroyed=[Destroyed(**artefact) for artefact in condemned.body["artefacts"]],
        served=_served(folder, live),
        configuration=Configuration(
            config_hash=live.description.config_hash,
            backbone=live.description.backbone,
            profile=live.description.profile,
        ),
        software=_software(),
        data_dependent_choices=data_dependent_choices(live),
    )
    return write_certificate(folder.path / CERTIFICATES, certificate, signing_key(folder))


def data_dependent_choices(live: Live) -> list[str]:
    """SPEC, definition 8: what was decided by looking at data content."""
    description = live.description
    return [f"grouping: {description.grouping} looked at data content"] if description.looks_at_data else []


def _served(folder: RunFolder, live: Live) -> Served:
    modules = []
    for entry in live.modules():
        try:
            found = folder.modules.manifest(entry.key)
        except MissingModule:
            continue  # not trained yet
        modules.append(ServedModule(key=entry.key, sha256=found.sha256, prefix=entry.groups))
    groups = sorted({group for module in modules for group in module.prefix})
    return Served(groups={str(group): live.description.prints[group] for group in groups}, modules=modules)


def _software() -> dict[str, str]:
    found = {}
    for name in SOFTWARE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # deleting needs neither torch nor transformers
    return found
