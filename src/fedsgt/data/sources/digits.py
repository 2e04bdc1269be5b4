"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8x8 grey pixels."""

from collections.abc import Iterable

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


def load_digits(part: str, *, labels: int | None, limit: int | None) -> Dataset:
    """Return one part of the digits; each image is a PGM file."""
    if labels not in (None, LABELS):
        raise InputError(
            f"data.labels is {labels}, but digits has {LABELS} labels; allowed: {LABELS} or none"
        )
    data = require("sklearn.datasets").load_digits()
    indices = [index for index in range(len(data.target)) if index % 5 in PARTS[part]]
    ids = [f"digits-{index:04d}" for index in indices]
    # Python numbers, not numpy's: labels are hashed and written to JSON.
    images, targets = data.data[indices].astype(int).tolist(), data.target[indices].tolist()
    records = (Record(ids[row], (_pgm(images[row]),), targets[row]) for row in rows_to_use(ids, limit))
    return Dataset(tuple(records), LABELS, tuple(map(str, range(LABELS))))


def _pgm(pixels: Iterable[int]) -> bytes:
    """Return a PGM file of 64 values from 0 to 16, scaled to 0..255 and rounded."""
    return _PGM_HEADER + bytes((value * 255 + 8) // 16 for value in pixels)
