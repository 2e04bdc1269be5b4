"""Names that people give for data and models: a place on this machine, or a name on the hub."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

# Endings of data files; a name on the hub may have dots, but nobody means the hub by these.
DATA_SUFFIXES = (".csv", ".jsonl", ".parquet", ".json", ".ndjson", ".tsv", ".txt", ".arrow", ".zip", ".gz")
_HUB_NAME = re.compile(r"(?P<owner>\w[\w.-]*)/(?P<name>\w[\w.-]*)(:(?P<config>[\w.-]+))?", re.ASCII)
_MOST_NAMED = 5


def looks_like_hub_name(text: str, folder: Path | None = None) -> bool:
    """Whether a text may be asked of the hub: `owner/name`, perhaps with `:config`, and no path here.

    Everything else is a path, there or not, and no network is tried for it. `owner/name` is a path if there
    is something called `owner` in the folder, which is the working directory by default.
    """
    match = _HUB_NAME.fullmatch(text)
    if match is None or text.lower().endswith(DATA_SUFFIXES):
        return False
    # A typing error in a file's name must not go out to the hub.
    return not os.path.lexists(os.path.join(folder or "", match["owner"]))


def missing_place(text: str, others: Iterable[str] = (), allowed: str = "") -> str:
    """Return in words that there is no such file or folder, and which name nearby may be meant.

    `others` are names that are no files and would have been allowed too. If no name is like this one, the
    text ends with what is `allowed`.
    """
    if os.path.islink(text):
        return f"{text!r} is a link to {os.readlink(text)!r}, which does not exist"
    folder, name = _first_missing(text)
    end = f" (allowed: {allowed})" if allowed else ""
    try:
        there = sorted(entry for entry in os.listdir(folder or ".") if not entry.startswith("."))
    except (OSError, ValueError):
        return f"{text!r} does not exist{end}"
    known = {os.path.join(folder, entry): entry for entry in there}
    known |= {} if folder else {other: other for other in others}
    close = difflib.get_close_matches(name, known.values(), n=1)
    if close:
        meant = next(place for place, entry in known.items() if entry == close[0])
        return f"{text!r} does not exist; did you mean {meant!r}?"
    where = f"in {folder}" if folder else "here"
    shown = ", ".join(map(repr, there[:_MOST_NAMED])) + (" ..." if len(there) > _MOST_NAMED else "")
    return f"{text!r} does not exist; {where}: {shown or 'nothing'}{end}"


def _first_missing(text: str) -> tuple[str, str]:
    """Return the deepest folder of a path that is there, and the name in it that is not."""
    folder, name = os.path.split(os.path.expanduser(text).rstrip(os.sep))
    while folder and not os.path.isdir(folder):
        above, name = os.path.split(folder)
        if above == folder:
            break
        folder = above
    return folder, name
