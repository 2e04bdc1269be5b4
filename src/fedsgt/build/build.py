"""The build: train the modules that are wanted and not present, parents first.

Each finished round is on disk before the next one begins, so that a build can be stopped at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

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
class PartialModule:
    """A module of which some rounds are finished, perhaps none."""

    target: Target
    state: Tensors | None = field(default=None, repr=False)
    """State after the last finished round."""
    participants: list[dict[str, int]] = field(default_factory=list)
    """Records that each client took part with, round by round."""

    def next_task(self, took_part: Sequence[Collection[str]] | None = None) -> Task:
        """Return the next round, with all clients of the prefix or only those named for it."""
        target, done = self.target, len(self.participants)
        slices = target.slices
        if took_part is not None:
            slices = {name: held for name, held in slices.items() if name in took_part[done]}
        return Task(target.key, target.parents, slices, done + 1, self.state, target.groups)


Running: TypeAlias = dict[str, PartialModule]
"""Modules that the engine is working on, by key."""


@dataclass
class Build:
    """A build into a store. After a stop, a new build continues from what is on disk."""

    recipe: Recipe
    modules: Modules
    engine: Engine
    rounds: int
    seed: int
    tell: Listener = ignore
    deletions: Deletions = field(default_factory=NoDeletions)
    took_part: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)
    """Clients to train with, by module and round; all clients of the prefix for a module not named here.

    Verification repeats with it the rounds of a module in which some client was left out.
    """
    trained: list[str] = field(default_factory=list)
    """Keys of the modules that this build has trained."""

    def run(self, targets: Sequence[Target], priority: Callable[[Target], float] | None = None) -> list[str]:
        """Train the missing modules and return their keys; those of lowest priority value start first.

        Equal prefixes have equal keys and are trained once. Work that depends on data deleted meanwhile is
        dropped, and no other work.
        """
        wanted = {target.key: target for target in targets}
        # Parents too: the store may lack one that is not among the targets, and must then say so.
        needed = wanted.keys() | {key for target in targets for key in target.parents}
        present = {key for key in needed if self._is_present(key)}
        waiting = [target for key, target in wanted.items() if key not in present]
        if priority is not None:
            waiting.sort(key=priority)  # a stable sort: among equals the plan's order stays
        running: Running = {}
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

    def _drop_dead(self, waiting: list[Target], running: Running) -> None:
        """Give up all modules that depend on deleted data."""
        dead = self.deletions.dead()
        if not dead:
            return
        waiting[:] = [target for target in waiting if dead.isdisjoint(target.groups)]
        for partial in list(running.values()):  # a copy: `running` loses what is cancelled
            if not dead.isdisjoint(partial.target.groups):
                self._cancel(partial.target, running)

    def _cancel(self, target: Target, running: Running) -> None:
        self.engine.cancel(target.key)
        del running[target.key]

    def _start_ready(self, waiting: list[Target], running: Running, present: set[str]) -> None:
        """Submit waiting modules whose parent is present, as many as the engine has room for."""
        started = 0
        for target in list(waiting):
            # No more than the engine needs: a module submitted later may be more urgent.
            if len(running) >= self.engine.capacity:
                return
            if target.parent is None or target.parent in present:
                waiting.remove(target)
                started += 1
                running[target.key] = self._resume(target)
                self._submit(running[target.key], running)
        if waiting and not started and not running:
            # Nothing runs and nothing can start: waiting on would never end.
            raise ValueError(f"{len(waiting)} modules wait for parents that are neither wanted nor present")

    def _step(self, running: Running) -> str | None:
        """Wait for one round and write it; return the module's key if it was its last round."""
        try:
            result = self.engine.wait()
        except RoundFailed as failed:
            self._raise_if_live(running[failed.key].target, failed.cause)
            del running[failed.key]
            return None
        if result is None:  # an update came in, but no round is finished
            return None
        partial = running[result.key]
        # A deletion may have come in while the round was trained: look again where none can come between.
        with self.deletions.publishing() as dead:
            if not dead.isdisjoint(partial.target.groups):
                self._cancel(partial.target, running)
                return None
            return self._publish(partial, result, running)

    def _submit(self, partial: PartialModule, running: Running) -> None:
        """Submit a module's next round; reading its parent may fail if a deletion has just destroyed it."""
        try:
            self.engine.submit(partial.next_task(self.took_part.get(partial.target.key)))
        except (MissingModule, CorruptModule) as error:
            self._raise_if_live(partial.target, error)
            del running[partial.target.key]

    def _raise_if_live(self, target: Target, error: Exception) -> None:
        """Raise the error unless a deletion has hit the module.

        A dead module may fail: its parents are destroyed, or its records are gone.
        """
        if self.deletions.dead().isdisjoint(target.groups):
            raise error

    def _publish(self, partial: PartialModule, result: Result, running: Running) -> str | None:
        """Write a finished round, as a checkpoint or as the finished module; the caller holds the lock."""
        partial.state = result.state
        partial.participants.append(result.participants)
        self.tell(_round_finished(partial.target, result))
        if len(partial.participants) < self.rounds:
            # On disk before the next round begins: a crash costs at most the rounds under way.
            self.modules.save_checkpoint(result.key, result.round, result.state, partial.participants)
            self._submit(partial, running)
            return None
        manifest = self.modules.put(self._origin(partial, result), self.engine.finish(result.state))
        # After the module: a crash between the two leaves a checkpoint too many, never one too few.
        self.modules.discard_checkpoint(result.key)
        del running[result.key]
        self.trained.append(result.key)
        self.tell(_module_finished(partial.target, manifest))
        return result.key

    def _is_present(self, key: str) -> bool:
        """Whether the store has the module; a damaged one is discarded, to be trained again."""
        state = self.modules.state(key)
        if state == "corrupt":
            self.modules.discard(key)
        return state == "present"

    def _resume(self, target: Target) -> PartialModule:
        """Continue after the last finished round if there is one on disk, else begin."""
        checkpoint = self.modules.load_checkpoint(target.key)
        if checkpoint is None or checkpoint.number >= self.rounds:
            return PartialModule(target)
        return PartialModule(target, checkpoint.tensors, [dict(entry) for entry in checkpoint.participants])

    def _origin(self, partial: PartialModule, result: Result) -> Origin:
        """Return all that the manifest says of how a finished module was made."""
        target, recipe = partial.target, self.recipe
        return Origin(
            key=target.key,
            parent=target.parent,
            groups=list(target.groups),
            prefix=list(target.prefix),
            config_hash=recipe.config_hash,
            config=dict(recipe.config),
            backbone=recipe.backbone,
            rounds=self.rounds,
            participants=partial.participants,
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
