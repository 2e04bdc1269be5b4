"""Folders of images, one folder for each label: `cat/001.png` has the label `cat`, and its path is its id."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fedsgt.data.dataset import ROW, Columns
from fedsgt.data.sources.files import image_files, label_folders
from fedsgt.data.sources.image_paths import image_bytes
from fedsgt.data.sources.table import Table
from fedsgt.errors import InputError
from fedsgt.files.encoding import is_unicode


class ImageTable(Table):
    """Images of a folder by their paths inside it, with `/` between label and name."""

    def __init__(self, folder: Path, paths: Sequence[str]) -> None:
        self.where, self.root, self.paths = str(folder), folder, paths

    def __len__(self) -> int:
        return len(self.paths)

    def names(self, column: str) -> Sequence[str]:
        return self.paths

    def values(self, column: str) -> Sequence[str]:
        """Return the labels, whatever the column is called."""
        return [path.partition("/")[0] for path in self.paths]

    def contents(self, column: str) -> Sequence[bytes]:
        return [
            image_bytes(os.path.join(self.root, path), f"{self.where}: image {path!r}") for path in self.paths
        ]

    def select(self, rows: Sequence[int]) -> ImageTable:
        return ImageTable(self.root, [self.paths[row] for row in rows])

    def problem_with(self, columns: Columns) -> str | None:
        if columns.client is not None:
            return "its images have no owners; allowed for data.partition: iid or dirichlet"
        if columns.id == ROW:
            return "the ids of its images are their paths; leave data.id_column out"
        if len(columns.inputs) > 1:
            return "a record is one image; leave data.input_columns out"
        return None if columns.images else 'it is a folder of images; allowed for model.task: "image"'


def read_image_folder(folder: Path) -> ImageTable:
    """Return the images of the folders in this one; hidden files and other suffixes do not count."""
    paths = []
    try:
        for label in label_folders(folder):
            _check_flat(folder / label)
            paths += [f"{label}/{name}" for name in image_files(folder / label)]
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}: {error.filename})") from None
    for path in paths:
        if not is_unicode(path):
            raise InputError(f"{folder}: the name of {path!r} is not in UTF-8; rename it")
    return ImageTable(folder, paths)


def _check_flat(folder: Path) -> None:
    inner = label_folders(folder)
    if inner:
        raise InputError(
            f"{folder / inner[0]}: a folder inside a label's folder; allowed: label/image, or "
            "train/label/image with test/label/image beside it"
        )
