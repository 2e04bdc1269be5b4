"""The folder in which people give wrong inputs: settings, data, models, keys, and a run with a deletion."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from command import fedsgt, shown
from tiny_world import image_rows, save_models, text_rows, write_rows

SETTINGS = """\
[data]
source = "data"
partition = "given"
clients = 4
labels = 3
[grouping]
slices = 2
groups = 3
[model]
backbone = "models/vit"
device = "cpu"
[peft]
rank = 2
[training]
epochs = 1
batch_size = 4
[engine]
workers = 0
"""


def make_place(folder: Path) -> None:
    """Fill the folder; the caller has set FEDSGT_STATE to a folder in it."""
    folder.mkdir()
    save_models(folder / "models")
    write_rows(folder / "data", image_rows(), "image")
    write_rows(folder / "sentences", text_rows(), "sentence")
    (folder / "my.toml").write_text(SETTINGS)
    texts = SETTINGS.replace('"data"', '"sentences"\ntest = "sentences/test.parquet"')
    (folder / "text.toml").write_text(texts.replace('vit"', 'bert"\ntask = "text"'))
    write_bad_tables(folder / "bad", folder / "data" / "train.parquet")
    done = fedsgt("train", "my.toml", "-o", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    done = fedsgt("unlearn", "run", "--client", "c0", "--slice", "0", "--key", "first", cwd=folder)
    assert done.returncode == 0, done.stderr
    shown("keys", str(folder / "fed"), "--client", "a")
    # The first look at a run leaves a high-water mark, and the first withdrawal of a client a lock.
    shown("show", str(folder / "run"))
    assert fedsgt("withdraw", str(folder / "fed" / "a"), "--all").returncode == 2


def write_bad_tables(folder: Path, good: Path) -> None:
    """Write copies of a parquet file, each with one thing wrong."""
    folder.mkdir()
    table = pq.read_table(good)

    def put(name: str, column: str, values: pa.Array) -> None:
        place = table.column_names.index(column)
        pq.write_table(table.set_column(place, column, values), folder / f"{name}.parquet")

    ids, labels, owners = (table.column(name).to_pylist() for name in ("id", "label", "client"))
    put("binary-ids", "id", pa.array([one.encode() for one in ids], pa.binary()))
    put("float-ids", "id", pa.array(range(len(ids)), pa.float64()))
    put("twice", "id", pa.array(["r001", *ids[1:]]))
    put("no-id", "id", pa.array([None, *ids[1:]]))
    put("empty-id", "id", pa.array(["", *ids[1:]]))
    put("text-labels", "label", pa.array([f"l{label}" for label in labels]))
    put("large-label", "label", pa.array([7, *labels[1:]]))
    put("no-label", "label", pa.array([None, *labels[1:]]))
    put("no-owner", "client", pa.array([None, *owners[1:]]))
    put("many-owners", "client", pa.array(["c9", *owners[1:]]))
    put("no-image", "image", pa.array([b"what", *table.column("image").to_pylist()[1:]]))
    put("null-image", "image", pa.array([None, *table.column("image").to_pylist()[1:]]))
    put("texts", "image", pa.array(["a text"] * len(ids)))
    put("odd-names", "client", pa.array(["c\x1b[31m0", *owners[1:]]))
    pq.write_table(table.slice(0, 0), folder / "empty.parquet")
    pq.write_table(table.drop(["id"]), folder / "without-id.parquet")
    pq.write_table(table.drop(["label", "image"]), folder / "without-two.parquet")
    (folder / "torn.parquet").write_bytes(good.read_bytes()[:-20])
    (folder / "text.parquet").write_text("no parquet\n")
