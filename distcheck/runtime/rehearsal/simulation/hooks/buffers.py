"""Log how the script treats the tensors of its calls: uses them while an asynchronous call works on them, passes one of
them as several outputs, reads them although the call did nothing on this rank, or drops the result.

The operations of the script are known where GPUs are simulated. Calls that a library makes are not its own to fix.
"""

from __future__ import annotations

import functools
import gc
import operator
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.runtime.coordination.call_signatures import KINDS
from distcheck.runtime.coordination.digests import Digests
from distcheck.runtime.coordination.frames import innermost_own, is_own
from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.coordination.model import CollectiveCall, RecordedCall
from distcheck.runtime.coordination.patching import attach_to, harmless, wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

from .call_sites import is_made_in_call, outer, own_frame

#: Parameters that a call writes, and those that it only reads (torch 2.13, ``distributed_c10d.py``). A ``broadcast``
#: only reads on its root.
_WRITES: Mapping[str, str] = {
    "all_reduce": "tensor", "broadcast": "tensor", "reduce": "tensor", "all_gather": "tensor_list",
    "all_gather_single": "output_tensor", "all_gather_into_tensor": "output_tensor", "gather": "gather_list",
    "scatter": "tensor", "reduce_scatter": "output", "reduce_scatter_single": "output",
    "reduce_scatter_tensor": "output", "all_to_all": "output_tensor_list", "all_to_all_single": "output",
    "recv": "tensor", "irecv": "tensor",
}  # fmt: skip
_READS: Mapping[str, str] = {
    "all_gather": "tensor", "all_gather_single": "input_tensor", "all_gather_into_tensor": "input_tensor",
    "gather": "tensor", "scatter": "scatter_list", "reduce_scatter": "input_list", "reduce_scatter_single": "input",
    "reduce_scatter_tensor": "input", "all_to_all": "input_tensor_list", "all_to_all_single": "input",
    "send": "tensor", "isend": "tensor",
}  # fmt: skip
#: Pairs of calls that return when they are complete.
_BLOCKING_PAIRS = frozenset({"send", "recv", "send_object_list", "recv_object_list"})
#: Operations that read sizes only.
_OF_SIZES = frozenset({"is_same_size", "record_stream", "_has_compatible_shallow_copy_type", "is_pinned"})
#: Buffers that are followed at a time, and calls of one line whose tensor is followed to its end.
_MOST, _MOST_OF_A_LINE = 256, 16
#: Owners of a storage: a tensor, and the object of the storage in Python.
_OWNERS = 2
#: What makes a stream or the script wait for what runs on a GPU: NCCL's calls may have ended after it.
_SYNCHRONIZE = (
    "synchronize", "set_stream", "Stream.synchronize", "Stream.wait_stream", "Stream.wait_event", "Event.synchronize",
    "Event.wait", "StreamContext.__enter__",
)  # fmt: skip


class _Extent(NamedTuple):
    """The bytes of a storage that a tensor covers."""

    first: int
    end: int
    #: without gaps
    dense: bool

    def overlaps(self, other: _Extent) -> bool:
        """Return whether two tensors share bytes; two with gaps may lie between each other, so they do not."""
        return max(self.first, other.first) < min(self.end, other.end) and (self.dense or other.dense)


class _Buffer(NamedTuple):
    """A tensor of a call that the script must not use yet, or not at all."""

    call: CollectiveCall
    #: keeps the identity of the storage, not its memory
    storage: Any
    extent: _Extent
    #: the call writes it
    written: bool
    #: this rank is not in the group of the call
    outside: bool = False
    #: on a GPU
    queued: bool = False


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``buffers.used``, ``.outside``, ``.no_handle``, ``.shared``, ``.lost`` and ``.unwaited``."""
    hook = _BufferHook(event_log)
    event_log.calls.observe_arguments(hook.before)
    event_log.at_end.append(hook.at_end)
    attach_to("torch", event_log, "buffers", hook.attach)
    # without simulated GPUs no operation is known
    when_imported("distcheck.runtime.rehearsal.fake_cuda.operations", lambda module: module.observers.append(hook.sees))


class _BufferHook:
    """The tensors of the calls of this process."""

    def __init__(self, event_log: EventLog) -> None:
        self.event_log = event_log
        self.calls = event_log.calls
        self.torch: Any = None
        self.digests: Any = None
        self.pid = os.getpid()
        #: address of a storage → buffers in it
        self.buffers: dict[int, list[_Buffer]] = {}
        self.count = 0
        #: line → calls there whose tensor was followed
        self.followed: dict[str, int] = {}
        self.reported: set[tuple[Any, ...]] = set()

    def attach(self, torch: Any) -> None:
        self.torch = torch
        self.digests = Digests(torch)

        def synchronized(real: Any, *args: Any, **kwargs: Any) -> Any:
            self._drop_queued()
            return real(*args, **kwargs)

        for name in _SYNCHRONIZE:
            wrap(torch.cuda, name, synchronized)

    # calls

    def before(self, note: RecordedCall, given: Mapping[str, Any], waits: bool) -> None:
        """A call is about to begin."""
        if self.torch is None or os.getpid() != self.pid:
            return
        with harmless(self.event_log, "buffers.call"):
            self._note_unwaited()
            call = note.call
            if call.group and waits:
                self._drop_queued(call.group)
            if not _called_by_script():
                return
            if note.parts:
                for part, operation in zip(note.parts, given["p2p_op_list"], strict=True):
                    self._follow(part, {"tensor": operation.tensor}, part.operation)
                return
            outputs = _tensors(given.get(_WRITES.get(call.operation, "")))
            if not call.group:
                if not waits and not KINDS[call.operation].pair:
                    self._note("buffers.no_handle", call)
                for tensor in outputs:
                    self._keep(call, tensor, written=True, outside=True)
                return
            self._check_outputs(call, outputs)
            if waits:
                if outputs:
                    self._note_lost(call, outputs[0])
            elif call.operation not in _BLOCKING_PAIRS:
                self._follow(call, given, call.operation)

    def _follow(self, call: CollectiveCall, given: Mapping[str, Any], operation: str) -> None:
        root = operation == "broadcast" and call.peer == self.event_log.rank
        for tensor in _tensors(given.get(_WRITES.get(operation, ""))):
            self._keep(call, tensor, written=not root)
        for tensor in _tensors(given.get(_READS.get(operation, ""))):
            self._keep(call, tensor, written=False)

    def _keep(self, call: CollectiveCall, tensor: Any, *, written: bool, outside: bool = False) -> None:
        found = self._place(tensor)
        if found is None:
            return
        storage, extent = found
        if self.count >= _MOST:
            self.buffers.clear()
            self.count = 0
        queued = "nccl" in self.calls.backends.get(call.group, "")
        self.count += 1
        self.buffers.setdefault(storage._cdata, []).append(
            _Buffer(call, _weak(storage), extent, written, outside, queued)
        )

    def _place(self, tensor: Any) -> tuple[Any, _Extent] | None:
        """Return the storage of a tensor and its bytes there; None if it has none."""
        torch = self.torch
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_meta:
            return None
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or not tensor.numel():
            return None
        with torch._C.DisableTorchFunction():
            storage, size = torch._C.TensorBase.untyped_storage(tensor), tensor.element_size()
            first = tensor.storage_offset()
            last = first + sum(
                (length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True)
            )
        return storage, _Extent(first * size, (last + 1) * size, last + 1 - first == tensor.numel())

    def _check_outputs(self, call: CollectiveCall, outputs: Sequence[Any]) -> None:
        """Note outputs of one call that share memory."""
        places: dict[int, list[_Extent]] = {}
        for tensor in outputs if len(outputs) > 1 else ():
            found = self._place(tensor)
            if found is None:
                continue
            others = places.setdefault(found[0]._cdata, [])
            if any(found[1].overlaps(other) for other in others):
                self._note("buffers.shared", call, outputs=len(outputs))
                return
            others.append(found[1])

    # operations

    def sees(self, operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Torch is about to run an operation."""
        if not self.buffers or os.getpid() != self.pid or self.calls.inside:
            return
        with harmless(self.event_log, "buffers.use"):
            for write, value in _uses(operation, args, kwargs):
                for tensor in _tensors(value):
                    found = self._place(tensor)
                    if found is not None and found[0]._cdata in self.buffers:
                        self._used(found[0]._cdata, found[1], write)

    def _used(self, address: int, extent: _Extent, write: bool) -> None:
        for buffer in list(self.buffers[address]):
            over = buffer.storage.expired() or not (buffer.outside or id(buffer.call) in self.calls.pending)
            touched = not over and extent.overlaps(buffer.extent)
            if touched and buffer.outside and not write:
                self._note("buffers.outside", buffer.call, at=innermost_own(sys._getframe(1))[0])
            elif touched and not buffer.outside and (write or buffer.written):
                self._note(
                    "buffers.used", buffer.call, at=innermost_own(sys._getframe(1))[0], write=write,
                    kept=self.calls.keeps_handle(buffer.call),
                )  # fmt: skip
            elif not over and not (touched and buffer.outside):
                continue
            self._drop(address, buffer)

    def _drop(self, address: int, buffer: _Buffer) -> None:
        self.count -= 1
        self.buffers[address].remove(buffer)
        if not self.buffers[address]:
            del self.buffers[address]

    def _drop_queued(self, group: str | None = None) -> None:
        """Forget what NCCL works on: in one group, or in all."""
        for address, buffers in list(self.buffers.items()):
            for buffer in list(buffers):
                if buffer.queued and group in (None, buffer.call.group):
                    self._drop(address, buffer)

    # results that no line can read

    def _note_lost(self, call: CollectiveCall, tensor: Any) -> None:
        """Note a tensor without a name, which ends with its ``all_reduce``."""
        followed = self.followed.get(call.place, 0)
        found = self._place(tensor) if call.operation == "all_reduce" else None
        if found is None or followed >= _MOST_OF_A_LINE:
            return
        self.followed[call.place] = followed + 1
        frame = own_frame(sys._getframe(1))
        if frame is None or not self._is_alone(found[0]) or not is_made_in_call(frame, call.operation, "tensor"):
            return
        if not _is_referenced(tensor, sys._getframe(1), frame):
            self.event_log.note(
                "buffers.lost", place=(call.place, call.function), operation=call.operation, group=call.group,
                number=call.number, digest=self.digests.of(tensor),
            )  # fmt: skip

    def _is_alone(self, storage: Any) -> bool:
        """Return whether one tensor has a storage, and no view or gradient; False if unknown."""
        count = getattr(self.torch._C, "_storage_Use_Count", None)
        return count is not None and count(storage._cdata) <= _OWNERS

    def _note_unwaited(self) -> None:
        """Note barriers whose handles are dropped: nothing can wait for them any more."""
        for call in list(self.calls.pending.values()):
            if call.operation == "barrier" and not self.calls.keeps_handle(call):
                self._note("buffers.unwaited", call)

    def at_end(self) -> None:
        """The process ends."""
        with harmless(self.event_log, "buffers.end"):
            self._note_unwaited()

    def _note(self, kind: str, call: CollectiveCall, **data: Any) -> None:
        key = (kind, call.place, data.get("at"))
        if key not in self.reported:
            self.reported.add(key)
            self.event_log.note(
                kind, place=(call.place, call.function), operation=call.operation, group=call.group, **data
            )


def _weak(storage: Any) -> Any:
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef(storage)


def _called_by_script() -> bool:
    """Return whether the script itself made the call, past torch's own decorator."""
    frame = outer(sys._getframe(1))
    while frame is not None and frame.f_code.co_filename.endswith("c10d_logger.py"):
        frame = outer(frame.f_back)
    return frame is not None and is_own(frame.f_code.co_filename)


def _is_referenced(tensor: Any, inner: Any, caller: Any) -> bool:
    """Return whether more than a call that is under way refers to a tensor.

    :param inner: the frame of this module
    :param caller: the frame that makes the call
    """
    frame, within = inner, {id(sys._getframe())}
    while frame is not None and frame is not caller:
        within.add(id(frame))
        within.update(map(id, frame.f_locals.values()))
        frame = frame.f_back
    while frame is not None:
        if any(map(functools.partial(operator.is_, tensor), frame.f_locals.values())):
            return True
        within.add(id(frame))
        frame = frame.f_back
    outer_frames = _ids_of_frames(caller)
    # no nested function here: its variable would be one more reference
    holders = gc.get_referrers(tensor)
    for one in holders:
        if id(one) in within:
            continue
        # arguments that a frame is about to pass on
        if type(one) not in (tuple, dict):
            return True
        for other in gc.get_referrers(one):
            if other is not holders and (id(other) not in within or id(other) in outer_frames):
                return True
    return False


def _ids_of_frames(frame: Any) -> set[int]:
    found = set()
    while frame is not None:
        found.add(id(frame))
        frame = frame.f_back
    return found


def _tensors(value: Any) -> list[Any]:
    """Return a tensor, or those of a list of tensors."""
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


@functools.cache
def _modes(operation: Any) -> tuple[tuple[str, bool], ...]:
    """Return name and whether it is written of each argument whose elements an operation uses."""
    schema = getattr(operation, "_schema", None)
    if schema is None:
        return ()
    namespace, _, name = schema.name.partition("::")
    if namespace != "aten" or name.startswith("new_") or name.endswith("_like") or name in _OF_SIZES:
        return ()
    found = []
    for argument in schema.arguments:
        alias = argument.alias_info
        # one that only aliases an argument is a view
        if alias is None or alias.is_write:
            found.append((argument.name, alias is not None))
        else:
            found.append(("", False))
    return tuple(found)


def _uses(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[bool, Any]]:
    """Yield whether an argument is written, and its value."""
    for index, (name, write) in enumerate(_modes(operation)):
        if name:
            yield write, args[index] if index < len(args) else kwargs.get(name)
