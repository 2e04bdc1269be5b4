"""Trained modules as build products: found by key, checked by hash, whole or not there."""

from fedsgt.files.tensors import Tensors, tensor_hash
from fedsgt.store.checkpoints import Checkpoint
from fedsgt.store.folder import Folder
from fedsgt.store.manifest import Comparison, Manifest, Origin, compare
from fedsgt.store.modules import CorruptModule, MissingModule, Modules
from fedsgt.store.objects import Objects, StoreError
from fedsgt.store.remote import Remote, open_objects

__all__ = [
    "Checkpoint",
    "Comparison",
    "CorruptModule",
    "Folder",
    "Manifest",
    "MissingModule",
    "Modules",
    "Objects",
    "Origin",
    "Remote",
    "StoreError",
    "Tensors",
    "compare",
    "open_objects",
    "tensor_hash",
]
