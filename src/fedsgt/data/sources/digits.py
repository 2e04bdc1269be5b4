"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8x8 grey pixels."""

from collections.abc import Iterable

from fedsgt.data.table import Table, rows_to_use
from fedsgt.errors import InputError
from fedsgt.files.optional import require

LABELS = 10
# By index modulo 5. No client holds the public part: the bundled backbone was pretrained on it.
PARTS = {"train": (0, 1, 2), "public": (3,), "test": (4,)}
# Uncompressed, so that the bytes depend on no compressor's version.
_PGM_HEADER = b"P5 8 8 255\n"


def digits_table(part: str, *, labels: int | None, limit: int | None) -> Table:
    """One part of the digits; each image is a PGM file."""
    if labels not in (None, LABELS):
        raise InputError(
            f"data.labels is {labels}, but digits has {LABELS} labels; allowed: {LABELS} or none"
        )
    data = require("sklearn.datasets").load_digits()
    indices = [index for index in range(len(data.target)) if index % 5 in PARTS[part]]
    ids = [f"digits-{index:04d}" for index in indices]
    rows = rows_to_use(ids, limit)
    images, targets = data.data[indices].astype(int), data.target[indices]
    return Table(
        ids=tuple(ids[row] for row in rows),
        labels=tuple(targets[rows].tolist()),
        contents=tuple((_pgm(pixels),) for pixels in images[rows].tolist()),
        owners=None,
        label_count=LABELS,
        label_names=tuple(map(str, range(LABELS))),
    )


def _pgm(pixels: Iterable[int]) -> bytes:
    """A PGM file of 64 values from 0 to 16, scaled to 0..255 and rounded."""
    return _PGM_HEADER + bytes((value * 255 + 8) // 16 for value in pixels)
