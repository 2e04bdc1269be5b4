"""A certificate as a small run would issue it."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
from fedsgt.certificates.keys import SigningKey

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


def digest(letter: str) -> str:
    return letter * 64


def certificate(
    position: int = 7,
    choices: tuple[str, ...] = (),
    served: bool = True,
    sources: tuple[SourceFile, ...] = (),
    keys: tuple[str, ...] = (KEY.public_id,),
) -> Certificate:
    """Two records of one client and a slice of another are gone, with two modules; one module is left."""
    chains = ["backbone", digest("c")] if served else []
    heads = ServedHeads(
        marks={"0": "ab" * 8, "2": "cd" * 8} if served else {},
        chains=[ServedChain(chain=chain, clients=[0, 2], records=90, sha256=digest("4")) for chain in chains],
    )
    modules = [ServedModule(key=digest("c"), sha256=digest("3"), prefix=[2, 0])] if served else []
    return Certificate.of(
        run="a run, Zoë's",
        request=RequestEntry(
            position=position,
            ledger_hash=digest("a"),
            time="2026-05-01T10:00:00.5Z",
            parts=[
                DeletedPart(
                    client=digest("d"),
                    scope="records",
                    slices=[1, 4],
                    records=[digest("4"), digest("5")],
                    count=2,
                ),
                DeletedPart(client=digest("e"), scope="slice", slices=[0], records=[], count=41),
            ],
        ),
        completion=LedgerEntry(
            position=position + 1, ledger_hash=digest("b"), time="2026-05-01T10:00:01+00:00"
        ),
        destroyed=[
            DestroyedArtefact(
                name="modules/x/module.safetensors", kind="module", sha256=digest("1"), module=digest("1")
            ),
            DestroyedArtefact(
                name="modules/y/module.safetensors", kind="module", sha256=digest("2"), module=digest("2")
            ),
            DestroyedArtefact(name="evaluation.json", kind="metrics", sha256=digest("6"), module=None),
        ],
        served=ServedModules(
            groups={"0": digest("7"), "2": digest("8")} if served else {}, modules=modules, heads=heads
        ),
        configuration=Configuration(
            config_hash=digest("9"), backbone=digest("0"), profile={"threads": "1", "torch": "2.13.0"}
        ),
        software={"fedsgt": "0.1.0", "python": "3.11.9"},
        data_dependent_choices=list(choices),
        groups_hit={"1": digest("8"), "3": digest("9")},
        sources=list(sources),
        keys=[RunKey(position=5 * number, key=key) for number, key in enumerate(keys, start=1)],
    )
