"""How soon an editor shows what a change does: ``distcheck lsp`` over standard input and output, and ``ruff server``.

    python benchmarks/lsp.py PROJECT … [--file PATH] [--changes 10]

A client opens one file of each project (the largest that names ``torch.distributed``, or ``--file``) with an empty
cache, and changes one character of its code again and again. It measures the time from the change to the first
diagnostics of that text, and to those of the check of the whole project. While that check runs, it requests a hover.
Ruff's server does the same with the same file and changes; it checks each file alone. Needs psutil.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

#: Seconds after which a measurement is given up.
LIMIT_S = 300.0
#: Seconds between two changes: the server rests.
REST_S = 0.2
#: The target for the diagnostics after a change, in seconds.
TARGET_S = 0.5
COMMANDS = {"distcheck": (sys.executable, "-m", "distcheck", "lsp", "--isolated"), "ruff": ("ruff", "server")}


class Times(NamedTuple):
    """Seconds from a change to what the editor shows, one of each change."""

    opened_s: float
    #: all of the project was checked for the first time
    whole_s: float
    first: list[float]
    project: list[float]
    hover: list[float]
    #: CPU seconds of the server and its processes until the first diagnostics of a change, and those of the project
    first_cpu: list[float]
    project_cpu: list[float]


class Editor:
    """The client's side of a connection: JSON-RPC over the pipes of the server."""

    def __init__(self, server: asyncio.subprocess.Process, uri: str) -> None:
        self.server = server
        self.uri = uri
        #: when diagnostics of the document arrived, by the version of its text
        self.arrivals: dict[int, list[float]] = {}
        self.arrived = asyncio.Condition()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        stream = self.server.stdout
        assert stream is not None
        while True:
            try:
                header = await stream.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:  # the server has ended
                return
            fields = dict(line.split(": ", 1) for line in header.decode().split("\r\n") if line)
            message = json.loads(await stream.readexactly(int(fields["Content-Length"])))
            if message.get("method") == "textDocument/publishDiagnostics":
                async with self.arrived:
                    if message["params"]["uri"] == self.uri:
                        now = time.perf_counter()
                        self.arrivals.setdefault(message["params"].get("version") or 0, []).append(now)
                        self.arrived.notify_all()
            elif "method" not in message:
                self._answers.pop(message["id"]).set_result(message.get("result"))
            elif "id" in message:  # a request of the server
                self._send({"id": message["id"], "result": None})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.server.stdin is not None
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    async def request(self, method: str, params: Any) -> Any:
        """Send a request, and return its result."""
        number = len(self._answers) + 1
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        return await asyncio.wait_for(self._answers[number], LIMIT_S)

    async def arrival(self, version: int, number: int) -> float:
        """Return when the given diagnostics of a version of the text arrived, counted from 1."""
        async with self.arrived:
            await asyncio.wait_for(
                self.arrived.wait_for(lambda: len(self.arrivals.get(version, ())) >= number), LIMIT_S
            )
            return self.arrivals[version][number - 1]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, of its children that have ended, and of those that run."""
    process = psutil.Process(pid)
    total = sum(process.cpu_times()[:4])
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += sum(child.cpu_times()[:4])
    return total


async def measure(command: Sequence[str], project: Path, file: Path, changes: int, runs: int) -> Times:
    """Drive a server.

    :param runs: how often the server publishes diagnostics for a change
    """
    uri = file.as_uri()
    text = file.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as cache:
        # the changes begin with an empty cache, and use what the first check leaves there
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        server = await asyncio.create_subprocess_exec(
            *command, cwd=project, env=environment, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=2**24
        )
        editor = Editor(server, uri)
        await editor.request("initialize", {"processId": os.getpid(), "rootUri": project.as_uri(), "capabilities": {}})
        editor.notify("initialized", {})
        began = time.perf_counter()
        item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        editor.notify("textDocument/didOpen", {"textDocument": item})
        opened = await editor.arrival(1, 1) - began
        whole = await editor.arrival(1, runs) - began
        first, project_times, hover = [], [], []
        first_cpu, project_cpu = [], []
        for number in range(changes):
            await asyncio.sleep(REST_S)
            version = number + 2
            used, began = cpu_seconds(server.pid), time.perf_counter()
            editor.notify(
                "textDocument/didChange",
                {
                    "textDocument": {"uri": uri, "version": version},
                    "contentChanges": [{"text": f"{text}\n_typed = {number % 10}\n"}],
                },
            )
            first.append(await editor.arrival(version, 1) - began)
            first_cpu.append(cpu_seconds(server.pid) - used)
            if runs > 1:
                await asyncio.sleep(1.0)  # the check of the project has begun
            requested = time.perf_counter()
            position = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}}
            await editor.request("textDocument/hover", position)
            hover.append(time.perf_counter() - requested)
            project_times.append(await editor.arrival(version, runs) - began)
            project_cpu.append(cpu_seconds(server.pid) - used)
        await editor.request("shutdown", None)
        editor.notify("exit", None)
        await asyncio.wait_for(server.wait(), LIMIT_S)
    return Times(opened, whole, first, project_times, hover, first_cpu, project_cpu)


def largest(project: Path) -> Path:
    """Return the largest file that names torch.distributed."""
    files = [path for path in project.rglob("*.py") if b"torch.distributed" in path.read_bytes()]
    return max(files, key=lambda path: path.stat().st_size)


def shown(seconds: Sequence[float]) -> str:
    """Return the median and the maximum."""
    return f"{statistics.median(seconds):.2f} (at most {max(seconds):.2f}) s"


def main() -> None:
    """Measure each project, and print the times and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="+", type=Path)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--changes", type=int, default=10)
    options = parser.parse_args()
    for given in options.projects:
        project = given.resolve()
        file = (options.file or largest(project)).resolve()
        files = sum(1 for _ in project.rglob("*.py"))
        print(
            f"{project.name}: {files} files; {file.relative_to(project)}, {len(file.read_bytes().splitlines())} lines",
            flush=True,
        )
        small = files <= 10
        ours = asyncio.run(measure(COMMANDS["distcheck"], project, file, options.changes, 1 if small else 2))
        ruff = asyncio.run(measure(COMMANDS["ruff"], project, file, options.changes, 1))
        print(f"  opened, empty cache: the file {ours.opened_s:.2f} s, the project {ours.whole_s:.2f} s")
        print(f"  change to first diagnostics: {shown(ours.first)}; ruff server {shown(ruff.first)}")
        print(f"  change to those of the project: {shown(ours.project)}")
        print(f"  hover meanwhile: {shown(ours.hover)}")
        print(f"  CPU time to the first: {shown(ours.first_cpu)}; ruff server {shown(ruff.first_cpu)}")
        print(f"  CPU time to those of the project: {shown(ours.project_cpu)}", flush=True)
        ratio = statistics.median(ours.first) / statistics.median(ruff.first)
        in_time = sum(one <= TARGET_S for one in ours.first)
        print(f"  ratio to ruff server: {ratio:.1f}; {in_time} of {len(ours.first)} within {TARGET_S} s")


if __name__ == "__main__":
    main()
