"""Frozen modules that a client's node was sent: checked against their hashes, destroyed when told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedsgt.errors import InputError
from fedsgt.files.durable import sync_folder
from fedsgt.files.tensors import Tensors, pack, read_note, unpack
from fedsgt.store import Folder, tensor_hash
from fedsgt.store.modules import check_key

MODULES = "state/modules"  # name of the cache in a client's folder
ENDING = ".safetensors"


@dataclass(frozen=True)
class FolderModuleCache:
    """A folder with a file for each module, which also holds the hash of its tensors."""

    folder: Path

    def get(self, key: str) -> Tensors:
        data = Folder(self.folder).read(f"{check_key(key)}{ENDING}")
        tensors = unpack(data)
        if tensor_hash(tensors) != read_note(data):
            raise InputError(f"module {key[:12]} is damaged on this machine; start the client again")
        return tensors

    def lacks(self, hashes: Mapping[str, str]) -> list[str]:
        return [key for key, wanted in hashes.items() if self._hash(key) != wanted]

    def put(self, modules: Mapping[str, Tensors], hashes: Mapping[str, str]) -> None:
        for key, tensors in modules.items():
            found = tensor_hash(tensors)
            if found != hashes.get(key):
                raise InputError(f"module {key[:12]} did not arrive as it was sent ({found[:12]})")
            Folder(self.folder).write(f"{check_key(key)}{ENDING}", pack(tensors, found))

    def keep(self, keys: Collection[str]) -> None:
        """Destroy all files but those of these modules, unfinished ones of a killed writer too."""
        wanted = {f"{key}{ENDING}" for key in keys}
        gone = [path for path in self._files() if path.name not in wanted]
        for path in gone:
            path.unlink()
        # Synced, so that no power cut brings a destroyed module back.
        if gone:
            sync_folder(self.folder)

    def _files(self) -> list[Path]:
        return list(self.folder.iterdir()) if self.folder.is_dir() else []

    def _hash(self, key: str) -> str | None:
        try:
            return tensor_hash(self.get(key))
        except (KeyError, InputError):
            return None
