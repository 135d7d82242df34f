"""How the ranks of a rehearsal reach their parent: lines of JSON over a Unix socket, a thread for each connection."""

from __future__ import annotations

import json
import socketserver
import sys
from collections.abc import Callable
from typing import Any

#: The methods of the store that ranks call.
STORE_METHODS = frozenset({"set", "get", "multi_get", "check", "compare_set", "add", "delete_key"})


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    # a handler may wait for ranks that never arrive
    block_on_close = False
    request_queue_size = 128

    def __init__(self, path: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.path = path
        self.answer = answer
        super().__init__(path, _RequestHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a rank that exited and does not read its answer."""
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
