"""Streams and events of simulated GPUs: what is put on one has been done when the call returns."""

from __future__ import annotations

import abc
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import torch

from .limits import refuse

if TYPE_CHECKING:
    from .driver import FakeDriver


class Streams:
    """Which stream each thread uses on each GPU."""

    threads = threading.local()

    @classmethod
    def _table(cls) -> dict[int, Any]:
        if not hasattr(cls.threads, "table"):
            cls.threads.table = {}
        table: dict[int, Any] = cls.threads.table
        return table

    @classmethod
    def current(cls, driver: FakeDriver, device: int) -> Any:
        torch.cuda._lazy_init()
        return cls._table().get(device) or torch.cuda.Stream(
            stream_id=0, device_index=driver.check(device), device_type=1
        )

    @classmethod
    def use(cls, stream: Any) -> None:
        cls._table()[stream.device_index] = stream


def make_streams(driver: FakeDriver) -> None:
    """Streams and events without work: all is done when a call returns, so nothing is ever waited for."""

    class OnDevice:
        device_index: int

        @property
        def device(self) -> torch.device:
            return torch.device("cuda", self.device_index)

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            pass

    class StreamBase(OnDevice):
        stream_id: int
        device_type = 1

        def __new__(
            cls, priority: int = 0, stream_id: int | None = None, device_index: int | None = None, **_: Any
        ) -> Any:
            torch.cuda._lazy_init()
            stream = object.__new__(cls)
            if stream_id is None:
                driver.streams += 1
                stream_id = driver.streams
            stream.stream_id = stream_id
            stream.device_index = driver.current if device_index is None else driver.check(device_index)
            stream.priority = min(priority, 0)
            return stream

        def __init__(self, *_: Any, **__: Any) -> None:
            self.priority: int

        @property
        def cuda_stream(self) -> int:
            return self.stream_id

        native_handle = cuda_stream

        def is_capturing(self) -> bool:
            return False

        @classmethod
        def priority_range(cls) -> tuple[int, int]:
            return (0, -5)

        def __eq__(self, other: object) -> bool:
            return (self.stream_id, self.device_index) == (
                getattr(other, "stream_id", None),
                getattr(other, "device_index", None),
            )

        def __hash__(self) -> int:
            return hash((self.stream_id, self.device_index))

        def __enter__(self) -> Any:
            self._before = driver.current, Streams.current(driver, self.device_index)
            driver.set_device(self.device_index)
            Streams.use(self)
            return self

        def __exit__(self, *_: object) -> None:
            device, stream = self._before
            Streams.use(stream)
            driver.set_device(device)

    class EventBase(OnDevice):
        def __new__(cls, *_: Any, enable_timing: bool = False, **__: Any) -> Any:
            torch.cuda._lazy_init()
            event = object.__new__(cls)
            event.enable_timing = enable_timing
            event.at = None
            event.device_index = driver.current
            return event

        def __init__(self, *_: Any, **__: Any) -> None:
            self.enable_timing: bool
            self.at: float | None
            self.device_index: int

        @property
        def cuda_event(self) -> int:
            return id(self) if self.at is not None else 0

        event_id = cuda_event

        def record(self, stream: Any = None) -> None:
            self.at = time.perf_counter()

        def wait(self, stream: Any = None) -> None:
            pass

        def elapsed_time(self, other: Any) -> float:
            if not (self.enable_timing and other.enable_timing):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if self.at is None or other.at is None:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            return (float(other.at) - self.at) * 1000

        def ipc_handle(self) -> bytes:
            raise refuse("torch.cuda.Event.ipc_handle", "no other process can open a simulated event")

    put_below(torch.cuda.Stream, StreamBase)
    put_below(torch.cuda.Event, EventBase)
    # in torch 2.4 their second bases, which torch.compile checks
    abstracts = sys.modules.get("torch._streambase")
    for name, kind in (("_StreamBase", torch.cuda.Stream), ("_EventBase", torch.cuda.Event)):
        if isinstance(abstract := getattr(abstracts, name, None), abc.ABCMeta):
            abstract.register(kind)
    _for_any_accelerator(driver)


def _for_any_accelerator(driver: FakeDriver) -> None:
    """``torch.Stream`` and ``torch.Event``, whose compiled code needs a real accelerator."""

    class OfAny(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, torch.cuda.Event)

    class Event(metaclass=OfAny):
        def __new__(cls, device: Any = None, **options: Any) -> Any:
            event = torch.cuda.Event(**options)
            if device is not None:
                event.device_index = driver.check(torch.cuda._utils._get_device_index(device, optional=True))
            return event

    # it takes the same arguments, and isinstance() of torch.cuda's is true as in a build for CUDA
    torch.Stream = torch.cuda.Stream
    torch.Event = Event


def put_below(kind: type, base: type) -> type:
    """Give a class of torch's another base, so that its own Python code runs above ours.

    In a build for the CPU it stays itself, and every name for it stays valid. In a build for CUDA its base is compiled,
    and Python refuses another one: then a similar class replaces it, under all names that are known by now.
    """
    try:
        kind.__bases__ = (base,)
        return kind
    except TypeError:
        pass
    members = {
        name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__", "__slots__")
    }
    like = type(kind.__name__, (base,), members)
    for value in members.values():
        _belongs_to(value, like)
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is kind:
                setattr(module, name, like)
    belows: list[type] = kind.__subclasses__()
    for below in belows:
        put_below(below, like)
    return like


def _belongs_to(member: Any, kind: type) -> None:
    """``super()`` without arguments reads the class from a cell of the function."""
    if isinstance(member, property):
        for part in (member.fget, member.fset, member.fdel):
            _belongs_to(part, kind)
    function = getattr(member, "__func__", member)
    for name, cell in zip(
        getattr(getattr(function, "__code__", None), "co_freevars", ()), getattr(function, "__closure__", None) or (),
        strict=False,
    ):  # fmt: skip
        if name == "__class__":
            cell.cell_contents = kind
