"""Local differential privacy: updates are clipped and get noise that only their client can reproduce."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Collection
from dataclasses import replace
from functools import cache

import numpy as np

from fedsgt.config.sections import Privacy
from fedsgt.engine.task import Update
from fedsgt.files.encoding import frames
from fedsgt.files.tensors import Tensors


def privatised(
    start: Tensors, update: Update, trained: Collection[str], settings: Privacy, secret: bytes
) -> Update:
    """Return the update after the Gaussian mechanism on the client's changes, and without its loss.

    The noise is derived from the client's secret and from the update itself. The same update gets the same
    noise again, which verification needs. Different updates share no noise, else it could be computed from
    their difference.
    """
    assert settings.epsilon is not None
    names = sorted(trained)
    rng = np.random.default_rng(_seed(start, update.state, settings, secret))
    # The arithmetic is float64, as that of averages: differences of float32 values would lose digits.
    change = {name: update.state[name].astype(np.float64) - start[name] for name in names}
    length = math.sqrt(sum(float(np.square(part).sum()) for part in change.values()))
    scale = min(1.0, settings.clip / length) if length else 1.0
    # Two clipped changes differ by at most twice the clipping length.
    deviation = noise_deviation(settings.epsilon, settings.delta, 2 * settings.clip)
    state = dict(update.state)
    for name in names:
        noise = rng.normal(0.0, deviation, change[name].shape)
        state[name] = (start[name] + scale * change[name] + noise).astype(np.float32)
    # The loss was computed from the records without noise, so it would give them away.
    return replace(update, state=state, loss=0.0)


def _seed(start: Tensors, state: Tensors, settings: Privacy, secret: bytes) -> int:
    """Return the seed of the noise; without the secret it cannot be computed, even if the update is known."""
    code = hmac.new(secret, frames("fedsgt.noise.1", settings.model_dump_json()), hashlib.sha256)
    for tensors in (start, state):
        for name in sorted(tensors):
            code.update(frames(name, str(tensors[name].shape)) + tensors[name].tobytes())
    return int.from_bytes(code.digest())


@cache
def noise_deviation(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least standard deviation that gives (epsilon, delta): the analytic Gaussian mechanism."""
    from scipy.optimize import brentq  # slow to import, and few runs use privacy
    from scipy.stats import norm

    def excess(log_deviation: float) -> float:
        ratio = sensitivity / math.exp(log_deviation)
        shift = epsilon / ratio
        tail = norm.logcdf(-ratio / 2 - shift)
        # 700: exp overflows beyond 709, and the value is far below zero long before.
        return float(norm.cdf(ratio / 2 - shift) - math.exp(min(700.0, epsilon + tail)) - delta)

    # The root is searched by its logarithm: deviations from 1e-13 to 1e13 times the sensitivity.
    low, high = math.log(sensitivity) - 30, math.log(sensitivity) + 30
    return math.exp(float(brentq(excess, low, high, xtol=1e-12)))
