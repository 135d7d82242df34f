"""Runs a function on n ranks, in n processes of this host, under a watchdog that always ends.

The processes are forked (closures, fixtures and rewritten assertions are there as they are) or spawned. This process
takes part in no collective: it serves the store, passes on what the ranks print, and knows of each rank whether it has
returned, raised, died or where it is. Whatever happens, no process of a rank is left when :func:`run_ranks` is.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import wait as wait_for
from typing import Any, TypeVar

from distcheck.runtime.coordination.processes import how_it_ended, kernel_state, main_frames, private_file, read_file

from . import rank as one_rank
from .rank import RankFiles, RankReport, StackLine, Task
from .rank_report import RankOutcome, RanksFailed, failed

Value = TypeVar("Value")
#: Seconds that a body has.
TIMEOUT_S = 60.0
#: Seconds that ranks have to import torch, where they must, and to make their group.
_START_WITHIN_S = 120.0
#: Seconds that the others have once a rank has failed: to fail as well, or to show that they wait for it.
_GRACE_S = 3.0
#: Seconds between two polls of what no pipe reports.
_TICK_S = 0.05
#: Seconds that a rank has to write its stack, to destroy its group, and to exit once it was killed.
_STACK_WITHIN_S, _LEAVE_WITHIN_S, _GONE_WITHIN_S = 1.0, 5.0, 3.0


class TorchMissing(Exception):  # noqa: N818 - a state of this Python
    """There are no ranks without torch and gloo; the message names what is missing."""


def run_ranks(
    n: int,
    body: Callable[..., Value],
    *args: Any,
    timeout: float | None = None,
    init: bool = True,
    start: str | None = None,
    **kwargs: Any,
) -> list[Value]:
    """Run ``body(*args, **kwargs)`` on n gloo ranks, and give what each returned, by rank.

    Each rank has the environment of torchrun (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, …), one thread of
    torch, and a process group.

    :param timeout: seconds that the body may take, 60 by default
    :param init: make the process group before the body; False leaves ``init_process_group()`` to it
    :param start: ``fork`` (where there is fork: the default) or ``spawn``, which can only run what pickle can send
    :raises RanksFailed: a rank raised, died, or did not come to its end
    :raises unittest.SkipTest: the ranks that did not return skipped
    :raises TorchMissing: torch, or its gloo, is not there
    """
    __tracebackhide__ = True
    return run(n, body, args, kwargs, timeout=timeout, init=init, start=start)


def run(
    n: int,
    body: Callable[..., Value],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    timeout: float | None = None,
    init: bool = True,
    start: str | None = None,
    describe: Callable[[BaseException], RankReport] = one_rank.describe,
    prepare: Callable[[], None] | None = None,
    root: str | None = None,
) -> list[Value]:
    """As :func:`run_ranks`.

    :param describe: how a rank describes its exception
    :param prepare: called first in a spawned rank
    :param root: the folder that paths are shown relative to
    """
    __tracebackhide__ = True  # a reader of a test's traceback needs lines of the test
    limit_s = TIMEOUT_S if timeout is None else timeout
    method = _checked(n, body, limit_s, start)
    import_torch()
    work = (body, args, dict(kwargs)) if method == "fork" else _pickled(body, args, kwargs)
    with _Watchdog(n, method, root) as watch:
        watch.start(work, init, describe, prepare)
        return watch.results(limit_s)


def _checked(n: int, body: object, limit_s: float, start: str | None) -> str:
    __tracebackhide__ = True
    if one_rank.inside:
        raise RuntimeError("this is a rank already, and ranks start no ranks; call it outside of the body")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"the number of ranks is {n!r}; expected an int from 1")
    if not callable(body):
        raise TypeError(f"the body is {body!r}; expected a function: distributed(2, body)")
    if limit_s <= 0:
        raise ValueError(f"the timeout is {limit_s!r}; expected seconds above 0")
    methods = [method for method in multiprocessing.get_all_start_methods() if method in ("fork", "spawn")]
    if start is not None and start not in methods:
        raise ValueError(f"start is {start!r}; expected {' or '.join(map(repr, methods))}")
    return start or ("fork" if "fork" in methods else "spawn")


def import_torch() -> None:
    """Import torch, once for all ranks that are forked from here; raises TorchMissing."""
    try:
        with warnings.catch_warnings():
            # torch works without NumPy
            warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
            import torch  # noqa: F401 - by itself, so that the error names it
            import torch.distributed as dist
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise TorchMissing(f"torch is not installed for {sys.executable}") from None
    if not dist.is_available() or not dist.is_gloo_available():
        raise TorchMissing("this torch was built without gloo")


def _pickled(body: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """What a spawned rank is sent; raises TypeError, which names what can't be."""
    __tracebackhide__ = True
    from distcheck.checks.pickles.api import find_unpicklable

    try:
        data = pickle.dumps((body, args, dict(kwargs)))
    except Exception as error:  # noqa: BLE001 - whatever an object's pickling raises
        found = find_unpicklable({"body": body, "args": args, "kwargs": dict(kwargs)}, mode="spawn", name="sent")
        why = str(found) if not found.ok else f"{type(error).__name__}: {error}"
        raise TypeError(f"a spawned rank gets its body through pickle, and this can't be pickled:\n{why}") from None
    return data


class _RankProcess:
    """A rank's process, as this one sees it."""

    def __init__(self, number: int, process: Any, pipe: Any, output: int, stack: int) -> None:
        self.number = number
        self.process = process
        self.pipe = pipe
        self.output = output
        self.stack_file = stack
        self.open = True
        self.started = False
        self.value: bytes | None = None
        self.report: RankReport | None = None
        self.exitcode: int | None = None
        self.places: tuple[StackLine, ...] | None = None
        self.recorder: tuple[str, ...] = ()
        self.kernel = ""
        self.printed = 0
        self.unfinished = b""

    @property
    def state(self) -> str:
        if self.value is not None:
            return "returned"
        if self.report is not None:
            return "raised"
        return "running" if self.exitcode is None else "died"

    @property
    def failed(self) -> bool:
        return self.state in ("raised", "died")

    def send(self, *word: object) -> None:
        # an exited one is seen by its end
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(pickle.dumps(word))

    def hear(self) -> None:
        """One message, which is there."""
        try:
            kind, *rest = pickle.loads(self.pipe.recv_bytes())  # noqa: S301 - from a process of ours
        except (EOFError, OSError):
            self.open = False
            return
        if kind == "started":
            self.started = True
        elif kind == "returned":
            self.value = rest[0]
        elif kind == "raised":
            self.report = rest[0]
        elif kind == "where":
            self.places, self.recorder = tuple(rest[0]), tuple(rest[1])

    def look(self) -> None:
        """Note how it ended, if it did. It is not waited for, so that its number stays its own until all is over."""
        if self.exitcode is not None:
            return
        if hasattr(os, "waitid"):
            try:
                ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                self.exitcode = self.process.exitcode
                return
            if ended is not None:
                self.exitcode = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        else:
            self.exitcode = self.process.exitcode

    def pass_on(self, *, rest: bool = False) -> None:
        """Print what it printed, each line with its name."""
        size = os.fstat(self.output).st_size
        if size > self.printed:
            self.unfinished += os.pread(self.output, size - self.printed, self.printed)
            self.printed = size
        *lines, self.unfinished = self.unfinished.split(b"\n")
        if rest and self.unfinished:
            lines.append(self.unfinished)
            self.unfinished = b""
        for line in lines:
            sys.stdout.write(f"[rank {self.number}] {line.decode('utf-8', 'replace')}\n")

    def seen(self) -> RankOutcome:
        detail = how_it_ended(self.exitcode) if self.state == "died" else ""
        places = self.places
        if places is None and self.state == "running":
            # it holds the interpreter's lock, or is still on its way: what a signal made it write
            frames = main_frames(read_file(self.stack_file))
            places = tuple(one_rank.from_body_on([_place(*frame[:3]) for frame in reversed(frames)]))
        return RankOutcome(
            self.number, self.state, self.report, detail, self.started, places or (), self.recorder, self.kernel
        )


def _place(path: str, line: int, function: str) -> StackLine:
    import linecache

    return StackLine(path, line, function, linecache.getline(path, line).strip())


class _Watchdog:
    """All ranks of one run."""

    def __init__(self, n: int, method: str, root: str | None) -> None:
        self.n = n
        self.method = method
        self.root = root
        self.ranks: list[_RankProcess] = []
        self.store: Any = None
        self.folder: Any = None

    def __enter__(self) -> _Watchdog:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def start(
        self,
        work: Any,
        init: bool,
        describe: Callable[[BaseException], RankReport],
        prepare: Callable[[], None] | None,
    ) -> None:
        """Start the processes, then the store, and let the ranks begin."""
        context: Any = multiprocessing.get_context(self.method)
        forked = self.method == "fork"
        if not forked:
            import tempfile

            self.folder = tempfile.TemporaryDirectory(prefix="distcheck-ranks-")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number in range(self.n):
            ours, theirs = context.Pipe()
            files, output, stack = self._files(number)
            others = (*(rank.pipe for rank in self.ranks), ours) if forked else ()
            task = Task(number, self.n, init, files, describe, None if forked else prepare)
            # not a daemon: those may have no children of their own, and a loader of data has
            process = context.Process(target=one_rank.run, args=(theirs, others, task, work), name=f"rank {number}")
            with warnings.catch_warnings():
                # the threads here are torch's and of the test runner; the ranks take no lock of theirs
                warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
                process.start()
            theirs.close()
            self.ranks.append(_RankProcess(number, process, ours, output, stack))
            if hasattr(os, "setpgid"):
                # whichever of the two is first: the group must be there when it is ended
                with contextlib.suppress(OSError):
                    os.setpgid(process.pid, process.pid)
        import torch.distributed as dist

        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        for rank in self.ranks:
            rank.send("go", self.store.port, _settings())

    def _files(self, number: int) -> tuple[RankFiles, int, int]:
        """What a rank has to write to, and the same as this process has it open."""
        if self.folder is None:
            output, stack = private_file(), private_file()
            return RankFiles(output, stack), output, stack
        names = [os.path.join(self.folder.name, f"{kind}-{number}") for kind in ("output", "stack")]
        output, stack = (os.open(name, os.O_RDWR | os.O_CREAT, 0o600) for name in names)
        return RankFiles(names[0], names[1]), output, stack

    def results(self, limit_s: float) -> list[Any]:
        """What the ranks returned."""
        __tracebackhide__ = True
        end = time.monotonic() + _START_WITHIN_S
        began = one_failed = False
        while any(rank.state == "running" for rank in self.ranks) and time.monotonic() < end:
            self._turn(_TICK_S)
            now = time.monotonic()
            if not began and not one_failed and all(rank.started or rank.state != "running" for rank in self.ranks):
                began, end = True, now + limit_s
            if not one_failed and any(rank.failed for rank in self.ranks):
                one_failed, end = True, min(end, now + _GRACE_S)
        if all(rank.state == "returned" for rank in self.ranks):
            self._let_go()
            self._print()
            return [pickle.loads(rank.value or b"") for rank in self.ranks]  # noqa: S301 - as above
        self._ask_where()
        self._print()
        seen = [rank.seen() for rank in self.ranks]
        raise _skip(seen) or failed(seen, limit_s, root=self.root)

    def _turn(self, seconds: float) -> None:
        """What happened meanwhile."""
        pipes = {rank.pipe: rank for rank in self.ranks if rank.open}
        if pipes:
            for pipe in wait_for(list(pipes), seconds):
                pipes[pipe].hear()
        else:
            time.sleep(seconds)
        for rank in self.ranks:
            if rank.state == "running":
                rank.look()
                # its last message before the exit counts first
                while rank.exitcode is not None and rank.open and rank.pipe.poll():
                    rank.hear()
            rank.pass_on()

    def _ask_where(self) -> None:
        """The stacks of the ranks that still run: from themselves, and by a signal where they can't answer."""
        running = [rank for rank in self.ranks if rank.state == "running"]
        for rank in running:
            rank.kernel = kernel_state(rank.process.pid)
            rank.send("where")
        end = time.monotonic() + _STACK_WITHIN_S
        while time.monotonic() < end and any(rank.places is None and rank.kernel not in ("T", "t") for rank in running):
            self._turn(_TICK_S)
            running = [rank for rank in running if rank.state == "running"]
        # a stopped process answers nothing
        dumb = [rank for rank in running if rank.places is None and rank.kernel not in ("T", "t")]
        for rank in dumb:
            if hasattr(signal, "SIGUSR1"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.process.pid, signal.SIGUSR1)
        end = time.monotonic() + _STACK_WITHIN_S
        while time.monotonic() < end and any(not read_file(rank.stack_file) for rank in dumb):
            time.sleep(_TICK_S)

    def _let_go(self) -> None:
        """Let the ranks destroy their groups and leave; who does not is ended."""
        for rank in self.ranks:
            rank.send("end")
        end = time.monotonic() + _LEAVE_WITHIN_S
        while any(rank.exitcode is None for rank in self.ranks) and time.monotonic() < end:
            for rank in self.ranks:
                rank.look()
                rank.pass_on()
            time.sleep(0.002)

    def _print(self) -> None:
        for rank in self.ranks:
            rank.pass_on(rest=True)

    def end(self) -> None:
        """End what still runs, with all that it started, and wait until it has exited."""
        for rank in self.ranks:
            if hasattr(os, "killpg"):
                # the first of the group was not waited for yet, so that the number is still the group's
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(rank.process.pid, signal.SIGKILL)
            rank.process.kill()
        end = time.monotonic() + _GONE_WITHIN_S
        for rank in self.ranks:
            # a process in the kernel (D) cannot be killed: do not wait for it
            rank.process.join(max(0.0, end - time.monotonic()))
            rank.pipe.close()
            os.close(rank.output)
            os.close(rank.stack_file)
        self.ranks = []
        self.store = None
        if self.folder is not None:
            self.folder.cleanup()


def _settings() -> dict[str, str]:
    """Variables for ranks of one host, unless the environment of the tests has them."""
    import socket

    found = {"OMP_NUM_THREADS": "1"}
    if hasattr(socket, "if_nameindex"):
        # gloo would resolve the host's own name, which in a container may lead nowhere
        for name in {"lo", "lo0"}.intersection(name for _, name in socket.if_nameindex()):
            found["GLOO_SOCKET_IFNAME"] = name
    return found


def _skip(seen: list[RankOutcome]) -> Exception | None:
    """The exception that skips a test, where no rank failed and the others have skipped or returned."""
    reports = [item.report for item in seen if item.report is not None]
    if not reports or any(item.outcome != "skipped" for item in reports):
        return None
    if any(item.state not in ("returned", "raised") for item in seen):
        return None
    import unittest

    return unittest.SkipTest(reports[0].message)


__all__ = ["RanksFailed", "TorchMissing", "import_torch", "run", "run_ranks"]
