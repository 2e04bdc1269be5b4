"""Predictions: the right sequences with the right weights, and never a module that is not live."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from predict_child import answer, ask
from tiny_world import Quiet, World, save_models

from fedsgt.build.train import train
from fedsgt.data import Record, Slice
from fedsgt.data.slices import slice_of
from fedsgt.engine import inprocess
from fedsgt.engine.worker import Worker
from fedsgt.errors import BackboneChanged, InputError
from fedsgt.files.tensors import Tensors
from fedsgt.ledger.kinds import Kind
from fedsgt.plans import select
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.health import module_health
from fedsgt.serving.predictor import Exhausted, Predictor
from fedsgt.stack.merge import merge
from fedsgt.stack.model import open_model

# Rotations: a deletion of group 1 leaves [0], [2, 0] and nothing of the third.
SEQUENCES = [[0, 1, 2], [2, 0, 1], [1, 2, 0]]


@pytest.fixture(scope="module")
def trained(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predictor") / "run"
    folder = train(images.config(), path, Quiet())
    folder.ledger.close()
    assert folder.description.sequences == SEQUENCES
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> RunFolder:
    """Return a copy of the run, to delete from."""
    return open_run(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture(scope="module")
def contents(images: World) -> list[bytes]:
    return [row.content for row in images.rows[:7] if isinstance(row.content, bytes)]


def request(folder: RunFolder, *groups: int) -> int:
    """Append a deletion to the ledger, which is all that other processes see of it."""
    with folder.ledger.writing() as writer:
        entry = writer.append(Kind.REQUEST, {"parts": [], "groups": list(groups)})
    return entry.position


def key(folder: RunFolder, *groups: int) -> str:
    return folder.description.keys[groups]


def used(found: Any) -> set[str]:
    return {name for sequence in found.sequences for name in sequence.keys}


def by_hand(folder: RunFolder, modules: Sequence[Tensors], contents: list[bytes]) -> NDArray[np.float64]:
    """Compute class probabilities with these modules by a stack alone."""
    model = open_model(folder.config, folder.description.labels)
    inputs, stack = model.inputs, model.stack
    stack.load(list(modules))
    with torch.no_grad():
        logits = stack.logits(inputs.batch([inputs.item("", (content,)) for content in contents]))
    return logits.softmax(dim=-1).double().numpy()


def chain(folder: RunFolder, *groups: int) -> list[Tensors]:
    return [folder.modules.get(name) for name in folder.description.chain(groups)]


def test_all_is_the_mean_weighted_by_live_modules(folder: RunFolder, contents: list[bytes]) -> None:
    position = request(folder, 1)
    found = Predictor(folder.path).predict(contents)
    expected = by_hand(folder, chain(folder, 0), contents) / 3
    expected += by_hand(folder, chain(folder, 2, 0), contents) * 2 / 3
    assert np.abs(found.probabilities - expected).max() < 1e-12
    assert (found.position, found.strategy, found.damaged, found.bare_backbone) == (
        position,
        "all",
        (),
        False,
    )
    assert [(one.index, one.groups, one.weight) for one in found.sequences] == [
        (0, (0,), 1 / 3),
        (1, (2, 0), 2 / 3),
    ]
    assert [one.keys for one in found.sequences] == [
        (key(folder, 0),),
        (key(folder, 2), key(folder, 2, 0)),
    ]
    assert found.labels == expected.argmax(axis=1).tolist()
    assert found.ids == tuple("0123456")
    assert found.agreement is None


@pytest.mark.parametrize("strategy", ["all", "min", "long"])
@pytest.mark.parametrize("deleted", [(), (1,), (0, 1)])
def test_the_strategy_selects(
    folder: RunFolder, contents: list[bytes], strategy: str, deleted: tuple[int, ...]
) -> None:
    if deleted:
        request(folder, *deleted)
    found = Predictor(folder, strategy).predict(contents)
    chosen = [(one.index, one.groups, one.weight) for one in found.sequences]
    assert chosen == select(strategy, SEQUENCES, deleted)


def test_the_runs_own_strategy_is_the_default_and_another_word_is_refused(folder: RunFolder) -> None:
    assert Predictor(serving(folder, strategy="long")).strategy == "long"
    with pytest.raises(InputError, match=r"^strategy: 'best' is unknown; one of all, min, long, merged$"):
        Predictor(folder, "best")


def serving(folder: RunFolder, **settings: Any) -> RunFolder:
    section = folder.config.serving.model_copy(update=settings)
    return RunFolder(folder.path, folder.config.model_copy(update={"serving": section}), folder.description)


def test_merged_is_one_pass_with_the_average_of_live_weights(
    folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    request(folder, 1)
    predictor = Predictor(folder, "merged")
    passes = counted(predictor.worker.stack, "logits", monkeypatch)
    found = predictor.predict(contents)
    assert len(passes) == 1
    mixture = ((1 / 3, folder.description.chain((0,))), (2 / 3, folder.description.chain((2, 0))))
    expected = by_hand(folder, merge("lora", mixture, folder.modules.get), contents)
    assert np.array_equal(found.probabilities, expected)
    assert np.array_equal(predictor.predict(contents).probabilities, expected)
    every = Predictor(folder, "all").predict(contents)
    assert used(found) == used(every)
    assert not np.array_equal(found.probabilities, every.probabilities)


def counted(thing: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    calls: list[None] = []
    inner = getattr(thing, name)

    def call(*arguments: Any) -> Any:
        calls.append(None)
        return inner(*arguments)

    monkeypatch.setattr(thing, name, call)
    return calls


def test_agreement_of_merged_with_all(folder: RunFolder, images: World) -> None:
    contents = [row.content for row in images.rows]
    merged = Predictor(folder, "merged").predict(contents, agreement=True)
    every = Predictor(folder, "all").predict(contents, agreement=True)
    assert every.agreement is None
    same = [one == other for one, other in zip(merged.labels, every.labels, strict=True)]
    assert merged.agreement == pytest.approx(sum(same) / len(same))
    assert Predictor(folder, "merged").predict(contents).agreement is None


def test_merged_is_refused_where_there_is_no_average(images: World, tmp_path: Path) -> None:
    run = train(images.config("peft.kind=prefix", "grouping.groups=1"), tmp_path / "run", Quiet())
    with pytest.raises(InputError, match=r"merged is not for peft\.kind = prefix"):
        Predictor(run, "merged")


@pytest.mark.parametrize("strategy", ["all", "long", "merged"])
def test_what_dies_while_it_predicts_is_predicted_again(
    folder: RunFolder, contents: list[bytes], strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, elsewhere = Predictor(folder, strategy), open_run(folder.path)
    method = "predict_merged" if strategy == "merged" else "outputs"
    inner = getattr(predictor.worker, method)
    positions: list[int] = []

    def predict(*arguments: Any, **named: Any) -> Any:
        found = inner(*arguments, **named)
        if len(positions) < 2:  # a different group each time
            positions.append(request(elsewhere, len(positions)))
        return found

    monkeypatch.setattr(predictor.worker, method, predict)
    found = predictor.predict(contents)
    assert (found.position, len(positions)) == (positions[-1], 2)
    assert used(found) == {key(folder, 2)}
    monkeypatch.undo()
    again = Predictor(folder.path, strategy).predict(contents)
    assert np.array_equal(found.probabilities, again.probabilities)


def test_a_deletion_that_hits_nothing_in_use_costs_nothing(
    folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    request(folder, 1)
    predictor, elsewhere = Predictor(folder), open_run(folder.path)
    inner, positions = predictor.worker.outputs, []

    def predict(*arguments: Any, **named: Any) -> Any:
        positions.append(request(elsewhere, 1))
        return inner(*arguments, **named)

    monkeypatch.setattr(predictor.worker, "outputs", predict)
    assert predictor.predict(contents).position == positions[0]
    assert len(positions) == 1


@pytest.mark.parametrize("strategy", ["all", "merged"])
def test_dead_modules_leave_the_memory(
    folder: RunFolder, contents: list[bytes], strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dead modules are gone before anything is computed for the next prediction."""
    predictor = Predictor(folder, strategy)
    predictor.predict(contents)
    assert len(predictor.worker.modules) == 9
    request(folder, 0, 1)
    kept: list[set[str]] = []
    method = "predict_merged" if strategy == "merged" else "outputs"
    inner = getattr(predictor.worker, method)

    def predict(*arguments: Any, **named: Any) -> Any:
        kept.append(set(predictor.worker.modules))
        assert predictor.worker.loaded == ()
        assert predictor.worker.stack.last is None
        assert all(linear.folded is None for linear in predictor.worker.stack.kind.linears.values())  # type: ignore[attr-defined]
        return inner(*arguments, **named)

    monkeypatch.setattr(predictor.worker, method, predict)
    predictor.predict(contents)
    assert kept == [{key(folder, 2)}]


class Racing:
    """A store in which a deletion is carried out just before a module is read."""

    def __init__(self, folder: RunFolder, act: Callable[[str], None]) -> None:
        self.modules, self.act = folder.modules, act
        self.asked: list[str] = []

    def get(self, name: str) -> Tensors:
        self.asked.append(name)
        self.act(name)
        return self.modules.get(name)

    def __getattr__(self, name: str) -> object:
        return getattr(self.modules, name)


def test_a_module_destroyed_while_it_is_loaded_is_not_missed(
    folder: RunFolder, contents: list[bytes]
) -> None:
    elsewhere = open_run(folder.path)

    def destroy(name: str) -> None:
        if name == key(folder, 2, 0):
            request(elsewhere, 0)
            for entry in elsewhere.live().dead_modules():
                elsewhere.modules.discard(entry.key)

    predictor = Predictor(folder)
    predictor.health = module_health(folder, folder.live())
    vars(folder)["modules"] = Racing(folder, destroy)
    found = predictor.predict(contents)
    assert used(found) == {key(folder, 2), key(folder, 1), key(folder, 1, 2)}
    assert found.damaged == (), "it is dead, not damaged"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"\x55")


@pytest.mark.parametrize("file", ["module.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
def test_a_damaged_module_is_named_and_not_served(
    folder: RunFolder, contents: list[bytes], file: str, damage: Callable[[Path], None]
) -> None:
    predictor = Predictor(folder)
    predictor.predict(contents)
    predictor.worker.keep(())
    damage(folder.path / "modules" / key(folder, 2, 0) / file)
    found = predictor.predict(contents)
    assert found.damaged == (key(folder, 2, 0),)
    assert [one.groups for one in found.sequences] == [(0, 1, 2), (2,), (1, 2, 0)]
    assert predictor.predict(contents).damaged == found.damaged, "it is looked for again each time"
    alone = Predictor(folder.path).predict(contents)
    assert np.array_equal(found.probabilities, alone.probabilities)
    request(folder, 0)
    assert predictor.predict(contents).damaged == (), "by now it ought to be gone"


def test_a_module_that_is_mended_is_used_again(folder: RunFolder, contents: list[bytes]) -> None:
    file = folder.path / "modules" / key(folder, 1) / "module.safetensors"
    whole = file.read_bytes()
    flip(file)
    predictor = Predictor(folder)
    assert len(predictor.predict(contents).sequences) == 2
    file.write_bytes(whole)
    found = predictor.predict(contents)
    assert (len(found.sequences), found.damaged) == (3, ())


def test_a_module_that_is_not_there_is_missed_until_it_comes(
    folder: RunFolder, contents: list[bytes]
) -> None:
    gone = shutil.move(folder.path / "modules" / key(folder, 0, 1), folder.path.parent / "aside")
    predictor = Predictor(folder)
    found = predictor.predict(contents)
    assert [one.groups for one in found.sequences] == [(0,), (2, 0, 1), (1, 2, 0)]
    assert [(one.verdict, one.entry.groups) for one in found.problems] == [("missing", [0, 1])]
    assert found.damaged == (key(folder, 0, 1),)
    shutil.move(gone, folder.path / "modules" / key(folder, 0, 1))
    assert [len(one.groups) for one in predictor.predict(contents).sequences] == [3, 3, 3]


def test_exhausted_is_said(folder: RunFolder, contents: list[bytes]) -> None:
    predictor = Predictor(folder)
    position = request(folder, 0, 1, 2)
    with pytest.raises(
        Exhausted, match=f"exhausted: no module is live at ledger position {position}; fedsgt"
    ):
        predictor.predict(contents)


def test_exhausted_by_damage_says_what_is_damaged(folder: RunFolder, contents: list[bytes]) -> None:
    request(folder, 0, 1)
    flip(folder.path / "modules" / key(folder, 2) / "module.safetensors")
    with pytest.raises(Exhausted, match=rf"module {key(folder, 2)[:12]} \(groups 2\) is damaged"):
        Predictor(folder).predict(contents)


@pytest.mark.parametrize("strategy", ["all", "merged"])
def test_the_bare_backbone_answers_only_where_it_may(
    folder: RunFolder, contents: list[bytes], strategy: str
) -> None:
    predictor = Predictor(serving(folder, bare_backbone=True), strategy)
    assert predictor.predict(contents).bare_backbone is False
    position = request(folder, 0, 1, 2)
    found = predictor.predict(contents, agreement=True)
    assert (found.bare_backbone, found.sequences, found.position) == (True, (), position)
    assert np.array_equal(found.probabilities, np.full((7, 3), np.float32(1 / 3)).astype(float))


def test_a_cut_sequence_is_one_that_never_saw_the_group(
    folder: RunFolder, images: World, contents: list[bytes], tmp_path: Path
) -> None:
    """Compare with a run that had only one of the group's records, which no served module has seen."""
    groups = folder.description.grouping_made()
    clients = [client.name for client in folder.description.clients]
    places = {(clients[number], index) for number, index in groups.slice_ids(1)}
    inside = [row for row in images.rows if (row.client, slice_of(row.id, f"0/{row.client}", 2)) in places]
    other = train(images.without(inside[1:]).config(), tmp_path / "other", Quiet())
    assert key(other, 1) != key(folder, 1)
    found = []
    for run in (folder, other):
        request(run, 1)
        found.append([Predictor(run, name).predict(contents) for name in ("all", "min", "long", "merged")])
    for ours, theirs in zip(*found, strict=True):
        assert np.array_equal(ours.probabilities, theirs.probabilities)
        assert used(ours) == used(theirs)


def test_deactivation_neither_copies_nor_touches_the_backbone(
    folder: RunFolder, contents: list[bytes]
) -> None:
    predictor = Predictor(folder, "merged")
    backbone = predictor.worker.model.backbone
    places = {name: tensor.data_ptr() for name, tensor in backbone.tensors.items()}
    before = backbone.hash_now()
    for group in (1, 0):
        predictor.predict(contents, agreement=True)
        request(folder, group)
    predictor.predict(contents)
    assert {name: tensor.data_ptr() for name, tensor in backbone.tensors.items()} == places
    assert backbone.hash_now() == before == folder.description.backbone
    predictor.check()
    next(iter(backbone.tensors.values())).add_(1e-6)
    with pytest.raises(BackboneChanged):
        predictor.check()


def test_another_backbone_is_refused(folder: RunFolder, tmp_path: Path) -> None:
    save_models(tmp_path / "models", seed=6)
    model = folder.config.model.model_copy(update={"backbone": str(tmp_path / "models" / "vit")})
    config = folder.config.model_copy(update={"model": model})
    with pytest.raises(InputError, match="the backbone's weights are not those that this run was trained on"):
        Predictor(replace(folder, config=config))


def test_long_input_is_predicted_in_parts(
    folder: RunFolder, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"record {number}" for number in range(7)]
    records = [Record(name, (content,)) for name, content in zip(ids, contents, strict=True)]
    for strategy in ("all", "merged"):
        predictor = Predictor(folder, strategy)
        whole = predictor.predict(records)
        with monkeypatch.context() as patch:
            patch.setattr(inprocess, "TEST_PART", 3)
            parts = predictor.predict(records)
        assert parts.ids == whole.ids == tuple(ids)
        assert np.abs(parts.probabilities - whole.probabilities).max() < 1e-6
        assert len({tuple(row) for row in whole.probabilities.round(5).tolist()}) == 7


def test_wrong_records_are_named(folder: RunFolder, contents: list[bytes]) -> None:
    predictor = Predictor(folder)
    with pytest.raises(InputError, match="there is nothing to predict"):
        predictor.predict([])
    with pytest.raises(InputError, match="record '1': its content is not allowed"):
        predictor.predict([contents[0], ()])
    with pytest.raises(InputError, match="record '1': the image does not decode"):
        predictor.predict([contents[0], b"no image"])
    with pytest.raises(InputError, match="record 'b': the image does not decode"):
        predictor.predict([contents[0], Record("b", (b"no image",))])


def test_texts(texts: World, tmp_path: Path) -> None:
    run = train(texts.config("grouping.groups=2", "peft.kind=ia3"), tmp_path / "run", Quiet())
    written = [row.content for row in texts.rows[:5]]
    plain, tupled = (Predictor(run).predict(form) for form in (written, [(text,) for text in written]))
    assert np.array_equal(plain.probabilities, tupled.probabilities)
    assert plain.probabilities.shape == (5, 3)
    assert Predictor(run, "merged").predict(written).probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_threads_may_share_a_predictor(folder: RunFolder, images: World) -> None:
    predictor = Predictor(folder)
    parts = [[row.content for row in images.rows[start : start + 4]] for start in range(0, 24, 4)]
    alone = [predictor.predict(part).probabilities for part in parts]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda part: predictor.predict(part).probabilities, parts * 2))
    for found, expected in zip(together, alone * 2, strict=True):
        assert np.array_equal(found, expected)


def test_other_processes_never_use_what_is_dead(folder: RunFolder, contents: list[bytes]) -> None:
    """Two processes serve a run, each with modules in memory, while this one deletes."""
    context = multiprocessing.get_context("spawn")
    connections, processes = [], []
    for strategy in ("all", "merged"):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=answer, args=(folder.path, strategy, theirs), daemon=True))
        processes[-1].start()
        connections.append(ours)
    for connection in connections:
        assert len(ask(connection, contents)[1]) == 9
    for group in (1, 0):
        position = request(folder, group)
        live = {entry.key for entry in folder.live().modules()}
        for connection in connections:
            found, keys = ask(connection, contents)
            assert found >= position
            assert keys
            assert keys <= live
    for connection, process in zip(connections, processes, strict=True):
        connection.send(None)
        process.join(60)
        assert process.exitcode == 0


def some(contents: list[bytes]) -> Slice:
    return Slice("", (Record("a", (contents[0],)), Record("b", (contents[1],))))


def test_a_worker_keeps_what_it_is_told_to(folder: RunFolder, contents: list[bytes]) -> None:
    worker: Worker = Predictor(folder).worker
    chains = [folder.description.chain((0, 1)), folder.description.chain((2,))]
    before = worker.predict(chains, some(contents))
    worker.keep(chains[1])
    assert (set(worker.modules), worker.loaded) == (set(chains[1]), chains[1])
    worker.keep(())
    assert (set(worker.modules), worker.loaded) == (set(), ())
    assert np.array_equal(worker.predict(chains, some(contents)), before)


def test_merged_has_no_memory_of_what_was_loaded_before(folder: RunFolder, contents: list[bytes]) -> None:
    chains = [folder.description.chain((0, 1)), folder.description.chain((2,))]
    mixtures = [
        ((0.5, chains[0]), (0.5, chains[1])),
        ((0.7, chains[0]), (0.3, chains[1])),
        ((1.0, chains[1]),),
    ]
    alone = [Predictor(folder).worker.predict_merged(mixture, some(contents)) for mixture in mixtures]
    worker = Predictor(folder).worker
    for first, second in product(range(3), repeat=2):
        for number in (first, second):
            assert np.array_equal(worker.predict_merged(mixtures[number], some(contents)), alone[number])
        assert np.array_equal(worker.predict(chains[1:], some(contents))[0], alone[2])


def test_the_documented_example_runs(
    folder: RunFolder,
    contents: list[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parents[2] / "docs/serving.md").read_text(encoding="utf-8")
    code = "".join(line[4:] + "\n" for line in page.splitlines() if line.startswith("    "))
    shutil.copytree(folder.path, tmp_path / "runs" / "mine")
    (tmp_path / "digit.png").write_bytes(contents[0])
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert str(Predictor(folder).predict(contents[:1]).labels) in capsys.readouterr().out
