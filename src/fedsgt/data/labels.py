"""Labels as sources write them: whole numbers, or texts that the settings list.

Which labels there are is declared and never found in the records: deleted ones must leave no trace, not even
in the shape of a head.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedsgt.errors import InputError
from fedsgt.words import counted

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_MOST_NAMED = 20
HOW_TO_NAME = "set data.label_names if labels are texts (fedsgt init FILE --data SOURCE writes it)"


@dataclass(frozen=True)
class Labels:
    """The labels that the records of a source may have, 0 to `count - 1`."""

    count: int
    names: tuple[str, ...] | None = None
    """Name of each label, if it has one."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Label of each text; empty if texts are not looked up."""

    @classmethod
    def declared(
        cls, count: int | None, names: Sequence[str] | None, in_source: Sequence[str] | None, where: str
    ) -> Labels:
        """Return the labels by the settings, or else by the names that the source itself declares."""
        if names is not None:
            if count not in (None, len(names)):
                named = counted(len(names), "name")
                raise InputError(f"data.label_names has {named}, but there are {count} labels")
            return cls._named(tuple(names), in_source or ())
        found = count if count is not None else len(in_source or ())
        if found < 2:
            problem = "there is 1 label" if found else "nothing declares how many labels there are"
            raise InputError(
                f"{where}: {problem}; set data.labels to their number, at least 2, or {HOW_TO_NAME}"
            )
        # Names of another number of labels than the one in use would name the wrong ones.
        fit = in_source is not None and len(in_source) == found
        return cls(found, tuple(in_source or ()) if fit else None)

    @classmethod
    def _named(cls, names: tuple[str, ...], in_source: Sequence[str]) -> Labels:
        numbers = {name: number for number, name in enumerate(names)}
        if len(numbers) < len(names):
            raise InputError("data.label_names has a name twice; give each label a name of its own")
        if in_source and numbers.keys() >= set(in_source):
            # The source writes numbers that stand for its own names, which may be in another order.
            return cls(len(names), names, {str(i): numbers[name] for i, name in enumerate(in_source)})
        # A number is a label itself, unless labels are called by numbers.
        if in_source or not any(map(_NUMBER.fullmatch, names)):
            numbers |= {str(number): number for number in range(len(names))}
        return cls(len(names), names, numbers)

    def read(self, values: Sequence[Any], ids: Sequence[str], where: str) -> list[int]:
        """Return the label that each value of a source stands for; raise `InputError` for one of no label."""
        found = []
        for value, record_id in zip(values, ids, strict=True):
            label = self._number(value)
            if label is None:
                has = "no label" if value is None else f"the label {_shown(value)}"
                raise InputError(f"{where}: record {record_id!r} has {has}; allowed: {self._allowed(value)}")
            found.append(label)
        return found

    def _number(self, value: Any) -> int | None:
        # bool is a subclass of int, and True would pass for label 1.
        if type(value) is int:
            value = str(value)
        if not isinstance(value, str):
            return None
        if self.numbers:
            return self.numbers.get(value)
        number = int(value) if _NUMBER.fullmatch(value) else self.count
        return number if number < self.count else None

    def _allowed(self, value: Any) -> str:
        if self.numbers:
            shown = ", ".join(map(repr, (self.names or ())[:_MOST_NAMED]))
            return shown + (" ..." if self.count > _MOST_NAMED else "") + " (data.label_names)"
        hint = f"; {HOW_TO_NAME}" if isinstance(value, str) else ""
        return f"whole numbers from 0 to {self.count - 1}{hint}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
