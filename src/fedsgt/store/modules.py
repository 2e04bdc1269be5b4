"""Trained modules, found by key and checked by hash at every reading."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.store.checkpoints import Round, pack_round, unpack_round
from fedsgt.store.codec import pack, read_note, unpack
from fedsgt.store.hashing import Tensors, tensor_hash
from fedsgt.store.manifest import Manifest, Origin, Participants
from fedsgt.store.names import StoreError, check_key, is_key
from fedsgt.store.objects import Objects

State = Literal["present", "missing", "corrupt"]


class MissingModule(StoreError):
    """No such module was ever finished, or it was discarded."""


class CorruptModule(StoreError):
    """What lies there is not what was put there."""


@dataclass(frozen=True)
class Modules:
    """The modules of a store, and the checkpoints of those that are being trained.

    A module exists from the moment its manifest is written, which is last, until its manifest is deleted,
    which is first. So whatever interrupts a writer, no module is seen that is not whole.
    """

    objects: Objects

    def put(self, origin: Origin, tensors: Mapping[str, NDArray[Any]]) -> Manifest:
        """Stores a module. One that is there already is withdrawn first, never seen with half of another."""
        manifest = Manifest.of(origin, tensor_hash(tensors))
        text = manifest.to_bytes()
        # The file knows its manifest, so that a changed manifest is found out as a changed tensor is.
        data = pack(tensors, hashlib.sha256(text).hexdigest())
        self.objects.delete(_manifest_name(manifest.key))
        self.objects.write(_tensors_name(manifest.key), data)
        self.objects.write(_manifest_name(manifest.key), text)
        return manifest

    def get(self, key: str) -> Tensors:
        """The module's tensors, which are what its manifest says."""
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
        if note != hashlib.sha256(manifest.to_bytes()).hexdigest():
            raise CorruptModule(f"module {key} is corrupt: its manifest is not the one it was stored with")
        return tensors

    def manifest(self, key: str) -> Manifest:
        """The module's manifest, which says so; the tensors are not looked at."""
        name = _manifest_name(key)
        try:
            data = self.objects.read(name)
        except KeyError:
            raise MissingModule(f"module {key} is not in the store: {name} is missing") from None
        try:
            manifest = Manifest.from_bytes(data)
        except InputError as error:
            raise CorruptModule(f"module {key} is corrupt: {error}") from error
        if manifest.key != key:
            raise CorruptModule(f"module {key} is corrupt: its manifest is that of {manifest.key}")
        return manifest

    def state(self, key: str) -> State:
        """Whether the module is there, after a full check; remains without a manifest count as missing."""
        try:
            self.get(key)
        except MissingModule:
            return "missing"
        except CorruptModule:
            return "corrupt"
        return "present"

    def discard(self, key: str) -> None:
        """Destroys the module and all remains of it; whoever may be writing it is to be stopped before."""
        self.objects.delete(_manifest_name(key))
        # By name even when not listed: a deletion that was cut short is made durable by doing it again.
        for name in dict.fromkeys([_tensors_name(key), *self.objects.names(_folder(key))]):
            self.objects.delete(name)
        self.objects.sweep(_folder(key))

    def keys(self) -> list[str]:
        """The keys of which there is a module or remains of one, in order."""
        return _keys(name.split("/")[1] for name in self.objects.names("modules/"))

    def save_round(
        self, key: str, number: int, tensors: Mapping[str, NDArray[Any]], participants: Participants
    ) -> None:
        """Replaces the key's checkpoint by one after so many finished rounds."""
        self.objects.write(_round_name(key), pack_round(key, number, tensors, participants))

    def load_round(self, key: str) -> Round | None:
        """The key's checkpoint; one that is not whole counts as none."""
        try:
            data = self.objects.read(_round_name(key))
        except KeyError:
            return None
        return unpack_round(key, data)

    def discard_round(self, key: str) -> None:
        """Destroys the key's checkpoint and what a killed writer left of one."""
        self.objects.delete(_round_name(key))
        self.objects.sweep(_round_name(key))

    def round_keys(self) -> list[str]:
        """The keys that have a checkpoint, in order."""
        return _keys(
            name.split("/")[1].removesuffix(".safetensors") for name in self.objects.names("rounds/")
        )


def _keys(found: Iterable[str]) -> list[str]:
    return sorted({key for key in found if is_key(key)})


def _folder(key: str) -> str:
    return f"modules/{check_key(key)}/"


def _manifest_name(key: str) -> str:
    return f"{_folder(key)}manifest.json"


def _tensors_name(key: str) -> str:
    return f"{_folder(key)}module.safetensors"


def _round_name(key: str) -> str:
    return f"rounds/{check_key(key)}.safetensors"
