"""Previews and receipts as objects: words, JSON and tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tiny_deletions import trained_run
from tiny_world import World

import fedsgt


def test_words_of_a_preview_and_of_its_deletion(images: World, tmp_path: Path) -> None:
    run = fedsgt.open_run(trained_run(images, tmp_path / "run"))
    preview = run.preview("c0", slices=[0], accuracy=False)
    assert repr(preview) == (
        f"<Preview: {preview.records} records would go, groups hit: {preview.groups[0]}, 6 modules would be "
        "destroyed>"
    )
    assert "<td>live modules</td>" in preview._repr_html_()
    assert preview.to_json()["dry_run"] is True
    assert not preview.exhausting
    receipt = run.unlearn("c0", slices=[0])
    assert repr(receipt).startswith(f"<Receipt no. {receipt.number}, complete: {preview.records} records")
    assert receipt.to_json()["certificate"] == str(receipt.certificate)
    assert "<td>c0</td>" in receipt._repr_html_()


def test_a_preview_says_that_nothing_would_be_left(images: World, tmp_path: Path) -> None:
    run = fedsgt.open_run(trained_run(images, tmp_path / "run"))
    every = [fedsgt.Deletion(name) for name in run.clients.names]
    preview = run.preview(deletions=every, accuracy=False)
    assert preview.exhausting
    assert repr(preview).endswith("NOTHING WOULD BE LEFT TO SERVE>")


def test_what_is_pending_is_told(images: World, tmp_path: Path) -> None:
    run = fedsgt.open_run(trained_run(images, tmp_path / "run"))
    receipt = run.unlearn("c0", slices=[0])
    waiting = replace(receipt, pending="its certificate is pending as it was cut short", certificate=None)
    assert not waiting.complete
    assert "in force; its certificate is pending" in repr(waiting)
    assert "its certificate is pending" in waiting._repr_html_()
