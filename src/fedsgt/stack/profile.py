"""The execution profile: everything on this machine that shapes a module's bytes, and is part of its key.

The same profile on the same type of machine gives the same bytes. Nothing here imports torch before `apply`:
the maths library reads its environment once, when torch first loads it.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

from fedsgt.errors import InputError
from fedsgt.words import counted

# A part of every module's key; raise it whenever a change in this project gives modules other bytes.
ALGORITHM = "3"
CPU_INFO = Path("/proc/cpuinfo")
VERSIONS = ("torch", "transformers", "tokenizers", "numpy", "pillow")
# Variables that keep libraries from instructions that the processor has.
LIMITS = ("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")


def environment() -> dict[str, str]:
    """Return the variables that must be set before torch is imported."""
    return {
        "MKL_CBWR": _mkl_mode(),  # matrix products that do not depend on threads or memory alignment
        # One thread: the order of a sum over several threads is not fixed.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it, cuBLAS is not deterministic
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }


def apply() -> None:
    """Make this process train reproducibly; raise if torch was imported before without the variables."""
    if "torch" not in sys.modules:
        os.environ.update(environment())
    elif not in_time():
        raise InputError(
            f"engine.workers: 0 needs MKL_CBWR={_mkl_mode()} set before torch is imported; "
            "set it, or use worker processes"
        )
    import torch

    torch.set_num_threads(1)
    # The same as `use_deterministic_algorithms(True)`, which besides loads the compiler that we do not use.
    torch.set_deterministic_debug_mode("error")
    # Deterministic mode also fills fresh memory, to expose code that reads it. None does, and it takes time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False


def describe(device: str) -> dict[str, str]:
    """Return the execution profile: all that may change a module's bytes besides data and configuration.

    A field that is added here is in the keys of new runs only.
    """
    import torch

    limits = [f"{name}={os.environ[name]}" for name in LIMITS if os.environ.get(name)]
    return {
        **{name: importlib.metadata.version(name) for name in VERSIONS},
        "algorithm": ALGORITHM,
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "mkl": _mkl_mode(),
        "threads": "1",
        "attention": "sdpa",
        "precision": "float32",
        # By name as far as there are names, and by what comes out.
        "instruction_limits": " ".join(limits) or "none",
        "probe": _probe(device),
    }


@functools.cache
def _probe(device: str) -> str:
    """Return the result of the probe (`stack/probe.py`) under this profile, computed once a process."""
    if in_time():
        from fedsgt.stack.probe import compute

        return compute(device)
    # -P: a file in the working directory must not stand in for a library.
    done = subprocess.run(
        (sys.executable, "-P", "-m", "fedsgt.stack.probe", device),
        env=os.environ | environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = "".join(done.stderr.strip().splitlines()[-1:])
        raise InputError(f"model.device: {device} cannot be probed for the execution profile ({reason})")
    return done.stdout.strip()


def machine() -> dict[str, str]:
    """Describe this machine. Modules made on another one may differ even if the profile is the same."""
    return {"cpu": _cpu_name(), "system": platform.system(), "architecture": platform.machine()}


def versions() -> dict[str, str]:
    """Return the versions of the libraries that compute, and of this project."""
    return {name: importlib.metadata.version(name) for name in (*VERSIONS, "fedsgt")}


def pick_device(wanted: str) -> str:
    """Return the device that `model.device` names; `auto` is the first GPU if there is one."""
    import torch

    if wanted == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda"):
        number = int(wanted.partition(":")[2] or 0)
        if number >= torch.cuda.device_count():
            raise InputError(
                f"model.device: {wanted!r} is not on this machine, which has "
                f"{counted(torch.cuda.device_count(), 'GPU')}"
            )
        return f"cuda:{number}"
    return wanted


def in_time() -> bool:
    """Whether the variables were set before torch was imported, as far as can be told."""
    return os.environ.get("MKL_CBWR") == _mkl_mode()


def _mkl_mode() -> str:
    flags = _cpu_info("flags").split()
    for flag, mode in (("avx512f", "AVX512,STRICT"), ("avx2", "AVX2,STRICT")):
        if flag in flags:
            return mode
    return "COMPATIBLE"


def _cpu_name() -> str:
    return _cpu_info("model name") or platform.processor() or platform.machine()


def _cpu_info(field: str) -> str:
    try:
        lines = CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field)
    return next(found, "")
