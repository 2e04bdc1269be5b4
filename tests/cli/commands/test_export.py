"""`fedsgt export`: a stock adapter, and wrong numbers of sequence and depth."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from command import fedsgt, shown


def test_export_is_a_stock_adapter(trained: Path, tmp_path: Path) -> None:
    assert "peft.PeftModel" in shown("export", str(trained), "--sequence", "1", "-o", str(tmp_path / "out"))
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["r"] == 2 * 8
    shown("export", str(trained), "--sequence", "0", "--depth", "1", "-o", str(tmp_path / "one"))
    assert json.loads((tmp_path / "one" / "adapter_config.json").read_text())["r"] == 8


def test_wrong_numbers_of_sequence_and_depth(trained: Path) -> None:
    for options, message in (
        (("--sequence", "2"), "sequence: 2 is not between 0 and 1"),
        (("--sequence", "0", "--depth", "3"), "depth: 3 is not allowed; the sequence has 2 live modules"),
    ):
        done = fedsgt("export", str(trained), *options)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_without_a_folder_it_goes_into_the_run(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    said = shown("export", str(tmp_path / "run"), "--sequence", "0")
    (written,) = (tmp_path / "run/export").iterdir()
    assert said == (
        f"Wrote {written}: load it with peft.PeftModel.from_pretrained(model, {str(written)!r})\n"
    )
    assert (written / "adapter_model.safetensors").is_file()


def test_the_sequence_must_be_named(trained: Path) -> None:
    done = fedsgt("export", str(trained))
    assert done.returncode == 2
    assert "--sequence" in done.stderr
