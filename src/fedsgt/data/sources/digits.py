"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8x8 grey pixels."""

import gzip
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from fedsgt.data.dataset import Dataset, rows_to_use
from fedsgt.data.records import Record
from fedsgt.errors import InputError
from fedsgt.files.optional import require

LABELS = 10
# Rows of each part by their index modulo 5. No client holds the public part: the bundled backbone was
# pretrained on it.
PARTS = {"train": (0, 1, 2), "public": (3,), "test": (4,)}
# Uncompressed, so that the bytes depend on no compressor's version.
_PGM_HEADER = b"P5 8 8 255\n"
_FILE = Path("datasets", "data", "digits.csv.gz")  # inside scikit-learn


def load_digits(
    part: str, *, labels: int | None, label_names: Sequence[str] | None, limit: int | None
) -> Dataset:
    """Return one part of the digits; each image is a PGM file."""
    check_labels(labels, label_names)
    names = tuple(label_names or map(str, range(LABELS)))
    chosen = [(index, row) for index, row in enumerate(_rows()) if index % 5 in PARTS[part]]
    ids = [f"digits-{index:04d}" for index, _ in chosen]
    records = []
    for number in rows_to_use(ids, limit):
        *pixels, label = chosen[number][1]
        records.append(Record(ids[number], (_pgm(pixels),), label))
    return Dataset(tuple(records), LABELS, names)


def check_labels(labels: int | None, label_names: Sequence[str] | None) -> None:
    """Refuse another number of labels than the digits have."""
    named = None if label_names is None else len(label_names)
    for key, given in (("data.labels", labels), ("the number of data.label_names", named)):
        if given not in (None, LABELS):
            raise InputError(f"{key} is {given}, but digits has {LABELS} labels; allowed: {LABELS} or none")


def _rows() -> list[list[int]]:
    """Return the pixels of each digit followed by its label."""
    # The file is read here, because importing scikit-learn takes a second.
    package = find_spec("sklearn")
    file = Path(package.origin).parent / _FILE if package is not None and package.origin else None
    if file is None or not file.is_file():
        data = require("sklearn.datasets").load_digits()
        # Python numbers, not numpy's: labels are hashed and written to JSON.
        pairs = zip(data.data.astype(int).tolist(), data.target.tolist(), strict=True)
        return [[*pixels, label] for pixels, label in pairs]
    with gzip.open(file, "rt", encoding="ascii") as lines:
        return [[int(value) for value in line.split(",")] for line in lines]


def _pgm(pixels: Iterable[int]) -> bytes:
    """Return a PGM file of 64 values from 0 to 16, scaled to 0..255 and rounded."""
    return _PGM_HEADER + bytes((value * 255 + 8) // 16 for value in pixels)
