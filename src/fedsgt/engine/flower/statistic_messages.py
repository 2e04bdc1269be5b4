"""Messages about statistics: a client is asked for many chains at once, and answers with integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ArrayRecord, RecordDict

from fedsgt.engine.flower.messages import check_size, record_of, tensor_record, tensors_of, text_of, whole
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.statistics import Statistic


@dataclass(frozen=True)
class ChainQuestion:
    """The statistic of some of a client's slices under one chain of modules."""

    chain: tuple[str, ...]
    slices: tuple[int, ...]


@dataclass(frozen=True)
class StatisticOrder:
    """All statistics that one client is asked for, with what its node needs for them."""

    client: str
    questions: tuple[ChainQuestion, ...]
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Hashes that the chains' modules must have."""
    modules: Mapping[str, Tensors] = field(default_factory=dict, repr=False)
    """Modules that the node was not sent before."""
    keep: tuple[str, ...] = ()
    """Keys of the modules that may stay on the node; it destroys all others."""
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Description of the run for the node."""


@dataclass(frozen=True)
class StatisticAnswer:
    """Statistics and problems by the question's number, or why there are none."""

    statistics: Mapping[int, Statistic] = field(default_factory=dict)
    problems: Mapping[int, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    """Keys of the modules that the node lacks."""
    declined: str = ""
    """Reason of a client that takes no part in statistics; empty if it does."""


def encode_order(order: StatisticOrder, encoded: Callable[[Tensors], ArrayRecord]) -> RecordDict:
    """Encode an order; `encoded` may remember tensors, as the same go to many clients."""
    said = {
        "client": order.client,
        "questions": [{"chain": asked.chain, "slices": asked.slices} for asked in order.questions],
        "hashes": dict(order.hashes),
        "keep": order.keep,
        "about": dict(order.about),
    }
    return record_of(said, {f"module/{key}": held for key, held in order.modules.items()}, encoded)


def decode_order(content: RecordDict) -> StatisticOrder:
    said = text_of(content)
    questions = tuple(
        ChainQuestion(tuple(asked["chain"]), tuple(asked["slices"])) for asked in said["questions"]
    )
    names = [name for name in content.array_records if name.startswith("module/")]
    modules = {name.removeprefix("module/"): tensors_of(content, name) for name in names}
    keep = tuple(said["keep"])
    return StatisticOrder(said["client"], questions, said["hashes"], modules, keep, said["about"])


def encode_answer(answer: StatisticAnswer) -> RecordDict:
    numbers = {
        number: {"records": found.records, "bits": found.bits} for number, found in answer.statistics.items()
    }
    said = {
        "statistics": numbers,
        "problems": dict(answer.problems),
        "lacks": answer.lacks,
        "declined": answer.declined,
    }
    arrays = {
        f"statistic/{number}": {"gram": found.gram, "cross": found.cross}
        for number, found in answer.statistics.items()
    }
    return record_of(said, arrays, tensor_record)


def decode_answer(content: RecordDict, most_bytes: int) -> StatisticAnswer:
    """Read a client's answer, which may be anything; raise with one line if it cannot be used."""
    check_size(content, most_bytes)
    try:
        said = text_of(content)
        statistics = {
            int(number): _statistic(tensors_of(content, f"statistic/{number}"), entry)
            for number, entry in said["statistics"].items()
        }
        problems = {int(number): str(problem)[:500] for number, problem in said["problems"].items()}
        lacks = tuple(map(str, said["lacks"]))
        return StatisticAnswer(statistics, problems, lacks, str(said["declined"])[:500])
    except Exception as error:  # NumPy and JSON have more ways to fail than can be listed
        raise InputError(f"its answer cannot be read ({type(error).__name__}: {str(error)[:200]})") from None


def _statistic(arrays: Tensors, entry: Mapping[str, Any]) -> Statistic:
    gram, cross = arrays["gram"], arrays["cross"]
    return Statistic(gram, cross, whole(entry["records"]), whole(entry["bits"]))
