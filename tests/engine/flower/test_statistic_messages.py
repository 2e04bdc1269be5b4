"""Messages about statistics arrive bit for bit, and answers that cannot be read are refused in one line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedsgt.engine.flower.messages import TEXT, size_of, tensor_record
from fedsgt.engine.flower.statistic_messages import (
    ChainQuestion,
    StatisticAnswer,
    StatisticOrder,
    decode_answer,
    decode_order,
    encode_answer,
    encode_order,
)
from fedsgt.errors import InputError
from fedsgt.stack.statistics import Statistic

KEY = "a" * 64


def some_statistic(seed: int = 0) -> Statistic:
    features = np.random.default_rng(seed).standard_normal((7, 4))
    return Statistic.of(features, [0, 1, 2, 0, 1, 2, 0], 3, 16)


def test_an_order_arrives_as_it_was_sent() -> None:
    order = StatisticOrder(
        "hospital",
        (ChainQuestion((), (0, 2)), ChainQuestion((KEY,), (0, 2))),
        {KEY: "b" * 64},
        {KEY: {"w": np.array([1.5, -0.0], np.float32)}},
        (KEY,),
        {"run": "r"},
    )
    found = decode_order(encode_order(order, tensor_record))
    assert found.modules[KEY]["w"].tobytes() == order.modules[KEY]["w"].tobytes()
    known = (order.client, order.questions, order.hashes, order.keep, order.about)
    assert (found.client, found.questions, found.hashes, found.keep, found.about) == known


def test_an_answer_arrives_bit_for_bit() -> None:
    statistics = {0: some_statistic(), 3: some_statistic(1)}
    answer = StatisticAnswer(statistics, {1: "its records changed"}, ("c" * 64,), "no")
    content = encode_answer(answer)
    found = decode_answer(content, size_of(content))
    assert found.statistics.keys() == statistics.keys()
    for number, one in statistics.items():
        again = found.statistics[number]
        assert again.gram.dtype == np.int64
        assert again.gram.tobytes() == one.gram.tobytes()
        assert again.cross.shape == one.cross.shape
        assert again.cross.tobytes() == one.cross.tobytes()
        assert (again.records, again.bits) == (7, 16)
    assert (found.problems, found.lacks, found.declined) == (answer.problems, answer.lacks, "no")


def test_an_answer_that_is_too_large_is_not_unpacked() -> None:
    content = encode_answer(StatisticAnswer({0: some_statistic()}))
    with pytest.raises(InputError, match=f"{size_of(content)} bytes; at most {size_of(content) - 1} were"):
        decode_answer(content, size_of(content) - 1)


SAID: dict[str, Any] = {
    "statistics": {"0": {"records": 7, "bits": 16}},
    "problems": {},
    "lacks": [],
    "declined": "",
}


def content(said: Any, **arrays: bytes) -> RecordDict:
    found = RecordDict({TEXT: ConfigRecord({"json": said if isinstance(said, str) else json.dumps(said)})})
    if arrays:
        held = {name: Array("int64", (1,), "numpy.ndarray", data) for name, data in arrays.items()}
        found["statistic/0"] = ArrayRecord(held)
    return found


def header(text: str) -> bytes:
    """The beginning of an array file that says this of itself."""
    body = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


BOMB = header("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000,), }")
PICKLE = header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"\x80\x04N."
GARBAGE = {
    "nothing": RecordDict(),
    "text": content("no json"),
    "deep": content("[" * 60_000),
    "list": content([]),
    "no numbers": content({**SAID, "statistics": [1]}),
    "no array": content(SAID),
    "half": content(SAID, gram=BOMB[:3]),
    "bomb": content(SAID, gram=BOMB, cross=BOMB),
    "pickle": content(SAID, gram=PICKLE, cross=PICKLE),
    "zip": content(SAID, gram=b"PK\x03\x04junk", cross=b"PK\x03\x04junk"),
    "name": content({**SAID, "statistics": {"first": {"records": 7, "bits": 16}}}),
    "huge number": content(json.dumps(SAID).replace('"records": 7', f'"records": 7{"0" * 5000}')),
    "no problems": content({**SAID, "problems": None}),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_what_nobody_can_read_is_one_line(case: str) -> None:
    with pytest.raises(InputError, match="its answer cannot be read") as caught:
        decode_answer(GARBAGE[case], 1 << 20)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("wrong", [{"records": True}, {"records": 7.0}, {"bits": "16"}, {"records": None}])
def test_numbers_must_be_numbers(wrong: dict[str, Any]) -> None:
    answer = encode_answer(StatisticAnswer({0: some_statistic()}))
    answer[TEXT] = ConfigRecord(
        {"json": json.dumps({**SAID, "statistics": {"0": {"records": 7, "bits": 16} | wrong}})}
    )
    with pytest.raises(InputError, match="cannot be read"):
        decode_answer(answer, 1 << 20)


def test_values_are_not_printed() -> None:
    order = StatisticOrder("c", (), modules={KEY: {"w": np.array([1234.5])}}, about={"salt": "1234"})
    assert "1234" not in repr(order)
