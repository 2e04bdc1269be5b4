"""Hub data sets, without the hub: a data set in memory stands in for one, or there is no network."""

import io
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from dataset_columns import contents_of, ids_of

from fedsgt.data import Columns, load_dataset
from fedsgt.errors import InputError

datasets = import_module("datasets")
image = import_module("PIL.Image")

COLUMNS = Columns(("image",))


def jpeg(shade: int) -> bytes:
    buffer = io.BytesIO()
    image.new("L", (4, 4), shade).save(buffer, "JPEG")
    return buffer.getvalue()


def split(prefix: str, count: int) -> Any:
    features = datasets.Features(
        id=datasets.Value("string"), image=datasets.Image(), label=datasets.ClassLabel(names=["no", "yes"])
    )
    rows = {
        "id": [f"{prefix}{i}" for i in range(count)],
        "image": [{"bytes": jpeg(i), "path": None} for i in range(count)],
        "label": [i % 2 for i in range(count)],
    }
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Requests to a hub that has the splits train, of five records, and validation, of three."""
    calls: list[tuple[Any, ...]] = []

    def answered(*arguments: Any) -> Any:
        calls.append(arguments)
        return datasets.DatasetDict(train=split("t", 5), validation=split("v", 3))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", answered)
    return calls


def test_images_stay_encoded_and_the_labels_are_declared(asked: list[tuple[Any, ...]]) -> None:
    table = load_dataset("owner/name", COLUMNS)
    assert ids_of(table.records) == ("t0", "t1", "t2", "t3", "t4")
    assert contents_of(table.records) == tuple((jpeg(i),) for i in range(5))
    assert table.labels == (0, 1, 0, 1, 0)
    assert (table.label_count, table.label_names) == (2, ("no", "yes"))
    assert asked == [("owner/name", None)]


def test_the_test_split_is_found_or_named(asked: list[tuple[Any, ...]]) -> None:
    assert ids_of(load_dataset("own/name:config", COLUMNS, split="test").records) == ("v0", "v1", "v2")
    assert load_dataset("own/name:config", COLUMNS, split="test", test="train", limit=2).label_count == 2
    assert asked == [("own/name", "config")] * 2
    with pytest.raises(InputError, match=r"'own/name' has no part dev; its parts: train, validation; set"):
        load_dataset("own/name", COLUMNS, split="test", test="dev")


def test_rows_that_a_data_set_leaves_out_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = split("t", 5).select([3, 1])
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: datasets.DatasetDict(train=shown))
    table = load_dataset("own/name", COLUMNS)
    assert ids_of(table.records) == ("t1", "t3")
    assert contents_of(table.records) == ((jpeg(1),), (jpeg(3),))


@pytest.mark.usefixtures("asked")
def test_problems_name_the_data_set_and_the_split() -> None:
    with pytest.raises(
        InputError, match=r"^owner/name \(train\) has no column 'text'; its columns: 'id', 'im"
    ):
        load_dataset("owner/name", Columns(("text",)))
    with pytest.raises(
        InputError, match=r"^owner/name \(train\): column 'label' has the id '0' in rows 0 and 2"
    ):
        load_dataset("owner/name", Columns(("image",), id="label", label="id"), labels=2)


@pytest.mark.parametrize("source", ["./name", "../name", "/no/such/folder", "~/no-such", "name.parquet", "."])
def test_what_looks_like_a_path_never_goes_to_the_hub(source: str, asked: list[tuple[Any, ...]]) -> None:
    with pytest.raises(InputError, match=r"does not exist; .*\(allowed: a \.csv|has no part train"):
        load_dataset(source, COLUMNS)
    assert asked == []


@pytest.mark.parametrize("source", ["a/b/c", "a b", "name:", "a\\b", "name:x:y", "mnist", "own/x.csv"])
def test_what_cannot_be_a_hub_name_never_goes_there(source: str, asked: list[tuple[Any, ...]]) -> None:
    with pytest.raises(InputError, match=r"does not exist; .*, or owner/name on the hub\)$"):
        load_dataset(source, COLUMNS)
    assert asked == []


def test_a_folder_that_is_here_comes_before_the_hub(asked: list[tuple[Any, ...]]) -> None:
    Path("owner/name").mkdir(parents=True)
    with pytest.raises(InputError, match="'owner/name' has no part train; its parts: none"):
        load_dataset("owner/name", COLUMNS)
    assert asked == []


def test_a_failed_lookup_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def answered(*_: Any) -> Any:
        raise ValueError("Config name is missing.\nPlease pick one among\n\n['a', 'b']")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", answered)
    problem = r"^data\.source 'own/name' is neither .*: Config name is missing\. Please pick .* \['a', 'b'\]$"
    with pytest.raises(InputError, match=problem):
        load_dataset("own/name", COLUMNS)


def test_without_a_network_the_error_is_one_line(tmp_path: Path) -> None:
    """In a process of its own, since the hub's client reads the switch when it is first imported."""
    code = (
        "from fedsgt.data import Columns, load_dataset\nfrom fedsgt.errors import InputError\n"
        "try:\n    load_dataset('fedsgt/no-such-data', Columns(('image',)))\n"
        "except InputError as error:\n    print(error)"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.stdout.startswith("data.source 'fedsgt/no-such-data' is neither a file or folder here nor a ")
    assert done.stdout.count("\n") == 1
