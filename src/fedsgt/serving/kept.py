"""Class probabilities and features of test records, kept in the folder of the module that gave them.

From features, the answer of a solved head is computed without the model. Both depend on training data as the
module does, and are destroyed with it. Beside them stand the right labels, so that what is live can be
scored again without the test records.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsgt.data import Dataset
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.files.tensors import pack, read_note, unpack
from fedsgt.runs.artefacts import BARE, PREDICTIONS, STATISTICS
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.answer import Floats
from fedsgt.store import Folder, tensor_hash
from fedsgt.store.objects import Objects


@dataclass(frozen=True)
class Kept:
    """Content of one kept file."""

    probabilities: Floats
    """A row for each test record."""
    labels: tuple[int, ...] | None
    """Right labels; None in a file of an older version."""
    features: Floats | None = None
    """Features of the test records, a row for each; None if the run solves no heads."""


def file_of(test: Dataset, label_count: int) -> str:
    """Return the name of the kept files: a hash of the test records, so that others have other files."""
    parts = [part for record in test.records for part in (record.id, record.digest, record.label or 0)]
    code = hashlib.sha256(frames("fedsgt.test.1", label_count, *parts))
    return f"test-{code.hexdigest()[:16]}.safetensors"


def kept_files(folder: RunFolder, keys: Sequence[str]) -> list[str]:
    """Return the names of the kept files that every one of these modules has; `BARE` is the bare backbone."""
    found: dict[str, set[str]] = {key: set() for key in keys}
    for name in folder.modules.objects.names("modules/"):
        parts = name.split("/")
        if parts[1] in found and all(map(re.fullmatch, PREDICTIONS.names, parts)):
            found[parts[1]].add(parts[-1])
    if BARE in found:
        found[BARE] = {path.name for path in (folder.path / STATISTICS / BARE).glob("test-*.safetensors")}
    return sorted(set.intersection(*found.values())) if found else []


def read_kept(folder: RunFolder, key: str, file: str) -> Kept | None:
    """Return what is kept beside a module; None if there is nothing, or if the file is damaged."""
    try:
        data = _place(folder, key).read(_name(key, file))
        tensors = unpack(data)
        # The file holds its own hash, so that a damaged one is noticed.
        if read_note(data) != tensor_hash(tensors):
            return None
        labels = tensors.get("labels")
        told = None if labels is None else tuple(int(label) for label in labels)
        return Kept(tensors["probabilities"], told, tensors.get("features"))
    except (KeyError, InputError):  # computed again, as if it had never been kept
        return None


def keep(folder: RunFolder, key: str, file: str, kept: Kept) -> None:
    """Keep the probabilities beside their module, unless a deletion has hit it."""
    if not folder.writable:
        return  # a dry run on an auditor's copy, say, computes them anew each time
    # As floats, since that is what the format of modules holds; labels are far below 2**53.
    tensors = {"probabilities": kept.probabilities, "labels": np.array(kept.labels, dtype=np.float64)}
    if kept.features is not None:
        tensors["features"] = kept.features
    data = pack(tensors, tensor_hash(tensors))
    # Checked under the lock: a module that a request has condemned must not get a new file.
    with folder.publishing() as now:
        if key == BARE or any(entry.key == key for entry in now.modules()):
            _place(folder, key).write(_name(key, file), data)


def _place(folder: RunFolder, key: str) -> Objects:
    return Folder(folder.path) if key == BARE else folder.modules.objects


def _name(key: str, file: str) -> str:
    return f"{STATISTICS}/{BARE}/{file}" if key == BARE else f"modules/{key}/{file}"
