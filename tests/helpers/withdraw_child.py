"""A process that withdraws and kills itself at a chosen step, for tests of what is left."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
from kill_at_step import FILES, KillAtStep

from fedsgt.federation.client.withdraw import withdraw
from fedsgt.federation.settings import load_client
from fedsgt.unlearning.request import Deletion


def withdraw_and_die(client: Path, record: str, step: int | None, count: Path) -> None:
    """Withdraw; be killed before or after this many calls of the file system or the network."""
    steps = KillAtStep(step)
    steps.watch(os, *FILES, after=True)
    steps.watch(httpx.Client, "post", after=True)
    withdraw(load_client(client), Deletion("a", records=(record,)))
    steps.write_count(count)
