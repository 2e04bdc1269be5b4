"""Estimates of the time that work still takes, by the rate at which it was done so far."""

from __future__ import annotations

import time

from fedsgt.engine.events import ClientUpdated, RoundFinished, WorkBegun

LONGEST = 1e9  # seconds; remote clients report their own times, and a longer one cannot be true


class Countdown:
    """A number of seconds that grows less as time passes; None until it is set."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._set_at = 0.0

    def set(self, seconds: float) -> None:
        self._seconds, self._set_at = seconds, time.monotonic()

    def now(self) -> float | None:
        if self._seconds is None:
            return None
        return max(0.0, self._seconds - (time.monotonic() - self._set_at))


class ShareTime:
    """Estimates the time that is left of work which tells the share that is done."""

    def __init__(self) -> None:
        self.left = Countdown()
        self._first: tuple[float, float] | None = None

    def told(self, share: float) -> None:
        """Take note that this share is done, from 0 to 1."""
        now = time.monotonic()
        if share <= 0:
            return
        # The rate is that after the first share: before it, processes were started and models loaded.
        if self._first is None:
            self._first = now, share
        began, before = self._first
        if share > before:
            self.left.set((1 - share) * (now - began) / (share - before))


class TrainingTime:
    """Estimates the time that is left of a training, from its events.

    Work is counted in seconds of the workers, which updates report. Every record takes time to train on, and
    each different one takes more when it is first used, above all if frozen lower layers have to be computed.
    """

    def __init__(self, work: WorkBegun) -> None:
        self.left = Countdown()
        self._begun = time.monotonic()
        self._work = work
        self._first_job: float | None = None
        """Moment at which the first job was begun: workers had imported torch, and loaded the model."""
        self._records, self._training = 0, 0.0
        self._different, self._preparing = 0.0, 0.0
        self._squares = 0.0
        """Sum of the squared seconds of all jobs."""
        self._sizes: dict[tuple[str, int], float] = {}
        """Records of each client in each group, as far as they were used."""
        self._in_round: dict[str, int] = {}
        """Records of the updates so far in the present round of each module."""
        self._modules: set[str] = set()
        """Modules of which a round is finished."""
        self._done_before = 0
        """Records of rounds that an earlier training has finished."""

    def updated(self, event: ClientUpdated) -> None:
        """Take note of a client's update."""
        now, seconds, preparing = time.monotonic(), _possible(event.seconds), _possible(event.preparing)
        if self._first_job is None:
            self._first_job = max(self._begun, now - seconds - preparing)
        self._records += event.work
        self._training += seconds
        self._different += self._first_used(event)
        self._preparing += preparing
        self._in_round[event.module] = self._in_round.get(event.module, 0) + event.work
        self._squares += (seconds + preparing) ** 2
        if self.done:
            spent = now - self._first_job
            done = self.done + self._under_way(spent)
            self.left.set(max(0.0, self.remaining + self.done - done) * spent / done)

    def round_finished(self, event: RoundFinished) -> None:
        """Take note of a finished round; those before it may have been finished by an earlier training."""
        records = self._in_round.pop(event.module, 0)
        if event.module not in self._modules:
            self._done_before += (event.round - 1) * records
        self._modules.add(event.module)

    @property
    def done(self) -> float:
        """Seconds of work that are done."""
        return self._training + self._preparing

    @property
    def remaining(self) -> float:
        """Seconds of work that are left, if they go on as they did."""
        records = max(0, self._work.records - self._done_before - self._records)
        different = max(0.0, self._work.different - self._different)
        training = self._training / max(1, self._records)
        preparing = self._preparing / max(1.0, self._different)
        return records * training + different * preparing

    @property
    def share(self) -> float:
        """Share of the work that is done, from 0 to 1."""
        return self.done / (self.done + self.remaining) if self.done else 0.0

    def _under_way(self, spent: float) -> float:
        """Return the seconds of work in jobs that are not finished: at first that is most of the work."""
        # A job that is met at a random moment is more likely a long one, and half done.
        others = (self._work.at_once - 1) * self._squares / self.done / 2
        return max(0.0, min(others, self._work.at_once * spent - self.done))

    def _first_used(self, event: ClientUpdated) -> float:
        """Return how many of the update's records no update before it has used."""
        places = [(event.client, group) for group in event.groups]
        new = [place for place in places if place not in self._sizes]
        found = max(0.0, event.records - sum(self._sizes.get(place, 0.0) for place in places))
        # Nobody says how they are divided, but most often only the last group is new.
        self._sizes |= {place: found / len(new) for place in new}
        return found if new else 0.0


def _possible(seconds: float) -> float:
    """Return the seconds that a client reports, or 0 if they cannot be true."""
    return seconds if 0 <= seconds < LONGEST else 0.0
