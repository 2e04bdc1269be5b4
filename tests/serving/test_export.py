"""Export of a sequence: live modules only, as many as there are, and none that dies meanwhile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving.export import export_sequence


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run"
    train(images.config(), path, Quiet()).ledger.close()
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    return open_run(shutil.copytree(trained, tmp_path / "run"))


def request(folder: RunFolder, *groups: int) -> None:
    with folder.ledger.writing() as writer:
        writer.append(Kind.REQUEST, {"parts": [], "groups": list(groups)})


def exported(path: Path) -> list[str]:
    found: list[str] = json.loads((path / "fedsgt.json").read_text())["modules"]
    return found


def test_all_live_modules_or_the_first_of_them(folder: RunFolder, tmp_path: Path) -> None:
    """The second sequence of the rotations is 2, 0, 1."""
    chain = folder.description.chain
    whole = export_sequence(folder, 1, None, None)
    assert whole == folder.path / "export" / "sequence-1-3"
    assert exported(whole) == list(chain((2, 0, 1)))
    assert exported(export_sequence(folder, 1, 2, tmp_path / "mine")) == list(chain((2, 0)))
    request(folder, 0)
    assert exported(export_sequence(folder, 1, None, None)) == list(chain((2,)))


def test_what_is_not_there_is_not_exported(folder: RunFolder) -> None:
    with pytest.raises(InputError, match="sequence: 3 is not between 0 and 2"):
        export_sequence(folder, 3, None, None)
    for depth in (0, 4):
        with pytest.raises(
            InputError, match=f"depth: {depth} is not allowed; the sequence has 3 live modules"
        ):
            export_sequence(folder, 1, depth, None)
    request(folder, 2)
    with pytest.raises(InputError, match="sequence 1 has no live module to export"):
        export_sequence(folder, 1, None, None)
    assert not (folder.path / "export").exists()


def test_a_deletion_that_comes_in_meanwhile_stops_it(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request comes in just before the lock, under which nothing is destroyed, is taken."""
    elsewhere, inner = open_run(folder.path), RunFolder.publishing

    def publishing(self: RunFolder) -> object:
        request(elsewhere, 0)
        return inner(self)

    monkeypatch.setattr(RunFolder, "publishing", publishing)
    with pytest.raises(InputError, match="a deletion came in meanwhile; nothing was exported"):
        export_sequence(folder, 1, None, None)
    assert not (folder.path / "export").exists()


def test_what_a_killed_export_left_goes_with_the_next_one_and_the_next_training(folder: RunFolder) -> None:
    left = folder.path / "export" / f".sequence-0-1.{'0123456789abcdef' * 2}"
    left.mkdir(parents=True)
    (left / "adapter_model.safetensors").write_bytes(b"half")
    target = export_sequence(folder, 0, 1, None)
    assert not left.exists()
    assert (target / "fedsgt.json").is_file()
    left.mkdir()
    folder.sweep()
    assert not left.exists()
    assert target.is_dir()


def test_an_export_appears_with_its_note(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion must find out which modules are in it, whenever the exporting process was killed."""
    seen: list[set[str]] = []
    plain = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append({path.name for path in self.iterdir()} if self.is_dir() else set())
        return plain(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    export_sequence(folder, 0, 1, None)
    assert {"fedsgt.json", "adapter_config.json", "adapter_model.safetensors"} in seen


def test_a_sweep_follows_no_link_and_removes_only_what_exports_make(
    folder: RunFolder, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / f".x.{'0' * 32}").mkdir()
    place = folder.path / "export"
    place.mkdir(exist_ok=True)
    (place / ".mine").write_text("notes")
    folder.sweep()
    assert (place / ".mine").exists()
    (place / ".mine").unlink()
    place.rmdir()
    place.symlink_to(home)
    folder.sweep()
    assert {path.name for path in home.iterdir()} == {".ssh", f".x.{'0' * 32}"}
