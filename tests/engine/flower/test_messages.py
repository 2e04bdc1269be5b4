"""Messages: they arrive bit for bit, and answers that cannot be read are refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedsgt.engine.flower.messages import (
    TEXT,
    ModuleJob,
    TrainingAnswer,
    TrainingOrder,
    decode_answer,
    decode_order,
    encode_answer,
    encode_order,
    size_of,
)
from fedsgt.engine.task import Update
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors

SAID = {"updates": {"k": {"records": 1, "loss": "0.5", "seconds": 1}}, "problems": {}, "lacks": []}


def content(text: str, data: bytes | None = None) -> RecordDict:
    found = RecordDict({"fedsgt": ConfigRecord({"json": text})})
    if data is not None:
        found["state/k"] = ArrayRecord({"w": Array("float32", (1,), "numpy.ndarray", data)})
    return found


def header(text: str) -> bytes:
    """The beginning of an array file that says this of itself."""
    body = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


GARBAGE = {
    "nothing": RecordDict(),
    "deep": content("[" * 60_000),
    "huge number": content(json.dumps(SAID).replace('"seconds": 1', f'"seconds": 1{"0" * 400}'), b""),
    "no array": content(json.dumps(SAID), b""),
    "zip": content(json.dumps(SAID), b"PK\x03\x04junk"),
    "bomb": content(
        json.dumps(SAID), header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }")
    ),
    "torn": content(json.dumps(SAID), header("{'descr': '<f4', 'shape': (1L,")),
    "list": content("[]"),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_what_nobody_can_read_is_one_line(case: str) -> None:
    with pytest.raises(InputError, match="its answer cannot be read") as caught:
        decode_answer(GARBAGE[case], "c", 10**6)
    assert "\n" not in str(caught.value)


STATE = {
    "a.weight": np.array([[0.1, -0.0], [np.float32(1e-45), 3e38]], np.float32),
    "b": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not contiguous in memory
}
ORDER = TrainingOrder(
    "hospital-7",
    (
        ModuleJob("k1", (), (0, 2), 1, 2**64 - 1, STATE),
        ModuleJob("k2", ("k1",), (1,), 3, 0, {"c": np.ones(1, np.float32)}),
    ),
    hashes={"k1": "f" * 64},
    modules={"k1": STATE},
    keep=("k1", "k0"),
    about={"run": "x", "labels": 3},
)


def as_bytes(tensors: Tensors) -> dict[str, tuple[tuple[int, ...], str, bytes]]:
    return {name: (held.shape, str(held.dtype), held.tobytes()) for name, held in tensors.items()}


def carried(sent: RecordDict) -> RecordDict:
    """Return the content as a node reads it: each array from its own bytes."""
    copied = RecordDict()
    for name, texts in sent.config_records.items():
        copied[name] = ConfigRecord(dict(texts))
    for name, arrays in sent.array_records.items():
        copied[name] = ArrayRecord(
            {key: Array(held.dtype, held.shape, held.stype, held.data) for key, held in arrays.items()}
        )
    return copied


def test_an_order_arrives_bit_for_bit() -> None:
    found = decode_order(carried(encode_order(ORDER)))
    assert found.client == "hospital-7"
    for job, sent in zip(found.jobs, ORDER.jobs, strict=True):
        assert (job.key, job.parents, job.slices, job.round, job.seed) == (
            *(sent.key, sent.parents, sent.slices),
            *(sent.round, sent.seed),
        )
        assert as_bytes(job.state) == as_bytes(sent.state)
    assert as_bytes(found.modules["k1"]) == as_bytes(STATE)
    assert (found.hashes, found.keep, found.about) == (ORDER.hashes, ORDER.keep, ORDER.about)


def test_an_answer_arrives_bit_for_bit() -> None:
    loss = 0.1 + 0.2  # not a short decimal number
    sent = TrainingAnswer({"k1": Update("c", STATE, 17, loss, 1.23456)}, {"k2": "disk full"}, ("k0",))
    found = decode_answer(carried(encode_answer(sent)), "c", 10**6)
    update = found.updates["k1"]
    assert (update.client, update.records, update.loss, update.seconds) == ("c", 17, loss, 1.2346)
    assert as_bytes(update.state) == as_bytes(STATE)
    assert (found.problems, found.lacks) == (sent.problems, sent.lacks)


def test_the_client_is_who_was_asked_whatever_the_answer_says() -> None:
    answer = encode_answer(TrainingAnswer({"k": Update("other", STATE, 1, 0.5)}))
    assert decode_answer(answer, "c", 10**6).updates["k"].client == "c"


def test_an_answer_may_have_the_bytes_that_were_asked_for_and_not_one_more() -> None:
    answer = encode_answer(TrainingAnswer({"k": Update("c", STATE, 1, 0.5)}))
    size = size_of(answer)
    assert size > sum(held.nbytes for held in STATE.values())
    assert decode_answer(answer, "c", size).updates.keys() == {"k"}
    with pytest.raises(InputError, match=f"its answer has {size:,} bytes; at most {size - 1:,}"):
        decode_answer(answer, "c", size - 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"records": 1', '"records": true'),
        ('"records": 1', '"records": 1.0'),
        ('"records": 1', '"record": 1'),
        ('"loss": "0.5"', '"loss": "much"'),
        ('"lacks": []', '"lacks": 7'),
        ('"problems": {}', '"problems": []'),
        ('{"k":', '{"other":'),
    ],
)
def test_malformed_answers_are_refused(old: str, new: str) -> None:
    answer = encode_answer(TrainingAnswer({"k": Update("c", STATE, 1, 0.5)}))
    text = str(answer.config_records[TEXT]["json"])
    assert old in text
    answer.config_records[TEXT]["json"] = text.replace(old, new)
    with pytest.raises(InputError, match="its answer cannot be read"):
        decode_answer(answer, "c", 10**6)


def test_problems_of_a_client_are_cut_to_a_length() -> None:
    answer = encode_answer(TrainingAnswer(problems={"k": "x" * 10_000}))
    assert decode_answer(answer, "c", 10**6).problems == {"k": "x" * 500}
