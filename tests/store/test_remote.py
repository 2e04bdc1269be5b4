"""Objects at a URL: failures in one line, without its secrets, and URLs told apart from folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedsgt.errors import InputError
from fedsgt.store import Folder, Remote, StoreError, open_objects


@pytest.mark.parametrize(("call", "method"), [("read", "cat_file"), ("delete", "rm_file"), ("names", "find")])
def test_a_remote_failure_names_the_file(monkeypatch: pytest.MonkeyPatch, call: str, method: str) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no\ncredentials")

    monkeypatch.setattr(f"fsspec.implementations.memory.MemoryFileSystem.{method}", fail)
    with pytest.raises(StoreError, match=r"cannot \w+ /run\S*: no credentials; "):
        getattr(Remote("memory://run"), call)("a")


def test_places_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        open_objects("some/folder") == open_objects(Path("some/folder")) == Folder(tmp_path / "some/folder")
    )
    assert open_objects(f"file://{tmp_path}") == Folder(tmp_path)
    assert open_objects("memory://x") == Remote("memory://x")
    with pytest.raises(InputError, match="is empty"):
        open_objects("")


def test_an_unknown_kind_of_store_is_said_without_the_secrets_of_its_url() -> None:
    with pytest.raises(
        StoreError, match=r"a store of kind 'nosuch' cannot be opened \(Protocol not known: nosuch"
    ) as caught:
        open_objects("nosuch://user:secret@host/x")
    assert "secret" not in str(caught.value)
