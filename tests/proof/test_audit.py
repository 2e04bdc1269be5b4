"""The audit names every file that depends on deleted data or that no kind of file claims."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tiny_deletions import copied, problems, trained_run
from tiny_world import World

import fedsgt
from fedsgt.proof.audit import audit
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.work import work_folder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, unlearn


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run")


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def test_the_audit_finds_what_should_not_be_there(folder: RunFolder, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(folder.path, kept)
    unlearn(folder, [Deletion("c0")])
    dead = next(e for e in folder.description.modules if not folder.live().dead.isdisjoint(e.groups))
    put_back = {
        f"modules/{dead.key}/module.safetensors": "was hit by request no. 3",
        "metrics.jsonl": "lines of modules not live",
    }
    for name, problem in put_back.items():
        good = (folder.path / name).read_bytes() if (folder.path / name).exists() else None
        (folder.path / name).parent.mkdir(exist_ok=True)
        shutil.copy(kept / name, folder.path / name)
        (finding,) = problems(folder)
        assert finding.name == name
        assert problem in str(finding.problem)
        (folder.path / name).unlink()
        if good is not None:
            (folder.path / name).write_bytes(good)
    strange = {
        "notes.txt": "not a file of a run",
        "evaluation.json": "older than request no. 3",
        "report.html": "older than request no. 3",
        "rounds/" + dead.key + ".safetensors": "was hit by request no. 3",
        "cache/" + "0" * 64 + "/x.activations": "of a slice that changed or is gone",
        "export/sequence-0-3/adapter_model.safetensors": "does not say which modules",
        "modules/" + "1" * 64 + "/module.safetensors": "no module of this run",
        "certificates/000009.json": "000009.json",
        ".0123456789abcdef.run.json": "left by a killed writer",
        "tensorboard/events": "older than request no. 3",
    }
    for name, problem in strange.items():
        place = folder.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("data")
        os.utime(place, (0, 0))
        (finding,) = problems(folder)
        assert (finding.name, problem in str(finding.problem)) == (name, True), finding
        place.unlink()
    assert problems(folder) == []


SECRET = b"bytes that depend on deleted records"


@pytest.fixture(scope="module")
def deleted(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run after one deletion of a slice, of which nothing is retrained."""
    folder = copied(source, tmp_path_factory.mktemp("deleted") / "run")
    unlearn(folder, [Deletion("c0", slices=(0,))])
    assert problems(folder) == []
    folder.ledger.close()
    return folder.path


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "modules/notes.txt",
        "modules/" + "1" * 64 + "/module.safetensors.bak",
        "rounds/mine",
        "cache/mine.activations",
        "certificates/notes.txt",
        "evaluation.json.bak",
        "ledger.sqlite.bak",
        "signing-old.key",
    ],
)
def test_a_file_that_no_kind_claims_fails_the_audit(name: str, deleted: Path, tmp_path: Path) -> None:
    folder = copied(deleted, tmp_path / "run")
    place = folder.path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(SECRET)
    (finding,) = problems(folder)
    assert finding.name == name
    assert finding.problem == "not a file of a run; move it away, as nobody destroys it"


def test_a_pipe_is_named_and_not_read(deleted: Path, tmp_path: Path) -> None:
    folder = copied(deleted, tmp_path / "run")
    os.mkfifo(folder.path / "evaluation.json")
    assert [finding.name for finding in problems(folder)] == ["evaluation.json"]
    unlearn(folder, [Deletion("c0", slices=(1,))])
    assert problems(folder) == []


def test_work_is_listed_and_a_problem_if_its_process_is_gone_or_a_deletion_came(
    deleted: Path, tmp_path: Path
) -> None:
    folder = copied(deleted, tmp_path / "run")
    with work_folder(folder.path, "verification", folder.live().position) as path:
        (path / "records").mkdir()
        (path / "records" / "0.parquet").write_bytes(SECRET)
        name = f"work/{path.name}/records/0.parquet"
        (finding,) = [finding for finding in audit(folder) if finding.name == name]
        assert finding.depends_on == "any records and modules: the work of a verification"
        assert problems(folder) == []
        shutil.copytree(folder.path, tmp_path / "copy")
        request = accept(folder, [Deletion("c0", slices=(1,))]).position
        problem = f"older than request no. {request}"
        assert (name, problem) in [(finding.name, finding.problem) for finding in problems(folder)]
    found = problems(RunFolder(tmp_path / "copy", folder.config, folder.description, restoring=True))
    assert [finding.name for finding in found] == [f"work/{path.name}.lock", name]
    left = "left by a killed process; the next command that may write to the run removes it"
    assert {finding.problem for finding in found} == {left}


@pytest.fixture(scope="module")
def with_heads(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("heads") / "run", ["heads.solve=true"])


def test_statistics_are_named_with_their_client_and_chain(with_heads: Path, tmp_path: Path) -> None:
    folder = copied(with_heads, tmp_path / "run")
    words = {finding.name: finding.depends_on for finding in audit(folder)}
    nothing = folder.live().mark_of(3)
    assert words[f"statistics/backbone/3-{nothing}.safetensors"] == (
        "the records of client c3 at the bare backbone"
    )
    for groups, key in folder.description.keys.items():
        listed = ", ".join(map(str, groups))
        assert words[f"statistics/{key}/0-{nothing}.safetensors"] == (
            f"the records of client c0 at groups {listed}"
        )
    assert problems(folder) == []


def test_statistics_that_do_not_count_are_found(with_heads: Path, tmp_path: Path) -> None:
    folder = copied(with_heads, tmp_path / "run")
    unlearn(folder, [Deletion("c0", slices=(0,))])
    assert problems(folder) == []
    nothing, now = folder.live().mark_of(1), folder.live().mark_of(0)
    dead, hit = folder.live().dead_modules()[0].key, folder.live().last_request
    planted = {
        f"backbone/0-{nothing}": f"made before request no. {hit} of its client",
        f"backbone/1-{now}": "made without records that were never deleted; remove it",
        f"backbone/9-{nothing}": "of no client of this run; remove it",
        f"{dead}/1-{nothing}": f"of a module that is not live: group 1 was hit by request no. {hit}",
        f"{'0' * 64}/1-{nothing}": "of a module that is not live: no module of this run",
    }
    for name, problem in planted.items():
        file = folder.path / "statistics" / f"{name}.safetensors"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes((folder.path / f"statistics/backbone/1-{nothing}.safetensors").read_bytes())
        (finding,) = problems(folder)
        assert finding.name == f"statistics/{name}.safetensors"
        assert str(finding.problem).startswith(problem)
        file.unlink()


def test_a_damaged_statistic_is_found_and_made_anew(with_heads: Path, tmp_path: Path) -> None:
    folder = copied(with_heads, tmp_path / "run")
    file = folder.path / f"statistics/backbone/2-{folder.live().mark_of(2)}.safetensors"
    whole = file.read_bytes()
    for damaged in (b"", whole[:-8], whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(damaged)
        (finding,) = problems(folder)
        assert finding.name == f"statistics/backbone/{file.name}"
        assert finding.problem == (
            f"damaged, so that no head is solved from it; fedsgt heads {folder.path} makes it anew"
        )
        with fedsgt.open_run(folder.path) as run:
            assert run.renew_heads() == 1
        assert file.read_bytes() == whole
