"""The client of a key-value store through which ranks, supervisors and the coordinator exchange small texts.

Three stores have the same methods: torch's TCPStore (:class:`TorchStoreClient`), one in the memory of this process
(:class:`MemoryStore`), and that of a rehearsal's parent. No request blocks longer than its limit. A store that does not
answer raises :class:`StoreLost`. Values are short texts, never pickles.
"""

from __future__ import annotations

import errno
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

#: Seconds that one request may take: the store is in memory at the other end.
ANSWER_WITHIN_S = 3.0
#: Requests a second that the store serves, all clients together: a third of what torch 2.13 served on two cores (9,000
#: reads a second). The process group needs the rest.
ANSWERS_PER_S = 3000.0
#: Seconds that the monitor of a watched rank waits for one request: the job's own requests come first.
MONITOR_WITHIN_S = 5.0
#: Longest single wait for a key, in seconds. The supervisor checks its workers between two waits.
_SLICE_S = 0.25


class StoreLost(Exception):  # noqa: N818 - a state of the system, which callers handle
    """The store does not answer: its server, or the connection to it, is lost."""


class StoreClient(Protocol):
    """Keys and texts that several processes share. Methods are named as those of ``torch.distributed.Store``."""

    def set(self, key: str, value: str) -> None:
        """Set a key."""

    def get(self, key: str) -> str | None:
        """Return the value of a key, or None if it is not set."""

    def multi_get(self, keys: Sequence[str]) -> list[str]:
        """Return the values of keys that are all set."""

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are set."""

    def add(self, key: str, amount: int = 1) -> int:
        """Add to a counter and return it; an amount of 0 reads it."""

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        """Set a key if it has the expected value ("": not set), and return its value afterwards."""

    def delete_key(self, key: str) -> bool:
        """Delete a key, and return whether it was set."""

    def wait(self, key: str, seconds: float) -> str | None:
        """Return the value of a key as soon as it is set, or None after so many seconds."""


class MemoryStore:
    """A store in the memory of this process; its methods may be called from several threads."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self.values[key] = value
            self._changed.notify_all()

    def get(self, key: str) -> str | None:
        with self._changed:
            return self.values.get(key)

    def multi_get(self, keys: Sequence[str]) -> list[str]:
        with self._changed:
            return [self.values[key] for key in keys]

    def check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return all(key in self.values for key in keys)

    def add(self, key: str, amount: int = 1) -> int:
        with self._changed:
            value = int(self.values.get(key, "0")) + amount
            self.values[key] = str(value)
            self._changed.notify_all()
            return value

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        with self._changed:
            if self.values.get(key, "") == expected:
                self.values[key] = desired
                self._changed.notify_all()
            return self.values.get(key, "")

    def delete_key(self, key: str) -> bool:
        with self._changed:
            return self.values.pop(key, None) is not None

    def wait(self, key: str, seconds: float) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: key in self.values, seconds)
            return self.values.get(key)


class TorchStoreClient:
    """Keys in torch's TCPStore.

    :param prefix: of all keys; "": none
    :param clients: number of processes that use this store: it serves them one after another
    :param answer_within_s: limit of one request with few clients, in seconds
    :param set_limit: the connection belongs to this client, so its own limit may be set
    """

    def __init__(
        self,
        store: Any,
        prefix: str = "",
        *,
        clients: int = 1,
        answer_within_s: float = ANSWER_WITHIN_S,
        set_limit: bool = True,
    ) -> None:
        self.answer_within_s = answer_within_s + clients / ANSWERS_PER_S
        self._store = store
        self._prefix = f"{prefix}/" if prefix else ""
        self._slice_s = max(_SLICE_S, clients / ANSWERS_PER_S)
        if set_limit:
            store.set_timeout(timedelta(seconds=self.answer_within_s))
        self._requests: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._lost: str | None = None
        # a stopped server blocks torch 2.13's add and check forever; the caller must not block
        threading.Thread(target=self._serve, daemon=True).start()

    def set(self, key: str, value: str) -> None:
        self._request(lambda: self._store.set(self._name(key), value))

    def get(self, key: str) -> str | None:
        name = self._name(key)
        if not self._request(lambda: self._store.check([name])):
            return None
        return _text(self._request(lambda: self._store.get(name)))

    def multi_get(self, keys: Sequence[str]) -> list[str]:
        return [_text(value) for value in self._request(lambda: self._store.multi_get(list(map(self._name, keys))))]

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._request(lambda: self._store.check(list(map(self._name, keys)))))

    def add(self, key: str, amount: int = 1) -> int:
        return int(self._request(lambda: self._store.add(self._name(key), amount)))

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        return _text(self._request(lambda: self._store.compare_set(self._name(key), expected, desired)))

    def delete_key(self, key: str) -> bool:
        return bool(self._request(lambda: self._store.delete_key(self._name(key))))

    def wait(self, key: str, seconds: float) -> str | None:
        from torch.distributed import DistStoreError

        name = self._name(key)
        end = time.monotonic() + seconds
        while True:
            try:
                slice_ = timedelta(seconds=max(0.01, min(self._slice_s, end - time.monotonic())))
                self._request(partial(self._store.wait, [name], slice_), DistStoreError)
            except DistStoreError:
                if time.monotonic() >= end:
                    return None
                continue
            return self.get(key)

    def close(self) -> None:
        """Release the connection; a request that blocks keeps it until it ends."""
        self._lost = "the connection is closed"
        self._requests.put(None)

    def _name(self, key: str) -> str:
        return self._prefix + key

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                self._answers.put((request(), None))
            except BaseException as error:  # noqa: BLE001 - crosses the thread: it is raised where it is awaited
                self._answers.put((None, error))
            del request
        self._store = None

    def _request(self, request: Callable[[], Any], *expected: type[Exception]) -> Any:
        """Return the store's answer; raise StoreLost if it is late, and from then on."""
        if self._lost is not None:
            raise StoreLost(self._lost)
        self._requests.put(request)
        try:
            value, error = self._answers.get(timeout=self.answer_within_s)
        except queue.Empty:
            # the thread may still wait: a later answer would be taken for that of another request
            self._lost = f"the store did not answer within {self.answer_within_s:.3g} s"
            raise StoreLost(self._lost) from None
        if error is None:
            return value
        if isinstance(error, expected):
            raise error
        if isinstance(error, RuntimeError):  # torch's DistError and its kinds
            self._lost = first_line(error)
            raise StoreLost(self._lost) from None
        raise error


def _text(value: bytes) -> str:
    return str(value.decode("utf-8", "replace"))


def client_of_call(store: Any, base: str, rank: int, *, clients: int, set_limit: bool = True) -> TorchStoreClient:
    """Return a client for one call of a function that all ranks call: a second call reads no key of the first.

    :param base: prefix of the keys of all calls
    """
    counter = TorchStoreClient(store, base, clients=clients, set_limit=set_limit)
    # each rank counts its own calls
    call = counter.add(f"calls/{rank}")
    counter.close()
    return TorchStoreClient(store, f"{base}/{call}", clients=clients, set_limit=set_limit)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text, or its type if it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def open_store(
    address: str, port: int, *, serve: bool, timeout_s: float, stopped: Callable[[], str | None] = lambda: None
) -> Any:
    """Return a connection to torch's store, or the store itself; raise StoreLost.

    torch 2.13 does not keep its own limit where a server listens and never answers. So the limit is kept here, and the
    thread that still waits then is a daemon.

    :param stopped: returns the name of a signal that ends the wait, None while there is none
    """
    from torch.distributed import TCPStore

    answer: list[Any] = []

    def connect() -> None:
        try:
            bound, options = _listen_on_loopback(address, port) if serve else (port, {})
            answer.append(
                TCPStore(
                    address,
                    bound,
                    is_master=serve,
                    wait_for_workers=False,
                    # it tries twice, and pauses in between
                    timeout=timedelta(seconds=max(1.0, timeout_s / 3)),
                    **options,
                )
            )
        except Exception as error:  # noqa: BLE001 - crosses the thread: it is handled where it is awaited
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
                    f"{signal_name} ended this process while it waited for torch's store at {address}:{port}"
                )
        if not answer:
            raise StoreLost(f"torch's store did not answer at {address}:{port} within {timeout_s:g} s")
        if not isinstance(answer[0], Exception):
            return answer[0]
        text = first_line(answer[0])
        # the host of rank 0 may start a little later than this one
        if serve or time.monotonic() + 1.0 > end or "Ping failed" in text:
            raise StoreLost(text)
        time.sleep(0.2)


def keep_if_held_up(store: Any) -> bool:
    """Keep a store of this process until the process ends if it does not answer; return whether it does not.

    Without libuv, torch's store waits for the rest of each message that began (torch 2.13). Another user of the host
    can hold it up so, and then its destructor waits forever.
    """
    client = TorchStoreClient(store)
    try:
        client.check(["distcheck"])
    except StoreLost:
        # the thread of the client waits, and holds the store
        return True
    client.close()
    return False


def _listen_on_loopback(address: str, port: int) -> tuple[int, dict[str, Any]]:
    """Return the port and the options that make a store for this host alone listen on loopback.

    torch listens on all interfaces, whatever the address is, unless it gets a socket that listens. Its store without
    libuv takes one (tried with torch 2.4, 2.13 and 2.14).
    """
    if not address.startswith("127.") or sys.platform == "win32":
        return port, {}
    import socket

    try:
        listener = socket.create_server((address, port), backlog=1024)
    except OSError as error:
        # as torch names it
        raise StoreLost(f"{errno.errorcode.get(error.errno or 0, '')}: {error.strerror}") from error
    bound: int = listener.getsockname()[1]
    return bound, {"master_listen_fd": listener.detach(), "use_libuv": False}


def _cloned(store: Any, distributed: Any) -> Any:
    """Return a client of its own of the store of a process group; in torch 2.4 stores have no ``clone()``."""
    if hasattr(store, "clone"):
        return store.clone()
    inner = getattr(store, "_underlying_non_prefix_store", store)
    timeout = timedelta(seconds=MONITOR_WITHIN_S)
    if isinstance(inner, distributed.TCPStore):
        client = distributed.TCPStore(inner.host, inner.port, is_master=False, wait_for_workers=False, timeout=timeout)
    elif isinstance(inner, distributed.FileStore):
        client = distributed.FileStore(inner.path, -1)
    else:
        raise StoreLost(f"the group's {type(inner).__name__} has no second client")
    return distributed.PrefixStore("distcheck", client)


class StoreConnection(Protocol):
    """How the monitor of a rank reaches a store."""

    @property
    def outlives_ranks(self) -> bool:
        """Return whether the store stays after rank 0 has exited."""

    def open(self) -> StoreClient | None:
        """Return a client, or None while there is no store yet."""

    def release(self) -> None:
        """Release what would outlive the process group: the script makes another one."""


class JobStoreConnection:
    """Connects to the store of a job: that of torchrun's agent, which exists from the start, or a clone of the group's.

    :param joined: returns whether the default process group exists
    """

    def __init__(self, joined: Callable[[], bool], environ: Mapping[str, str]) -> None:
        self._joined = joined
        self._environ = environ
        #: rank 0's own store: destroyed with the group, it would break the connections of all clients
        self._anchor: Any = None
        self._client: TorchStoreClient | None = None

    @property
    def outlives_ranks(self) -> bool:
        return self._environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"

    def open(self) -> TorchStoreClient | None:
        distributed = sys.modules.get("torch.distributed")
        module = sys.modules.get("torch.distributed.distributed_c10d")
        if distributed is None or module is None or getattr(distributed.__spec__, "_initializing", False):
            return None
        if self.outlives_ranks:
            store = self._of_agent(distributed)
        elif not self._joined():
            return None
        else:
            try:
                self._anchor = module._get_default_store()
            except ValueError:  # the group was destroyed meanwhile
                return None
            store = _cloned(self._anchor, distributed)
        self._client = TorchStoreClient(store, answer_within_s=MONITOR_WITHIN_S)
        return self._client

    def release(self) -> None:
        self._anchor = None
        if self._client is not None:
            self._client.close()
            self._client = None

    def _of_agent(self, distributed: Any) -> Any:
        environ = self._environ
        store = distributed.TCPStore(
            environ["MASTER_ADDR"], int(environ["MASTER_PORT"]), is_master=False, wait_for_workers=False,
            timeout=timedelta(seconds=MONITOR_WITHIN_S),
        )  # fmt: skip
        # one store may serve several jobs, and a restarted job finds the keys of its earlier attempt
        run = environ.get("TORCHELASTIC_RUN_ID", "none")
        return distributed.PrefixStore(f"{run}/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
