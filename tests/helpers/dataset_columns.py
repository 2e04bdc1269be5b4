"""The records of a data set column by column, as tests write and compare them."""

from collections.abc import Iterable, Sequence

from fedsgt.data import Content, Dataset, Record


def made_dataset(
    ids: Sequence[str],
    labels: Sequence[int],
    contents: Sequence[Content],
    owners: Sequence[str] | None,
    label_count: int,
    label_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Return a data set of records that have these fields."""
    named = [None] * len(ids) if owners is None else owners
    fields = zip(ids, contents, labels, named, strict=True)
    return Dataset(tuple(Record(*values) for values in fields), label_count, label_names)


def ids_of(records: Iterable[Record]) -> tuple[str, ...]:
    return tuple(record.id for record in records)


def contents_of(records: Iterable[Record]) -> tuple[Content, ...]:
    return tuple(record.content for record in records)


def owners_of(records: Iterable[Record]) -> tuple[str | None, ...]:
    return tuple(record.owner for record in records)
