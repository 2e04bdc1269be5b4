"""The build: wanted minus present, parents first, each finished round on disk before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from fedsgt.build.targets import Recipe, Target
from fedsgt.engine.events import Listener, ModuleFinished, RoundFinished, ignore
from fedsgt.engine.task import Engine, Result, RoundFailed, Task
from fedsgt.files.tensors import Tensors
from fedsgt.stack import profile
from fedsgt.store import CorruptModule, Manifest, MissingModule, Modules, Origin


class Deletions(Protocol):
    """Knows which groups were hit by deletions since the build began."""

    def dead(self) -> frozenset[int]:
        """Return the groups that may no longer be learnt from; called often, so it must be cheap."""

    def publishing(self) -> AbstractContextManager[frozenset[int]]:
        """Hold off the destruction of files, and yield the same groups.

        Whatever is written meanwhile is seen, and destroyed if need be, by the next deletion.
        """


class NoDeletions:
    """The deletions of a build that no request can reach."""

    def dead(self) -> frozenset[int]:
        return frozenset()

    def publishing(self) -> AbstractContextManager[frozenset[int]]:
        return nullcontext(frozenset())


@dataclass
class Progress:
    """How far one module is: its finished rounds and who took part in them."""

    target: Target
    state: Tensors | None = field(default=None, repr=False)
    participants: list[dict[str, int]] = field(default_factory=list)

    def next_task(self, took_part: Sequence[Collection[str]] | None = None) -> Task:
        """The next round: with all clients of the prefix, or those who took part in it then."""
        target, done = self.target, len(self.participants)
        slices = target.slices
        if took_part is not None:
            slices = {name: held for name, held in slices.items() if name in took_part[done]}
        return Task(target.key, target.parents, slices, done + 1, self.state, target.groups)


@dataclass
class Build:
    """One build of some targets into a store. After a stop the next goes on from what is on disk."""

    recipe: Recipe
    modules: Modules
    engine: Engine
    rounds: int
    seed: int
    tell: Listener = ignore
    deletions: Deletions = field(default_factory=NoDeletions)
    took_part: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)
    """By module, round for round: who did when it was first trained; all of its clients, if not told."""
    trained: list[str] = field(default_factory=list)
    """Keys of the modules that this build has trained."""

    def run(self, targets: Sequence[Target], priority: Callable[[Target], float] | None = None) -> list[str]:
        """Train what is missing; of what could be trained now, the lowest priority value comes first.

        Returns the keys that were trained. Equal prefixes have equal keys, and are trained once. Work that
        depends on data deleted meanwhile is dropped, and nothing else.
        """
        wanted = {target.key: target for target in targets}
        needed = wanted.keys() | {key for target in targets for key in target.parents}
        present = {key for key in needed if self._is_present(key)}
        waiting = [target for key, target in wanted.items() if key not in present]
        if priority is not None:
            waiting.sort(key=priority)
        running: dict[str, Progress] = {}
        trained: list[str] = []
        while True:
            self._drop_dead(waiting, running)
            if not waiting and not running:
                return trained
            self._start_ready(waiting, running, present)
            done = self._step(running) if running else None
            if done is not None:
                present.add(done)
                trained.append(done)

    def _drop_dead(self, waiting: list[Target], running: dict[str, Progress]) -> None:
        dead = self.deletions.dead()
        if not dead:
            return
        waiting[:] = [target for target in waiting if dead.isdisjoint(target.groups)]
        for progress in list(running.values()):
            if not dead.isdisjoint(progress.target.groups):
                self._cancel(progress.target, running)

    def _cancel(self, target: Target, running: dict[str, Progress]) -> None:
        self.engine.cancel(target.key)
        del running[target.key]

    def _start_ready(self, waiting: list[Target], running: dict[str, Progress], present: set[str]) -> None:
        started = 0
        for target in list(waiting):
            if len(running) >= self.engine.capacity:
                return
            if target.parent is None or target.parent in present:
                waiting.remove(target)
                started += 1
                running[target.key] = self._resume(target)
                self._submit(running[target.key], running)
        if waiting and not started and not running:
            raise ValueError(f"{len(waiting)} modules wait for parents that are neither wanted nor present")

    def _step(self, running: dict[str, Progress]) -> str | None:
        """Wait for one round, and put it on disk; the key if it was a module's last."""
        try:
            result = self.engine.wait()
        except RoundFailed as failed:
            self._forgive(running[failed.key].target, failed.cause)
            del running[failed.key]
            return None
        if result is None:
            return None
        progress = running[result.key]
        with self.deletions.publishing() as dead:
            if not dead.isdisjoint(progress.target.groups):
                self._cancel(progress.target, running)
                return None
            return self._publish(progress, result, running)

    def _submit(self, progress: Progress, running: dict[str, Progress]) -> None:
        try:
            self.engine.submit(progress.next_task(self.took_part.get(progress.target.key)))
        except (MissingModule, CorruptModule) as error:
            self._forgive(progress.target, error)
            del running[progress.target.key]

    def _forgive(self, target: Target, error: Exception) -> None:
        """What a deletion has hit need not succeed: what it stands on is destroyed, or its records gone."""
        if self.deletions.dead().isdisjoint(target.groups):
            raise error

    def _publish(self, progress: Progress, result: Result, running: dict[str, Progress]) -> str | None:
        progress.state = result.state
        progress.participants.append(result.participants)
        self.tell(_round_finished(progress.target, result))
        if len(progress.participants) < self.rounds:
            self.modules.save_checkpoint(result.key, result.round, result.state, progress.participants)
            self._submit(progress, running)
            return None
        manifest = self.modules.put(self._origin(progress, result), self.engine.finish(result.state))
        self.modules.discard_checkpoint(result.key)
        del running[result.key]
        self.trained.append(result.key)
        self.tell(_module_finished(progress.target, manifest))
        return result.key

    def _is_present(self, key: str) -> bool:
        """A module that is not whole is thrown away: it will be trained again, and never served."""
        state = self.modules.state(key)
        if state == "corrupt":
            self.modules.discard(key)
        return state == "present"

    def _resume(self, target: Target) -> Progress:
        """After the last finished round, if there is one on disk."""
        kept = self.modules.load_checkpoint(target.key)
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


def _round_finished(target: Target, result: Result) -> RoundFinished:
    return RoundFinished(target.key, target.groups, result.round, result.loss, result.seconds)


def _module_finished(target: Target, manifest: Manifest) -> ModuleFinished:
    return ModuleFinished(target.key, target.groups, manifest.sha256, dict(manifest.metrics))
