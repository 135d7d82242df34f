"""Tensors that report a GPU as their device, and are computed on the CPU.

Each is a plain CPU tensor in all of torch's compiled parts; what makes it one of a GPU is a mark on its *storage*.
Views, parameters, saved tensors and loaded checkpoints share storages, so they share the mark without anybody's
doing. New storages get theirs from a dispatch mode, which sees every operation, those of a backward pass too: the
result is where the operands are, or on ``device=``. Operands on different devices raise what torch raises.
"""

from __future__ import annotations

import threading

from . import generators
from .device_marks import TensorDevices
from .factories import factories, storages
from .operations import FakeDeviceMode, register_for_operations
from .properties import tensor_moves, tensor_properties


def install(devices: TensorDevices) -> None:
    """Patch what the Python side of torch reports and takes about devices, and follow every thread from now on."""
    generators.install(devices.resolve, devices.driver)
    tensor_properties(devices)
    tensor_moves(devices)
    factories(devices)
    storages(devices)
    register_for_operations()
    _threads(devices)


def _threads(devices: TensorDevices) -> None:
    """Enter the mode for good: here, and first thing in every thread that is started from now on.

    One for all, which the function below holds: torch 2.4 crashes on one that only its own stacks hold.
    """
    mode = FakeDeviceMode(devices)
    mode.__enter__()
    start = threading.Thread.start

    def start_simulating(self: threading.Thread) -> None:
        run = self.run

        def run_simulating() -> None:
            mode.__enter__()
            run()

        self.run = run_simulating  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = start_simulating  # type: ignore[method-assign]
