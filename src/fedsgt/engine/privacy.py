"""An update under local differential privacy: clipped, and with noise that only its client can redo."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Collection
from dataclasses import replace
from functools import cache

import numpy as np

from fedsgt.config.model import Privacy
from fedsgt.engine.task import Update
from fedsgt.files.encoding import frames
from fedsgt.files.tensors import Tensors


def privatised(
    start: Tensors, update: Update, trained: Collection[str], settings: Privacy, secret: bytes
) -> Update:
    """The Gaussian mechanism on what the client has changed; without its loss, which would tell as well.

    The noise comes from the client's secret and from all that it is put on: the same update gets the same
    noise again, which verification needs, and no two others share any, from which it could be worked out.
    """
    assert settings.epsilon is not None
    names = sorted(trained)
    rng = np.random.default_rng(_seed(start, update.state, settings, secret))
    change = {name: update.state[name].astype(np.float64) - start[name] for name in names}
    length = math.sqrt(sum(float(np.square(part).sum()) for part in change.values()))
    scale = min(1.0, settings.clip / length) if length else 1.0
    deviation = noise_deviation(settings.epsilon, settings.delta, 2 * settings.clip)
    state = dict(update.state)
    for name in names:
        noise = rng.normal(0.0, deviation, change[name].shape)
        state[name] = (start[name] + scale * change[name] + noise).astype(np.float32)
    return replace(update, state=state, loss=0.0)


def _seed(start: Tensors, state: Tensors, settings: Privacy, secret: bytes) -> int:
    code = hmac.new(secret, frames("fedsgt.noise.1", settings.model_dump_json()), hashlib.sha256)
    for tensors in (start, state):
        for name in sorted(tensors):
            code.update(frames(name, str(tensors[name].shape)) + tensors[name].tobytes())
    return int.from_bytes(code.digest())


@cache
def noise_deviation(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least standard deviation that gives (epsilon, delta): the analytic Gaussian mechanism."""
    from scipy.optimize import brentq  # slow to import, and for few
    from scipy.stats import norm

    def excess(log_deviation: float) -> float:
        ratio = sensitivity / math.exp(log_deviation)
        shift = epsilon / ratio
        tail = norm.logcdf(-ratio / 2 - shift)
        return float(norm.cdf(ratio / 2 - shift) - math.exp(min(700.0, epsilon + tail)) - delta)

    low, high = math.log(sensitivity) - 30, math.log(sensitivity) + 30
    return math.exp(float(brentq(excess, low, high, xtol=1e-12)))
