"""Starts jobs of several processes and records what they print, as a user would have it in a log.

Nothing outlives a job: each has a limit, and its processes are ended by their ids.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

SCRIPTS = Path(__file__).parent / "scripts"
WARM = Path(__file__).parent / "warm.py"
#: The variables that a job has in common with whoever starts it.
_KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
#: By this variable the programs that a launcher started are found again.
_MARK = "TRAIN_JOB_MARK"
#: Seconds that torch may take to be imported, on a busy machine.
_START_S = 120.0
_numbers = count()


class Line(NamedTuple):
    """A line that a job printed, and which of its processes did."""

    process: int
    text: str


class Recording(NamedTuple):
    """What a job left behind."""

    #: in the order in which they came
    lines: tuple[Line, ...]
    #: exit status of each process that was started; None: it was ended at the limit
    statuses: tuple[int | None, ...]
    #: the job's folder, for what it wrote itself (``--log-dir``)
    folder: Path

    @property
    def text(self) -> str:
        """As ``> train.log 2>&1`` has it."""
        return "".join(f"{line.text}\n" for line in self.lines)


class Task(NamedTuple):
    """A process to start: a script by its name, ``torchrun`` or ``launch``."""

    program: str
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    #: folders that become small file systems of their own: ``{"/dev/shm": "1m"}``
    mounts: Mapping[str, str] = {}
    #: ``{"NOFILE": 64}``
    limits: Mapping[str, int] = {}
    #: seconds after the first one at which it is started
    after_s: float = 0.0
    #: signals to send it: seconds after its first line, and which
    signals: tuple[tuple[float, int], ...] = ()
    #: a line to wait for before the seconds of the signals begin; any line by default
    signal_at: str = ""
    #: which of the hosts runs it
    host: int = 0


class Bench:
    """Starts processes on a host, each forked from one that has imported torch.

    :param start: the command that starts a program on that host; by default this one
    """

    def __init__(self, *, command: Sequence[str] = ()) -> None:
        # a short name: the address of a socket has at most 107 characters (unix(7))
        self._folder = Path(tempfile.mkdtemp(prefix="bench"))
        self._socket = str(self._folder / "door")
        self._server = subprocess.Popen(
            [*command, sys.executable, str(WARM), self._socket],
            stdin=subprocess.PIPE,
            start_new_session=True,
            # without it, a library that torch brings along starts threads, and a fork has them not
            env={**variables(), "OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server and what it started."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        try:
            self._server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def fork(self, task: Task, folder: Path, mark: str) -> Running:
        """Start one process; its output can be read from what is returned."""
        guest = self._connect()
        reading, writing = os.pipe()
        program = task.program if task.program in ("torchrun", "launch") else str(folder / task.program)
        request = {
            "program": program,
            "arguments": list(task.arguments),
            "env": {**variables(), "TMPDIR": str(folder), _MARK: mark, **task.env},
            "cwd": str(folder),
            "mounts": dict(task.mounts),
            "limits": dict(task.limits),
        }
        socket.send_fds(guest, [json.dumps(request).encode()], [writing])
        os.close(writing)
        pid = json.loads(guest.recv(1 << 16))["pid"]
        return Running(pid, reading, guest)

    def _connect(self) -> socket.socket:
        end = time.monotonic() + _START_S
        while True:
            guest = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                guest.connect(self._socket)
            except OSError:
                guest.close()
                if self._server.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return guest


def variables() -> dict[str, str]:
    """The variables of this process that a job may see."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


class Running:
    """A process that was started."""

    def __init__(self, pid: int, output: int, guest: socket.socket) -> None:
        self.pid = pid
        self.output = output
        self._guest = guest
        self._rest = b""
        self.first_s: float | None = None
        self.is_open = True

    def read(self) -> list[str]:
        """The lines that are there now."""
        data = os.read(self.output, 1 << 16)
        if not data:
            os.close(self.output)
            self.is_open = False
            lines, self._rest = ([self._rest] if self._rest else []), b""
        else:
            *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]

    def signal(self, number: int) -> None:
        """Send a signal to the process alone, as ``kill`` does."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def status(self, timeout_s: float) -> int | None:
        """The exit status; None where it does not end in time."""
        self._guest.settimeout(timeout_s)
        try:
            status: int = json.loads(self._guest.recv(1 << 16) or b'{"status": -9}')["status"]
        except TimeoutError:
            return None
        return status

    def close(self) -> None:
        """End it and its group, whatever it is doing."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.is_open:
            os.close(self.output)
            self.is_open = False
        self._guest.close()


def record(
    benches: Sequence[Bench], tasks: Sequence[Task], folder: Path, *, limit_s: float = 60.0, stray_s: float = 3.0
) -> Recording:
    """Run a job and keep what it prints.

    :param folder: where the scripts are copied to and the job runs
    :param limit_s: after so long it is ended
    :param stray_s: so long after the first process ended, a launcher's workers may go on
    """
    folder.mkdir(parents=True, exist_ok=True)
    for script in {task.program for task in tasks} | {argument for task in tasks for argument in task.arguments}:
        if script.endswith(".py") and (SCRIPTS / script).exists() and not (folder / script).exists():
            shutil.copy(SCRIPTS / script, folder / script)
    mark = f"{os.getpid()}-{next(_numbers)}"
    began = time.monotonic()
    running: list[Running | None] = [None] * len(tasks)
    lines: list[Line] = []
    try:
        _follow(benches, tasks, folder, mark, running, lines, began + limit_s)
        statuses = tuple(
            None if process is None or process.is_open else process.status(max(1.0, began + limit_s - time.monotonic()))
            for process in running
        )
    finally:
        for process in running:
            if process is not None:
                process.close()
        _end_marked(mark)
    return Recording(tuple(lines), statuses, folder)


def _follow(
    benches: Sequence[Bench],
    tasks: Sequence[Task],
    folder: Path,
    mark: str,
    running: list[Running | None],
    lines: list[Line],
    end: float,
) -> None:
    began = time.monotonic()
    due: list[tuple[float, Running, int]] = []
    while time.monotonic() < end:
        now = time.monotonic()
        for number, task in enumerate(tasks):
            if running[number] is None and now >= began + task.after_s:
                running[number] = benches[task.host].fork(task, folder, mark)
        opened = {process.output: number for number, process in enumerate(running) if process and process.is_open}
        if not opened and all(running):
            return
        for output in select.select(list(opened), [], [], 0.05)[0]:
            number = opened[output]
            process = running[number]
            assert process is not None
            for text in process.read():
                lines.append(Line(number, text))
                if process.first_s is None and tasks[number].signal_at in text:
                    process.first_s = time.monotonic()
                    due += [(process.first_s + after, process, which) for after, which in tasks[number].signals]
        for item in [item for item in due if item[0] <= time.monotonic()]:
            due.remove(item)
            item[1].signal(item[2])


def _end_marked(mark: str) -> None:
    """End what a launcher started in a session of its own."""
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _marked(mark: str) -> Iterator[int]:
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


class Listener:
    """Another program that holds a port, and closes what connects to it.

    :param answer: what it says first, as a web server would
    """

    def __init__(self, answer: bytes = b"") -> None:
        import threading

        self._door = socket.create_server(("", 0), family=socket.AF_INET)
        self._answer = answer
        self.port: int = self._door.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                guest, _ = self._door.accept()
            except OSError:
                return
            with guest, contextlib.suppress(OSError):
                guest.settimeout(1.0)
                guest.recv(100)
                guest.sendall(self._answer)
                time.sleep(1.0)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *error: Any) -> None:
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join(5)


def free_port() -> int:
    """A port that nobody holds now, below those that the kernel gives away."""
    for port in range(20_000 + os.getpid() % 5_000 + 7 * next(_numbers), 32_000):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")
