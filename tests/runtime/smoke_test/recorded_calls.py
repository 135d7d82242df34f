"""A recording shim of ``torch.cuda`` and ``torch.distributed``: which process called what, on which GPU and stream.

Each call is one line of a file, with the number of its process. The lines of a process are in the order of its calls.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: The collectives of ``live_group.Operations``, under their names in any torch.
_COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "all_gather_single", "reduce_scatter_tensor",
    "reduce_scatter_single", "all_to_all_single", "gather", "scatter", "send", "recv", "batch_isend_irecv", "barrier",
)  # fmt: skip


class Call(NamedTuple):
    """One call: ``cuda`` (a function of ``torch._C``), ``event``, ``group`` or ``collective``, and its name."""

    process: int
    kind: str
    name: str
    #: the arguments of a function of CUDA that are numbers; what ``init_process_group`` was given
    given: Any = None
    #: this process's GPU, and the number of its stream there
    gpu: int | None = None
    stream: int | None = None
    #: the devices of a collective's tensors
    devices: Sequence[str] = ()


def record(path: Path) -> None:
    """Record the calls of this process and of its children from now on; needs simulated GPUs."""
    import torch
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d

    current_device, current_stream = torch._C._cuda_getDevice, torch._C._cuda_getCurrentStream
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(kind: str, name: str, given: Any = None, stream: Any = None, devices: Sequence[str] = ()) -> None:
        gpu = current_device()
        if stream is None and kind != "cuda":
            stream = current_stream(gpu)[0]
        line = Call(os.getpid(), kind, name, given, gpu, stream, devices)
        os.write(file, (json.dumps(line) + "\n").encode())

    def of_cuda(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            write("cuda", name, [item for item in args if isinstance(item, int)])
            return real(*args, **kwargs)

        return call

    def of_group(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            write("group", name, [*map(str, args), str(kwargs.get("device_id"))])
            return real(*args, **kwargs)

        return call

    def collective(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            write("collective", name, devices=sorted(set(_devices(torch, (*args, *kwargs.values())))))
            return real(*args, **kwargs)

        return call

    for name in dir(torch._C):
        found = getattr(torch._C, name)
        if name.startswith(("_cuda_", "_accelerator_")) and callable(found) and not isinstance(found, type):
            setattr(torch._C, name, of_cuda(name, found))
    # neither reaches a function of torch._C on simulated GPUs; on real ones both can start CUDA
    torch.cuda.device_count = of_cuda("device_count", torch.cuda.device_count)
    torch.cuda._get_device_properties = of_cuda("_get_device_properties", torch.cuda._get_device_properties)  # type: ignore[attr-defined]
    real_record, real_elapsed = torch.cuda.Event.record, torch.cuda.Event.elapsed_time

    def record_event(event: Any, stream: Any = None) -> None:
        write("event", "record", stream=None if stream is None else stream.stream_id)
        real_record(event, stream)

    def elapsed(event: Any, other: Any) -> Any:
        write("event", "elapsed_time")
        return real_elapsed(event, other)

    torch.cuda.Event.record, torch.cuda.Event.elapsed_time = record_event, elapsed  # type: ignore[method-assign,assignment]
    for name in ("init_process_group", "destroy_process_group"):
        call = of_group(name, getattr(dist, name))
        for module in (c10d, dist):
            setattr(module, name, call)
    # not in the module where they are at home, whose functions call each other
    for name in _COLLECTIVES:
        if hasattr(dist, name):
            setattr(dist, name, collective(name, getattr(dist, name)))


def _devices(torch: Any, values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield str(value.device)
        elif isinstance(value, (list, tuple)):
            yield from _devices(torch, value)
        elif isinstance(getattr(value, "tensor", None), torch.Tensor):  # a P2POp
            yield str(value.tensor.device)


def calls_of(path: Path) -> dict[int, list[Call]]:
    """Return the recorded calls of each process, in their order."""
    found: dict[int, list[Call]] = {}
    for line in path.read_text().splitlines():
        call = Call(*json.loads(line))
        found.setdefault(call.process, []).append(call)
    return found
