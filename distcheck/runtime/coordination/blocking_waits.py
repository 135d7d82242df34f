"""Records waits that are no calls of a collective: for the handle of an asynchronous call, and for keys of a store.

``Work.wait`` and methods of ``Store`` are C++ methods, so they are replaced in their classes. A wait for a key is
recorded in the main thread only: *watch* itself uses a store in other threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Protocol

from .model import CollectiveCall, RecordedCall
from .pair_counts import PairCounts

#: Methods of a handle, besides ``wait``, after which the script knows when the call has ended, or may know.
_KNOWS_END = ("is_completed", "get_future", "get_future_result", "synchronize", "block_current_stream", "result")
#: Calls whose handles were not waited for that are remembered.
_MOST_PENDING = 4096
#: Methods of a process group that send or receive.
_DIRECT = ("send", "recv", "recv_anysource")
#: Methods of a store that return when another process has set the keys (torch 2.13).
_WAITS_FOR_KEYS = ("wait", "get", "multi_get")
#: Seconds of a limit that a script gives such a wait, below which it may expect that the limit ends it.
_SHORT_S = 120.0


class WaitRecorder(Protocol):
    """What records the calls of a rank."""

    #: thread → the call that it is in
    inside: dict[int, RecordedCall]
    #: the last call, if it raised
    raised: CollectiveCall | None
    #: called with a call or wait that ended, and its error; None: it succeeded
    on_end: Callable[[CollectiveCall, BaseException | None], None] | None
    pairs: PairCounts

    def wait_for_keys(self, method: str, keys: Sequence[Any]) -> RecordedCall:
        """Return the record of a wait for keys of a store."""
        ...


class BlockingWaits:
    """Wraps these methods.

    :param recorder: whose rank waits
    """

    def __init__(self, recorder: WaitRecorder) -> None:
        self._recorder = recorder
        #: handle → the call that returned it
        self._handles: weakref.WeakKeyDictionary[Any, RecordedCall] = weakref.WeakKeyDictionary()
        self._handle_type: Any = ()
        #: ID of a call → that call, until the script waits for its handle
        self.pending: dict[int, CollectiveCall] = {}

    def attach(self, module: Any) -> None:
        """Wrap the methods of the classes of ``torch.distributed.distributed_c10d``."""
        if hasattr(module, "Work"):
            self._handle_type = module.Work
            module.Work.wait = self._around_wait(module.Work.wait)
            for name in _KNOWS_END:
                if hasattr(module.Work, name):
                    setattr(module.Work, name, self._around_end(name, getattr(module.Work, name)))
        for name in _WAITS_FOR_KEYS:
            original = getattr(getattr(module, "Store", None), name, None)
            if original is not None:
                setattr(module.Store, name, self._around_keys(name, original))
        for name in _DIRECT:
            original = getattr(getattr(module, "ProcessGroup", None), name, None)
            if original is not None:
                setattr(module.ProcessGroup, name, self._around_direct(name, original))

    def returned(self, value: Any, note: RecordedCall) -> None:
        """Keep the handles that a call has returned."""
        if isinstance(value, self._handle_type):
            self._handles[value] = note
            self._expect(note.call)
        elif note.parts and isinstance(value, list) and len(value) == len(note.parts):
            for handle, call in zip(value, note.parts, strict=True):
                self._handles[handle] = note._replace(call=call, parts=())
                self._expect(call)

    def _expect(self, call: CollectiveCall) -> None:
        if len(self.pending) >= _MOST_PENDING:
            self.pending.clear()
        self.pending[id(call)] = call

    def keeps_handle(self, call: CollectiveCall) -> bool:
        """Return whether the script still holds the handle of a call."""
        return any(note.call is call for note in list(self._handles.values()))

    @contextlib.contextmanager
    def _inside(self, note: RecordedCall) -> Iterator[None]:
        """Record that this thread waits."""
        thread = threading.get_ident()
        self._recorder.inside[thread] = note
        self._recorder.raised = None
        try:
            yield
        except BaseException as error:
            self._recorder.raised = note.call
            if self._recorder.on_end is not None:
                self._recorder.on_end(note.call, error)
            raise
        else:
            if self._recorder.on_end is not None:
                self._recorder.on_end(note.call, None)
        finally:
            del self._recorder.inside[thread]

    def _around_wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        inside, handles, waiting, pending = self._recorder.inside, self._handles, self._inside, self.pending

        # pybind11 recognizes an overridden method that calls the original by its name and first argument
        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            note = None if threading.get_ident() in inside else handles.get(self)
            if note is None:
                return original(self, *args, **kwargs)
            pending.pop(id(note.call), None)
            with waiting(note._replace(at=time.monotonic())):
                return original(self, *args, **kwargs)

        return wait

    def _around_end(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        handles, pending = self._handles, self.pending

        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            note = handles.get(self)
            if note is not None:
                pending.pop(id(note.call), None)
            return original(self, *args, **kwargs)

        return _named(called, name)

    def _around_keys(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder, waiting = self._recorder, self._inside

        def called(self: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
            thread = threading.get_ident()
            given = (*args, *kwargs.values())
            if thread in recorder.inside or thread != threading.main_thread().ident or _is_short(given):
                return original(self, keys, *args, **kwargs)
            with waiting(recorder.wait_for_keys(name, (keys,) if isinstance(keys, (str, bytes)) else keys)):
                return original(self, keys, *args, **kwargs)

        return _named(called, name)

    def _around_direct(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder = self._recorder

        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            # within dist.send() it was counted
            recorder.pairs.incomplete |= threading.get_ident() not in recorder.inside
            return original(self, *args, **kwargs)

        return _named(called, name)


def _named(called: Any, name: str) -> Callable[..., Any]:
    """Return the function under the name of the method that it calls: pybind11 recognizes it by that."""
    called.__name__ = name
    called.__code__ = called.__code__.replace(co_name=name)
    return called  # type: ignore[no-any-return]


def _is_short(given: Sequence[Any]) -> bool:
    """Return whether the arguments hold a limit that may be meant to end the wait."""
    return any(isinstance(value, timedelta) and value.total_seconds() < _SHORT_S for value in given)
