"""All commands give one answer about modules that are damaged, missing or not destroyed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command import Done, fedsgt, shown
from tiny_deletions import record_in, trained_run
from tiny_world import World

from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

Prefix = tuple[int, ...]
SEQUENCES = [[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]]
EXPECTED: dict[Prefix, str] = {
    (0, 1, 2): "damaged",
    (3,): "not destroyed",
    (2,): "missing",
    (1,): "damaged",
    (1, 2): "damaged",
}
SERVED = {(0,), (0, 1)}


@pytest.fixture(scope="module")
def broken(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of which five modules were spoilt, each in another way."""
    run = trained_run(images, tmp_path_factory.mktemp("broken") / "run", ["grouping.groups=4"])
    folder = open_run(run)
    assert folder.description.sequences == SEQUENCES
    aside = shutil.copytree(place(folder, (3,)), run.parent / "aside")
    client, record = record_in(images, folder, 3)
    unlearn(folder, [Deletion(client, records=(record,))])
    shutil.move(aside, place(folder, (3,)))
    flip(place(folder, (0, 1, 2)) / "module.safetensors")
    (place(folder, (1, 2)) / "manifest.json").write_text("{}")
    shutil.rmtree(place(folder, (2,)))
    (place(folder, (1,)) / "module.safetensors").unlink()
    return run


def place(folder: RunFolder, prefix: Prefix) -> Path:
    return folder.path / "modules" / folder.description.keys[prefix]


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def keys(run: Path) -> dict[str, Prefix]:
    return {key: prefix for prefix, key in open_run(run).description.keys.items()}


def sentences(run: Path) -> list[str]:
    """Return what every command should say, in the order of the plan."""
    problems = json.loads(shown("status", str(run), "--json"))["problems"]
    return [
        f"module {one['key'][:12]} (groups {', '.join(map(str, one['groups']))}) is {one['problem']}"
        for one in problems
    ]


def told(done: Done) -> dict[Prefix, str]:
    return {tuple(one["groups"]): one["verdict"] for one in json.loads(done.stdout)["problems"]}


def test_the_verdicts_are_those_expected(broken: Path) -> None:
    found = json.loads(shown("status", str(broken), "--json"))
    assert {tuple(one["groups"]): one["verdict"] for one in found["problems"]} == EXPECTED
    assert found["modules"] == {"live": 2, "wanted": 16}
    assert found["advice"] == "Retrain now: 4 modules missing or damaged."
    reasons = {tuple(one["groups"]): one["problem"] for one in found["problems"]}
    assert "its tensors hash to" in reasons[0, 1, 2]
    assert "it has a manifest but no tensors" in reasons[1,]
    assert "it was trained, and is not in the store any more" in reasons[2,]
    assert "group 3 was hit by request no. " in reasons[3,]
    assert all(f"; fedsgt retrain {broken} " in reason for reason in reasons.values())


def test_status_and_show_say_it_first(broken: Path) -> None:
    for command in ("status", "show"):
        lines = shown(command, str(broken)).splitlines()
        # The status on one screen breaks long lines.
        assert "".join(lines).replace(" ", "").startswith("".join(sentences(broken)).replace(" ", ""))
    assert told(fedsgt("show", str(broken), "--json")) == EXPECTED
    modules = json.loads(shown("show", str(broken), "--json"))["modules"]
    assert {tuple(one["prefix"]) for one in modules if one["live"]} == SERVED


def test_predict_and_evaluate_answer_without_them_and_say_so(broken: Path) -> None:
    done = fedsgt("predict", str(broken), "--test")
    assert (done.returncode, told(done)) == (0, EXPECTED)
    assert [tuple(one["groups"]) for one in json.loads(done.stdout)["sequences"]] == [(0, 1)]
    assert done.stderr.splitlines() == [
        f"fedsgt: predicted without it: {sentence}" for sentence in sentences(broken)
    ]
    done = fedsgt("evaluate", str(broken), "--json")
    assert json.loads(shown("show", str(broken), "--json"))["accuracy"] is not None
    assert [len(curve) for curve in json.loads(done.stdout)["sequences"]] == [2, 0, 0, 0]
    assert [line for line in done.stderr.splitlines() if "evaluated without it" in line] == [
        f"fedsgt: evaluated without it: {sentence}" for sentence in sentences(broken)
    ]


def test_verify_and_audit_fail_with_the_same_words(broken: Path) -> None:
    done = fedsgt("verify", str(broken), "--json", "--sample", "1")
    assert done.returncode == 1
    wrong = [one for one in json.loads(done.stdout)["modules"] if one["verdict"] != "same"]
    assert {tuple(one["groups"]): one["verdict"] for one in wrong} == EXPECTED
    said = [
        f"module {one['key'][:12]} (groups {', '.join(map(str, one['groups']))}) "
        f"is {one['verdict']}: {one['reason']}"
        for one in wrong
    ]
    assert sorted(said) == sorted(sentences(broken))
    done = fedsgt("audit", str(broken), "--json")
    assert done.returncode == 1
    known, found = keys(broken), set()
    for one in json.loads(done.stdout)["files"]:
        if one["problem"] is not None:
            key = one["name"].split("/")[1]
            found.add(f"module {key[:12]} ({one['depends_on']}) is {one['problem']}")
            assert known[key] in EXPECTED
    assert found == set(sentences(broken))


def test_report_and_dry_run_agree(images: World, broken: Path) -> None:
    found = json.loads(shown("report", str(broken), "--no-evaluate", "--json"))["status"]
    assert {tuple(one["groups"]): one["verdict"] for one in found["problems"]} == EXPECTED
    client, record = record_in(images, open_run(broken), 0)
    done = fedsgt(
        "unlearn", str(broken), "--client", client, "--records", "-", "--dry-run", "--json", given=record
    )
    assert told(done) == EXPECTED
    impact = json.loads(done.stdout)
    assert impact["before"]["live_modules"] == 2
    assert impact["modules_dying"] == [[0], [0, 1], [0, 1, 2]]
    done = fedsgt("unlearn", str(broken), "--client", client, "--records", "-", "--dry-run", given=record)
    assert done.stdout.splitlines()[:5] == sentences(broken)


def test_the_page_of_a_report_names_them(broken: Path, tmp_path: Path) -> None:
    shown("report", str(broken), "--no-evaluate", "-o", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert all(f'<p class="alarm">{sentence}</p>' in page for sentence in sentences(broken))


def test_an_evaluation_is_out_of_date_once_a_module_is_lost(broken: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(broken, tmp_path / "run"))
    assert fedsgt("evaluate", str(run)).returncode == 0
    report = ("report", str(run), "--no-evaluate", "--json")
    assert json.loads(shown(*report))["evaluation"] is not None
    shutil.rmtree(place(open_run(run), (0, 1)))
    assert json.loads(shown(*report))["evaluation"] is None
    assert json.loads(shown("show", str(run), "--json"))["accuracy"] is None


def test_retraining_mends_all_of_it(broken: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(broken, tmp_path / "run"))
    dead = place(open_run(run), (3,))
    assert dead.is_dir()
    assert fedsgt("retrain", str(run)).returncode == 0
    found = json.loads(shown("status", str(run), "--json"))
    assert (found["problems"], found["modules"]) == ([], {"live": 16, "wanted": 16})
    assert not dead.exists()
    assert fedsgt("audit", str(run)).returncode == 0
