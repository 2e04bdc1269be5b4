"""Check a source by the headings of its files: their columns and the types of these. No row is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from fedsgt.data.dataset import Columns
from fedsgt.data.labels import Labels
from fedsgt.data.sources import FORMATS, check_no_owners
from fedsgt.data.sources.csv_files import hints_for
from fedsgt.data.sources.digits import PARTS, check_labels
from fedsgt.data.sources.files import TRAIN, Format, format_of
from fedsgt.data.sources.image_folders import ImageTable
from fedsgt.data.sources.parquet import parquet_heading
from fedsgt.data.sources.parts import ALLOWED, DIGITS, choose_part, is_place, local_parts, place_of_test
from fedsgt.data.sources.table import check_columns, dataset_from_table
from fedsgt.errors import InputError, told_by


def source_problems(
    source: str,
    columns: Columns,
    *,
    test: str | None = None,
    test_share: float | None = None,
    labels: int | None = None,
    label_names: Sequence[str] | None = None,
) -> Iterator[str]:
    """Yield all that is wrong with a source, as `load_dataset` would tell it; the hub is not asked."""
    parts: Mapping[str, Path] | None = None
    found: list[str] = []
    if source == DIGITS:
        yield from _digits_problems(columns, test, labels, label_names)
    else:
        try:
            parts = local_parts(source)
        except InputError as error:
            yield str(error)
    if parts is not None:
        known, train = partial(Labels.declared, labels, label_names), parts
        found += _part_problems(
            lambda: train[choose_part(train, source, TRAIN, test, test_share)[0]], columns, known
        )
        yield from found
    if test is not None and is_place(test):
        yield from _part_problems(lambda: place_of_test(test), columns)
    elif parts is not None and TRAIN in parts and not found:  # or the same would be told of both parts
        # A share that is split off has been checked with the rest of its part.
        yield from _part_problems(partial(_test_part, parts, source, test, test_share), columns)


def _test_part(
    parts: Mapping[str, Path], source: str, test: str | None, test_share: float | None
) -> Path | None:
    part, share = choose_part(parts, source, "test", test, test_share)
    return None if share else parts[part]


def _digits_problems(
    columns: Columns, test: str | None, labels: int | None, label_names: Sequence[str] | None
) -> Iterator[str]:
    yield from told_by(partial(check_no_owners, columns))
    yield from told_by(partial(check_labels, labels, label_names))
    if not columns.images:
        yield f'data.source: {DIGITS} are images; allowed for model.task: "image"'
    if test is not None and not is_place(test):
        yield from told_by(partial(choose_part, PARTS, DIGITS, "test", test, None))


def _missing_columns(path: Path, present: Sequence[str], columns: Columns, kind: Format) -> list[str]:
    if not present:
        names = ", ".join(map(repr, columns.names()))
        return [f"{path}: it is empty; allowed: records with the columns {names}"]
    hints = columns.hints()
    if kind == "csv" and hints_for(present, hints) is not hints:  # another separator than the comma
        return told_by(partial(check_columns, present, columns.names(), str(path), hints_for(present, hints)))
    return [
        line
        for name in columns.names()
        for line in told_by(partial(check_columns, present, [name], str(path), hints))
    ]


def _part_problems(
    find: Callable[[], Path | None],
    columns: Columns,
    known: Callable[[Sequence[str] | None, str], Labels] | None = None,
) -> Iterator[str]:
    """Yield what is wrong with one part; `known` raises unless its labels are declared."""
    try:
        path = find()
        if path is None:
            return
        kind = format_of(path)
        if kind is None:
            raise InputError(f"{path} is of no known format; allowed: {ALLOWED}")
        missing = []
        if kind != "images":
            missing = _missing_columns(path, FORMATS[kind].columns(path), columns, kind)
    except InputError as error:
        yield str(error)
        return
    yield from missing
    if missing:
        return
    heading = (
        parquet_heading(path, columns.names())
        if kind == "parquet"
        else ImageTable(path, [])
        if kind == "images"
        else None
    )
    if known is not None:
        declared = None if heading is None else heading.declared_names(columns.label)
        yield from told_by(partial(known, declared, str(path)))
    if heading is not None:
        # Without rows, what is left to check is types; two labels are enough for none.
        yield from told_by(partial(dataset_from_table, heading, columns, labels=2))
