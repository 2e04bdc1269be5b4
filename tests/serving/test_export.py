"""Export of a sequence: live modules only, as many as there are, and none that dies meanwhile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving.export import export_sequence, trained_because
from fedsgt.serving.heads import HeadSolver
from fedsgt.serving.model import open_model_of
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


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


@pytest.fixture(scope="module")
def solved(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("solved") / "run"
    train(images.config("heads.solve=true"), path, Quiet()).ledger.close()
    return path


def under_peft(folder: RunFolder, adapter: Path, images: World) -> np.ndarray:
    """Return class probabilities of all records as stock PEFT gives them."""
    from transformers import ViTForImageClassification

    labels = folder.description.labels
    plain = ViTForImageClassification.from_pretrained(
        folder.config.model.backbone, num_labels=labels, ignore_mismatched_sizes=True
    )
    model = open_model_of(folder)
    items = [model.inputs.item(row.id, (row.content,)) for row in images.rows]
    with torch.no_grad():
        batch = model.inputs.batch(items)
        wrapped = PeftModel.from_pretrained(plain, adapter).eval()
        return np.asarray(wrapped(**batch).logits.softmax(dim=-1).numpy())


@pytest.mark.filterwarnings("ignore")  # of transformers and PEFT
@pytest.mark.parametrize("depth", [1, 3])
def test_a_solved_head_answers_under_stock_peft(
    solved: Path, images: World, tmp_path: Path, depth: int
) -> None:
    """Its probabilities are those of the solved head of that chain, and not those of the trained one."""
    folder = open_run(shutil.copytree(solved, tmp_path / "run"))
    adapter = export_sequence(folder, 0, depth, None)
    prefix = tuple(folder.description.sequences[0][:depth])
    live = folder.live()
    head = HeadSolver(folder).solve(live, [prefix]).by_chain[prefix]
    model = open_model_of(folder)
    items = [model.inputs.item(row.id, (row.content,)) for row in images.rows]
    model.stack.load([folder.modules.get(key) for key in live.description.chain(prefix)])
    with torch.no_grad():
        logits, features = model.stack.outputs(model.inputs.batch(items))
    ours, theirs = head.probabilities(features.numpy()), under_peft(folder, adapter, images)
    assert np.abs(ours - theirs).max() < 1e-4
    assert np.abs(logits.softmax(dim=-1).numpy() - theirs).max() > 1e-2
    trained = export_sequence(folder, 0, depth, tmp_path / "trained", "trained")
    assert np.abs(logits.softmax(dim=-1).numpy() - under_peft(folder, trained, images)).max() < 1e-4


def test_any_later_deletion_destroys_an_export_with_a_solved_head(solved: Path, tmp_path: Path) -> None:
    """Also one that hits none of its modules: the head knows the records of all clients."""
    folder = open_run(shutil.copytree(solved, tmp_path / "run"))
    adapter = export_sequence(folder, 0, 1, None)
    trained = export_sequence(folder, 0, 1, folder.path / "export" / "mine", "trained")
    note = json.loads((adapter / "fedsgt.json").read_text())
    assert (note["heads"], note["position"]) == ("statistics", folder.live().position)
    first = folder.description.sequences[0][0]
    client, index = next(
        (client, index)
        for client, groups in enumerate(folder.description.groups_of)
        for index, group in enumerate(groups)
        if group != first
    )
    unlearn(folder, [Deletion(f"c{client}", slices=(index,))])
    assert not adapter.exists()
    assert trained.exists()


def test_the_trained_head_is_kept_where_a_solved_one_does_not_fit(texts: World, tmp_path: Path) -> None:
    folder = train(texts.config("heads.solve=true"), tmp_path / "run", Quiet())
    adapter = export_sequence(folder, 0, 1, None)
    assert "reads the trunk's first token" in str(trained_because(adapter))
    with pytest.raises(InputError, match="heads: statistics cannot be exported: a solved head reads"):
        export_sequence(folder, 0, 2, None, "statistics")
    assert trained_because(export_sequence(folder, 0, 1, tmp_path / "mine", "trained")) is None


def test_a_chain_without_statistics_is_exported_with_its_trained_head(solved: Path, tmp_path: Path) -> None:
    folder = open_run(shutil.copytree(solved, tmp_path / "run"))
    shutil.rmtree(folder.path / "statistics")
    assert "fedsgt heads" in str(trained_because(export_sequence(folder, 0, 1, None)))
