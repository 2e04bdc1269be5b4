"""Trained modules as build products: content-addressed, checked by hash, whole or not there."""

from fedsgt.store.checkpoints import Round
from fedsgt.store.compare import Comparison, compare
from fedsgt.store.folder import Folder
from fedsgt.store.hashing import Tensors, tensor_hash
from fedsgt.store.manifest import Manifest, Origin
from fedsgt.store.modules import CorruptModule, MissingModule, Modules
from fedsgt.store.names import StoreError
from fedsgt.store.objects import Objects, Remote, open_objects

__all__ = [
    "Comparison",
    "CorruptModule",
    "Folder",
    "Manifest",
    "MissingModule",
    "Modules",
    "Objects",
    "Origin",
    "Remote",
    "Round",
    "StoreError",
    "Tensors",
    "compare",
    "open_objects",
    "tensor_hash",
]
