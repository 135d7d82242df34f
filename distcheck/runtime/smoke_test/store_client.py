"""Where the supervisors of all ranks meet, before and beside any backend: small keys in one store.

Each supervisor holds one connection. Nothing here blocks longer than it is told, and a store that is lost raises
:class:`StoreLost`. Values are short texts, never pickles.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

#: Longest that one question to the store may take, in seconds: it is in memory at the other end.
ANSWER_WITHIN_S = 3.0
#: Questions a second that the store answers, all clients together: a third of what torch 2.13 gave on two cores (9,000
#: reads a second), so that there is room for the group's own.
ANSWERS_PER_S = 3000.0
#: Longest single wait for a key: between two, the supervisor looks after its workers.
_SLICE_S = 0.25


class StoreLost(Exception):  # noqa: N818 - a state of the world, told to whoever waits
    """The store does not answer: its server, or the way to it, is gone."""


class StoreClient(Protocol):
    """Keys that all supervisors see."""

    def post(self, key: str, value: str) -> None:
        """Set a key."""

    def read(self, key: str) -> str | None:
        """A key's value, None where nobody has set it."""

    def add(self, key: str, amount: int = 1) -> int:
        """Count, and give the new count; 0 reads a counter."""

    def wait(self, key: str, seconds: float) -> str | None:
        """A key's value as soon as it is set; None after so many seconds without."""

    def has(self, keys: Iterable[str]) -> bool:
        """Whether all of these keys are set."""


class LocalStoreClient:
    """The meeting of a supervisor that watches all ranks itself."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def post(self, key: str, value: str) -> None:
        self._values[key] = value

    def read(self, key: str) -> str | None:
        return self._values.get(key)

    def add(self, key: str, amount: int = 1) -> int:
        self._counts[key] = self._counts.get(key, 0) + amount
        return self._counts[key]

    def wait(self, key: str, seconds: float) -> str | None:
        return self._values.get(key)

    def has(self, keys: Iterable[str]) -> bool:
        return all(key in self._values for key in keys)


class TorchStoreClient:
    """Keys in torch's TCPStore.

    :param clients: how many processes ask this store: it answers one after another
    :param set_limit: the connection is ours alone, so that its own limit may be set
    """

    def __init__(self, store: Any, prefix: str, *, clients: int = 1, set_limit: bool = True) -> None:
        self.store = store
        self.prefix = prefix
        self.answer_within_s = ANSWER_WITHIN_S + clients / ANSWERS_PER_S
        self._slice_s = max(_SLICE_S, clients / ANSWERS_PER_S)
        if set_limit:
            store.set_timeout(timedelta(seconds=self.answer_within_s))
        self._questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._lost: str | None = None
        # a server that was stopped keeps torch 2.13's add and check waiting for ever; whoever asks must not
        threading.Thread(target=self._asker, daemon=True).start()

    def post(self, key: str, value: str) -> None:
        self._ask(lambda: self.store.set(self._name(key), value))

    def read(self, key: str) -> str | None:
        name = self._name(key)
        if not self._ask(lambda: self.store.check([name])):
            return None
        return str(self._ask(lambda: self.store.get(name)).decode("utf-8", "replace"))

    def add(self, key: str, amount: int = 1) -> int:
        return int(self._ask(lambda: self.store.add(self._name(key), amount)))

    def wait(self, key: str, seconds: float) -> str | None:
        from torch.distributed import DistStoreError

        name = self._name(key)
        end = time.monotonic() + seconds
        while True:
            try:
                slice_ = timedelta(seconds=max(0.01, min(self._slice_s, end - time.monotonic())))
                self._ask(partial(self.store.wait, [name], slice_), DistStoreError)
            except DistStoreError:
                if time.monotonic() >= end:
                    return None
                continue
            return self.read(key)

    def has(self, keys: Iterable[str]) -> bool:
        return bool(self._ask(lambda: self.store.check([self._name(key) for key in keys])))

    def _name(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def _asker(self) -> None:
        while True:
            question = self._questions.get()
            try:
                self._answers.put((question(), None))
            except BaseException as error:  # noqa: BLE001 - crosses the thread: it is told where it is awaited
                self._answers.put((None, error))

    def _ask(self, question: Callable[[], Any], *expected: type[Exception]) -> Any:
        """The store's answer; raises MeetingLost for one that does not come in time, and from then on."""
        if self._lost is not None:
            raise StoreLost(self._lost)
        self._questions.put(question)
        try:
            value, error = self._answers.get(timeout=self.answer_within_s)
        except queue.Empty:
            # the thread may still wait in there: a later answer would be taken for that of another question
            self._lost = f"the store did not answer within {self.answer_within_s:.3g} s"
            raise StoreLost(self._lost) from None
        if error is None:
            return value
        if isinstance(error, expected):
            raise error
        if isinstance(error, RuntimeError):  # torch's DistError and its kinds
            self._lost = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise StoreLost(self._lost) from None
        raise error


def open_store(
    address: str, port: int, *, serve: bool, timeout_s: float, stopped: Callable[[], str | None] = lambda: None
) -> Any:
    """A connection to torch's store, or the store itself; raises MeetingLost.

    torch 2.13 does not keep its own limit where something listens and never answers, so the limit is kept here: the
    thread that still waits then is a daemon.

    :param stopped: the name of a signal that is to end the waiting, None while there is none
    """
    from torch.distributed import TCPStore

    answer: list[Any] = []

    def connect() -> None:
        try:
            answer.append(
                TCPStore(
                    address,
                    port,
                    is_master=serve,
                    wait_for_workers=False,
                    # it tries twice, and pauses in between
                    timeout=timedelta(seconds=max(1.0, timeout_s / 3)),
                )
            )
        except Exception as error:  # noqa: BLE001 - crosses the thread: it is told where it is awaited
            answer.append(error)

    end = time.monotonic() + timeout_s
    while True:
        answer.clear()
        thread = threading.Thread(target=connect, daemon=True)
        thread.start()
        while thread.is_alive() and time.monotonic() < end:
            thread.join(0.1)
            signal_name = stopped()
            if signal_name is not None:
                raise StoreLost(
                    f"{signal_name} ended this process while it looked for torch's store at {address}:{port}"
                )
        if not answer:
            raise StoreLost(f"torch's store did not answer at {address}:{port} within {timeout_s:g} s")
        if not isinstance(answer[0], Exception):
            return answer[0]
        text = str(answer[0]).splitlines()[0] if str(answer[0]) else type(answer[0]).__name__
        # the host of rank 0 may be a little later than this one
        if serve or time.monotonic() + 1.0 > end or "Ping failed" in text:
            raise StoreLost(text)
        time.sleep(0.2)
