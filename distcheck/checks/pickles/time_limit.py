"""A time limit for the code of other packages: a hook of pickling must return, or it is interrupted.

In the main thread an unused signal interrupts what signals can interrupt: sleeping, waiting for a lock or a socket, a
loop. In other threads, and where no signal is free, an exception is set for the thread. That ends loops only: a C
function that blocks there can't be interrupted, and the caller waits for it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, TypeVar

#: Seconds that one method which pickling calls may take.
LIMIT_S = 5.0

Answer = TypeVar("Answer")


class TimeLimitExceeded(BaseException):
    """Raised in code that did not come back in time. No ``except Exception`` of that code swallows it."""


class TimeLimit:
    """Runs functions in this thread, each under the limit. Costs next to nothing until the first one runs."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._started = 0.0  # when what runs now began; 0.0 while nothing runs
        self._fired = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._signal: int | None = None
        self._before: Any = None
        self._watched = threading.get_ident()

    def __enter__(self) -> TimeLimit:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        if self._signal is not None:
            signal.signal(self._signal, self._before)

    def run(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        """What ``function(*arguments)`` gives. Raises what it raises, or :class:`TimeLimitExceeded`."""
        if self._thread is None:
            self._start()
        try:
            try:
                self._started = monotonic()
                return function(*arguments)
            finally:
                self._settle()
        except TimeLimitExceeded:
            self._settle()  # it may have come while the first attempt was under way
            raise

    def _settle(self) -> None:
        """From here on nothing is broken off any more; an exception that is on its way does no harm."""
        self._started = 0.0
        if not self._fired:
            return
        with self._lock:
            self._fired = False
            if self._signal is None:
                _interrupt(self._watched, None)

    def _start(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _free_signals():
                with contextlib.suppress(ValueError):  # not the main interpreter
                    self._before = signal.signal(number, self._arrived)
                    self._signal = number
                break
        self._thread = threading.Thread(target=self._check, name="distcheck-watch", daemon=True)
        self._thread.start()

    def _arrived(self, *_: object) -> None:
        if self._started:
            raise TimeLimitExceeded

    def _check(self) -> None:
        pause = min(0.25, self.limit_s / 4)
        while not self._end.wait(pause):
            started = self._started
            if not started or monotonic() - started < self.limit_s:
                continue
            with self._lock:
                if self._started != started:
                    continue
                self._fired = True
                if self._signal is not None:
                    signal.pthread_kill(self._watched, self._signal)
                else:
                    _interrupt(self._watched, TimeLimitExceeded)


def _free_signals() -> Iterator[int]:
    """Signals that nothing in this process handles, least used first; none where signals can't be sent to a thread."""
    if not hasattr(signal, "pthread_kill"):
        return
    last = getattr(signal, "SIGRTMAX", None)
    candidates = [int(last) - back for back in range(1, 8)] if last is not None else []
    candidates += [getattr(signal, name) for name in ("SIGUSR2", "SIGVTALRM", "SIGPROF") if hasattr(signal, name)]
    for number in candidates:
        if signal.getsignal(number) == signal.SIG_DFL:
            yield int(number)


def _interrupt(thread: int, kind: type[BaseException] | None) -> None:
    """Let a thread raise an exception at its next line of Python; None takes back one that it has not raised yet."""
    import ctypes  # only in threads other than the main one

    exception = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)
