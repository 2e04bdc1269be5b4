"""A parquet file without deleted rows: no byte of them in columns, dictionaries, statistics or metadata."""

from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

from fedsgt.data.sources.arrow import ERASED
from fedsgt.data.sources.arrow_columns import compacted, filtered, same_values, schema_without, texts_in
from fedsgt.data.sources.table import check_columns
from fedsgt.files.optional import require


class ParquetCut:
    """A parquet file without the rows of some ids, with the row groups and the compression that it had."""

    def __init__(self, old: BinaryIO, id_column: str, gone: Collection[str]) -> None:
        self._source, self._id_column, self._gone = _opened(old), id_column, gone
        self._masks = _staying(self._source, id_column, gone)
        self.leaving: int = sum(mask.false_count for mask in self._masks)
        self._schema: Any = self._new_schema() if self.leaving else None

    def write(self, new: BinaryIO) -> None:
        """Write the rows that stay."""
        parquet, schema = require("pyarrow.parquet"), self._schema
        with parquet.ParquetWriter(new, schema, **_storage(self._source)) as writer:
            for rows, mask in self._groups():
                left = compacted(filtered(rows, mask)).replace_schema_metadata(schema.metadata).cast(schema)
                if left.num_rows:
                    writer.write_table(left, row_group_size=left.num_rows)

    def is_whole(self, new: BinaryIO) -> bool:
        """Read the new file, and return whether it has exactly the rows that stay."""
        with _opened(new) as written:
            found = written.num_row_groups
            expected = (filtered(rows, mask) for rows, mask in self._groups() if mask.true_count)
            return (
                written.schema_arrow.equals(self._schema, check_metadata=True)
                and found == sum(mask.true_count > 0 for mask in self._masks)
                and all(same_values(rows, written.read_row_group(i)) for i, rows in enumerate(expected))
                and all(mask.false_count == 0 for mask in _staying(written, self._id_column, self._gone))
            )

    def _groups(self) -> Iterator[tuple[Any, Any]]:
        """Yield the rows and the mask of each row group, one in memory at a time."""
        for number, mask in enumerate(self._masks):
            yield self._source.read_row_group(number), mask

    def _new_schema(self) -> Any:
        schema = self._source.schema_arrow
        if any(thing.metadata for thing in (schema, *schema)):
            compute = require("pyarrow.compute")
            texts = {identifier.encode() for identifier in self._gone}
            for number, mask in enumerate(self._masks):
                if not mask.false_count:
                    continue
                rows = self._source.read_row_group(number)
                texts.update(*map(texts_in, filtered(rows, compute.invert(mask)).to_pylist()))
            schema = schema_without(schema, texts)
        if not any(mask.true_count for mask in self._masks):
            # An empty file is an error unless it says that its records were deleted.
            schema = schema.with_metadata({**(schema.metadata or {}), ERASED: b"1"})
        return schema


def _opened(file: BinaryIO) -> Any:
    # Without a buffer of a whole row group, which takes memory and saves no time.
    return require("pyarrow.parquet").ParquetFile(file, pre_buffer=False)


def _staying(source: Any, id_column: str, gone: Collection[str]) -> list[Any]:
    """Return a mask of the rows that stay, for each row group."""
    arrow = require("pyarrow")
    check_columns(source.schema_arrow.names, [id_column], "it")
    found = []
    for number in range(source.num_row_groups):
        ids = source.read_row_group(number, columns=[id_column]).column(id_column).to_pylist()
        found.append(arrow.array([value is None or str(value) not in gone for value in ids], arrow.bool_()))
    return found


def _storage(source: Any) -> dict[str, Any]:
    """Return how the columns of the first row group are stored, as the writer wants to be told."""
    group = source.metadata.row_group(0)
    columns = {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}
    codecs = {path: column.compression for path, column in columns.items()}
    return {
        "compression": {path: "NONE" if name == "UNCOMPRESSED" else name for path, name in codecs.items()},
        # Arrow cannot read several row groups whose dictionaries are inside of structures, so none is added.
        "use_dictionary": [path for path, column in columns.items() if "DICTIONARY" in str(column.encodings)],
    }
