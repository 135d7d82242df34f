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
from .operations import FakeDeviceMode
from .properties import tensor_moves, tensor_properties


def install(devices: TensorDevices) -> None:
    """Patch what the Python side of torch reports and takes about devices, and follow every thread from now on."""
    generators.install(devices.resolve, devices.driver)
    tensor_properties(devices)
    tensor_moves(devices)
    factories(devices)
    storages(devices)
    _threads(devices)


def _threads(devices: TensorDevices) -> None:
    """Enter the mode for good: here, and first thing in every thread that is started from now on."""
    FakeDeviceMode(devices).__enter__()
    start = threading.Thread.start

    def start_simulating(self: threading.Thread) -> None:
        run = self.run

        def run_simulating() -> None:
            FakeDeviceMode(devices).__enter__()
            run()

        self.run = run_simulating  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = start_simulating  # type: ignore[method-assign]
