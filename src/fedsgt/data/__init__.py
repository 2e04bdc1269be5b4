"""From data sources to records to clients to slices to fingerprints (docs/definitions.md, definition 1)."""

from fedsgt.data.client import Client
from fedsgt.data.clients import make_clients
from fedsgt.data.fingerprints import (
    client_hash,
    derive_salt,
    group_fingerprint,
    new_salt,
    record_hash,
    slice_fingerprint,
)
from fedsgt.data.partition import partition_dirichlet, partition_given, partition_iid
from fedsgt.data.records import Record, content_digest
from fedsgt.data.slices import cut, slice_of
from fedsgt.data.sources import load_table
from fedsgt.data.table import Columns, Content, Table

__all__ = [
    "Client",
    "Columns",
    "Content",
    "Record",
    "Table",
    "client_hash",
    "content_digest",
    "cut",
    "derive_salt",
    "group_fingerprint",
    "load_table",
    "make_clients",
    "new_salt",
    "partition_dirichlet",
    "partition_given",
    "partition_iid",
    "record_hash",
    "slice_fingerprint",
    "slice_of",
]
