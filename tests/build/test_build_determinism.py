"""Same data and configuration, same bytes: whatever the process, the order, the company, or the cache.

Where it can be had cheaply, each check is also made on a variant that is broken on purpose.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_world
from tiny_world import Made, World, build, made, started, trained

from fedsgt.build.targets import Target
from fedsgt.config import Config
from fedsgt.engine.cache import ActivationCache
from fedsgt.engine.inprocess import InProcess
from fedsgt.files.tensors import Tensors
from fedsgt.stack import profile
from fedsgt.stack.stack import Stack

Break = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def expected(images: World, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return trained(tmp_path_factory.mktemp("expected") / "run", images.config())


def test_another_run_in_the_same_process(images: World, expected: Made, tmp_path: Path) -> None:
    assert trained(tmp_path / "run", images.config()) == expected


FRESH = """
import json, sys
from pathlib import Path
from fedsgt.config import load
from fedsgt.stack import profile
if __name__ == "__main__":
    profile.apply()
    from tiny_world import trained
    found = trained(Path(sys.argv[1]), load(sys.argv[2], sys.argv[3:]))
    print(json.dumps([[list(groups), *hashes] for groups, hashes in found.items()]))
"""


def in_a_fresh_process(path: Path, run: Config, *overrides: str) -> Made:
    """Train in a process without the variables that the tests' own process was started with."""
    from fedsgt.config import to_toml

    file = path.with_suffix(".toml")
    file.write_text(to_toml(run))
    clean = {name: value for name, value in os.environ.items() if name not in profile.environment()}
    path_of_modules = f"{Path(tiny_world.__file__).parent}{os.pathsep}{clean.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", FRESH, path, file, *overrides],
        env={**clean, "PYTHONPATH": path_of_modules, "PYTHONHASHSEED": "123"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {tuple(groups): (key, sha) for groups, key, sha in json.loads(done.stdout)}


def test_a_fresh_process(images: World, expected: Made, tmp_path: Path) -> None:
    assert in_a_fresh_process(tmp_path / "run", images.config()) == expected


@pytest.mark.parametrize(
    "workers",
    [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)],
)
def test_worker_processes(images: World, expected: Made, tmp_path: Path, workers: int) -> None:
    assert trained(tmp_path / "run", images.config(f"engine.workers={workers}")) == expected


def by_depth(target: Target) -> float:
    return len(target.groups)


def backwards(target: Target) -> float:
    return -target.groups[0]


def parents_kept_by_number(patch: pytest.MonkeyPatch) -> None:
    """Break the stack: it keeps the modules that it has if as many others are to be loaded."""
    inner, loaded = Stack.load, dict[int, int]()

    def broken(self: Stack, modules: Sequence[Tensors]) -> None:
        if loaded.get(id(self)) != len(modules):
            inner(self, modules)
            loaded[id(self)] = len(modules)

    patch.setattr(Stack, "load", broken)


def parents_kept(patch: pytest.MonkeyPatch) -> None:
    """Break the stack: it keeps the first modules for good."""
    inner, loaded = Stack.load, set[int]()

    def broken(self: Stack, modules: Sequence[Tensors]) -> None:
        if id(self) not in loaded:
            inner(self, modules)
            loaded.add(id(self))

    patch.setattr(Stack, "load", broken)


def global_start(patch: pytest.MonkeyPatch) -> None:
    """Fresh modules drawn from one generator, one after another."""
    shared = np.random.default_rng(0)
    inner = Stack.begin

    def broken(self: Stack, seed: int, head: Any) -> Any:
        return inner(self, int(shared.integers(2**32)), head)

    patch.setattr(Stack, "begin", broken)


def head_left(patch: pytest.MonkeyPatch) -> None:
    """A head that is not put back."""
    patch.setattr(Stack, "_set_head", lambda self, module: None)
    patch.setattr(Stack, "_restore_head", lambda self: None)


@pytest.mark.parametrize(
    ("priority", "broken"),
    [
        (by_depth, None),
        (backwards, None),
        (by_depth, parents_kept_by_number),
        (backwards, global_start),
        (by_depth, head_left),
    ],
)
def test_another_order(
    images: World,
    expected: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    priority: Callable[[Target], float],
    broken: Break | None,
) -> None:
    if broken is not None:
        broken(monkeypatch)
        expected = trained(tmp_path / "usual", images.config())
        monkeypatch.undo()
        broken(monkeypatch)
    prepared, folder = started(tmp_path / "run", images.config())
    order = build(prepared, folder, priority=priority).modules
    assert order != [target.groups for target in prepared.targets]
    assert (made(folder) == expected) == (broken is None)


@pytest.mark.parametrize("broken", [None, parents_kept, head_left])
def test_each_module_by_an_engine_of_its_own(
    images: World,
    expected: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Break | None,
) -> None:
    """Nothing of one phase is handed to the next but what is on disk."""
    if broken is not None:
        broken(monkeypatch)
        expected = trained(tmp_path / "together", images.config())
    prepared, folder = started(tmp_path / "run", images.config())
    for target in prepared.targets:
        assert build(prepared, folder, [target]).modules == [target.groups]
    assert (made(folder) == expected) == (broken is None)


def test_one_sequence_after_another(images: World, expected: Made, tmp_path: Path) -> None:
    prepared, folder = started(tmp_path / "run", images.config())
    for sequence in reversed(prepared.plan.sequences):
        chosen = [target for target in prepared.targets if target.groups == sequence[: len(target.groups)]]
        build(prepared, folder, chosen)
    assert made(folder) == expected


KINDS: dict[str, Sequence[str]] = {
    "lora": ["peft.kind=lora", "training.rounds=2"],
    "lora, A frozen": ["peft.kind=lora", "peft.freeze_a=true", "training.optimizer=sgd"],
    "ia3": ["peft.kind=ia3"],
    "prefix": ["peft.kind=prefix", "training.rounds=2"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_module(images: World, tmp_path: Path, kind: str) -> None:
    """In another order, with an engine for each half; two groups are enough."""
    run = images.config("grouping.groups=2", *KINDS[kind])
    plain = trained(tmp_path / "plain", run)
    prepared, folder = started(tmp_path / "run", run)
    build(prepared, folder, [target for target in prepared.targets if len(target.groups) == 1], backwards)
    build(prepared, folder)
    assert made(folder) == plain
    assert len({sha for _, sha in plain.values()}) == len(plain) == 4


@pytest.mark.parametrize("layers", ["all", 1])
def test_texts_whose_batches_are_padded(texts: World, tmp_path: Path, layers: str | int) -> None:
    run = texts.config("grouping.groups=2", f"peft.layers={layers}", "training.epochs=2")
    plain = trained(tmp_path / "plain", run)
    prepared, folder = started(tmp_path / "run", run)
    build(prepared, folder, priority=by_depth)
    assert made(folder) == plain


# The cache of lower layers' outputs.


@pytest.fixture(scope="module", params=["image", "text"])
def cached(request: pytest.FixtureRequest, images: World, texts: World) -> Config:
    world = images if request.param == "image" else texts
    return world.config("peft.layers=1", "grouping.groups=2")


@pytest.fixture(scope="module")
def uncached(cached: Config, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Without a folder for it, every engine computes all itself."""
    prepared, folder = started(tmp_path_factory.mktemp("uncached") / "run", cached)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(folder), "cache", None)
        build(prepared, folder)
    assert not (folder.path / "cache").exists()
    return made(folder)


def again(cached: Config, path: Path, cache: Path | None) -> Made:
    """A build over this cache."""
    prepared, folder = started(path, cached)
    if cache is not None:
        shutil.copytree(cache, folder.cache)
    build(prepared, folder)
    return made(folder)


def flipped(data: bytes) -> bytes:
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "flipped": flipped,
    "not one": lambda data: b"x" * len(data),
}


def test_cached_or_not_and_whatever_happened_to_the_cache(
    cached: Config, uncached: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, folder = started(tmp_path / "run", cached)
    build(prepared, folder)
    assert made(folder) == uncached
    files = sorted(folder.cache.glob("*/*"))
    assert {file.parent.name for file in files} == {
        fingerprint for client in prepared.clients for fingerprint in client.fingerprints()
    }
    with monkeypatch.context() as patch:
        patch.setattr(Stack, "lower", None)  # all of it comes from the cache
        assert again(cached, tmp_path / "again", folder.cache) == uncached
    whole = files[0].read_bytes()
    for file, damage in zip(files, DAMAGES.values(), strict=False):
        file.write_bytes(damage(file.read_bytes()))
    assert again(cached, tmp_path / "damaged", folder.cache) == uncached
    files[0].write_bytes(whole)


def test_a_damaged_cache_that_is_believed_would_be_found(
    cached: Config, uncached: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage the cached activations and their checksum alike: the modules' bytes then differ."""
    prepared, folder = started(tmp_path / "run", cached)
    build(prepared, folder)
    for file in folder.cache.glob("*/*"):
        file.write_bytes(with_checksum_of(flipped(file.read_bytes())))
    assert again(cached, tmp_path / "again", folder.cache) != uncached


def with_checksum_of(data: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(data[32:]).digest() + data[32:]


@pytest.mark.parametrize("broken", [False, True])
def test_the_cache_of_another_backbone_is_not_used(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    other = tmp_path / "other"
    tiny_world.save_models(other, seed=6)
    if broken:
        inner = ActivationCache.__init__
        monkeypatch.setattr(
            ActivationCache, "__init__", lambda self, folder, recipe: inner(self, folder, "one for all")
        )
    first = images.config("peft.layers=1", "grouping.groups=2")
    prepared, folder = started(tmp_path / "first", first)
    build(prepared, folder)
    second = images.config("peft.layers=1", "grouping.groups=2", f"model.backbone={other / 'vit'}")
    fresh = again(second, tmp_path / "fresh", None)
    assert (again(second, tmp_path / "again", folder.cache) == fresh) == (not broken)
    assert not fresh.keys() ^ made(folder).keys()
    assert not set(fresh.values()) & set(made(folder).values())


def test_predictions_do_not_depend_on_what_was_asked_before(
    images: World, expected: Made, tmp_path: Path
) -> None:
    """The head of a shorter prefix is its own last module's (definition 3)."""
    prepared, folder = started(tmp_path / "run", images.config())
    build(prepared, folder)
    chains = [folder.description.chain(groups) for groups in expected]
    with InProcess(prepared.setup(folder.modules, folder.cache), prepared.model.stack) as engine:
        together = engine.predict(chains)
    for chain, found in zip(chains, together, strict=True):
        with InProcess(prepared.setup(folder.modules, folder.cache), prepared.model.stack) as engine:
            assert np.array_equal(engine.predict([chain])[0], found)
    assert len({found.tobytes() for found in together}) == len(chains)
