"""Verdicts on modules: what each is, why, and what is read to know it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from paper_run import code, delete, describe, fill, paper_run, rebuild

from fedsgt.files.tensors import Tensors
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.health import MADE_OTHERWISE, module_health, problem_lines
from fedsgt.store import Modules, Origin

Prefix = tuple[int, ...]
SEQUENCES = [(0, 1, 2), (2, 0)]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe(SEQUENCES, [5, 6, 7]))
    fill(made)
    return made


def verdicts(folder: RunFolder, tensors: bool | None = None) -> dict[Prefix, str]:
    found = module_health(folder, folder.live(), tensors)
    return {tuple(module.entry.groups): module.verdict for module in found.modules.values()}


def place(folder: RunFolder, *prefix: int) -> Path:
    return folder.path / "modules" / folder.live().description.keys[prefix]


def spoil(folder: RunFolder, *prefix: int) -> None:
    file = place(folder, *prefix) / "module.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x55")


def watch_reading(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the key of each module whose tensors are read."""
    read: list[str] = []
    plain = Modules.get

    def watched(self: Modules, key: str) -> Tensors:
        read.append(key)
        return plain(self, key)

    monkeypatch.setattr(Modules, "get", watched)
    return read


def test_a_whole_run_has_live_modules_only(folder: RunFolder) -> None:
    found = module_health(folder, folder.live())
    assert set(verdicts(folder).values()) == {"live"}
    assert (found.problems, found.lost, found.prefixes) == ((), frozenset(), SEQUENCES)
    assert all(module.manifest is not None for module in found.modules.values())


def test_an_untrained_module_is_not_a_missing_one(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe(SEQUENCES, [5, 6, 7]))
    assert set(verdicts(folder).values()) == {"untrained"}
    fill(folder, lambda prefix: prefix not in ((0, 1), (0, 1, 2)))
    assert verdicts(folder) == {
        (0,): "live",
        (0, 1): "untrained",
        (0, 1, 2): "untrained",
        (2,): "live",
        (2, 0): "live",
    }
    fill(folder, lambda prefix: prefix == (0, 1, 2))
    shutil.rmtree(place(folder, 0))
    assert (verdicts(folder)[0,], verdicts(folder)[0, 1]) == ("missing", "missing"), "a module stands on them"


def test_after_a_complete_training_all_that_is_not_there_is_missing(folder: RunFolder) -> None:
    shutil.rmtree(place(folder, 2, 0))
    assert verdicts(folder)[2, 0] == "missing"
    delete(folder, 0)
    assert verdicts(folder)[2, 0] == "dead"
    folder.describe_anew(folder.live().description.model_copy(update={"as_of": folder.live().position}))
    assert verdicts(folder)[2, 0] == "untrained", "it is yet to be trained again"
    rebuild(folder)
    assert set(verdicts(folder).values()) == {"live"}


def test_a_module_of_another_origin_is_damaged(folder: RunFolder) -> None:
    key = folder.description.keys[2, 0]
    said = folder.modules.manifest(key).model_dump(exclude={"sha256"})
    said["prefix"] = [code("other"), code("data")]
    folder.modules.put(Origin.model_validate(said), folder.modules.get(key))
    module = module_health(folder, folder.live()).modules[key]
    assert (module.verdict, module.reason) == ("damaged", MADE_OTHERWISE)


def test_remains_of_a_dead_module_are_not_destroyed(folder: RunFolder) -> None:
    kept = place(folder, 2)
    delete(folder, 2)
    assert verdicts(folder)[2,] == "dead"
    kept.mkdir()
    (kept / "test-0.safetensors").write_bytes(b"probabilities")
    found = module_health(folder, folder.live())
    (line,) = problem_lines(found.problems)
    assert line == (
        f"module {kept.name[:12]} (groups 2) is not destroyed: group 2 was hit by request no. 3, and its "
        f"bytes are still there; fedsgt retrain {folder.path} destroys it"
    )


def test_modules_are_read_again_only_if_they_changed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = watch_reading(folder, monkeypatch)
    verdicts(folder)
    assert len(read) == 5
    verdicts(folder)
    assert len(read) == 5
    spoil(folder, 2)
    assert verdicts(folder)[2,] == "damaged"
    assert set(read[5:]) == {folder.description.keys[2,]}


def test_a_deletion_and_a_remote_store_read_manifests_only(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = paper_run(tmp_path / "remote", describe(SEQUENCES, [5, 6, 7]), "store.url=memory://health")
    fill(remote)
    read = watch_reading(folder, monkeypatch)
    spoil(folder, 2)
    assert set(verdicts(folder, tensors=False).values()) == {"live"}
    assert set(verdicts(remote).values()) == {"live"}
    assert read == []
    remote.modules.objects.write(f"modules/{remote.description.keys[2,]}/module.safetensors", b"")
    remote.modules.objects.write(f"modules/{remote.description.keys[0,]}/manifest.json", b"")
    delete(remote, 1)
    assert verdicts(remote)[0,] == "live", "its manifest was whole when it was read"
    remote = open_run(remote.path)
    assert verdicts(remote) == {
        (0,): "damaged",
        (0, 1): "dead",
        (0, 1, 2): "dead",
        (2,): "live",
        (2, 0): "live",
    }
    assert verdicts(remote, tensors=True)[2,] == "damaged"


def test_a_module_that_a_deletion_destroys_meanwhile_is_not_lost(folder: RunFolder) -> None:
    before = folder.live()
    delete(folder, 0)
    found = module_health(folder, before)
    assert (found.lost, found.prefixes) == (frozenset(), [(), (2,)])


def test_many_problems_are_counted(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([range(12)], [5] * 12))
    fill(folder)
    shutil.rmtree(folder.path / "modules")
    lines = problem_lines(module_health(folder, folder.live()).problems)
    assert (len(lines), lines[-1]) == (11, "and 2 more modules")
