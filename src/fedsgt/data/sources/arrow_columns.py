"""Columns of an Arrow table after a deletion: nothing of deleted rows may be left, nor anything else lost.

Arrow stores equal values once, in a dictionary that a filter leaves whole; metadata can quote values too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fedsgt.errors import InputError
from fedsgt.files.optional import require

# Rows that are compared at a time: joined chunks of more than 2 GiB would not fit into one array.
_ROWS = 256
PANDAS = b"pandas"
# Entries that describe columns. Readers need them, and what they name stays in the schema anyway.
_NEEDED = (b"huggingface", b"PARQUET:field_id")


def filtered(rows: Any, mask: Any) -> Any:
    """Return the rows of a table for which the mask is true; Arrow itself cannot filter views."""
    schema = rows.schema
    kinds = require("pyarrow").schema([field.with_type(_without_views(field.type)) for field in schema])
    if kinds.equals(schema):
        return rows.filter(mask)
    return rows.cast(kinds.with_metadata(schema.metadata)).filter(mask).cast(schema)


def _without_views(kind: Any) -> Any:
    """Return the type with plain texts and bytes in the place of views."""
    arrow = require("pyarrow")
    if arrow.types.is_string_view(kind):
        return arrow.large_string()
    if arrow.types.is_binary_view(kind):
        return arrow.large_binary()
    if arrow.types.is_struct(kind):
        return arrow.struct([field.with_type(_without_views(field.type)) for field in kind])
    for is_list, list_of in (
        (arrow.types.is_list, arrow.list_),
        (arrow.types.is_large_list, arrow.large_list),
    ):
        if is_list(kind):
            return list_of(kind.value_field.with_type(_without_views(kind.value_type)))
    return kind


def compacted(rows: Any) -> Any:
    """Return the table with dictionaries of the values in use only; values, types and order stay."""
    arrow = require("pyarrow")
    columns = [
        arrow.chunked_array([_compacted(chunk) for chunk in column.chunks], column.type)
        if _has_dictionary(column.type)
        else column
        for column in rows.columns
    ]
    return arrow.Table.from_arrays(columns, schema=rows.schema)


def _compacted(array: Any) -> Any:
    """Return the array with every dictionary in it cut to the values in use."""
    arrow, compute = require("pyarrow"), require("pyarrow.compute")
    types, kind = arrow.types, array.type
    if not _has_dictionary(kind):
        return array
    if types.is_dictionary(kind):
        used = compute.unique(array.indices).drop_null().sort()  # sorted, to keep the order of categories
        places = compute.index_in(array.indices, value_set=used).cast(kind.index_type)
        return arrow.DictionaryArray.from_arrays(places, array.dictionary.take(used), ordered=kind.ordered)
    if types.is_struct(kind):
        inner = [_compacted(field) for field in array.flatten()]
        return arrow.StructArray.from_arrays(inner, fields=list(kind), mask=array.is_null())
    if types.is_list(kind) or types.is_large_list(kind):
        # Offsets are counted anew, because `flatten` leaves out what lies under a null.
        lengths = compute.fill_null(compute.list_value_length(array), 0)
        ends = compute.cumulative_sum(lengths.cast(arrow.int64()))
        offsets = arrow.concat_arrays([arrow.array([0], arrow.int64()), ends])
        offsets = offsets.cast(arrow.int32() if types.is_list(kind) else arrow.int64())
        values = _compacted(array.flatten())
        return type(array).from_arrays(offsets, values, type=kind, mask=array.is_null())
    raise InputError(f"a column of type {kind} cannot be freed of deleted values")


def _has_dictionary(kind: Any) -> bool:
    if require("pyarrow").types.is_dictionary(kind):
        return True
    inner = (kind.storage_type,) if hasattr(kind, "storage_type") else map(kind.field, range(kind.num_fields))
    return any(_has_dictionary(getattr(field, "type", field)) for field in inner)


def same_values(ours: Any, theirs: Any) -> bool:
    """Whether two tables have the same columns with the same values, bit by bit, however they are stored."""
    if ours.num_rows != theirs.num_rows or not ours.schema.equals(theirs.schema):
        return False
    return all(
        _same(*(column.slice(start, _ROWS).combine_chunks() for column in pair))
        for pair in zip(ours.columns, theirs.columns, strict=True)
        for start in range(0, ours.num_rows, _ROWS)
    )


def _same(ours: Any, theirs: Any) -> bool:
    """Compare two arrays of one type; their dictionaries may differ in order, and NaN equals NaN."""
    compute, types, kind = require("pyarrow.compute"), require("pyarrow").types, ours.type
    if types.is_dictionary(kind):
        # Both in places of our dictionary, so that no value is copied for each row that has it.
        known = ours.dictionary
        places = [compute.index_in(side.dictionary, value_set=known) for side in (ours, theirs)]
        return bool(places[0].take(ours.indices).equals(places[1].take(theirs.indices)))
    if types.is_struct(kind):
        pairs = zip(ours.flatten(), theirs.flatten(), strict=True)
        return bool(ours.is_null().equals(theirs.is_null())) and all(_same(*pair) for pair in pairs)
    if types.is_list(kind) or types.is_large_list(kind):
        lengths = [compute.list_value_length(side) for side in (ours, theirs)]
        return bool(lengths[0].equals(lengths[1])) and _same(ours.flatten(), theirs.flatten())
    if types.is_floating(kind):
        bits = f"int{kind.bit_width}"
        return bool(ours.view(bits).equals(theirs.view(bits)))
    return bool(ours.equals(theirs))


def texts_in(value: object) -> Iterator[bytes]:
    """Yield every text and all bytes inside a row."""
    if isinstance(value, str | bytes):
        yield value.encode(errors="surrogatepass") if isinstance(value, str) else value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


def schema_without(schema: Any, gone: Iterable[bytes]) -> Any:
    """Return the schema without metadata that quotes one of these values of deleted rows."""
    told = [value for thing in (schema, *schema) for value in (thing.metadata or {}).values()]
    quoted = _pattern(gone, told)
    fields = [field.with_metadata(_without(field.metadata, quoted)) for field in schema]
    return require("pyarrow").schema(fields, _without(schema.metadata, quoted))


def _pattern(values: Iterable[bytes], told: Sequence[bytes]) -> re.Pattern[bytes] | None:
    """Return a pattern of the values that are anywhere in these texts; None if there are none."""
    longest, forms = max(map(len, told), default=0), set()
    for value in values:
        if len(value) > longest:  # such as an image
            continue
        # Metadata is mostly JSON, which writes some letters in another way.
        text = json.dumps(value.decode(errors="replace"))[1:-1].encode()
        forms |= {form for form in (value, text) if form.strip() and any(form in one for one in told)}
    if not forms:
        return None
    # Whole words only, or the id 7 would be found in every number.
    return re.compile(rb"(?<!\w)(?:" + b"|".join(map(re.escape, sorted(forms))) + rb")(?!\w)")


def _without(
    metadata: Mapping[bytes, bytes] | None, quoted: re.Pattern[bytes] | None
) -> Mapping[bytes, bytes] | None:
    if metadata is None or quoted is None:
        return metadata
    left = {}
    for name, value in metadata.items():
        if name in _NEEDED or not quoted.search(value):
            left[name] = value
        elif name == PANDAS:
            left[name] = _without_attributes(value)
    return left


def _without_attributes(value: bytes) -> bytes:
    """Remove from pandas' description of a frame what its author put there; columns and index stay."""
    described = json.loads(value)
    described.pop("attributes", None)
    return json.dumps(described).encode()
