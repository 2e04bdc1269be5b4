"""Trained modules, found by key and checked by hash whenever they are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.files.formats import NewerFormat
from fedsgt.files.tensors import Tensors, pack, read_note, tensor_hash, unpack
from fedsgt.store.checkpoints import Checkpoint, pack_checkpoint, unpack_checkpoint
from fedsgt.store.manifest import Manifest, Origin, Participants
from fedsgt.store.objects import Objects, StoreError

State = Literal["present", "missing", "corrupt"]
_KEY = re.compile(r"[0-9a-f]{64}")


class MissingModule(StoreError):
    """The module was never finished, or it was discarded."""


class CorruptModule(StoreError):
    """The module's files are not as they were written."""


@dataclass(frozen=True)
class Modules:
    """Modules of a store, and checkpoints of those that are being trained.

    A module exists from the moment its manifest is written, which is last, until its manifest is deleted,
    which is first. So whatever interrupts a writer, no module is seen that is not whole.
    """

    objects: Objects

    def put(self, origin: Origin, tensors: Mapping[str, NDArray[Any]]) -> Manifest:
        """Store a module; withdraw one that is there already first, so that no mixture of both is seen."""
        for name, value in tensors.items():
            if value.dtype.name not in ("float32", "float64"):  # statistics have integers, and are no modules
                raise InputError(f"tensor {name} is of type {value.dtype}; a module has float32 or float64")
        manifest = Manifest.of(origin, tensor_hash(tensors))
        text = manifest.to_bytes()
        # The file names its manifest's hash, so that a changed manifest is found as a changed tensor is.
        data = pack(tensors, hashlib.sha256(text).hexdigest())
        self.objects.delete(_manifest_name(manifest.key))
        self.objects.write(_tensors_name(manifest.key), data)
        self.objects.write(_manifest_name(manifest.key), text)
        return manifest

    def get(self, key: str) -> Tensors:
        """Return the module's tensors, checked against its manifest."""
        manifest = self.manifest(key)
        try:
            data = self.objects.read(_tensors_name(key))
        except KeyError:
            raise CorruptModule(f"module {key} is corrupt: it has a manifest but no tensors") from None
        try:
            tensors, note = unpack(data), read_note(data)
        except InputError as error:
            raise CorruptModule(f"module {key} is corrupt: {error}") from error
        found = tensor_hash(tensors)
        if found != manifest.sha256:
            raise CorruptModule(
                f"module {key} is corrupt: its tensors hash to {found}, not to {manifest.sha256}"
            )
        # Right tensors beside another manifest: what it says of their making would be false.
        if note != hashlib.sha256(manifest.to_bytes()).hexdigest():
            raise CorruptModule(f"module {key} is corrupt: its manifest is not the one it was stored with")
        return tensors

    def manifest(self, key: str) -> Manifest:
        """Return the module's manifest; the tensors are not looked at."""
        name = _manifest_name(key)
        try:
            data = self.objects.read(name)
        except KeyError:
            raise MissingModule(f"module {key} is not in the store: {name} is missing") from None
        try:
            manifest = Manifest.from_bytes(data)
        except NewerFormat as error:  # not damaged: a newer version reads it
            raise NewerFormat(f"module {key}: {error}") from None
        except InputError as error:
            raise CorruptModule(f"module {key} is corrupt: {error}") from error
        # A folder that was copied or renamed.
        if manifest.key != key:
            raise CorruptModule(f"module {key} is corrupt: its manifest is that of {manifest.key}")
        return manifest

    def state(self, key: str) -> State:
        """Check the module in full; remains without a manifest count as missing."""
        try:
            self.get(key)
        except MissingModule:
            return "missing"
        except CorruptModule:
            return "corrupt"
        return "present"

    def discard(self, key: str) -> None:
        """Destroy the module and all remains of it; the caller must have stopped its writers."""
        # The manifest goes first, so that nobody reads a module of which only a part is left.
        self.objects.delete(_manifest_name(key))
        # The tensors are removed by name even if not listed, which makes an earlier removal durable.
        for name in dict.fromkeys([_tensors_name(key), *self.objects.names(_folder(key))]):
            self.objects.delete(name)
        self.objects.sweep(_folder(key))

    def keys(self) -> list[str]:
        """Return the keys of all modules and of remains of modules, in order."""
        found = {name.split("/")[1] for name in self.objects.names("modules/")}
        # People and other programs may put files of their own there.
        return sorted(key for key in found if _KEY.fullmatch(key))

    def save_checkpoint(
        self, key: str, number: int, tensors: Mapping[str, NDArray[Any]], participants: Participants
    ) -> None:
        """Replace the key's checkpoint by one after `number` finished rounds."""
        self.objects.write(_checkpoint_name(key), pack_checkpoint(key, number, tensors, participants))

    def load_checkpoint(self, key: str) -> Checkpoint | None:
        """Return the key's checkpoint; None if there is none, or none that is whole."""
        try:
            data = self.objects.read(_checkpoint_name(key))
        except KeyError:
            return None
        return unpack_checkpoint(key, data)

    def discard_checkpoint(self, key: str) -> None:
        """Destroy the key's checkpoint and what a killed writer left of one."""
        self.objects.delete(_checkpoint_name(key))
        self.objects.sweep(_checkpoint_name(key))


def check_key(key: str) -> str:
    """Return the key; refuse a text that is no module's key, since it becomes part of a path."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InputError(f"module key {key!r} is not allowed; it is 64 lower-case hexadecimal digits")
    return key


def _folder(key: str) -> str:
    return f"modules/{check_key(key)}/"


def _manifest_name(key: str) -> str:
    return f"{_folder(key)}manifest.json"


def _tensors_name(key: str) -> str:
    return f"{_folder(key)}module.safetensors"


def _checkpoint_name(key: str) -> str:
    return f"rounds/{check_key(key)}.safetensors"
