"""Log which GPUs this rank uses: what it binds, what fails, where the tensors of NCCL's groups are, what ``torch.load``
loads onto which GPU, and how the script changes the mask.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from distcheck.runtime.coordination.frames import innermost_own, shown_path
from distcheck.runtime.coordination.patching import attach_to, harmless, wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

MASK = "CUDA_VISIBLE_DEVICES"
#: Functions of torch.distributed whose tensors show the GPU of the rank.
_COLLECTIVES = (
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single",
    "_all_gather_base", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "broadcast", "gather", "irecv", "isend", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor",
    "reduce_scatter_single", "_reduce_scatter_base", "scatter", "send",
)  # fmt: skip
#: Those that make their tensors themselves, on the current device, and call the ones above.
_OF_OBJECTS = (
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
)
#: Parts of a loaded object that are inspected.
_MOST_PARTS = 20_000


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``devices.bind``, ``.taken``, ``.refused``, ``.collective``, ``.load`` and ``.mask``."""
    _watch_mask(event_log)
    # as it is when the rank starts: what the launcher or the scheduler gave
    watch = _DeviceHook(event_log, plan, os.environ.get(MASK))
    attach_to("torch", event_log, "devices", watch.attach)


def _watch_mask(event_log: EventLog) -> None:
    def assign(real: Any, self: Any, key: Any, value: Any) -> None:
        real(self, key, value)
        if key == MASK and self is os.environ:
            event_log.note("devices.mask", value=str(value))

    wrap(type(os.environ), "__setitem__", assign)


class _DeviceHook:
    """What has been written down by this process already, and torch, once it is there."""

    def __init__(self, event_log: EventLog, plan: RehearsalPlan, given_mask: str | None) -> None:
        self.event_log = event_log
        self.plan = plan
        self.given_mask = given_mask
        self.torch: Any = None
        self.seen: set[tuple[Any, ...]] = set()
        self.bound: tuple[Any, ...] = ()
        #: groups that have used a GPU for tensors: a barrier then takes the same
        self.used: set[int] = set()
        self.inside = threading.local()

    def attach(self, torch: Any) -> None:
        self.torch = torch
        self._bindings()
        self._refusals()
        wrap(torch, "load", self._load)
        wrap(torch.serialization, "load", self._load)
        if torch.distributed.is_available():
            self._collectives()

    # binding

    def _bindings(self) -> None:
        torch = self.torch
        wrap(torch.cuda, "set_device", self._set_device)
        wrap(getattr(torch, "accelerator", ()), "set_device_index", self._set_device)
        wrap(getattr(torch, "accelerator", ()), "set_device_idx", self._set_device)

    def _set_device(self, real: Any, device: Any) -> Any:
        result = real(device)
        with harmless(self.event_log, "devices.bind"):
            index = self._index(device)
            place = innermost_own(sys._getframe(1))
            if index is not None and self.bound != (index, place):
                self.bound = (index, place)
                self._note("devices.bind", index=index, place=place)
        return result

    def _refusals(self) -> None:
        if self.plan.real_gpus:
            wrap(self.torch.cuda, "set_device", self._refuse_really)
            return
        from distcheck.runtime.rehearsal.fake_cuda.driver import FakeDriver

        def check(real: Any, driver: Any, index: int) -> Any:
            try:
                result = real(driver, index)
            except Exception as error:
                with harmless(self.event_log, "devices.refused"):
                    self._note("devices.refused", index=index, why=str(error).splitlines()[0])
                raise
            if self._first("taken", index):
                with harmless(self.event_log, "devices.taken"):
                    self._note("devices.taken", index=index)
            return result

        wrap(FakeDriver, "check", check)

    def _refuse_really(self, real: Any, device: Any) -> Any:
        try:
            return real(device)
        except Exception as error:
            with harmless(self.event_log, "devices.refused"):
                index = self._index(device)
                if index is not None and "ordinal" in str(error):
                    self._note("devices.refused", index=index, why=str(error).splitlines()[0])
            raise

    def _note(self, kind: str, *, index: int, **data: Any) -> None:
        self.event_log.note(
            kind,
            index=index,
            card=self._card(index) if kind != "devices.refused" else None,
            visible=self.torch.cuda.device_count(),
            mask=os.environ.get(MASK),
            given_mask=self.given_mask,
            **data,
        )

    def _index(self, device: Any) -> int | None:
        """The number that a device has; None where it has none, or is no GPU."""
        if isinstance(device, int):
            return device if device >= 0 else None
        if isinstance(device, str):
            device = self.torch.device(device)
        if getattr(device, "type", "cuda") != "cuda":
            return None
        index = getattr(device, "index", None)
        return int(self.torch.cuda.current_device() if index is None else index)

    def _card(self, index: int) -> str:
        """Return what identifies a GPU of the node, independent of the mask."""
        words = [word.strip() for word in os.environ.get(MASK, "").split(",")]
        if index < len(words) and words[index].upper().startswith(("GPU-", "MIG-")):
            return words[index]
        uuid = str(getattr(self.torch.cuda.get_device_properties(index), "uuid", index))
        # a simulated one ends with its number on the node
        return uuid if self.plan.real_gpus else str(int(uuid.rpartition("-")[2]))

    def _first(self, *key: Any) -> bool:
        """Return whether this key is new."""
        if key in self.seen:
            return False
        self.seen.add(key)
        return True

    # collectives

    def _collectives(self) -> None:
        dist = self.torch.distributed
        for name in _COLLECTIVES:
            wrap((dist.distributed_c10d, dist), name, self._collective)
        for name in _OF_OBJECTS:
            wrap((dist.distributed_c10d, dist), name, self._of_objects)

        def wrapped(real: Any, ddp: Any, *args: Any, **kwargs: Any) -> None:
            real(ddp, *args, **kwargs)
            with harmless(self.event_log, "devices.collective"):
                first = next(iter(ddp.module.parameters()), None)
                self._took_part("DistributedDataParallel", ddp.process_group, first)

        wrap(self.torch.nn.parallel.DistributedDataParallel, "__init__", wrapped)

    def _of_objects(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        before = getattr(self.inside, "name", "")
        self.inside.name = before or real.__name__
        try:
            return real(*args, **kwargs)
        finally:
            self.inside.name = before

    def _collective(self, real: Any, *args: Any, **kwargs: Any) -> Any:
        with harmless(self.event_log, "devices.collective"):
            dist = self.torch.distributed
            group = kwargs.get("group") or next((one for one in args if isinstance(one, dist.ProcessGroup)), None)
            name = getattr(self.inside, "name", "") or real.__name__
            if real.__name__ == "barrier":
                self._barrier(group, kwargs.get("device_ids") or (args[2] if len(args) > 2 else None))
            else:
                self._took_part(name, group, next(self._tensors((*args, *kwargs.values())), None))
        return real(*args, **kwargs)

    def _tensors(self, values: Any) -> Iterator[Any]:
        for value in values:
            if isinstance(value, self.torch.Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from self._tensors(value)

    def _barrier(self, group: Any, device_ids: Any) -> None:
        group = group or self.torch.distributed.group.WORLD
        if id(group) in self.used or "cuda" not in self._backends(group):
            return
        bound = getattr(group, "bound_device_id", None)
        if device_ids:
            self._part("barrier", group, int(device_ids[0]), guessed=False)
        elif bound is not None:
            self._part("barrier", group, self._index(bound), guessed=False)
        else:
            self._part("barrier", group, self.torch.cuda.current_device(), guessed=True)

    def _took_part(self, name: str, group: Any, tensor: Any) -> None:
        group = group or self.torch.distributed.group.WORLD
        if tensor is None or tensor.device.type != "cuda":
            return
        self.used.add(id(group))
        index = tensor.device.index
        current = name in _OF_OBJECTS or index == self.torch.cuda.current_device()
        self._part(name, group, index, guessed=name in _OF_OBJECTS, current=current)

    def _part(self, name: str, group: Any, index: int | None, *, guessed: bool, current: bool = True) -> None:
        dist = self.torch.distributed
        if index is None or not isinstance(group, dist.ProcessGroup):
            return
        backends = self._backends(group)
        size = group.size()
        if size > 1 and self._first("part", id(group), index, name == "barrier"):
            self._note(
                "devices.collective",
                index=index,
                operation=name,
                group=getattr(group, "group_name", ""),
                size=size,
                nccl="nccl" in backends,
                guessed=guessed,
                current=current,
            )

    def _backends(self, group: Any) -> str:
        """``cuda:nccl`` or ``cpu:gloo,cuda:nccl``."""
        return str(self.torch.distributed.distributed_c10d._world.pg_backend_config.get(group) or "")

    # checkpoints

    def _load(self, real: Any, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            result = real(f, map_location, *args, **kwargs)
        except RuntimeError as error:
            if map_location is None and "deserialize object on" in str(error):
                self.event_log.note("devices.load", file=_name(f), cards={}, why=str(error).splitlines()[0])
            raise
        # what never was a file came from another rank, or from here
        if map_location is None and (name := _name(f)):
            with harmless(self.event_log, "devices.load"):
                taken = self._on_gpus(result)
                if taken:
                    self.event_log.note("devices.load", file=name, cards=taken, why="")
        return result

    def _on_gpus(self, loaded: Any) -> dict[str, int]:
        """Bytes on each GPU."""
        found: dict[str, int] = {}
        waiting, checked = [loaded], 0
        while waiting and checked < _MOST_PARTS:
            part = waiting.pop()
            checked += 1
            if isinstance(part, self.torch.Tensor):
                if part.device.type == "cuda":
                    card = self._card(part.device.index)
                    found[card] = found.get(card, 0) + part.numel() * part.element_size()
            elif isinstance(part, dict):
                waiting.extend(part.values())
            elif isinstance(part, (list, tuple, set)):
                waiting.extend(part)
            elif isinstance(part, self.torch.nn.Module):
                waiting.extend((*part.parameters(), *part.buffers()))
        return found


def _name(file: Any) -> str:
    """Path of a file, or of an open one; "" for a buffer in memory."""
    path = getattr(file, "name", "") if hasattr(file, "read") else file
    return shown_path(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else ""
