"""How the ranks of a rehearsal reach their parent: lines of JSON over a Unix socket, a thread for each connection; and
a store as torch has them, in memory.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Callable
from typing import Any


class MemoryStore:
    """What :class:`Monitor` needs of torch's stores, in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        with self._lock:
            self._values[key] = value

    def get(self, key: str) -> bytes:
        with self._lock:
            return self._values[key].encode()

    def multi_get(self, keys: list[str]) -> list[bytes]:
        with self._lock:
            return [self._values[key].encode() for key in keys]

    def check(self, keys: list[str]) -> bool:
        with self._lock:
            return all(key in self._values for key in keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """The value that stands there afterwards."""
        with self._lock:
            if self._values.get(key, "") == expected:
                self._values[key] = desired
            return self._values.get(key, expected).encode()

    def add(self, key: str, amount: int) -> int:
        with self._lock:
            value = int(self._values.get(key, "0")) + amount
            self._values[key] = str(value)
            return value

    def delete_key(self, key: str) -> bool:
        with self._lock:
            return self._values.pop(key, None) is not None


OF_THE_STORE = frozenset({"set", "get", "multi_get", "check", "compare_set", "add", "delete_key"})


def stored(store: MemoryStore, what: str, arguments: list[Any]) -> dict[str, Any]:
    value = getattr(store, what)(*arguments)
    if isinstance(value, bytes):
        value = value.decode()
    elif isinstance(value, list):
        value = [item.decode() for item in value]
    return {"value": value}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    # they may wait for ranks that never come
    block_on_close = False
    request_queue_size = 128

    def __init__(self, path: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.path = path
        self.answer = answer
        super().__init__(path, _RequestHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A rank that has gone does not read its answer."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _RequestHandler(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        for line in self.rfile:
            if not line.endswith(b"\n"):
                return
            answer = self.server.answer(json.loads(line))
            self.wfile.write(json.dumps(answer).encode() + b"\n")
