"""GPUs that are not there: ``simulate(Gpus(2))`` makes this process believe in two of them.

Everything is computed on the CPU; counts, numbers, masks, devices of tensors, memory, streams, checkpoints, autocast,
and NCCL's groups are what they would be on a node with such GPUs, and so are the errors of a script that has them
wrong. It works by patches on torch's Python side, so it is for a process that rehearses and for no other: there is no
way back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from distcheck.runtime.coordination.import_hook import when_imported

from .limits import CannotSimulateError, NotSimulated, notes

__all__ = [
    "VARIABLE",
    "CannotSimulateError",
    "FakeGpus",
    "NotSimulated",
    "from_environment",
    "notes",
    "on_import",
    "simulate",
]

#: what the processes that a rehearsed script starts have to simulate
VARIABLE = "DISTCHECK_SIMULATED_GPUS"


#: stands on PYTHONPATH of the processes that a rehearsed script starts
_STARTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")


class FakeGpus(NamedTuple):
    """The GPUs of one node."""

    number: int
    memory_gib: int = 80
    name: str = "NVIDIA H100 80GB HBM3"
    capability: tuple[int, int] = (9, 0)

    @property
    def text(self) -> str:
        """As it stands in the variable."""
        return f"{self.number}:{self.memory_gib}:{self.capability[0]}.{self.capability[1]}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> FakeGpus:
        number, memory, capability, name = text.split(":", 3)
        major, minor = capability.split(".")
        return cls(int(number), int(memory), name, (int(major), int(minor)))


_simulating: FakeGpus | None = None


def simulate(gpus: FakeGpus) -> None:
    """Patch torch in this process, now; once is enough."""
    global _simulating
    if _simulating is None:
        # may do all of it, where ``on_import`` waits for torch
        import torch
    if _simulating is not None:
        if _simulating != gpus:
            raise RuntimeError(f"this process simulates {_simulating.number} GPUs already")
        return
    check(torch)
    # with the defaults of a build for CUDA, before anything reads them
    import torch.distributed

    from . import batch_norm, calls, device_marks, device_numbers, driver_functions, groups, tensors
    from .driver import FakeDriver

    _simulating = gpus
    _export_to_children(gpus)
    driver = FakeDriver(gpus.number, gpus.memory_gib * 2**30, gpus.name, gpus.capability)
    devices = device_marks.TensorDevices(driver)
    try:
        driver_functions.install(driver)
        tensors.install(devices)
        groups.install(devices)
        calls.install(devices)
        batch_norm.install()
        device_numbers.install()
    except Exception as error:  # a torch that differs in what is patched: no fault of the script
        raise CannotSimulateError(
            f"{CANNOT} with torch {torch.__version__} ({type(error).__name__}: {error}); it was tried with 2.4 and "
            "2.13: rehearse with --gpus-per-node 0"
        ) from error


#: How the reason begins if it is the version of torch.
CANNOT = "GPUs can't be simulated"
#: The oldest torch whose functions the patches fit, and those that they need.
OLDEST = (2, 4)
_NEEDED = (
    "cuda._lazy_init", "cuda.Stream", "cuda.Event", "cuda.streams", "cuda.graphs", "amp.autocast_mode",
    "UntypedStorage", "utils._python_dispatch.TorchDispatchMode", "_C._current_graph_task_id", "get_autocast_dtype",
)  # fmt: skip


def check(torch: Any) -> None:
    """Raise CannotSimulateError, with what to type, where this torch can't be made to believe in GPUs any more."""
    if torch.cuda.is_initialized():
        raise CannotSimulateError("CUDA has been started in this process already: its GPUs are real")
    numbers = tuple(int(part) for part in str(torch.__version__).split("+")[0].split(".")[:2] if part.isdecimal())
    missing = [name for name in _NEEDED if not _has(torch, name)]
    if numbers < OLDEST or missing:
        lacks = f" (it has no torch.{missing[0]})" if missing and numbers >= OLDEST else ""
        raise CannotSimulateError(
            f"{CANNOT} with torch {torch.__version__}{lacks}; it works from torch "
            f"{'.'.join(map(str, OLDEST))} on, and was tried with 2.4 and 2.13: rehearse with --gpus-per-node 0, or "
            "with a newer torch in an environment of its own"
        )


def _has(thing: Any, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


def from_environment(environ: Mapping[str, str] = os.environ) -> bool:
    """In a process that a rehearsed script started: simulate what it simulates, as soon as torch is imported."""
    if text := environ.get(VARIABLE):
        on_import(FakeGpus.parse(text))
        return True
    return False


def _export_to_children(gpus: FakeGpus) -> None:
    """Return what a Python that this process starts needs to know, whichever code starts it."""
    os.environ[VARIABLE] = gpus.text
    folders = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if _STARTED not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([_STARTED, *folders])


def on_import(gpus: FakeGpus) -> None:
    """Simulate as soon as torch has been imported, and not before: a script that never does pays nothing."""
    _export_to_children(gpus)
    when_imported("torch", lambda _: simulate(gpus))
