"""The command ``distcheck`` in forks of one process that has imported it: starting Python costs more than most commands.

A fork is the process that a shell would start: its variables, folder, standard streams and exit status are its own, and
the interpreter ends as it always does. What differs is that the modules are imported already. Tests of imports, of
signals and of how Python itself is started use ``subprocess``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_LONGEST = 1 << 22


class WarmProcess:
    """A Python that has imported distcheck, and becomes each command in a fork of itself."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(other.fileno())], cwd=ROOT, pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={"PATH": os.environ.get("PATH", ""), "LANG": os.environ.get("LANG", "C.UTF-8")},
            )  # fmt: skip

    def run(
        self, arguments: Sequence[str], *, environ: Mapping[str, str], cwd: Path | str | None = None,
        given: str | None = None, before: str = "", timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run ``distcheck ARGUMENTS``, after the Python code ``before``.

        Raises:
            TimeoutExpired: it did not end in time; the warm process is ended with it.
        """
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            streams[0].write((given or "").encode())
            streams[0].seek(0)
            job = {"arguments": arguments, "environ": dict(environ), "cwd": str(cwd or os.getcwd()), "before": before}
            self._socket.settimeout(timeout_s)
            try:
                socket.send_fds(self._socket, [json.dumps(job).encode()], [stream.fileno() for stream in streams])
                reply = self._socket.recv(_LONGEST)
            except BrokenPipeError:
                reply = b""
            except TimeoutError:
                self._process.kill()
                server.cache_clear()
                raise subprocess.TimeoutExpired(["distcheck", *arguments], timeout_s) from None
            if not reply:
                server.cache_clear()
                raise AssertionError(f"the warm process ended: {self._process.communicate()[1].decode()}")
            texts = []
            for stream in streams[1:]:
                stream.seek(0)
                # as subprocess reads text: line ends of other systems are line ends
                texts.append(stream.read().decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"))
        return subprocess.CompletedProcess(["distcheck", *arguments], json.loads(reply), *texts)


@functools.cache
def server() -> WarmProcess:
    """One for all tests of this process; it ends with it, because its socket does."""
    return WarmProcess()


def run(arguments: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """See ``WarmProcess.run``."""
    return server().run(arguments, **options)


def _import_all() -> None:
    """Import what the commands import while they run, and nothing that needs torch."""
    import importlib

    for name in ("cli", "checks", "reporters", "launch"):
        package = importlib.import_module(f"distcheck.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                # an extra that is not installed; a command that needs it says so itself
                if error.name is None or error.name.startswith("distcheck"):
                    raise
    assert "torch" not in sys.modules


def _serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork a child for each request; returns what to do in the child, None at the end."""
    while True:
        request, streams, _, _ = socket.recv_fds(channel, _LONGEST, 3)
        if not request:
            return None
        child = os.fork()
        if child == 0:
            channel.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            job: dict[str, Any] = json.loads(request)
            return job
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        channel.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _become(job: dict[str, Any]) -> None:
    """Be the command: as ``python -m distcheck`` is."""
    os.environ.clear()
    os.environ.update(job["environ"])
    os.chdir(job["cwd"])
    tempfile.tempdir = None
    sys.path[0] = job["cwd"]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it stays open as long as the process lives
    import distcheck.__main__

    sys.argv = [str(distcheck.__main__.__file__), *job["arguments"]]
    if job["before"]:
        exec(compile(job["before"], "before", "exec"), {"__name__": "before", "sys": sys})
    distcheck.__main__.main()


if __name__ == "__main__":
    _import_all()
    with socket.socket(fileno=int(sys.argv[1])) as _channel:
        _job = _serve(_channel)
    if _job is not None:
        _become(_job)
