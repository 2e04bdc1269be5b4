"""`fedsgt runs` and `fedsgt show`: what is listed, and what is left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from command import fedsgt, shown
from paper_run import describe, fill, paper_run


def test_show_lists_every_module(trained: Path) -> None:
    found: dict[str, Any] = json.loads(shown("show", str(trained), "--json"))
    modules = found["modules"]
    assert [module["prefix"] for module in modules] == [[0], [0, 1], [1], [1, 0]]
    keys = {tuple(module["prefix"]): module["key"] for module in modules}
    for module in modules:
        assert module["live"] is True
        assert module["parent"] == keys.get(tuple(module["prefix"][:-1]))
        manifest = json.loads((trained / "modules" / module["key"] / "manifest.json").read_text())
        assert module["sha256"] == manifest["sha256"]
    assert "4 of 4 modules live" in shown("show", str(trained))


def test_runs_lists_them(trained: Path) -> None:
    assert "4 of 4 modules, 10 clients, 2 groups, rotations" in shown("runs", str(trained.parent))
    entries = json.loads(shown("runs", str(trained.parent), "--json"))
    assert [entry["trained"] for entry in entries] == [4]


def test_a_folder_that_cannot_be_opened_is_left_out_and_named(tmp_path: Path) -> None:
    fill(paper_run(tmp_path / "good", describe([(0, 1)], [5, 5])))
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    (tmp_path / "bad/run.json").write_text("{}")
    done = fedsgt("runs", str(tmp_path), "--json")
    assert done.returncode == 0
    assert [entry["path"] for entry in json.loads(done.stdout)] == [str(tmp_path / "good")]
    assert done.stderr.startswith(f"fedsgt: left out: {tmp_path / 'bad'}")
    assert done.stderr.count("\n") == 1


def test_no_runs_and_no_folder(tmp_path: Path) -> None:
    assert fedsgt("runs", cwd=tmp_path).stdout == "no runs in runs; `fedsgt demo` makes one\n"
    assert json.loads(fedsgt("runs", "--json", cwd=tmp_path).stdout) == []
    done = fedsgt("runs", "nowhere", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "fedsgt: nowhere: no such folder; give a folder of runs\n")


def test_a_run_that_is_none_cannot_be_shown(tmp_path: Path) -> None:
    done = fedsgt("show", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_names_of_folders_do_not_steer_the_terminal(trained: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a\x07\nb"
    shutil.copytree(trained, odd)
    text = shown("runs", str(tmp_path)) + shown("show", str(odd))
    assert "a\\x07\\nb" in text
    assert all(line.isprintable() for line in text.splitlines())
