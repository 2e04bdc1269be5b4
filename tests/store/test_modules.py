"""A module is whole or not there, whatever happened to its files."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_modules import KEY, MANIFEST, OTHER, TENSORS, draw_damage, flip, origin, spoil, tensors

from fedsgt.errors import InputError
from fedsgt.store import (
    CorruptModule,
    Folder,
    MissingModule,
    Modules,
    StoreError,
    open_objects,
    tensor_hash,
)

BAD_KEYS: list[Any] = ["", "a" * 63, "A" * 64, "../" + "a" * 61, "a" * 64 + "\n", "a" * 64 + "/..", 5, None]


def digest(value: float) -> bytes:
    return tensor_hash(tensors(value)).encode()


def test_what_is_put_is_there(modules: Modules) -> None:
    assert modules.state(KEY) == "missing"
    made = modules.put(origin(), tensors())
    assert made.sha256 == tensor_hash(tensors())
    assert modules.state(KEY) == "present"
    assert modules.manifest(KEY) == made
    assert tensor_hash(modules.get(KEY)) == made.sha256
    assert modules.objects.names() == [MANIFEST, TENSORS]
    assert pickle.loads(pickle.dumps(modules)).state(KEY) == "present"


def test_the_manifest_is_written_last_and_deleted_first(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, kind = list[str](), type(modules.objects)
    write, delete = kind.write, kind.delete

    def noted_write(self: Any, name: str, data: bytes) -> None:
        steps.append(f"write {name}")
        write(self, name, data)

    def noted_delete(self: Any, name: str) -> None:
        steps.append(f"delete {name}")
        delete(self, name)

    monkeypatch.setattr(kind, "write", noted_write)
    monkeypatch.setattr(kind, "delete", noted_delete)
    modules.put(origin(), tensors())
    assert steps == [f"delete {MANIFEST}", f"write {TENSORS}", f"write {MANIFEST}"]
    steps.clear()
    modules.discard(KEY)
    assert steps == [f"delete {MANIFEST}", f"delete {TENSORS}"]


def test_a_module_may_be_put_again(modules: Modules) -> None:
    modules.put(origin(), tensors(1))
    made = modules.put(origin(), tensors(2))
    assert tensor_hash(modules.get(KEY)) == made.sha256 == tensor_hash(tensors(2))


def test_a_manifest_that_goes_with_other_tensors_is_not_put(modules: Modules) -> None:
    made = modules.put(origin(), tensors(1))
    with pytest.raises(InputError, match="hash to"):
        modules.put(made, tensors(2))
    assert tensor_hash(modules.get(KEY)) == made.sha256
    assert modules.put(made, tensors(1)) == made


@pytest.mark.parametrize("wrong", [{}, {"w": np.array([None])}, {"w": np.arange(3)}])
def test_what_is_no_module_is_not_put_and_harms_nothing(modules: Modules, wrong: Any) -> None:
    modules.put(origin(), tensors())
    with pytest.raises(InputError):
        modules.put(origin(), wrong)
    assert modules.state(KEY) == "present"


def test_a_discarded_module_leaves_nothing(modules: Modules) -> None:
    modules.put(origin(), tensors())
    modules.put(origin(OTHER), tensors())
    modules.objects.write(f"modules/{KEY}/something", b"else")
    for _ in range(2):
        modules.discard(KEY)
        assert modules.keys() == [OTHER]
        assert modules.objects.names(f"modules/{KEY}") == []
    assert modules.state(KEY) == "missing"
    assert modules.state(OTHER) == "present"


def test_discarding_takes_what_killed_writers_left(tmp_path: Path) -> None:
    modules = Modules(Folder(tmp_path))
    for folder, left in ((f"modules/{KEY}", "module.safetensors"), ("rounds", f"{KEY}.safetensors")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f".0123456789abcdef.{left}").write_bytes(b"half of a module")
    assert modules.keys() == modules.objects.names("rounds/") == []
    modules.discard(KEY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rounds"]
    modules.discard_checkpoint(KEY)
    assert list(tmp_path.iterdir()) == []


def test_keys_are_those_with_a_module_or_remains(modules: Modules) -> None:
    modules.put(origin(OTHER), tensors())
    modules.objects.write(TENSORS, b"")
    modules.objects.write("modules/README", b"")
    modules.save_checkpoint("c" * 64, 1, tensors(), [{}])
    assert modules.keys() == [KEY, OTHER]


SPOILT: list[tuple[str, str, Callable[[bytes], bytes]]] = [
    ("tensors empty", TENSORS, lambda data: b""),
    ("tensors cut at the end", TENSORS, lambda data: data[:-1]),
    ("tensors cut in the header", TENSORS, lambda data: data[:20]),
    ("tensors longer", TENSORS, lambda data: data + b"\0"),
    ("tensors garbage", TENSORS, lambda data: b"\xff" * len(data)),
    ("a bit of a tensor flipped", TENSORS, lambda data: flip(data, 8 * len(data) - 3)),
    ("a tensor renamed", TENSORS, lambda data: data.replace(b"lora", b"lore")),
    ("a type changed", TENSORS, lambda data: data.replace(b"F32", b"I32")),
    ("a type unknown to numpy", TENSORS, lambda data: data.replace(b"F32", b"F8_")),
    ("manifest empty", MANIFEST, lambda data: b""),
    ("manifest cut", MANIFEST, lambda data: data[:-2]),
    ("manifest garbage", MANIFEST, lambda data: b"{]"),
    ("manifest binary", MANIFEST, lambda data: b"\xff\0"),
    ("manifest of nothing", MANIFEST, lambda data: b"null\n"),
    ("a changed metric", MANIFEST, lambda data: data.replace(b'"loss": 0.5', b'"loss": 0.7')),
    ("a changed fingerprint", MANIFEST, lambda data: data.replace(b"c" * 64, b"c" * 63 + b"b")),
    ("another note", TENSORS, lambda data: data.replace(b'{"note":"', b'{"nite":"')),
    ("another hash", MANIFEST, lambda data: data.replace(digest(1.0), digest(2.0))),
]


@pytest.mark.parametrize(("what", "name", "change"), SPOILT, ids=[what for what, _, _ in SPOILT])
def test_spoilt_files_are_found_out(
    modules: Modules, what: str, name: str, change: Callable[[bytes], bytes]
) -> None:
    modules.put(origin(), tensors())
    spoil(modules, name, change)
    assert modules.state(KEY) == "corrupt"
    with pytest.raises(CorruptModule, match=f"module {KEY} is corrupt: .") as caught:
        modules.get(KEY)
    assert "\n" not in str(caught.value)
    modules.put(origin(), tensors())
    assert modules.state(KEY) == "present"


def test_swapped_manifests_are_found_out(modules: Modules) -> None:
    for key, value in ((KEY, 1), (OTHER, 1)):
        modules.put(origin(key), tensors(value))
    names = (MANIFEST, MANIFEST.replace(KEY, OTHER))
    ours, theirs = map(modules.objects.read, names)
    modules.objects.write(names[0], theirs)
    modules.objects.write(names[1], ours)
    assert list(map(modules.state, modules.keys())) == ["corrupt", "corrupt"]
    with pytest.raises(CorruptModule, match=f"module {KEY} is corrupt: its manifest is that of {OTHER}"):
        modules.manifest(KEY)


def test_swapped_tensors_are_found_out(modules: Modules) -> None:
    modules.put(origin(OTHER), tensors(2))
    modules.put(origin(), tensors(1))
    modules.objects.write(TENSORS, modules.objects.read(TENSORS.replace(KEY, OTHER)))
    with pytest.raises(CorruptModule, match="its tensors hash to"):
        modules.get(KEY)


def test_missing_files(modules: Modules) -> None:
    modules.put(origin(), tensors())
    modules.objects.delete(TENSORS)
    with pytest.raises(CorruptModule, match="has a manifest but no tensors"):
        modules.get(KEY)
    modules.put(origin(), tensors())
    modules.objects.delete(MANIFEST)
    for call in (modules.get, modules.manifest):
        with pytest.raises(MissingModule, match=f"module {KEY} is not in the store"):
            call(KEY)
    assert (modules.state(KEY), modules.keys()) == ("missing", [KEY])


@given(st.data())
def test_any_flipped_bit_or_cut_is_found_out(data: st.DataObject) -> None:
    modules = Modules(open_objects("memory://flips"))
    modules.put(origin(), tensors())
    draw_damage(modules, data.draw(st.sampled_from([TENSORS, MANIFEST])), data)
    assert modules.state(KEY) == "corrupt"


@pytest.mark.parametrize("key", BAD_KEYS)
def test_keys_that_are_none_are_refused(modules: Modules, key: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: modules.get(key),
        lambda: modules.manifest(key),
        lambda: modules.state(key),
        lambda: modules.discard(key),
        lambda: modules.save_checkpoint(key, 1, tensors(), [{}]),
        lambda: modules.load_checkpoint(key),
        lambda: modules.discard_checkpoint(key),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"module key .* is not allowed"):
            call()


def test_a_store_that_cannot_be_read_is_neither_missing_nor_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = Modules(Folder(tmp_path))
    modules.put(origin(), tensors())
    modules.save_checkpoint(KEY, 1, tensors(), [{}])

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    for call in (modules.state, modules.load_checkpoint):
        with pytest.raises(StoreError, match=r"cannot read .* Permission denied"):
            call(KEY)
