"""`fedsgt init`: a starter file, or a configuration for a file of one's own that runs as it is."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command import Done, fedsgt
from tiny_world import World

from fedsgt.cli.commands.init import STARTER
from fedsgt.cli.views.starter import purpose_words
from fedsgt.config import load
from fedsgt.planning.purpose import Purpose, setting_for
from fedsgt.runs.folder import open_run
from fedsgt.runs.records import load_clients, load_test

ONE_PROCESS = ("-s", "engine.workers=0")


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def notes(count: int, owners: int = 0) -> list[dict[str, Any]]:
    """Return rows of texts with two labels; some owners have more of them than others."""
    rows = []
    for number in range(count):
        owner = {"site": f"s{number % (number % owners + 1)}"} if owners else {}
        rows.append(
            {"id": f"n{number:04}", "text": f"w{number % 2} w{number % 7}", "label": number % 2, **owner}
        )
    return rows


def trained_as_it_is(folder: Path, *options: str) -> Path:
    done = fedsgt("train", "my.toml", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "my"


def test_init_does_not_write_over_a_file(tmp_path: Path) -> None:
    write_csv(tmp_path / "notes.csv", notes(60))
    for options in ((), ("--data", "notes.csv")):
        (tmp_path / "mine.toml").write_text("[data]\n")
        done = fedsgt("init", "mine.toml", *options, cwd=tmp_path)
        assert done.returncode == 2
        assert "is there already" in done.stderr
        assert (tmp_path / "mine.toml").read_text() == "[data]\n"
        assert fedsgt("init", "mine.toml", *options, "--force", cwd=tmp_path).returncode == 0
        assert (tmp_path / "mine.toml").read_text() != "[data]\n"


def test_a_csv_of_image_paths_is_trained_as_it_is(images: World, tmp_path: Path) -> None:
    rows = []
    for row in images.rows:
        place = tmp_path / "scans" / "pictures" / f"{row.id}.pgm"
        place.parent.mkdir(parents=True, exist_ok=True)
        assert isinstance(row.content, bytes)
        place.write_bytes(row.content)
        kind = ("benign", "malign", "none")[row.label]
        rows.append(
            {"Patient": row.id, "File": f"pictures/{row.id}.pgm", "Class": kind, "Hospital": row.client}
        )
    write_csv(tmp_path / "scans" / "scans.csv", rows)
    done = fedsgt("init", "my.toml", "--data", "scans/scans.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "scans/scans.csv: 48 records (csv)",
        "  input    'File' (paths of images)",
        "  label    'Class': 3 labels (benign, malign, none)",
        "  id       'Patient': a value of its own in every row, which must stay the record's for good",
        "  clients  'Hospital': 4 owners with 12 records",
        "  test     no test part: 20% of the records are kept for testing, chosen by a hash of the id",
        "  groups   2, of 1 slice a client",
        "  for      deletions of records and of whole clients: no module is live after about 3.0 deletions "
        "of records or slices, or after about 2.3 of 4 clients left whole",
        "  model    fedsgt/tiny-vit",
        "Wrote my.toml. Next: fedsgt train my.toml",
    ]
    run = open_run(trained_as_it_is(tmp_path, *ONE_PROCESS))
    assert [client.name for client in run.description.clients] == ["c0", "c1", "c2", "c3"]
    assert run.description.label_names == ["benign", "malign", "none"]


def test_a_folder_of_images_is_trained_as_it_is(images: World, tmp_path: Path) -> None:
    for row in images.rows:
        place = tmp_path / "photos" / ("cat", "dog", "eel")[row.label] / f"{row.id}.pgm"
        place.parent.mkdir(parents=True, exist_ok=True)
        assert isinstance(row.content, bytes)
        place.write_bytes(row.content)
    done = fedsgt("init", "my.toml", "--data", "photos", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "  id       the path of the image in the folder" in done.stdout
    run = open_run(trained_as_it_is(tmp_path))
    assert run.description.label_names == ["cat", "dog", "eel"]


def test_lines_of_texts_are_trained_as_they_are(texts: World, tmp_path: Path) -> None:
    lines = [{"review": row.content, "key": row.id, "stars": row.label + 1} for row in texts.rows]
    (tmp_path / "reviews.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    backbone = str(texts.folder / "bert")
    done = fedsgt("init", "my.toml", "--data", "reviews.jsonl", "--backbone", backbone, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = open_run(trained_as_it_is(tmp_path, *ONE_PROCESS))
    assert run.description.label_names == ["1", "2", "3"]
    assert load(tmp_path / "my.toml").model.backbone == backbone


def test_a_model_for_texts_comes_from_the_hub(tmp_path: Path) -> None:
    write_csv(tmp_path / "notes.csv", notes(60))
    fedsgt("init", "my.toml", "--data", "notes.csv", cwd=tmp_path)
    assert load(tmp_path / "my.toml").model.backbone == "sentence-transformers/all-MiniLM-L6-v2"
    assert "fetched from the hub once" in (tmp_path / "my.toml").read_text()


@pytest.mark.parametrize("owners", [0, 2, 5])
@pytest.mark.parametrize("count", [12, 30, 75, 400, 1100])
def test_every_number_of_records_gets_sizes_that_it_can_carry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, owners: int
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "notes.csv", notes(count, owners))
    done = fedsgt("init", "my.toml", "--data", "notes.csv")
    assert done.returncode == 0, done.stderr
    config = load(tmp_path / "my.toml")
    clients = load_clients(config).local
    assert sum(len(client.records) for client in clients) + len(load_test(config)) == count
    assert 2 <= config.grouping.groups <= sum(client.slices for client in clients)
    assert config.data.partition == ("given" if owners and count >= 10 * owners else "dirichlet")


def test_nothing_in_the_data_can_write_settings(tmp_path: Path) -> None:
    """Names of columns, labels and files stand in comments and in texts of TOML."""
    evil = 'x"\n[privacy]\nepsilon = 1 # \\'
    rows = [{"id": f"a{n}", evil: "word " * 9 + str(n), "label\r": f"{n % 2}{evil}"} for n in range(40)]
    name = 'my "data" #1.csv'
    write_csv(tmp_path / name, rows)
    done = fedsgt("init", "my.toml", "--data", name, "--label-column", "label\r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    config = load(tmp_path / "my.toml")
    assert config.data.source == name
    assert config.data.input_columns == [evil]
    assert config.data.label_names == [f"0{evil}", f"1{evil}"]
    assert config.privacy.epsilon is None
    assert all(line.isprintable() for line in done.stdout.splitlines())


def test_the_data_are_never_written_over(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "notes.csv", notes(60))
    (tmp_path / "link.toml").symlink_to(table)
    before = table.read_bytes()
    for name in ("notes.csv", "./notes.csv", "link.toml"):
        done = fedsgt("init", name, "--data", "notes.csv", "--force", cwd=tmp_path)
        assert done.returncode == 2
        assert "the configuration would replace the data" in done.stderr
    assert table.read_bytes() == before


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("--data", "note.csv"), "--data 'note.csv' does not exist; did you mean 'notes.csv'?"),
    (("--data", "empty.csv"), "empty.csv: it is empty"),
    (("--data", "notes.txt"), "is of no known format; allowed: a .csv, .jsonl or .parquet file"),
    (("--data", "same.csv"), "no column has ids: a value of its own in every row"),
    (("--data", "same.csv"), "name one with --id-column NAME, or '#row' if rows never move"),
    (("--data", "notes.csv", "--id-column", "label"), "--id-column 'label' has no ids"),
    (("--data", "notes.csv", "--label-column", "nope"), "--label-column 'nope' is no column"),
    (("--data", "few.csv"), "nothing was written"),
    (("--id-column", "id"), "together with --data PATH; nothing was written"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_input_is_one_line_and_nothing_is_written(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    write_csv(tmp_path / "notes.csv", notes(60))
    write_csv(tmp_path / "few.csv", notes(2))
    write_csv(tmp_path / "same.csv", [{"text": "a b", "label": number % 2} for number in range(9)])
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "notes.txt").write_text("id,text,label\n")
    before = sorted(tmp_path.iterdir())
    done: Done = fedsgt("init", "my.toml", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
    assert message in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_row_numbers_are_taken_if_asked_for(tmp_path: Path) -> None:
    write_csv(tmp_path / "same.csv", [{"text": "a b", "label": number % 2} for number in range(60)])
    done = fedsgt("init", "my.toml", "--data", "same.csv", "--id-column", "#row", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "my.toml").data.id_column == "#row"
    assert "rows must never move" in (tmp_path / "my.toml").read_text()


def test_the_starter_is_the_demos_for_both_kinds_of_deletions(tmp_path: Path) -> None:
    done = fedsgt("init", "my.toml", cwd=tmp_path)
    assert (tmp_path / "my.toml").read_text() == STARTER.read_text()
    assert done.stdout.splitlines() == [
        "For deletions of records and of whole clients: no module is live after about 29.3 deletions of "
        "records or slices, or after about 7.7 of 10 clients left whole",
        "Wrote my.toml. Next: fedsgt train my.toml",
    ]


@pytest.mark.parametrize("purpose", Purpose)
def test_what_is_written_for_a_purpose_withstands_what_is_said(tmp_path: Path, purpose: Purpose) -> None:
    done = fedsgt("init", "my.toml", "--for", purpose, cwd=tmp_path)
    setting, config = setting_for(purpose, 10), load(tmp_path / "my.toml")
    assert done.stdout.startswith(f"For {purpose_words(setting)}\n")
    assert config.model_dump(exclude={"grouping"}) == load(STARTER).model_dump(exclude={"grouping"})
    assert config.grouping.groups == setting.groups
    planned = json.loads(fedsgt("plan", "my.toml", "--json", cwd=tmp_path).stdout)
    assert planned["deletion_rate_clients"] == pytest.approx(setting.clients_withstood)
    assert planned["cost"]["passes"] <= 10
    assert planned["plan"]["roots"] == list(range(setting.groups))


@pytest.mark.parametrize(("purpose", "limits"), [("records", None), ("clients", 1), ("both", 1)])
def test_data_get_groups_for_their_purpose(tmp_path: Path, purpose: str, limits: int | None) -> None:
    write_csv(tmp_path / "notes.csv", [{**row, "site": f"s{n % 24}"} for n, row in enumerate(notes(1300))])
    done = fedsgt("init", "my.toml", "--data", "notes.csv", "--for", purpose, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    grouping = load(tmp_path / "my.toml").grouping
    assert (grouping.groups, grouping.limits) == (10, limits)
    assert grouping.slices == (5 if purpose == "records" else 1)
    assert "of 24 clients left whole" in done.stdout
