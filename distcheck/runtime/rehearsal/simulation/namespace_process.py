"""The process that makes and keeps the namespaces of a rehearsal: mounts with overlays, a network without machines.

It is a small Python without threads until they are made. The ranks enter them, and they end with the last rank.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from . import mount_namespace, network_namespace
from .namespaces import separate


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Make the namespaces that the first line of stdin requests, keep them, list changes on request, end with stdin.

    ``network``: no other machine is reached. ``stores``, ``everything``, ``only_own``: overlays, as in
    :class:`.mount_namespace.MountNamespace`.
    """
    # Ctrl-C is for the requester; the end of stdin is the end
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = json.loads(sys.stdin.readline())
    os.chdir("/")
    first = os.readlink("/proc/self/ns/user")
    kinds: list[str] = []
    why: dict[str, str] = {}
    outside = network_namespace.read()
    names = network_namespace.NameServer([address for _, address in outside.interfaces])
    for kind in [kind for kind, wanted in (("mnt", "stores" in request), ("net", request["network"])) if wanted]:
        try:
            _separate(kind, first)
            if kind == "net":
                network_namespace.furnish(outside)
                names.start()
            kinds.append(kind)
        except OSError as error:
            why[kind] = str(error.args[-1])
    if kinds and os.readlink("/proc/self/ns/user") != first:
        kinds.insert(0, "user")
    room = mount_namespace.MountNamespace(request.get("stores", ()), user="user" in kinds)
    if "mnt" in kinds:
        places = request["only_own" if room.user else "everything"]
        room.cover(places["covered"], places["through"])
    _answer(
        {
            "kinds": kinds, "pid": os.getpid(), "why": why, "listening": outside.listening,
            "covered": [covered.path for covered in room.covered], "failed": room.failed,
        }
    )  # fmt: skip
    for line in sys.stdin:
        if line.strip() == "list":
            unrouted = network_namespace.unrouted() if "net" in kinds else 0
            _answer({**mount_namespace.listed(room), "unrouted": unrouted, "names": list(names.names)})


def _separate(kind: str, first: str) -> None:
    """Prefer a namespace without a user namespace; nothing needs a second one."""
    try:
        separate(kind, user=False)
    except OSError:
        if os.readlink("/proc/self/ns/user") != first:
            raise
        separate(kind, user=True)


class NamespaceProcess:
    """The process that makes the namespaces, and keeps them."""

    #: Seconds for a small Python to start and mount, on a machine that is busy.
    _PATIENCE_S = 60.0

    def __init__(self, python: str) -> None:
        import socket
        import subprocess

        from distcheck.core.resources import PACKAGE

        # the folder, or the archive, that this package is imported from
        root = os.path.dirname(PACKAGE)
        code = f"import sys; sys.path.insert(0, {root!r}); from {__name__} import main; main()"
        # a pair of sockets in place of pipes: one file for both ways, whose end both sides notice
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [python, "-I", "-S", "-c", code], stdin=there.fileno(), stdout=there.fileno(),
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        here.settimeout(self._PATIENCE_S)
        self._socket = here
        self._file = here.makefile("rwb")

    def ask(self, question: str) -> Mapping[str, Any] | None:
        """The answer to a line; None where none comes."""
        try:
            self._file.write(question.encode() + b"\n")
            self._file.flush()
            line = self._file.readline()
        except OSError:
            return None
        found: Mapping[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return found

    def close(self) -> None:
        """End it; what it has made ends with the last rank."""
        with suppress(OSError):
            self._file.close()
        self._socket.close()
        with suppress(Exception):
            self._process.wait(5)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
