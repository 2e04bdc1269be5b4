"""The build: wanted minus present, parents first, each finished round on disk before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedsgt.build.targets import Recipe, Target
from fedsgt.engine.task import Engine, Result, Task, Tensors
from fedsgt.stack import profile
from fedsgt.store import Manifest, Modules, Origin


class Watcher(Protocol):
    """Told how a build goes on; it decides nothing."""

    def round_done(self, target: Target, result: Result) -> None: ...

    def module_done(self, target: Target, manifest: Manifest) -> None: ...


@dataclass
class Progress:
    """How far one module is: its finished rounds and who took part in them."""

    target: Target
    state: Tensors | None = field(default=None, repr=False)
    participants: list[dict[str, int]] = field(default_factory=list)

    def next_task(self) -> Task:
        target = self.target
        return Task(target.key, target.parents, target.slices, len(self.participants) + 1, self.state)


@dataclass
class Build:
    """One build of some targets into a store. After a stop the next goes on from what is on disk."""

    recipe: Recipe
    modules: Modules
    engine: Engine
    rounds: int
    seed: int
    watcher: Watcher

    def run(self, targets: Sequence[Target], priority: Callable[[Target], float] | None = None) -> list[str]:
        """Train what is missing; of what could be trained now, the lowest priority value comes first.

        Returns the keys that were trained. Equal prefixes have equal keys, and are trained once.
        """
        wanted = {target.key: target for target in targets}
        needed = wanted.keys() | {key for target in targets for key in target.parents}
        present = {key for key in needed if self._is_present(key)}
        waiting = [target for key, target in wanted.items() if key not in present]
        if priority is not None:
            waiting.sort(key=priority)
        running: dict[str, Progress] = {}
        trained: list[str] = []
        while waiting or running:
            self._start_ready(waiting, running, present)
            done = self._step(running)
            if done is not None:
                present.add(done)
                trained.append(done)
        return trained

    def _start_ready(self, waiting: list[Target], running: dict[str, Progress], present: set[str]) -> None:
        for target in list(waiting):
            if len(running) >= self.engine.capacity:
                return
            if target.parent is None or target.parent in present:
                waiting.remove(target)
                running[target.key] = self._resume(target)
                self.engine.submit(running[target.key].next_task())
        if not running:
            raise ValueError(f"{len(waiting)} modules wait for parents that are neither wanted nor present")

    def _step(self, running: dict[str, Progress]) -> str | None:
        """Wait for one round, and put it on disk; the key if it was a module's last."""
        result = self.engine.wait()
        progress = running[result.key]
        progress.state = result.state
        progress.participants.append(result.participants)
        self.watcher.round_done(progress.target, result)
        if len(progress.participants) < self.rounds:
            self.modules.save_round(result.key, result.round, result.state, progress.participants)
            self.engine.submit(progress.next_task())
            return None
        manifest = self.modules.put(self._origin(progress, result), self.engine.finish(result.state))
        self.modules.discard_round(result.key)
        del running[result.key]
        self.watcher.module_done(progress.target, manifest)
        return result.key

    def _is_present(self, key: str) -> bool:
        """A module that is not whole is thrown away: it will be trained again, and never served."""
        state = self.modules.state(key)
        if state == "corrupt":
            self.modules.discard(key)
        return state == "present"

    def _resume(self, target: Target) -> Progress:
        """After the last finished round, if there is one on disk."""
        kept = self.modules.load_round(target.key)
        if kept is None or kept.number >= self.rounds:
            return Progress(target)
        return Progress(target, kept.tensors, [dict(entry) for entry in kept.participants])

    def _origin(self, progress: Progress, result: Result) -> Origin:
        target, recipe = progress.target, self.recipe
        return Origin(
            key=target.key,
            parent=target.parent,
            groups=list(target.groups),
            prefix=list(target.prefix),
            config_hash=recipe.config_hash,
            config=dict(recipe.config),
            backbone=recipe.backbone,
            rounds=self.rounds,
            participants=progress.participants,
            seed=self.seed,
            versions=profile.versions(),
            profile=dict(recipe.profile),
            machine=dict(profile.machine()),
            metrics={"loss": result.loss},
        )
