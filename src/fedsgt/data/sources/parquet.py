"""Parquet files: read one, find those of a folder, and rewrite one without deleted rows."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from fedsgt.data.sources.arrow import ERASED, check_columns
from fedsgt.data.sources.arrow_columns import compacted, filtered, same_values, schema_without, texts_in
from fedsgt.errors import InputError
from fedsgt.files.durable import finished_path, remove_abandoned, reported, sync_folder, unfinished_file
from fedsgt.files.locks import held_in_place, leads_to
from fedsgt.files.optional import require
from fedsgt.words import one_line

SUFFIX = ".parquet"
# Ends the names of new files while they are written, so that nobody takes one for a part of the folder.
ERASING = ".erasing"


def read_parquet(path: Path, columns: Sequence[str]) -> Any:
    """Return those columns of a parquet file as a pyarrow table."""
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            check_columns(file.schema_arrow.names, columns, str(path))
            return file.read(columns=list(columns))
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as a parquet file: {one_line(error)}") from error


def parts_of(folder: Path) -> dict[str, Path]:
    """Return the parts in a folder by name: `train` for train.parquet."""
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}")) if path.is_file()}


def training_file(source: str) -> Path | None:
    """Return the local parquet file with the source's training records; None if there is none."""
    path = Path(source).expanduser()
    if path.is_dir():
        path = parts_of(path).get("train", path)
    # Resolved, because a rewrite would replace a link and leave the records where it leads.
    return path.resolve() if path.is_file() else None


def other_links(path: Path) -> int:
    """Return how many other names the file has (hard links); a rewrite does not change what those lead to."""
    return path.stat().st_nlink - 1


def sweep_rewrites(path: Path) -> int:
    """Remove what killed rewrites of the file left beside it, which holds records; return how many."""
    path = path.resolve()
    # The first name is that of older versions.
    left = [path.with_name(f".{path.name}{ERASING}")]
    with reported("look into", path.parent), suppress(FileNotFoundError):
        left += [other for other in path.parent.iterdir() if finished_path(other) == _unnamed(path)]
    found = 0
    for unfinished in left:
        with reported("remove", unfinished):
            found += remove_abandoned(unfinished)
    if found:
        sync_folder(path.parent)
    return found


def rewrite_parquet(path: Path, id_column: str, gone: Collection[str]) -> int:
    """Take the rows of these ids out of the file, and return how many went; 0 leaves the file as it is.

    A reader sees the old file or the new one and nothing between, also after a crash. Whoever rewrites the
    same file waits. The new file is read again before it takes the old one's place; if anything fails,
    the old one stays and `InputError` says why.
    """
    path = path.resolve()  # a rename would replace a link and leave the records where it leads
    arrow = require("pyarrow")
    try:
        with held_in_place(path) as old:
            sweep_rewrites(path)
            leaving = _rewrite(path, old, id_column, gone)
    except (OSError, UnicodeDecodeError, arrow.ArrowException, InputError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or one_line(error)
        raise InputError(
            f"{path}: deleted records cannot be taken out of it ({reason}); the file was not changed"
        ) from error
    if leaving:
        with reported("sync", path.parent):
            sync_folder(path.parent)  # the rename itself must be durable too
    return leaving


def _rewrite(path: Path, old: BinaryIO, id_column: str, gone: Collection[str]) -> int:
    stamp = _stamp(old)
    with _opened(old) as source:
        masks = _staying(source, id_column, gone)
        leaving: int = sum(mask.false_count for mask in masks)
        if not leaving:
            return 0
        schema = _new_schema(source, masks, gone)
        with unfinished_file(_unnamed(path)) as (unfinished, new):
            _write(source, masks, schema, new)
            _take_over(old, new)
            os.fsync(new.fileno())  # before the rename, or a power cut could leave an empty file
            # Pages in memory are given up, so that what is checked is what the disk has.
            os.posix_fadvise(new.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            _check(source, masks, schema, new, id_column, gone)
            if not leads_to(path, old) or _stamp(old) != stamp:
                raise InputError("another program changed it meanwhile; try again")
            unfinished.replace(path)
    return leaving


def _opened(file: BinaryIO) -> Any:
    # Without a buffer of a whole row group, which takes memory and saves no time.
    return require("pyarrow.parquet").ParquetFile(file, pre_buffer=False)


def _stamp(file: BinaryIO) -> tuple[int, int]:
    """Return what changes whenever the open file is written."""
    status = os.fstat(file.fileno())
    return status.st_mtime_ns, status.st_size


def _unnamed(path: Path) -> Path:
    return path.with_name(path.name + ERASING)


def _staying(source: Any, id_column: str, gone: Collection[str]) -> list[Any]:
    """Return a mask of the rows that stay, for each row group."""
    arrow = require("pyarrow")
    check_columns(source.schema_arrow.names, [id_column], "it")
    found = []
    for number in range(source.num_row_groups):
        ids = source.read_row_group(number, columns=[id_column]).column(id_column).to_pylist()
        found.append(arrow.array([value is None or str(value) not in gone for value in ids], arrow.bool_()))
    return found


def _groups(source: Any, masks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the rows and the mask of each row group, one in memory at a time."""
    for number, mask in enumerate(masks):
        yield source.read_row_group(number), mask


def _new_schema(source: Any, masks: Sequence[Any], gone: Collection[str]) -> Any:
    schema = source.schema_arrow
    if any(thing.metadata for thing in (schema, *schema)):
        compute = require("pyarrow.compute")
        texts = {identifier.encode() for identifier in gone}
        for number, mask in enumerate(masks):
            if not mask.false_count:
                continue
            rows = source.read_row_group(number)
            texts.update(*map(texts_in, filtered(rows, compute.invert(mask)).to_pylist()))
        schema = schema_without(schema, texts)
    if not any(mask.true_count for mask in masks):
        # An empty file is an error unless it says that its records were deleted.
        schema = schema.with_metadata({**(schema.metadata or {}), ERASED: b"1"})
    return schema


def _write(source: Any, masks: Sequence[Any], schema: Any, new: BinaryIO) -> None:
    """Write the rows that stay, in the row groups and with the compression of the source."""
    parquet = require("pyarrow.parquet")
    with parquet.ParquetWriter(new, schema, **_storage(source)) as writer:
        for rows, mask in _groups(source, masks):
            left = compacted(filtered(rows, mask)).replace_schema_metadata(schema.metadata).cast(schema)
            if left.num_rows:
                writer.write_table(left, row_group_size=left.num_rows)
    new.flush()


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


def _take_over(old: BinaryIO, new: BinaryIO) -> None:
    """Give the new file the owner, group, access list and mode of the old one, as far as permitted."""
    status = os.fstat(old.fileno())
    mode = status.st_mode & 0o7777
    with suppress(PermissionError):
        os.fchown(new.fileno(), status.st_uid, -1)
    try:
        os.fchown(new.fileno(), -1, status.st_gid)
    except PermissionError:
        mode &= ~0o070  # rights of the old file's group are none of another group's
    os.fchmod(new.fileno(), mode)
    with suppress(OSError):  # not every file system has such attributes
        for name in os.listxattr(old.fileno()):
            os.setxattr(new.fileno(), name, os.getxattr(old.fileno(), name))


def _check(
    source: Any, masks: Sequence[Any], schema: Any, new: BinaryIO, id_column: str, gone: Collection[str]
) -> None:
    """Read the new file, and raise if it has not exactly the rows that stay."""
    with _opened(new) as written:
        found = written.num_row_groups
        expected = (filtered(rows, mask) for rows, mask in _groups(source, masks) if mask.true_count)
        right = (
            written.schema_arrow.equals(schema, check_metadata=True)
            and found == sum(mask.true_count > 0 for mask in masks)
            and all(same_values(rows, written.read_row_group(i)) for i, rows in enumerate(expected))
            and all(mask.false_count == 0 for mask in _staying(written, id_column, gone))
        )
    if not right:
        raise InputError("the new file does not read as it was to be written")
