"""The sentences of a certificate: what it proves, how to test that, and what it cannot prove.

They are signed with the facts, so changing one changes the bytes of new certificates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedsgt.words import counted

if TYPE_CHECKING:  # only a type: the module of the content imports this one
    from fedsgt.certificates.content import ServedHeads, SourceFile


def proved_by(
    requested: int,
    completed: int,
    destroyed: int,
    served: int,
    sources: Sequence[SourceFile],
    heads: ServedHeads | None = None,
) -> list[str]:
    """Return the sentences on what a certificate with these facts proves, each with a test."""
    return [
        "The holder of the signing key signed exactly this text. What follows is that holder's word; each "
        "sentence names how to test it.",
        f"The run's ledger holds the request at position {requested}, and at position {completed} that the "
        "destruction was complete. Test: a ledger with other chain hashes there was rewritten.",
        f"The artefacts listed as destroyed ({destroyed}) were removed from the run's folder and store "
        "before this was signed. Test: `fedsgt audit` looks for anything there that depends on deleted data.",
        _served(completed, served),
        *_solved(completed, heads),
        *_rewritten(sources),
    ]


def not_proved_by(
    choices: Sequence[str], sources: Sequence[SourceFile], heads: ServedHeads | None = None
) -> list[str]:
    """Return the sentences on what no certificate can prove, for a wary reader."""
    found = [
        "That no copies are left outside the run's folder and store: backups, exports given away, copies "
        "made by others.",
        "That predictions already made are undone, or what was learned from them.",
        "That a storage device has overwritten the blocks that were freed.",
        "That a client told the truth about its data, or erased its own copies.",
        "That the operator's machine ran unmodified software and its clock was right.",
        "Who owns the signing key: take the public key from a source you trust.",
        "Anything for requests that were chosen by looking at what was served (adaptive requests): which "
        "modules are live then depends on deleted records through the choice (Gupta et al., 2021, arXiv "
        "2106.04378).",
        "That the deleted records stay hidden from whoever compares predictions made before and after the "
        "deletion: the difference can reveal them (Chen et al., 2021, arXiv 2005.02205).",
        *map(_left, (source for source in sources if source.action == "left" and source.rows)),
        *(
            f"That nothing of the deleted rows is left beside the source {source.file}: {source.reason}."
            for source in sources
            if source.action != "left" and source.reason
        ),
    ]
    if heads and heads.chains:
        found.append(
            "That the statistics from which heads are solved keep the retained records hidden from whoever "
            "has their files: they are second moments of each client's features, and with fewer records "
            "than features they are close to the features themselves."
        )
    if choices:
        found.append(
            "That the choices which looked at data content carry no trace of the deleted data; they are "
            f"listed as data-dependent ({len(choices)})."
        )
    return found


def _served(completed: int, served: int) -> str:
    since = f"From position {completed} on, until training adds modules,"
    if not served:
        return f"{since} no module is served. Test: `fedsgt status` shows none live."
    return (
        f"{since} only the modules listed ({served}) are served. Each has the hash given and depends on the "
        "configuration, the backbone and its prefix's groups with the fingerprints given, on no other data. "
        "Test: whoever holds the retained data rebuilds them and compares the hashes with `fedsgt verify`."
    )


def _solved(completed: int, heads: ServedHeads | None) -> list[str]:
    if heads is None or not heads.chains:
        return []
    chains = counted(len(heads.chains), "chain")
    return [
        f"Heads that are solved from position {completed} on use only the statistics listed ({chains}), and "
        "new ones that are made of retained records. A client from whom records were deleted is in "
        "none of them until its statistics are made without those. Test: whoever "
        "holds the retained data makes them again and compares the hashes with `fedsgt verify`."
    ]


def _rewritten(sources: Sequence[SourceFile]) -> list[str]:
    changed = [source for source in sources if source.action != "left"]
    if not changed:
        return ["The run rewrote no source file; what is left in their own files is up to the owners."]
    words = {
        "rewritten": "The source file {} was rewritten without the deleted rows ({}).",
        "removed": "The images of deleted records ({1}) were removed from the source folder {0}.",
    }
    return [
        words[source.action].format(source.file, source.rows) + " Test: its owner looks for them."
        for source in changed
    ]


def _left(source: SourceFile) -> str:
    why = source.reason or "no reason is given"
    return f"That the deleted rows are gone from the source file {source.file}: it kept them ({why})."
