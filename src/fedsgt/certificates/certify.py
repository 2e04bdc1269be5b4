"""A request's certificate, from the ledger and the store."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedsgt.certificates.certificate import (
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
from fedsgt.certificates.signing import PublicKey, SigningKey
from fedsgt.ledger.ledger import Entry
from fedsgt.runs.folder import CERTIFICATES, RunFolder
from fedsgt.runs.state import Live
from fedsgt.store import Folder, StoreError

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
    _keep_public(folder.path, key)
    return key


def _keep_public(path: Path, key: SigningKey) -> None:
    """Every key that ever signed stays known: what it signed must still be checked."""
    files = Folder(path)
    for name in (PUBLIC_KEY, f"signing-{key.public_id[:16]}.pub"):
        try:
            known = files.read(name)
        except KeyError:
            known = b""
        if known != key.public_text.encode():
            files.write(name, key.public_text.encode())


def public_keys(folder: RunFolder) -> list[PublicKey]:
    """The keys that signed certificates of this run, the present one first."""
    names = [PUBLIC_KEY, *sorted(path.name for path in folder.path.glob("signing-*.pub"))]
    return [PublicKey.read(folder.path / name) for name in names]


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
    live_parts = _readable(folder, live)
    for prefix in sorted({part[:end] for part in live_parts for end in range(1, len(part) + 1)}):
        key = live.description.keys[prefix]
        sha256 = folder.modules.manifest(key).sha256
        modules.append(ServedModule(key=key, sha256=sha256, prefix=list(prefix)))
    groups = sorted({group for module in modules for group in module.prefix})
    return Served(groups={str(group): live.description.prints[group] for group in groups}, modules=modules)


def _readable(folder: RunFolder, live: Live) -> list[tuple[int, ...]]:
    """The live prefixes, up to a module whose manifest is damaged: predictions do not use it either."""
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
