"""Cache of the frozen lower layers' outputs on disk, one file for each slice.

The outputs depend on the slice and the backbone only. Files lie in a folder named by the slice's fingerprint,
so that a deletion finds and destroys them.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from fedsgt.stack.inputs import Item


class ActivationCache:
    """Outputs by fingerprint. Files have a checksum, so that a torn or damaged one counts as absent."""

    def __init__(self, folder: Path, recipe: str) -> None:
        self.folder = folder
        # Another backbone or execution profile gives other outputs, in files of their own.
        self.recipe = hashlib.sha256(recipe.encode()).hexdigest()

    def get(self, fingerprint: str) -> list[Item] | None:
        """Return the outputs for the slice's records, or None if there is no whole file."""
        try:
            data = self._path(fingerprint).read_bytes()
        except OSError:
            return None
        # Half a file after a crash, or a damaged disk: the outputs are computed again.
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            return None
        held = load(data[32:])
        return [{"hidden": part} for part in np.split(held["hidden"], np.cumsum(held["lengths"])[:-1])]

    def put(self, fingerprint: str, items: list[Item]) -> None:
        """Write the outputs for the slice's records."""
        lengths: NDArray[np.int64] = np.array([len(item["hidden"]) for item in items])
        body = save({"hidden": np.concatenate([item["hidden"] for item in items]), "lengths": lengths})
        path = self._path(fingerprint)
        # Named by process: several workers may write the same slice at once.
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(hashlib.sha256(body).digest() + body)
            temporary.replace(path)
        except (
            OSError
        ):  # such as a full disk: training is slower without the file, but its bytes are the same
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _path(self, fingerprint: str) -> Path:
        return self.folder / fingerprint / f"{self.recipe}.activations"
