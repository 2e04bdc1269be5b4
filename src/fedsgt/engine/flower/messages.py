"""Messages between server and nodes: orders with jobs one way, updates or problems the other.

Texts are JSON in one record, tensors are array records; nothing in a message is ever executed or unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedsgt.engine.task import Update
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors

TEXT = "fedsgt"


@dataclass(frozen=True)
class ModuleJob:
    """One round of one module on some of a client's slices."""

    key: str
    parents: tuple[str, ...]
    slices: tuple[int, ...]
    round: int
    seed: int
    state: Tensors = field(repr=False)


@dataclass(frozen=True)
class TrainingOrder:
    """Everything that one client is to train now, with what its node needs for it."""

    client: str
    jobs: tuple[ModuleJob, ...]
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Hashes that the parent modules of the jobs must have."""
    modules: Mapping[str, Tensors] = field(default_factory=dict, repr=False)
    """Parent modules that the node was not sent before."""
    keep: tuple[str, ...] = ()
    """Keys of the modules that may stay on the node; it destroys all others."""
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Description of the run for the node."""


@dataclass(frozen=True)
class TrainingAnswer:
    """Answer to an order: updates and problems by module, or the modules that the node lacks."""

    updates: Mapping[str, Update] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()


def encode_order(order: TrainingOrder, encoded: Callable[[Tensors], ArrayRecord] | None = None) -> RecordDict:
    """Encode an order; `encoded` may remember tensors, as the same go to many clients."""
    jobs = [
        # The seed as text: it is larger than some readers of JSON take for a number.
        {
            "key": job.key,
            "parents": job.parents,
            "slices": job.slices,
            "round": job.round,
            "seed": str(job.seed),
        }
        for job in order.jobs
    ]
    said = {
        "client": order.client,
        "jobs": jobs,
        "hashes": dict(order.hashes),
        "keep": order.keep,
        "about": dict(order.about),
    }
    arrays = {f"state/{job.key}": job.state for job in order.jobs}
    arrays |= {f"module/{key}": held for key, held in order.modules.items()}
    return record_of(said, arrays, encoded or tensor_record)


def decode_order(content: RecordDict) -> TrainingOrder:
    said = text_of(content)
    jobs = tuple(
        ModuleJob(
            job["key"],
            tuple(job["parents"]),
            tuple(job["slices"]),
            job["round"],
            int(job["seed"]),
            tensors_of(content, f"state/{job['key']}"),
        )
        for job in said["jobs"]
    )
    names = [name for name in content.array_records if name.startswith("module/")]
    modules = {name.removeprefix("module/"): tensors_of(content, name) for name in names}
    return TrainingOrder(said["client"], jobs, said["hashes"], modules, tuple(said["keep"]), said["about"])


def encode_answer(answer: TrainingAnswer) -> RecordDict:
    updates = {
        key: {
            "records": update.records,
            # The text that `repr` gives keeps every bit of a float.
            "loss": repr(float(update.loss)),
            "seconds": round(update.seconds, 4),
            "preparing": round(update.preparing, 4),
        }
        for key, update in answer.updates.items()
    }
    said = {"updates": updates, "problems": dict(answer.problems), "lacks": answer.lacks}
    states = {f"state/{key}": update.state for key, update in answer.updates.items()}
    return record_of(said, states, tensor_record)


def decode_answer(content: RecordDict, client: str, most_bytes: int) -> TrainingAnswer:
    """Read a client's answer, which may be anything; raise with one line if it cannot be used."""
    check_size(content, most_bytes)
    try:
        said = text_of(content)
        updates = {
            str(key): Update(
                client,
                tensors_of(content, f"state/{key}"),
                whole(entry["records"]),
                float(entry["loss"]),
                float(entry["seconds"]),
                float(entry.get("preparing", 0.0)),  # clients of earlier versions do not say it
            )
            for key, entry in said["updates"].items()
        }
        problems = {str(key): str(problem)[:500] for key, problem in said["problems"].items()}
        return TrainingAnswer(updates, problems, tuple(map(str, said["lacks"])))
    except Exception as error:  # NumPy and JSON have more ways to fail than can be listed
        raise InputError(f"its answer cannot be read ({type(error).__name__}: {str(error)[:200]})") from None


def check_size(content: RecordDict, most_bytes: int) -> None:
    """Raise if a client's answer is larger than any that was asked for."""
    size = size_of(content)
    # Before anything is unpacked: a small message may claim an array that fills the memory.
    if size > most_bytes:
        raise InputError(f"its answer has {size:,} bytes; at most {most_bytes:,} were asked for")


def size_of(content: RecordDict) -> int:
    """Return the bytes of tensors and text, without the little that Flower adds."""
    arrays = sum(len(array.data) for record in content.array_records.values() for array in record.values())
    texts = sum(
        len(value)
        for record in content.config_records.values()
        for value in record.values()
        if isinstance(value, str)
    )
    return arrays + texts


def text_message(said: Mapping[str, Any]) -> RecordDict:
    """Return the content of a message without tensors."""
    return record_of(said, {}, tensor_record)


def text_of(content: RecordDict) -> dict[str, Any]:
    """Return the text of a message; raise if there is none that can be read."""
    found = json.loads(str(content.config_records[TEXT]["json"]))
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def tensors_of(content: RecordDict, name: str) -> Tensors:
    """Return the tensors of one array record of a message."""
    record = content.array_records[name]
    return {key: np.asarray(array.numpy()) for key, array in record.items()}


def tensor_record(tensors: Tensors) -> ArrayRecord:
    """Return tensors as an array record, which holds their exact bytes."""
    return ArrayRecord({key: Array(np.ascontiguousarray(held)) for key, held in tensors.items()})


def record_of(
    said: Mapping[str, Any], arrays: Mapping[str, Tensors], encoded: Callable[[Tensors], ArrayRecord]
) -> RecordDict:
    """Return the content of a message with this text and these arrays."""
    content = RecordDict({TEXT: ConfigRecord({"json": json.dumps(said)})})
    for name, tensors in arrays.items():
        content[name] = encoded(tensors)
    return content


def whole(value: Any) -> int:
    """Return a number of records that a client says; raise if it is none."""
    if type(value) is not int:  # True would pass isinstance
        raise ValueError(f"a number of records is {value!r}")
    return value
