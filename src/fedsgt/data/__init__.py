"""From records to clients to slices to fingerprints (SPEC, definition 1)."""

from fedsgt.data.client import Client
from fedsgt.data.fingerprints import derive_salt, group_fingerprint, new_salt, slice_fingerprint
from fedsgt.data.partition import partition_dirichlet, partition_given, partition_iid
from fedsgt.data.records import Record, content_digest
from fedsgt.data.slices import check_slices, cut, slice_of

__all__ = [
    "Client",
    "Record",
    "check_slices",
    "content_digest",
    "cut",
    "derive_salt",
    "group_fingerprint",
    "new_salt",
    "partition_dirichlet",
    "partition_given",
    "partition_iid",
    "slice_fingerprint",
    "slice_of",
]
