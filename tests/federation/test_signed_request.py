"""Only the holder of a client's key can ask for a deletion, and only of what that client has left."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_world import SLICES, Federation, make_federation

from fedsgt.errors import InputError
from fedsgt.federation.keys import load_private
from fedsgt.federation.signed_request import (
    Envelope,
    RequestRefused,
    _signed,
    check_request,
    sign_record_requests,
    sign_request,
)
from fedsgt.files.encoding import parse_json
from fedsgt.runs.state import Live
from fedsgt.unlearning.request import Deletion, enrolments
from fedsgt.unlearning.unlearn import accept, accept_parts, unlearn


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return make_federation(tmp_path_factory.mktemp("federation") / "fed")


@pytest.fixture(scope="module")
def live(federation: Federation) -> Live:
    return federation.run().live()


Sign = Callable[..., Envelope]


@pytest.fixture(scope="module")
def sign(federation: Federation, live: Live) -> Sign:
    """Return a request of any content, signed by client a."""
    key = load_private(federation.settings("a").key)
    return partial(_signed, key, live.description.id, federation.client("a"))


@pytest.fixture(scope="module")
def asked(federation: Federation, live: Live) -> Envelope:
    """Return a signed request for two records of client a."""
    key = load_private(federation.settings("a").key)
    (found,) = sign_record_requests(key, live.description.id, federation.client("a"), ["a00", "a01"])
    return found


def reason(envelope: object, live: Live) -> str:
    with pytest.raises(RequestRefused) as refused:
        check_request(envelope, live).parts(live)
    assert "\n" not in str(refused.value)
    return refused.value.reason


def edited(envelope: Envelope, **changes: Any) -> Envelope:
    return {**envelope, "body": {**envelope["body"], **changes}}


def test_a_client_names_slices_and_hashes_and_never_a_record(
    federation: Federation, live: Live, asked: Envelope
) -> None:
    client = federation.client("a")
    (part,) = check_request(asked, live).parts(live)
    located = client.locate(["a00", "a01"])
    assert (part.number, part.scope, part.slices) == (0, "records", tuple(located))
    assert part.count == 2
    assert set(part.records) == {client.hash_of("a00"), client.hash_of("a01")}
    assert "a00" not in json.dumps(asked)


def test_slices_and_whole_clients_are_counted_by_the_server(live: Live, sign: Sign) -> None:
    described = live.description.clients[0]
    (part,) = check_request(sign("slice", [0, 2], {}), live).parts(live)
    assert (part.slices, part.counts) == ((0, 2), (described.records[0], described.records[2]))
    (whole,) = check_request(sign("client", [], {}), live).parts(live)
    assert (whole.slices, whole.counts) == (tuple(range(SLICES)), tuple(described.records))


def test_signed_by_another_client(federation: Federation, live: Live) -> None:
    stolen = load_private(federation.settings("b").key)
    assert reason(sign_request(stolen, live.description.id, federation.client("a"), None), live) == "forged"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"slices": [0], "records": {}, "scope": "slice"}, "forged"),
        ({"client": "b"}, "forged"),
        ({"client_hash": "0" * 64}, "forged"),
        ({"nonce": "0" * 32}, "forged"),
        ({"client": "c"}, "unknown-client"),
        ({"run": "0" * 32}, "unknown-run"),
        ({"client": "a\n"}, "malformed"),
        ({"format": 2}, "malformed"),
        ({"kind": "certificate"}, "malformed"),
        ({"more": 1}, "malformed"),
        ({"slices": [-1]}, "malformed"),
        ({"nonce": "0" * 31}, "malformed"),
        ({"scope": "client"}, "malformed"),
        ({"scope": "slice"}, "malformed"),
        ({"records": {}}, "malformed"),
        ({"records": {"0": []}, "slices": [0]}, "malformed"),
        ({"records": {"00": ["0" * 64]}, "slices": [0]}, "malformed"),
        ({"records": {"0": ["0" * 63]}, "slices": [0]}, "malformed"),
        ({"records": {"0": ["0" * 64, "0" * 64]}, "slices": [0]}, "malformed"),
        ({"records": {"0": ["0" * 64], "1": ["0" * 64]}, "slices": [1, 0]}, "malformed"),
    ],
)
def test_edited(asked: Envelope, live: Live, changes: dict[str, Any], expected: str) -> None:
    assert reason(edited(asked, **changes), live) == expected


@pytest.mark.parametrize("envelope", [None, [], {}, {"body": {}}, {"body": {}, "signature": {}}, "text", 1])
def test_no_request_at_all(envelope: object, live: Live) -> None:
    assert reason(envelope, live) == "malformed"


@given(st.data())
def test_no_other_text_counts(asked: Envelope, live: Live, data: st.DataObject) -> None:
    """Whatever bit of a signed request is turned over."""
    text = bytearray(json.dumps(asked, separators=(",", ":")).encode())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(InputError):
        check_request(parse_json(bytes(text), "the request"), live)


def test_a_signature_has_one_spelling(asked: Envelope, live: Live) -> None:
    assert reason({**asked, "signature": asked["signature"] + "="}, live) == "malformed"


def test_a_client_that_holds_no_data_itself(federation: Federation, asked: Envelope, live: Live) -> None:
    here = [client.model_copy(update={"node": None}) for client in live.description.clients]
    local = Live(live.description.model_copy(update={"clients": here}), live.position, ())
    assert reason(asked, local) == "not-remote"


def test_more_than_there_is(federation: Federation, live: Live, sign: Sign) -> None:
    assert reason(sign("slice", [SLICES], {}), live) == "out-of-range"
    invented = [f"{number:064x}" for number in range(live.description.clients[0].records[1] + 1)]
    assert reason(sign("records", [1], {"1": invented}), live) == "too-many"
    check_request(sign("records", [1], {"1": invented[1:]}), live).parts(live)


def test_what_is_gone_does_not_go_again(tmp_path: Path) -> None:
    federation = make_federation(tmp_path / "fed")
    folder, client = federation.run(), federation.client("a")
    own = partial(_signed, load_private(federation.settings("a").key), folder.description.id, client)
    index, (first, *others) = next(
        (index, [client.hash_of(record.id) for record in part]) for index, part in enumerate(client.cut())
    )
    found = check_request(own("records", [index], {str(index): [first]}), folder.live())
    assert accept_parts(folder, found.parts, found.content, found.key).records == 1
    assert reason(own("records", [index], {str(index): [first]}), folder.live()) == "already-deleted"
    accept(folder, [Deletion("a", slices=(index,))])  # by the operator
    assert reason(own("records", [index], {str(index): others}), folder.live()) == "nothing-left"
    assert reason(own("slice", [index], {}), folder.live()) == "nothing-left"
    (rest,) = check_request(own("client", [], {}), folder.live()).parts(folder.live())
    assert index not in rest.slices, "the rest of the client can still go"
    accept(folder, [Deletion("a")])
    assert reason(own("client", [], {}), folder.live()) == "nothing-left"


def test_a_client_that_came_back_is_known_by_its_key(live: Live, sign: Sign) -> None:
    first, other = live.description.clients
    fingerprints = ["1" * 64, "2" * 64, "3" * 64]
    again = first.model_copy(update={"name": "a~2", "slices": fingerprints})
    stranger = other.model_copy(update={"name": "a~3", "slices": fingerprints})
    clients, group_of = [first, other, again, stranger], live.description.group_of * 2
    described = live.description.model_copy(update={"clients": clients, "group_of": group_of})
    now = Live(described, live.position, ())
    assert [part.number for part in check_request(sign("client", [], {}), now).parts(now)] == [0, 2]
    assert enrolments(described, "a") == [0, 2]


def test_the_operator_deletes_slices_and_clients_but_no_single_record(tmp_path: Path) -> None:
    folder = make_federation(tmp_path / "fed").run()
    with pytest.raises(InputError, match="fedsgt withdraw"):
        unlearn(folder, [Deletion("a", records=("a00",))])
    assert not folder.live().requests
    assert unlearn(folder, [Deletion("a", slices=(0,))]).records == folder.description.clients[0].records[0]
    assert unlearn(folder, [Deletion("b")]).records == sum(folder.description.clients[1].records)


def test_many_records_make_several_requests(
    federation: Federation, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsgt.federation.signed_request.MOST_RECORDS", 4)
    key, client = load_private(federation.settings("a").key), federation.client("a")
    found = sign_record_requests(key, live.description.id, client, [f"a{number:02d}" for number in range(10)])
    assert [sum(check_request(each, live).parts(live)[0].counts) for each in found] == [4, 4, 2]
    assert len({each["body"]["nonce"] for each in found}) == 3
