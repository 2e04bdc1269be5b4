from __future__ import annotations

import sys

import pytest

from fedsgt.errors import InputError
from fedsgt.files.optional import check_flower, require


def test_what_is_installed_is_imported() -> None:
    assert require("json.decoder") is sys.modules["json.decoder"]


def test_what_is_missing_is_named_with_what_to_install() -> None:
    with pytest.raises(InputError) as error:
        require("no_such_package.part")
    assert str(error.value) == (
        "this data source needs the package no_such_package, which cannot be imported "
        "(No module named 'no_such_package'); install it with pip install 'fedsgt[train]'"
    )


def test_flower_is_looked_for_and_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "flwr", raising=False)
    check_flower()
    assert "flwr" not in sys.modules
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(InputError, match=r"needs Flower: pip install 'fedsgt\[flower\]'"):
        check_flower()
