"""Find the part of a source that a run trains or tests on: in a file or folder here, or on the hub."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from fedsgt.data.sources.files import SUFFIXES, TEST_PARTS, TRAIN, parts_of
from fedsgt.errors import InputError
from fedsgt.files.places import looks_like_hub_name, missing_place
from fedsgt.words import printable

Split: TypeAlias = Literal["train", "test", "public"]

DIGITS = "digits"
ALLOWED = (
    "a .csv, .jsonl or .parquet file, a folder with train.csv or the like, a folder of images by label, or "
    "one that the datasets library saved"
)


def is_place(text: str) -> bool:
    """Whether a text that may also name a part of a source means a file or folder."""
    return "/" in text or text.startswith((".", "~")) or Path(text).suffix.lower() in SUFFIXES


def local_parts(source: str) -> dict[str, Path] | None:
    """Return the parts of a source here; None if it may be a data set of the hub."""
    path = Path(os.path.expanduser(source))
    # A file that is there wins over a data set of that name on the hub: nothing is downloaded by surprise.
    if _exists(path, "data.source", source):
        parts = _parts_of(path)
        if path.is_file() and not parts:
            raise InputError(f"data.source {source!r} is of no known format; allowed: {ALLOWED}")
        return parts
    if looks_like_hub_name(source):
        return None
    allowed = f"{ALLOWED}, or owner/name on the hub"
    raise InputError(f"data.source {missing_place(source, [DIGITS], allowed)}")


def place_of_test(test: str) -> Path:
    """Return the file or folder that `data.test` names."""
    path = Path(os.path.expanduser(test))
    if not _exists(path, "data.test", test):
        raise InputError(f"data.test {missing_place(test, allowed=ALLOWED)}")
    parts = _parts_of(path)
    if list(parts.values()) != [path]:
        raise InputError(
            f"data.test {test!r} is not one part but {', '.join(parts) or 'of no known format'}; "
            f"allowed: {ALLOWED}"
        )
    return path


def choose_part(
    present: Iterable[str], source: str, split: Split, test: str | None, test_share: float | None
) -> tuple[str, float | None]:
    """Return the part for a split, and the share of it that is kept for testing, if it is for both."""
    names = list(present)
    if test is None and test_share and not any(name in names for name in TEST_PARTS):
        return _first((TRAIN,), names, source), test_share
    wanted = (split,) if split != "test" else TEST_PARTS if test is None else (test,)
    return _first(wanted, names, source), None


def _first(wanted: tuple[str, ...], names: list[str], source: str) -> str:
    """Return the first wanted part that the source has."""
    for name in wanted:
        if name in names:
            return name
    hint = "" if wanted == (TRAIN,) else "; set data.test to one of them, or to a file"
    raise InputError(
        f"data.source {source!r} has no part {' or '.join(wanted[:2])}; "
        f"its parts: {', '.join(names) or 'none'}{hint}"
    )


def _exists(path: Path, key: str, text: str) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise InputError(f"{key} {printable(text, 200)!r} cannot be looked at ({error.strerror})") from None


def _parts_of(path: Path) -> dict[str, Path]:
    try:
        return parts_of(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}: {error.filename})") from None
