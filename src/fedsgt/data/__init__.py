"""Records from their sources to clients, slices and fingerprints (docs/definitions.md, definition 1)."""

from fedsgt.data.client import AnyClient, Client, RemoteClient
from fedsgt.data.dataset import ROW, Columns, Dataset
from fedsgt.data.fingerprints import (
    client_hash,
    derive_salt,
    group_fingerprint,
    in_sample,
    new_salt,
    record_hash,
    slice_fingerprint,
)
from fedsgt.data.partition import make_clients
from fedsgt.data.records import Content, Record, labels_of
from fedsgt.data.slices import Slice
from fedsgt.data.sources import load_dataset

__all__ = [
    "ROW",
    "AnyClient",
    "Client",
    "Columns",
    "Content",
    "Dataset",
    "Record",
    "RemoteClient",
    "Slice",
    "client_hash",
    "derive_salt",
    "group_fingerprint",
    "in_sample",
    "labels_of",
    "load_dataset",
    "make_clients",
    "new_salt",
    "record_hash",
    "slice_fingerprint",
]
