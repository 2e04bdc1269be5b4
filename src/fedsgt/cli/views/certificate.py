"""Content of a certificate on one screen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fedsgt.words import counted, printable

if TYPE_CHECKING:
    from fedsgt.certificates.content import Certificate, DeletedPart, LedgerEntry, SourceFile


def certificate_text(certificate: Certificate) -> str:
    """Return the certificate in words: what was deleted, destroyed and served, and what it proves.

    The file may come from anybody, so control characters in it are not sent to the terminal.
    """
    request, served = certificate.request, certificate.served
    kinds = Counter(artefact.kind for artefact in certificate.destroyed)
    listed = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
    lines = [
        f"run            {certificate.run}",
        f"request        {_entry(request)}",
        *(f"  deleted      {_deleted(part)}" for part in request.parts),
        f"complete       {_entry(certificate.completion)}",
        *_hit(certificate),
        f"destroyed      {counted(len(certificate.destroyed), 'artefact')}"
        + (f": {listed}" if listed else ""),
        f"served         {counted(len(served.modules), 'module')} of {counted(len(served.groups), 'group')}",
        *_heads(certificate),
        *(f"source         {_source(source)}" for source in certificate.sources),
        *_keys(certificate),
        f"configuration  {certificate.configuration.config_hash}",
        f"backbone       {certificate.configuration.backbone}",
        "software       " + ", ".join(f"{name} {version}" for name, version in certificate.software.items()),
        "data content   " + ("; ".join(certificate.data_dependent_choices) or "no choice looked at it"),
        "",
        "What this proves",
        *(f"  - {sentence}" for sentence in certificate.statement.proved),
        "What it does not prove",
        *(f"  - {sentence}" for sentence in certificate.statement.not_proved),
    ]
    return "\n".join(map(printable, lines))


def _hit(certificate: Certificate) -> list[str]:
    if certificate.format == 1:
        return ["groups hit     not named: the certificate is of format 1"]
    return ["groups hit     " + (", ".join(sorted(certificate.groups_hit, key=int)) or "none")]


def _heads(certificate: Certificate) -> list[str]:
    """Return a line on the statistics from which heads are solved; none for formats that do not say."""
    heads = certificate.served.heads
    if heads is None:
        return []
    if not heads.chains:
        return ["solved heads   none: no statistics count"]
    bare = [chain.records for chain in heads.chains if chain.chain == "backbone"]
    behind = f", the bare backbone's of {counted(bare[0], 'record')}" if bare else ""
    clients = counted(len(heads.marks), "client")
    return [f"solved heads   {counted(len(heads.chains), 'chain')}, from statistics of {clients}{behind}"]


def _source(source: SourceFile) -> str:
    rows = counted(source.rows, "row")
    if source.action == "removed":
        return f"{source.file}: {counted(source.rows, 'image')} removed"
    if source.action == "rewritten":
        return f"{source.file}: rewritten, {rows} taken out"
    return f"{source.file}: NOT rewritten, {rows} left in it ({source.reason or 'no reason is given'})"


def _keys(certificate: Certificate) -> list[str]:
    """Return the changes of the run's signing key, which somebody who keeps one public key must know of."""
    if len(certificate.keys) < 2:
        return []
    return [
        f"KEY CHANGED    this run has changed its signing key {len(certificate.keys) - 1}x; earlier "
        "certificates need the earlier key",
        *(f"  key          {entry.key} from position {entry.position} on" for entry in certificate.keys),
    ]


def _entry(entry: LedgerEntry) -> str:
    return f"position {entry.position} at {entry.time}, chain hash {entry.ledger_hash}"


def _deleted(part: DeletedPart) -> str:
    slices = ("slice " if len(part.slices) == 1 else "slices ") + ", ".join(map(str, part.slices))
    whole = {"records": "", "slice": "a whole slice: ", "client": "a whole client: "}[part.scope]
    return f"{whole}{counted(part.count, 'record')} in {slices} of client {part.client}"
