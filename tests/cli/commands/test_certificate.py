"""`fedsgt certificate`, as whoever received a certificate meets it: right files and wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import Done, fedsgt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from certificates import KEY, certificate
from fedsgt.certificates.keys import SigningKey
from fedsgt.certificates.signatures import sign, write_certificate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return two certificates and their public key."""
    for position, choices in ((7, ()), (9, ("grouping: bac looked at data content",))):
        write_certificate(tmp_path, certificate(position, choices), KEY)
    (tmp_path / "public.pem").write_text(KEY.public_text)
    return tmp_path


def verify(folder: Path, *arguments: str, key: str = "public.pem") -> Done:
    return fedsgt("certificate", "verify", *arguments, "--key", key, cwd=folder)


def fails(done: Done, code: int, said: str) -> None:
    """Check that the error is one line, and that nothing else is printed."""
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("fedsgt: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_it_says_what_holds(folder: Path) -> None:
    done = verify(folder, "000007.json")
    assert (done.returncode, done.stderr) == (0, "")
    for said in (
        "000007.json: the signature holds",
        KEY.public_id,
        "run            a run, Zoë's",
        "request        position 7 at 2026-05-01T10:00:00.5Z, chain hash aaaa",
        "deleted      2 records in slices 1, 4 of client dddd",
        "deleted      a whole slice: 41 records in slice 0 of client eeee",
        "complete       position 8 at 2026-05-01T10:00:01+00:00, chain hash bbbb",
        "destroyed      3 artefacts: metrics 1, module 2",
        "served         1 module of 2 groups",
        "no choice looked at it",
        *certificate().statement.proved,
        *certificate().statement.not_proved,
    ):
        assert said in done.stdout


def test_several_are_checked_in_order(folder: Path) -> None:
    done = verify(folder, "000007.json", "000009.json")
    assert done.returncode == 0
    assert 0 <= done.stdout.index("000007.json: the sig") < done.stdout.index("000009.json: the sig")
    assert "data content   grouping: bac looked at data content" in done.stdout
    (folder / "000007.json").write_text(
        (folder / "000007.json").read_text(encoding="utf-8").replace("count", "counts"), encoding="utf-8"
    )
    done = verify(folder, "000007.json", "none.json", "000009.json")
    assert done.returncode == 1
    assert "000009.json: the signature holds" in done.stdout
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["000007.json", "none.json"]


def test_json_for_programs(folder: Path) -> None:
    found: list[dict[str, Any]] = json.loads(verify(folder, "000009.json", "000007.json", "--json").stdout)
    assert [(entry["file"], entry["holds"], entry["error"]) for entry in found] == [
        ("000009.json", True, None),
        ("000007.json", True, None),
    ]
    assert found[1]["certificate"] == certificate().model_dump(mode="json")
    done = verify(folder, "public.pem", "--json")
    assert done.returncode == 2
    assert "not whole JSON" in done.stderr
    entry = json.loads(done.stdout)[0]
    assert (entry["holds"], entry["certificate"]) == (False, None)
    assert "not whole JSON" in entry["error"]


def test_a_changed_text_does_not_hold(folder: Path) -> None:
    path = folder / "000007.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"count": 41', '"count": 40'), encoding="utf-8")
    fails(verify(folder, path.name), 1, "000007.json: the signature does not hold")


def test_another_key_does_not_fit(folder: Path) -> None:
    other = SigningKey(Ed25519PrivateKey.generate())
    (folder / "other.pem").write_text(other.public_text)
    done = verify(folder, "000007.json", key="other.pem")
    fails(done, 1, f"signed with key {KEY.public_id}")
    assert other.public_id in done.stderr


def test_a_private_key_is_refused(folder: Path) -> None:
    SigningKey.make(folder / "secret.pem")
    fails(verify(folder, "000007.json", key="secret.pem"), 2, "secret.pem: holds a private key")


@pytest.mark.parametrize(
    ("file", "key", "said"),
    [
        ("none.json", "public.pem", "none.json: cannot read it (No such file"),
        ("public.pem", "public.pem", "public.pem: not whole JSON"),
        (".", "public.pem", "cannot read it (Is a directory)"),
        ("000007.json", "none.pem", "none.pem: cannot read it (No such file"),
        ("000007.json", "000007.json", "000007.json: not a public key"),
        (
            "letter.json",
            "public.pem",
            "letter.json: not a certificate of format 1 to 3 (format: Field required)",
        ),
        ("float.json", "public.pem", "float.json: number 7.0 is not allowed"),
        ("twice.json", "public.pem", "twice.json: key 'body' stands twice"),
    ],
)
def test_wrong_input(folder: Path, file: str, key: str, said: str) -> None:
    text = (folder / "000007.json").read_text(encoding="utf-8")
    (folder / "letter.json").write_text(json.dumps(sign({"dear": "reader"}, KEY)))
    (folder / "float.json").write_text(text.replace('"position": 7', '"position": 7.0'), encoding="utf-8")
    (folder / "twice.json").write_text(text.replace("{", '{"body": {},', 1), encoding="utf-8")
    fails(verify(folder, file, key=key), 2, said)


def test_show_says_that_nothing_was_checked(folder: Path) -> None:
    path = folder / "000007.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace("a run, Zoë's", "any\\n\\u001b[2Jthing"), encoding="utf-8"
    )
    done = fedsgt("certificate", "show", path.name, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == lines[-1]
    assert "NOT CHECKED" in lines[0]
    assert "run            any\\n\\x1b[2Jthing" in lines
    assert "served         1 module of 2 groups" in lines
    fails(fedsgt("certificate", "show", "public.pem", cwd=folder), 2, "public.pem: not whole JSON")
