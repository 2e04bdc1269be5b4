"""A certificate is written once, and is read only as what was signed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from certificates import KEY, certificate
from fedsgt.certificates.content import Certificate
from fedsgt.certificates.keys import PublicKey, SigningKey
from fedsgt.certificates.signatures import BadSignature, OtherKey, read_certificate, sign, write_certificate
from fedsgt.errors import InputError

ROOT = Path(__file__).parents[2]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write_certificate(tmp_path / "certificates", certificate(), KEY)
    assert path == tmp_path / "certificates" / "000007.json"
    assert read_certificate(path, KEY.public) == certificate() == read_certificate(path, None)
    assert os.listdir(path.parent) == ["000007.json"]
    assert write_certificate(tmp_path, certificate(12345678), KEY).name == "12345678.json"


def test_the_same_again_is_fine_and_another_is_refused(tmp_path: Path) -> None:
    path = write_certificate(tmp_path, certificate(), KEY)
    before = path.read_bytes()
    assert write_certificate(tmp_path, certificate(), KEY) == path
    other_key = SigningKey(Ed25519PrivateKey.generate())
    for other, key in ((certificate(choices=("x",)), KEY), (certificate(), other_key)):
        with pytest.raises(InputError, match=r"000007\.json: another certificate of this request is there"):
            write_certificate(tmp_path, other, key)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["000007.json"]


def test_a_damaged_one_is_not_replaced(tmp_path: Path) -> None:
    path = write_certificate(tmp_path, certificate(), KEY)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"000007\.json: not whole JSON"):
        write_certificate(tmp_path, certificate(), KEY)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: cannot make this folder"):
        write_certificate(tmp_path / "file", certificate(), KEY)
    with pytest.raises(InputError, match="inner: cannot make this folder"):
        write_certificate(tmp_path / "missing" / "inner", certificate(), KEY)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("written"), certificate(), KEY)


@given(data=st.data())
def test_a_changed_byte_is_found_unless_it_changes_nothing(written: Path, data: st.DataObject) -> None:
    text = bytearray(written.read_bytes())
    position = data.draw(st.integers(0, len(text) - 1))
    text[position] = data.draw(st.integers(0, 255))
    changed = written.with_name("changed.json")
    changed.write_bytes(text)
    try:
        found: Certificate | str = read_certificate(changed, KEY.public)
    except InputError as error:
        found = str(error)
    if isinstance(found, str):
        assert found.startswith(f"{changed}: ")
        assert "\n" not in found
    else:
        # One space for another, between the JSON's parts, is the same file to every reader.
        assert found == certificate()
        assert json.loads(text) == json.loads(written.read_bytes())


@given(data=st.data())
def test_a_changed_text_is_found(written: Path, data: st.DataObject) -> None:
    """Every value of the body, wherever it is, is under the signature."""
    envelope: Any = json.loads(written.read_bytes())
    place, name = envelope, "body"
    while isinstance(place[name], dict | list) and place[name]:
        place = place[name]
        name = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
    place[name] = data.draw(
        st.sampled_from([None, "", 0, "0" * 64, [], "x"]).filter(lambda v: v != place[name])
    )
    changed = written.with_name("changed.json")
    changed.write_text(json.dumps(envelope))
    with pytest.raises(BadSignature, match="does not hold"):
        read_certificate(changed, KEY.public)


def test_a_body_with_a_missing_or_another_part_is_no_certificate(tmp_path: Path) -> None:
    body = certificate().model_dump(mode="json")
    for changed, said in (
        ({**body, "format": 1}, "certificate: groups_hit is no field of format 1"),
        ({name: value for name, value in body.items() if name != "keys"}, "certificate: keys is missing"),
        ({**body, "kind": "letter"}, "kind: "),
        ({name: value for name, value in body.items() if name != "served"}, "served: Field required"),
        ({**body, "also\n\x1b[31m": 1}, r"also\n\x1b[31m: Extra inputs"),
        ({**body, "run": 1}, "run: Input should be a valid string"),
        ({**body, "statement": {"proved": ["all"], "not_proved": []}}, "statement.not_proved: "),
    ):
        path = tmp_path / "signed.json"
        path.write_text(json.dumps(sign(changed, KEY)))
        with pytest.raises(InputError) as error:
            read_certificate(path, KEY.public)
        assert not isinstance(error.value, BadSignature)
        assert str(error.value).startswith(f"{path}: not a certificate of format {changed['format']} ({said}")
        assert str(error.value).isprintable()


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "signed.json"
    path.write_text(json.dumps(sign({**certificate().model_dump(mode="json"), "format": 4}, KEY)))
    for key in (KEY.public, None):
        with pytest.raises(InputError, match=r"newer version of fedsgt \(format 4; this one knows up to 3\)"):
            read_certificate(path, key)


def test_certificates_of_the_first_version_still_verify() -> None:
    old = ROOT / "tests" / "fixtures" / "run-0.1.0"
    (path,) = (old / "certificates").glob("*.json")
    found = read_certificate(path, PublicKey.read(old / "signing.pub"))
    assert (found.format, found.groups_hit, found.keys, found.sources) == (1, {}, [], [])
    assert found.model_dump(mode="json", exclude_unset=True) == json.loads(path.read_text())["body"]


def test_another_key_of_the_same_run_is_explained(tmp_path: Path) -> None:
    old = SigningKey(Ed25519PrivateKey.generate())
    path = write_certificate(tmp_path, certificate(keys=(old.public_id, KEY.public_id)), KEY)
    with pytest.raises(OtherKey) as error:
        read_certificate(path, old.public)
    for said in (
        "which the key given does not check",
        f"{old.public_id} from position 5 on, {KEY.public_id} from position 10 on",
        f"ask its signer for the public key, signing-{KEY.public_id[:16]}.pub",
    ):
        assert said in str(error.value)
    stranger = SigningKey(Ed25519PrivateKey.generate())
    with pytest.raises(OtherKey) as other:
        read_certificate(path, stranger.public)
    assert "changed its key" not in str(other.value)


@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG\r\n\x1a\n\x00\xff", b"[]", b"{", b'{"body":{},"signature":{}}', b"null"]
)
def test_what_is_no_certificate_is_said_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    for key in (KEY.public, None):
        with pytest.raises(InputError) as error:
            read_certificate(path, key)
        assert str(error.value).startswith(f"{path}: ")
        assert "\n" not in str(error.value)


def test_an_endless_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsgt.certificates.signatures.MAX_BYTES", 1000)
    with pytest.raises(InputError, match="larger than 1000 bytes"):
        read_certificate(write_certificate(tmp_path, certificate(), KEY), None)


def test_it_works_with_no_run_at_hand() -> None:
    """Neither torch nor what makes and keeps runs is loaded to check a certificate."""
    code = (
        "import sys, fedsgt.certificates.signatures, fedsgt.cli.commands.certificate; "
        "bad = {'torch', 'sqlalchemy', 'safetensors', 'fedsgt.build', 'fedsgt.store'}; "
        "print(sorted(bad & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def by_hand(folder: Path) -> subprocess.CompletedProcess[str]:
    """The commands that the document gives, as they stand there."""
    page = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    script = page.split("## By hand", 1)[1].split("```\n")[1]
    return subprocess.run(["sh", "-euc", script], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("python3")), reason="no openssl here")
def test_openssl_comes_to_the_same(tmp_path: Path) -> None:
    path = write_certificate(tmp_path, certificate(), KEY)
    (tmp_path / "public.pem").write_text(KEY.public_text)
    done = by_hand(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Signature Verified Successfully" in done.stdout
    path.write_text(path.read_text(encoding="utf-8").replace('"count": 2', '"count": 3'), encoding="utf-8")
    assert by_hand(tmp_path).returncode != 0
