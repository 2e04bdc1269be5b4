"""The probe: a small fixed computation whose result tells machines apart that round differently.

Libraries choose their kernels by the processor and by variables such as ONEDNN_MAX_CPU_ISA, which no name
tells in full. So the layers that models are made of are computed, forward and backward, on numbers that are
the same everywhere, and the bytes of the results are hashed. `python -m fedsgt.stack.probe DEVICE` prints it.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from fedsgt.stack import profile

# Pixels, size of a patch and width of a tiny and a common vision transformer: kernels are chosen by shape.
PATCHES = ((8, 2, 64), (32, 16, 192))
# Rows, inputs and outputs of linear layers.
LINEARS = ((1, 64, 64), (7, 64, 128), (34, 128, 64), (7, 192, 10), (16, 192, 576), (101, 192, 192))


def compute(device: str) -> str:
    """Return a hash of what the layers give on this device, in hexadecimal.

    It is part of the keys of runs: another computation gives other keys, so this one must never change.
    """
    code = hashlib.sha256()
    with ExitStack() as settings:
        settings.enter_context(_settings_of_training())
        # Whatever the caller has turned on or off, the probe computes as a training does.
        settings.enter_context(torch.inference_mode(False))
        settings.enter_context(torch.enable_grad())
        settings.enter_context(torch.autocast(torch.device(device).type, enabled=False))
        for tensor in (*_layers(device), *_functions(device), *_attention(device), *_steps(device)):
            code.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return code.hexdigest()[:16]


@contextmanager
def _settings_of_training() -> Iterator[None]:
    """Set torch as `profile.apply` does, and put back what was set before."""
    deterministic = torch.utils.deterministic
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    mode, fill = torch.get_deterministic_debug_mode(), deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    profile.apply()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
        deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.backends.cudnn.benchmark = benchmark


def _numbers(device: str, *shape: int, step: int = 7) -> Tensor:
    """Return numbers from -1 to 1 with full mantissas, so that every rounding shows."""
    places = torch.arange(math.prod(shape), dtype=torch.int64)
    whole = (places * places * step + places * 31) % 1021 - 510
    # Whole numbers are exact, and one division of each is the same on every machine.
    return (whole.double() / 510).float().reshape(shape).to(device).requires_grad_()


def _with_gradients(result: Tensor, *inputs: Tensor) -> Iterator[Tensor]:
    yield result
    yield from torch.autograd.grad((result * result).sum(), inputs)


def _layers(device: str) -> Iterator[Tensor]:
    numbers = partial(_numbers, device)
    for pixels, patch, width in PATCHES:
        images, kernel = numbers(2, 3, pixels, pixels), numbers(width, 3, patch, patch, step=11)
        bias = numbers(width)
        embedded = functional.conv2d(images, kernel, bias, stride=patch)
        yield from _with_gradients(embedded, images, kernel, bias)
    for rows, wide, out in LINEARS:
        inputs, weight, bias = numbers(rows, wide), numbers(out, wide, step=3), numbers(out)
        yield from _with_gradients(functional.linear(inputs, weight, bias), inputs, weight, bias)
    hidden, scale, shift = numbers(7, 17, 64), numbers(64, step=3), numbers(64, step=5)
    yield from _with_gradients(functional.layer_norm(hidden, (64,), scale, shift), hidden, scale, shift)
    words, table = torch.arange(35, device=device).reshape(7, 5) % 11, numbers(11, 64)
    yield from _with_gradients(functional.embedding(words, table), table)


def _functions(device: str) -> Iterator[Tensor]:
    hidden = _numbers(device, 7, 17, 67)  # an odd width, so that the ends of vectors are computed too
    tanh_gelu = partial(functional.gelu, approximate="tanh")
    for function in (functional.gelu, tanh_gelu, functional.relu, torch.tanh, torch.exp, torch.erf):
        yield from _with_gradients(function(hidden), hidden)
    yield from _with_gradients(hidden.softmax(-1), hidden)
    labels = torch.arange(7, device=device)
    yield from _with_gradients(functional.cross_entropy(hidden[:, 0], labels), hidden)


def _attention(device: str) -> Iterator[Tensor]:
    query, key, value = (_numbers(device, 3, 4, 17, 16, step=step) for step in (3, 5, 7))
    shown = (torch.arange(17, device=device) < torch.tensor([[17], [9], [1]], device=device))[:, None, None]
    for mask in (None, shown):
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        yield from _with_gradients(mixed, query, key, value)
    yield from _with_gradients(query @ key.transpose(-1, -2), query, key)


def _steps(device: str) -> Iterator[Tensor]:
    """Yield a step of AdamW and one of SGD; torch's own optimizers would load its compiler first."""
    start, gradient = (_numbers(device, 8, 67, step=step).detach() for step in (7, 11))
    gradient /= torch.linalg.vector_norm(gradient)  # clipped, as in a training
    mean, square = torch.zeros_like(start), torch.zeros_like(start)
    weights = start.clone()
    for number in (1, 2):
        weights.mul_(1 - 3e-5)
        mean.lerp_(gradient, 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        spread = (square.sqrt() / math.sqrt(1 - 0.999**number)).add_(1e-8)
        weights.addcdiv_(mean, spread, value=-0.003 / (1 - 0.9**number))
    yield weights
    yield start.add(gradient, alpha=-0.003)


if __name__ == "__main__":
    print(compute(sys.argv[1]))
