"""The registry of artefacts claims every file of a run, and finds and destroys each kind that is dead."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from command import fedsgt
from tiny_deletions import copied, prefixes, problems, trained_run
from tiny_world import World

from fedsgt.data import Client, Record
from fedsgt.engine.flower.traffic import Traffic
from fedsgt.errors import InputError
from fedsgt.proof.audit import audit
from fedsgt.runs import artefacts
from fedsgt.runs.artefacts import REGISTRY, ArtefactKind, kind_of
from fedsgt.runs.dependencies import Nothing, StoredFile, stored_files
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.kept_records import write_kept
from fedsgt.runs.state import NOTHING_DELETED
from fedsgt.runs.traffic import add_traffic
from fedsgt.serving.evaluation import evaluate
from fedsgt.serving.export import export_sequence
from fedsgt.store import Folder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, complete, preview, unlearn

# Modules in the top layer only, so that there are activations; both trackers, as each writes its own files.
SETTINGS = ("peft.layers=1", "heads.solve=true", "engine.trackers=['tensorboard', 'mlflow']")
SECRET = b"bytes that depend on deleted records"
BEFORE_ANY_REQUEST = 0
UNFINISHED = "0123456789abcdef"


pytestmark = pytest.mark.filterwarnings("ignore:The ``noload``")  # mlflow's own


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run", SETTINGS)


@pytest.fixture(scope="module")
def deleted(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run after one deletion of a slice, of which nothing is retrained."""
    folder = copied(source, tmp_path_factory.mktemp("deleted") / "run")
    unlearn(folder, [Deletion("c0", slices=(0,))])
    assert problems(folder) == []
    folder.ledger.close()
    return folder.path


def files_of(path: Path) -> set[str]:
    """Return all names in a folder that are not folders, links among them."""
    return {
        place.relative_to(path).as_posix()
        for place in path.rglob("*")
        if place.is_symlink() or not place.is_dir()
    }


def test_every_file_of_a_run_that_was_used_for_everything_is_claimed_by_one_kind(
    source: Path, images: World, tmp_path: Path
) -> None:
    folder = copied(source, tmp_path / "run")
    evaluate(folder)
    export_sequence(folder, 0, 1, None)
    add_traffic(folder, Traffic(rounds=1))
    copied(source, tmp_path / "other")
    assert fedsgt("report", str(folder.path), "--against", str(tmp_path / "other")).returncode == 0
    claimed = claimed_once(folder)
    assert claimed >= {"mlflow.db", "evaluation.json", "traffic.json", "compared.json"}
    assert f"statistics/backbone/0-{NOTHING_DELETED.mark}.safetensors" in claimed
    unlearn(folder, [Deletion("c1", slices=(0,))])
    evaluate(folder)
    assert fedsgt("report", str(folder.path)).returncode == 0
    live = folder.live().modules()[0].key
    folder.modules.save_checkpoint(live, 1, folder.modules.get(live), [{"c0": 1}])
    sequence = next(number for number, prefix in enumerate(prefixes(folder)) if prefix)
    export_sequence(folder, sequence, 1, folder.path / "export" / "sub" / "mine")
    (folder.path / f".{UNFINISHED}.run.json").write_text("half")
    names = claimed_once(folder)
    assert names >= {"report.html", "signing.key", "store.lock", "lock", f"rounds/{live}.safetensors"}
    assert [finding.name for finding in problems(folder)] == [
        f".{UNFINISHED}.run.json",
        *sorted(name for name in names if name.startswith("export/sub/")),
    ]


def claimed_once(folder: RunFolder) -> set[str]:
    found = {file.name: [kind for kind in REGISTRY if kind.claims(file)] for file in stored_files(folder)}
    assert found.keys() == files_of(folder.path), "a file of the folder is not listed"
    assert {name: kinds for name, kinds in found.items() if len(kinds) != 1} == {}
    return set(found)


def test_a_run_in_an_object_store_has_its_objects_claimed(images: World, tmp_path: Path) -> None:
    objects = tmp_path / "objects"
    folder = open_run(trained_run(images, tmp_path / "run", (f"store.url=file://{objects}",)))
    names = {file.name for file in stored_files(folder)}
    assert names == files_of(folder.path) | files_of(objects)
    assert all(kind_of(file) for file in stored_files(folder))
    (objects / f".{UNFINISHED}.lost").write_text("half")
    (objects / "notes.txt").write_text("mine")
    assert [finding.name for finding in problems(folder)] == [f".{UNFINISHED}.lost", "notes.txt"]
    folder.sweep()
    assert [finding.name for finding in problems(folder)] == ["notes.txt"]


FOREIGN = (
    "metrics.jsonl",
    "evaluation.json",
    "report.html",
    "mlflow.db",
    "tensorboard/events",
    "export/mine/model",
    "cache/" + "1" * 64 + "/x.activations",
)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_other_files_of_a_store_elsewhere_are_left_alone(kind: str, images: World, tmp_path: Path) -> None:
    """A bucket, or another run's folder, may have files that are called like those of a run."""
    url = f"file://{tmp_path / 'objects'}" if kind == "file" else "memory://other-files"
    folder = open_run(trained_run(images, tmp_path / "run", (f"store.url={url}", "peft.layers=1")))
    for name in FOREIGN:
        folder.modules.objects.write(name, SECRET)
    metrics = (folder.path / "metrics.jsonl").read_bytes()
    folder.sweep()
    unlearn(folder, [Deletion("c0", slices=(0,))])
    assert {name: folder.modules.objects.read(name) for name in FOREIGN} == dict.fromkeys(FOREIGN, SECRET)
    left = (folder.path / "metrics.jsonl").read_bytes()
    assert 0 < len(left) < len(metrics)
    assert set(left.splitlines()) <= set(metrics.splitlines())
    assert [finding.name for finding in problems(folder)] == sorted(FOREIGN)


def test_a_journal_that_vanishes_during_the_walk_stops_no_deletion(
    deleted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database of curves has one for moments only, while a training writes."""
    folder = copied(deleted, tmp_path / "run")

    def with_journal(folder: RunFolder) -> list[StoredFile]:
        return [*stored_files(folder), StoredFile("mlflow.db-journal", Folder(folder.path))]

    monkeypatch.setattr(artefacts, "stored_files", with_journal)
    unlearn(folder, [Deletion("c0", slices=(1,))])
    assert problems(folder) == []


# Each kind that depends on data, planted dead: the name of a file, and what to write there.
Recipe = Callable[[RunFolder], list[tuple[str, bytes]]]


def dead_key(folder: RunFolder) -> str:
    return folder.live().dead_modules()[0].key


def of_module(name: str) -> Recipe:
    return lambda folder: [(name.replace("KEY", dead_key(folder)), SECRET)]


def activations(folder: RunFolder) -> list[tuple[str, bytes]]:
    (mark,) = folder.live().hit_slices()
    return [(f"cache/{mark}/x.activations", SECRET), (f"cache/{mark}/x.12.tmp", SECRET)]


def put_aside(folder: RunFolder) -> list[tuple[str, bytes]]:
    (mark,) = folder.live().hit_slices()
    return [(f"cache/.{mark}/x.activations", SECRET)]


def over_the_marker(folder: RunFolder) -> list[tuple[str, bytes]]:
    (mark,) = folder.live().hit_slices()
    return [(f"cache/{mark}", SECRET)]


def unknown_slice(folder: RunFolder) -> list[tuple[str, bytes]]:
    return [("cache/" + "0" * 64 + "/x.activations", SECRET)]


def export(folder: RunFolder) -> list[tuple[str, bytes]]:
    note = json.dumps({"modules": [dead_key(folder)]}).encode()
    return [("export/mine/fedsgt.json", note), ("export/mine/adapter model", SECRET)]


def export_without_note(folder: RunFolder) -> list[tuple[str, bytes]]:
    return [("export/.mine.0123/adapter_model.safetensors", SECRET)]


def export_of_a_module_long_gone(folder: RunFolder) -> list[tuple[str, bytes]]:
    note = json.dumps({"modules": ["1" * 64]}).encode()
    return [("export/old/fedsgt.json", note), ("export/old/model", SECRET)]


def evaluation(folder: RunFolder) -> list[tuple[str, bytes]]:
    return [("evaluation.json", json.dumps({"position": 2, "said": SECRET.decode()}).encode())]


def page(folder: RunFolder) -> list[tuple[str, bytes]]:
    return [("report.html", b'<meta name="fedsgt-ledger" content="2">' + SECRET)]


def metrics(folder: RunFolder) -> list[tuple[str, bytes]]:
    good = (folder.path / "metrics.jsonl").read_bytes()
    line = json.dumps({"module": dead_key(folder), "said": SECRET.decode()}).encode()
    return [("metrics.jsonl", good + line + b"\n")]


def kept_records(folder: RunFolder) -> list[tuple[str, bytes]]:
    """Return a file of records that were given in memory, one of them in the slice that is deleted."""
    entry = folder.description.clients[0]
    made = Client.simulated(entry.name, (), len(entry.slices), folder.config.data.seed)
    deleted = next(name for name in map(str, range(99)) if made.slice_of(name) == 0)
    held = Client.simulated(entry.name, [Record(deleted, (SECRET,), 0)], len(entry.slices), 0)
    with TemporaryDirectory() as place:
        write_kept(Path(place), {0: held})
        return [("records/0.parquet", (Path(place) / "records" / "0.parquet").read_bytes())]


PLANTED: dict[str, Recipe] = {
    "kept records": kept_records,
    "module": of_module("modules/KEY/module.safetensors"),
    "manifest": of_module("modules/KEY/manifest.json"),
    "predictions": of_module("modules/KEY/test-0123456789abcdef.safetensors"),
    "copy of a module": of_module("modules/KEY/module.safetensors.bak"),
    "copies in a folder": of_module("modules/KEY/old/my module"),
    "checkpoint": of_module("rounds/KEY.safetensors"),
    "activations": activations,
    "activations put aside": put_aside,
    "activations over the marker": over_the_marker,
    "activations of an unknown slice": unknown_slice,
    "export": export,
    "export without a note": export_without_note,
    "export of a module long gone": export_of_a_module_long_gone,
    "evaluation": evaluation,
    "report": page,
    "metrics": metrics,
    "tensorboard": lambda folder: [("tensorboard/deep/events.1", SECRET)],
    "mlflow": lambda folder: [("mlflow.db", SECRET), ("mlflow.db-wal", SECRET)],
    "work": lambda folder: [
        (f"work/{UNFINISHED}/modules/.{UNFINISHED}.module.safetensors", SECRET),
        (f"work/{UNFINISHED}/records/0.parquet", SECRET),
    ],
    "work put aside": lambda folder: [(f"work/.{UNFINISHED}/records/0.parquet", SECRET)],
    "work over the marker": lambda folder: [(f"work/{UNFINISHED}", SECRET)],
    "statistic with deleted records": lambda folder: [
        (f"statistics/backbone/0-{NOTHING_DELETED.mark}.safetensors", SECRET)
    ],
    "statistic under a dead module": of_module(f"statistics/KEY/1-{NOTHING_DELETED.mark}.safetensors"),
    "statistic of an unknown mark": lambda folder: [
        (f"statistics/backbone/1-{UNFINISHED}.safetensors", SECRET)
    ],
    "statistic of nobody": lambda folder: [
        (f"statistics/backbone/99-{NOTHING_DELETED.mark}.safetensors", SECRET)
    ],
    "unfinished write of a statistic": of_module(
        f"statistics/KEY/.{UNFINISHED}.1-{NOTHING_DELETED.mark}.safetensors"
    ),
    "unfinished write": of_module(f"modules/KEY/.{UNFINISHED}.module.safetensors"),
    "unfinished write at the top": lambda folder: [(f".{UNFINISHED}.evaluation.json", SECRET)],
}


def plant(folder: RunFolder, recipe: Recipe) -> list[str]:
    planted = recipe(folder)
    for name, data in planted:
        place = folder.path / name
        if place.parent.is_file():  # the empty file in place of destroyed activations
            place.parent.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        os.utime(place, (BEFORE_ANY_REQUEST, BEFORE_ANY_REQUEST))
    return [name for name, _ in planted]


def holding(path: Path, data: bytes) -> list[str]:
    return [name for name in sorted(files_of(path)) if data in (path / name).read_bytes()]


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_dead_is_found_and_destroyed_by_the_next_deletion(
    name: str, deleted: Path, tmp_path: Path
) -> None:
    folder = copied(deleted, tmp_path / "run")
    names = plant(folder, PLANTED[name])
    assert [finding.name for finding in problems(folder)] == sorted(names)
    answer = unlearn(folder, [Deletion("c0", slices=(1,))])
    assert holding(folder.path, SECRET) == []
    assert problems(folder) == []
    assert answer.certificate is not None
    listed = {one["name"] for one in json.loads(answer.certificate.read_text())["body"]["destroyed"]}
    if not name.startswith("unfinished"):  # nobody knows what it was to become
        assert listed >= set(names)


def test_each_kind_that_depends_on_data_is_planted(deleted: Path, tmp_path: Path) -> None:
    """A kind that is new in the registry needs a recipe above."""
    planted: set[ArtefactKind | None] = set()
    for number, recipe in enumerate(PLANTED.values()):
        folder = copied(deleted, tmp_path / str(number))
        planted.update(kind_of(StoredFile(name, Folder(folder.path))) for name in plant(folder, recipe))
        folder.ledger.close()
    for kind in set(REGISTRY) - planted:
        assert isinstance(kind.made_of(StoredFile("any", Folder(tmp_path))), Nothing), kind.names


def test_live_files_of_each_kind_stay(deleted: Path, tmp_path: Path) -> None:
    """A deletion leaves all files that depend on live data only."""
    folder = copied(deleted, tmp_path / "run")
    evaluate(folder)
    export_sequence(folder, 1, 1, None)
    before = {name: (folder.path / name).read_bytes() for name in files_of(folder.path)}
    kept = {entry.key for entry in folder.live().modules() if not set(entry.groups) & hit_by_c0(folder)}
    unlearn(folder, [Deletion("c0", slices=(1,))])
    for name, data in before.items():
        top, _, rest = name.partition("/")
        if top == "modules" and rest.partition("/")[0] in kept:
            assert (folder.path / name).read_bytes() == data
    fingerprints = {fingerprint for client in folder.description.clients[1:] for fingerprint in client.slices}
    assert {name.split("/")[1] for name in files_of(folder.path) if name.startswith("cache/")} >= fingerprints


def hit_by_c0(folder: RunFolder) -> set[int]:
    return set(folder.description.groups_of[0])


# Links are named by the audit, and no request is accepted while one is in the place of files that depend on
# data. One that comes later is removed, if it is in the place of something dead, and never followed.

LINKS = {
    "all statistics": "statistics",
    "statistics under a dead module": "statistics/KEY",
    "a dead statistic": "statistics/KEY/1-0123456789abcdef.safetensors",
    "an export": "export/mine",
    "a file of an export": "export/mine/adapter_model.safetensors",
    "all exports": "export",
    "a dead module": "modules/KEY",
    "a dead module's tensors": "modules/KEY/module.safetensors",
    "dead activations": "cache/MARK",
    "a file of dead activations": "cache/MARK/x.activations",
    "curves": "tensorboard",
    "a database of curves": "mlflow.db",
    "an evaluation": "evaluation.json",
    "metrics": "metrics.jsonl",
    "a checkpoint": "rounds/KEY.safetensors",
    "a work folder": f"work/{UNFINISHED}",
    "all work folders": "work",
}


@pytest.mark.parametrize("target", ["file", "folder", "nowhere", "inside"])
@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_found_and_removed_and_what_it_leads_to_stays(
    name: str, target: str, deleted: Path, tmp_path: Path
) -> None:
    folder = copied(deleted, tmp_path / "run")
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    for place in (outside / "file", outside / "folder" / "file"):
        place.write_bytes(SECRET)
    (mark,) = folder.live().hit_slices()
    link = folder.path / LINKS[name].replace("KEY", dead_key(folder)).replace("MARK", mark)
    where = folder.path / "certificates" if target == "inside" else outside / target
    receipt = accept(folder, [Deletion("c0", slices=(1,))])
    make_link(link, where)
    named = link.relative_to(folder.path).as_posix()
    assert [finding.problem for finding in problems(folder) if finding.name == named] == [
        "a link or a device; put the file itself here, or remove it"
    ]
    answer = complete(folder, receipt)
    assert not link.is_symlink()
    assert (outside / "file").read_bytes() == (outside / "folder" / "file").read_bytes() == SECRET
    assert len(list((folder.path / "certificates").iterdir())) == 2
    assert problems(folder) == []
    assert answer.certificate is not None
    destroyed = json.loads(answer.certificate.read_text())["body"]["destroyed"]
    assert [one["kind"] for one in destroyed if one["name"] == named] == ["link"]


# Not for single files deeper down: a request does not wait until thousands of folders are looked through.
FOLDERS = [name for name in LINKS.values() if name.count("/") < 2]


@pytest.mark.parametrize("name", [*FOLDERS, "modules", "rounds", "cache"])
def test_a_request_is_refused_while_a_link_is_in_the_place_of_files(
    name: str, deleted: Path, tmp_path: Path
) -> None:
    """It would cost the live modules behind the link, and leave the dead ones."""
    folder = copied(deleted, tmp_path / "run")
    (mark,) = folder.live().hit_slices()
    link = folder.path / name.replace("KEY", dead_key(folder)).replace("MARK", mark)
    if link.is_dir() and link.parent == folder.path:  # as people do whose disk is full
        link.rename(tmp_path / "large disk")
        link.symlink_to(tmp_path / "large disk")
    else:
        make_link(link, tmp_path / "nowhere")
    before, head = files_of(tmp_path), folder.ledger.head()
    for request in (unlearn, preview):
        with pytest.raises(InputError, match=rf"{link}: a symbolic link.*nothing was changed"):
            request(folder, [Deletion("c0", slices=(1,))])
    with pytest.raises(InputError, match=rf"{link}: a symbolic link.*nothing was changed"):
        folder.describe_anew(folder.description)
    assert (files_of(tmp_path), folder.ledger.head()) == (before, head)


def make_link(link: Path, target: Path) -> None:
    """Put a link in place of whatever is there."""
    if link.is_dir():
        link.rename(link.with_name("gone"))
        for place in sorted(link.with_name("gone").rglob("*"), reverse=True):
            place.rmdir() if place.is_dir() else place.unlink()
        link.with_name("gone").rmdir()
    if link.parent.is_file():
        link.parent.unlink()
    link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


@pytest.mark.parametrize("name", ["notes", "signing.pub", "lock", "certificates/000003.json"])
def test_a_link_elsewhere_is_named_and_left(name: str, deleted: Path, tmp_path: Path) -> None:
    folder = copied(deleted, tmp_path / "run")
    place = folder.path / name
    other = tmp_path / "other"
    other.write_bytes(place.read_bytes() if place.exists() else SECRET)
    make_link(place, other)
    assert [finding.name for finding in audit(folder) if finding.problem] == [name]
    unlearn(folder, [Deletion("c0", slices=(1,))])
    assert place.is_symlink()
    assert other.exists()
