"""Verification of runs in which something is wrong: exactly that is found, and named."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from databases import tamper
from rebuild_child import broken, warm
from tiny_world import Quiet, World, build

from fedsgt.build.prepare import prepare
from fedsgt.build.train import train
from fedsgt.config import Config
from fedsgt.ledger.ledger import CorruptLedger
from fedsgt.proof.verify import Verification, verify
from fedsgt.runs.folder import RunFolder, ledger_url, open_run
from fedsgt.runs.records import load_clients
from fedsgt.store import Manifest, Origin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

Groups = tuple[int, ...]


def verdicts(found: Verification) -> dict[Groups, str]:
    assert len({entry.groups for entry in found.modules}) == len(found.modules)
    return {entry.groups: entry.verdict for entry in found.modules}


def reasons(found: Verification) -> dict[Groups, str]:
    return {entry.groups: entry.reason for entry in found.modules}


def hit(folder: RunFolder, images: World, group: int) -> None:
    """Delete one record of this group."""
    row = images.inside(prepare(folder.config), group)[0]
    assert unlearn(folder, [Deletion(row.client, records=(row.id,))]).groups == [group]


def changed(folder: RunFolder, groups: Groups, **about: object) -> None:
    """Store other tensors as a whole module, so that all of the store's own checks pass."""
    key = folder.description.keys[groups]
    tensors = {name: array.copy() for name, array in folder.modules.get(key).items()}
    next(iter(tensors.values())).flat[0] += 1e-6
    said = folder.modules.manifest(key).model_dump(exclude={"sha256"})
    folder.modules.put(Origin.model_validate(said | about), tensors)
    assert folder.modules.state(key) == "present"


def test_tampered_damaged_and_lost_modules(folder: RunFolder) -> None:
    """Each wrong module is named, and those trained on top of it are found to be right."""
    changed(folder, (0,))
    changed(folder, (0, 1), machine={"cpu": "another"})
    changed(folder, (0, 1, 2), profile={"torch": "another"})
    place = folder.path / "modules"
    tensors = place / folder.description.keys[2, 0, 1] / "module.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    (place / folder.description.keys[2, 0] / "module.safetensors").unlink()
    (place / folder.description.keys[1,] / "manifest.json").write_text("{}")
    shutil.rmtree(place / folder.description.keys[1, 2, 0])
    found = verify(folder, command=warm())
    assert verdicts(found) == {
        (0,): "different",
        (0, 1): "not comparable",
        (0, 1, 2): "damaged",
        (2,): "same",
        (2, 0): "damaged",
        (2, 0, 1): "damaged",
        (1,): "damaged",
        (1, 2): "same",
        (1, 2, 0): "missing",
    }
    why = reasons(found)
    assert "made under the same conditions" in why[0,]
    assert "machine cpu 'another'" in why[0, 1]
    assert "in another way than the run's" in why[0, 1, 2]
    assert "it has a manifest but no tensors" in why[2, 0]
    assert "not a safetensors file" in why[2, 0, 1]
    assert "is not in the store any more" in why[1, 2, 0]
    assert found.failed
    assert not found.passed


def test_a_parent_that_is_gone_is_missed_even_in_a_run_that_was_never_finished(
    folder: RunFolder, images: World
) -> None:
    hit(folder, images, 1)
    known = folder.live().description
    folder.describe_anew(
        known
    )  # as when training goes on: what is there now is no longer all there should be
    folder.modules.discard(known.keys[2,])
    found = verify(folder, command=warm())
    assert verdicts(found) == {(2,): "missing", (2, 0): "same", (0,): "same"}


def test_other_conditions_alone_are_no_failure(folder: RunFolder) -> None:
    changed(folder, (0, 1), machine={"cpu": "another"})
    found = verify(folder, command=warm())
    assert found.counts == {"same": 8, "not comparable": 1}
    assert (found.passed, found.failed) == (False, False)


def test_bytes_that_should_have_been_destroyed(folder: RunFolder, images: World) -> None:
    key = folder.description.keys[1, 2]
    origin, tensors = folder.modules.manifest(key), folder.modules.get(key)
    hit(folder, images, 1)
    folder.modules.put(origin, tensors)
    found = verify(folder, command=warm())
    assert verdicts(found) == {(1, 2): "not destroyed", (0,): "same", (2,): "same", (2, 0): "same"}
    assert found.failed


def test_a_deleted_record_left_in(folder: RunFolder, images: World, config: Config, tmp_path: Path) -> None:
    """A server trains one module on a deleted record, and says that it did not."""
    hit(folder, images, 1)
    folder = train(config, folder.path, Quiet())
    live = folder.live()
    assert verify(folder, command=warm()).counts == {"same": 9}

    honest = prepare(config, live.description, live.deleted)
    leaky = replace(honest, data=load_clients(config, live.description))
    elsewhere = RunFolder(tmp_path / "elsewhere", config, live.description)
    (target,) = [target for target in honest.targets if target.groups == (1,)]
    build(leaky, elsewhere, [target])
    said = folder.modules.manifest(target.key).model_dump(exclude={"sha256"})
    folder.modules.put(Origin.model_validate(said), elsewhere.modules.get(target.key))

    found = verify(folder, command=warm())
    assert {groups for groups, verdict in verdicts(found).items() if verdict != "same"} == {(1,)}
    assert verdicts(found)[1,] == "different"


# The code that trains is the code that verifies: a fault in it is in both processes.
LEAKS = [
    "shared_head",
    "head_left_in_worker",
    "global_order",
    "torch_order",
    "global_normalisation",
    "global_class_weights",
    "all_slices_of_a_client",
    "all_clients",
    "lower_layers_over_all_slices",
]


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_in_the_code_that_both_run(images: World, config: Config, tmp_path: Path, leak: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken(leak)(patch)
        folder = train(config, tmp_path / "run", Quiet())
    hit(folder, images, 1)
    found = verify(folder, command=warm(leak))
    assert verdicts(found).keys() == {(0,), (2,), (2, 0)}
    assert found.counts.keys() <= {"same", "different"}
    assert found.failed


@pytest.mark.parametrize("leak", ["shared_head", "global_order"])
def test_such_leaks_are_found_before_any_deletion(config: Config, tmp_path: Path, leak: str) -> None:
    """The order alone shows them, as it is never the plan's."""
    with pytest.MonkeyPatch.context() as patch:
        broken(leak)(patch)
        folder = train(config, tmp_path / "run", Quiet())
    for seed in range(3):
        assert verify(folder, seed=seed, command=warm(leak)).failed


def test_a_global_generator_shows_even_where_only_one_order_is_possible(
    images: World, config: Config, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken("torch_order")(patch)
        folder = train(config, tmp_path / "run", Quiet())
    hit(folder, images, 1)
    hit(folder, images, 2)
    found = verify(folder, command=warm("torch_order"))
    assert verdicts(found) == {(0,): "different"}  # the first that was trained


def test_data_that_is_not_what_it_was(images: World, config: Config, tmp_path: Path) -> None:
    """Somebody changed a label, so the modules of its group cannot come from this data."""
    source = Path(shutil.copytree(config.data.source, tmp_path / "data"))
    own = images.config("peft.layers=1", f"data.source={source}")
    folder = train(own, tmp_path / "run", Quiet())
    row = images.inside(prepare(own), 2)[0]
    table = pq.read_table(source / "train.parquet")
    labels = [
        (label + 1) % 3 if name == row.id else label
        for name, label in zip(table["id"].to_pylist(), table["label"].to_pylist(), strict=True)
    ]
    pq.write_table(table.set_column(1, "label", pa.array(labels)), source / "train.parquet")
    found = verify(folder, command=warm())
    assert verdicts(found) == {
        tuple(entry.groups): "different" if 2 in entry.groups else "same"
        for entry in folder.description.modules
    }
    assert reasons(found)[1, 2] == (
        "the retained data of group 2 is not what the module says it was trained on"
    )


def test_a_ledger_that_was_changed(folder: RunFolder, images: World) -> None:
    hit(folder, images, 1)
    folder.ledger.close()
    tamper(
        ledger_url(folder.path, folder.config), "UPDATE fedsgt_ledger SET body = '{}' WHERE kind = 'request'"
    )
    with pytest.raises(CorruptLedger, match="entry 3 does not match its hash"):
        verify(open_run(folder.path), command=("false",))


def test_the_result_is_json(folder: RunFolder) -> None:
    found = json.loads(json.dumps(verify(folder, sample=1, command=warm()).to_json()))
    assert found["passed"] is True
    assert found["counts"] == {"same": len(found["modules"])}
    first = found["modules"][0]
    manifest = Manifest.from_bytes((folder.path / "modules" / first["key"] / "manifest.json").read_bytes())
    assert first["groups"] == manifest.groups
    assert manifest.sha256 in first["reason"]
