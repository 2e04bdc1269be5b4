"""Kinds of ledger entries, and the sets of kinds that other rooms wait for."""

from enum import StrEnum


class Kind(StrEnum):
    """Kind of a ledger entry; the value is the text that is stored and hashed, so it never changes.

    A deletion writes three entries, in the order of the members: the request, the list of what it condemns,
    and, once those bytes are gone, that they are destroyed. After a crash the last of the three that is
    there tells where to go on.
    """

    OPENED = "opened"
    """First entry of every ledger."""
    REQUEST = "request"
    """Accepted deletion request; in force from this entry on."""
    CONDEMNED = "condemned"
    """Files and objects that a request will destroy, with their hashes."""
    DESTROYED = "destroyed"
    """Completion of a request: everything that it condemned is gone."""
    REBUILT = "rebuilt"
    """New description of the run: other slices, groups or modules than before."""
    BUILT = "built"
    """Number of modules in the store after training."""
    STATISTICS = "new-statistics"
    """New statistics of clients' records, from which heads are solved; it says how many are there."""
    COPIED = "copied"
    """End of the entries that a copy of a run took over from the original, which it names."""
    RESTORED = "restored"
    """Return from a backup: the mark that was lost, and the requests that were replayed or are missing."""
    KEY = "signing-key"
    """Key that signs certificates from here on; it has signed nothing before this entry."""


MODULES_CHANGED = frozenset({Kind.REBUILT, Kind.BUILT})
"""Kinds after which other modules are wanted, or more of them are in the store."""

RECORDS_MOVED = frozenset({Kind.REQUEST, Kind.REBUILT})
"""Kinds after which a record may be deleted or in another slice, so that it must be located again."""

SERVING_CHANGED = frozenset({Kind.REQUEST, Kind.REBUILT, Kind.BUILT, Kind.STATISTICS})
"""Kinds after which other modules or heads may be served, so that an evaluation is out of date."""
