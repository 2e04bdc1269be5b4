"""The sentences of a certificate fit its facts, and name what it cannot prove."""

from __future__ import annotations

from certificates import certificate
from fedsgt.certificates.content import SourceFile


def test_the_statement_fits_the_facts() -> None:
    said = " ".join(certificate().statement.proved)
    assert "request at position 7" in said
    assert "at position 8 that the destruction was complete" in said
    assert "destroyed (3)" in said
    assert "only the modules listed (1) are served" in said
    assert "`fedsgt verify`" in said
    assert "no module is served" in " ".join(certificate(served=False).statement.proved)
    assert "verify" not in " ".join(certificate(served=False).statement.proved)
    plainly, chosen = certificate().statement.not_proved, certificate(choices=("bac",)).statement.not_proved
    assert chosen[:-1] == plainly
    assert "data-dependent (1)" in chosen[-1]
    for word in ("backups", "predictions", "blocks", "truth", "unmodified software", "signing key"):
        assert word in " ".join(plainly)


def test_solved_heads_are_spoken_of_where_there_are_any() -> None:
    proved, not_proved = (" ".join(part) for part in certificate().statement.__dict__.values())
    assert "Heads that are solved from position 8 on use only the statistics listed (2 chains)" in proved
    assert "in none of them until its statistics are made without those" in proved
    assert "second moments of each client's features" in not_proved
    said = " ".join(" ".join(part) for part in certificate(served=False).statement.__dict__.values())
    assert "statistics" not in said


def test_what_exactness_is_not_is_in_every_certificate() -> None:
    plainly = " ".join(certificate().statement.not_proved)
    assert "adaptive requests" in plainly
    assert "Gupta et al., 2021, arXiv 2106.04378" in plainly
    assert "compares predictions made before and after" in plainly
    assert "Chen et al., 2021, arXiv 2005.02205" in plainly


def test_sources_are_named_with_what_happened_to_them() -> None:
    assert "The run rewrote no source file" in " ".join(certificate().statement.proved)
    sources = (
        SourceFile(file="a.parquet", action="rewritten", rows=2, reason=None),
        SourceFile(file="b.parquet", action="left", rows=41, reason="it cannot be written"),
    )
    found = certificate(sources=sources)
    assert found.sources == list(sources)
    proved, not_proved = (" ".join(part) for part in (found.statement.proved, found.statement.not_proved))
    assert "The source file a.parquet was rewritten without the deleted rows (2)" in proved
    assert "gone from the source file b.parquet: it kept them (it cannot be written)" in not_proved
    assert "b.parquet" not in proved
