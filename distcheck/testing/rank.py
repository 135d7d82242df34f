"""One rank of a test: what its process does, from its first line to its last word to the process that watches it."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TextIO

from distcheck.runtime.coordination.flight_recorder import last_entries, last_record

#: True in the process of a rank: ranks do not start ranks.
inside = False
#: Exit status of a rank whose watcher has exited.
_ALONE = 70


class RankReport(NamedTuple):
    """An exception in words, as it crosses from a rank to its watcher."""

    #: ``failed``, ``skipped`` or ``xfailed``
    outcome: str
    #: name of the exception's class
    kind: str
    message: str
    trace: str


class StackLine(NamedTuple):
    """One line of a rank's stack."""

    path: str
    line: int
    function: str
    source: str = ""


class RankFiles(NamedTuple):
    """Where a rank writes: numbers of open files for a forked one, names for a spawned one."""

    output: int | str
    stack: int | str | None


class Task(NamedTuple):
    """What a rank is to do."""

    rank: int
    world_size: int
    #: make the process group before the body, and destroy it behind it
    init: bool
    files: RankFiles
    #: how an exception is shown; plain tracebacks without one
    describe: Callable[[BaseException], RankReport]
    #: called first in a spawned rank
    prepare: Callable[[], None] | None = None


def variables(rank: int, world_size: int, port: int) -> dict[str, str]:
    """The environment of a rank, as torchrun sets it for one host (torch 2.13, ``elastic/agent``)."""
    found = {
        "RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank, "GROUP_RANK": 0,
        "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size, "ROLE_WORLD_SIZE": world_size, "GROUP_WORLD_SIZE": 1,
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "distcheck", "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0,
        # the watcher serves the store: no rank has to win a port first
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    return {name: str(value) for name, value in found.items()}


def run(pipe: Any, others: tuple[Any, ...], task: Task, work: Any) -> None:
    """The main of a rank's process.

    :param others: ends of pipes that a forked process inherited and must not keep open
    :param work: ``(body, args, kwargs)``; pickled for a spawned process
    """
    global inside
    inside = True
    forked = not isinstance(work, bytes)
    if forked:
        # what was inherited is not this process's to destroy
        gc.freeze()
        for end in others:
            end.close()
    _leave_with_parent()
    _write_to(task.files)
    if task.prepare is not None:
        task.prepare()
    _RankBody(pipe, task).work(work)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if not forked:
        os._exit(0)  # the end of an interpreter with torch's threads in it may abort


class _RankBody:
    def __init__(self, pipe: Any, task: Task) -> None:
        import queue

        self.pipe = pipe
        self.task = task
        self.sending = threading.Lock()
        self.words: Any = queue.SimpleQueue()
        self.main = threading.get_ident()
        #: what collectives of the test's own process left in the recorder is none of this rank's
        self.inherited = last_record()

    def say(self, *message: object) -> None:
        data = pickle.dumps(message)
        with self.sending:
            self.pipe.send_bytes(data)

    def listen(self) -> None:
        """The watcher's words, also while the body runs."""
        try:
            while True:
                word = pickle.loads(self.pipe.recv_bytes())  # noqa: S301 - from the process that started this one
                if word[0] == "where":
                    self.say("where", self.stack(), last_entries(self.inherited))
                else:
                    self.words.put(word)
        except (EOFError, OSError):
            os._exit(_ALONE)  # no process is left to end this one

    def stack(self) -> list[StackLine]:
        """Where the body is, outermost first."""
        frame = sys._current_frames().get(self.main)
        return [] if frame is None else places_of(traceback.extract_stack(frame))

    def work(self, work: Any) -> None:
        threading.Thread(target=self.listen, name="distcheck", daemon=True).start()
        _, port, settings = self.words.get()
        os.environ.update(variables(self.task.rank, self.task.world_size, port))
        for name, value in settings.items():
            os.environ.setdefault(name, value)
        try:
            body, args, kwargs = pickle.loads(work) if isinstance(work, bytes) else work  # noqa: S301 - as above
            self.start()
            self.say("started")
            value = call_body(body, args, kwargs)
        except SystemExit as error:
            if error.code in (None, 0):
                self.returned(None)
            else:
                self.raised(error)
        except BaseException as error:  # noqa: BLE001 - outcomes of pytest are no Exception, and the watcher must hear of all
            self.raised(error)
        else:
            self.returned(value)
        # the group lives until all have done their part: to the others the first to exit would seem dead
        self.words.get()
        _destroy()

    def start(self) -> None:
        """torch's threads and, unless the body does so itself, the process group."""
        import torch

        # a pool of threads does not survive a fork, and n ranks share the cores of one test
        torch.set_num_threads(1)
        import torch.distributed as dist

        # TORCH_DISTRIBUTED_DEBUG was read when torch was imported, which in a forked rank was before the test set it
        dist.set_debug_level_from_env()
        if self.task.init:
            dist.init_process_group("gloo")

    def returned(self, value: object) -> None:
        _flush()
        try:
            data = pickle.dumps(value)
        except Exception as error:  # noqa: BLE001 - whatever an object's pickling raises
            from distcheck.checks.pickles.api import find_unpicklable

            found = find_unpicklable(value, name="result")
            why = str(found) if not found.ok else f"{type(error).__name__}: {error}"
            text = f"it returned what can't be pickled, and so can't be given back:\n{why}"
            self.say("raised", RankReport("failed", "Unpicklable", text, text))
        else:
            self.say("returned", data)

    def raised(self, error: BaseException) -> None:
        _flush()
        self.say("raised", self.task.describe(error))


def call_body(body: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A frame by which stacks are cut: what is below it is ours, what is above it the body's."""
    return body(*args, **kwargs)


def describe(error: BaseException) -> RankReport:
    """An exception with its traceback from the body on."""
    shown = traceback.TracebackException.from_exception(error)
    own = [frame for frame in shown.stack if not _is_ours(frame.filename)]
    shown.stack = traceback.StackSummary.from_list(own)
    outcome = "skipped" if type(error).__name__ == "SkipTest" else "failed"
    return RankReport(outcome, type(error).__name__, str(error), "".join(shown.format()).rstrip("\n"))


def places_of(stack: traceback.StackSummary) -> list[StackLine]:
    """A stack from the body on, without the frames of this package and of pytest."""
    places = [StackLine(item.filename, item.lineno or 0, item.name, item.line or "") for item in stack]
    return from_body_on(places)


def from_body_on(places: list[StackLine]) -> list[StackLine]:
    """The frames above :func:`call_body`; all that are there where it isn't yet."""
    own = [number for number, place in enumerate(places) if _is_ours(place.path)]
    above = places[own[-1] + 1 :] if own else places
    return [place for place in above if not is_pytest(place.path)]


def _is_ours(path: str) -> bool:
    return os.path.normcase(path) == os.path.normcase(__file__)


def is_pytest(path: str) -> bool:
    """Return whether a frame is of pytest, and of no use to a reader of a test."""
    parts = path.replace("\\", "/").split("/")
    return "_pytest" in parts or "pluggy" in parts


def _leave_with_parent() -> None:
    """A group of its own, so that all that the body starts is ended with it; and the kernel ends it with its parent."""
    from distcheck.runtime.coordination.processes import die_with_parent

    if hasattr(os, "setpgid"):
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
    die_with_parent()


def _write_to(files: RankFiles) -> None:
    """What this rank prints goes to its own file, whatever captured its parent's output."""
    import faulthandler
    import signal

    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    output = os.open(files.output, flags, 0o600) if isinstance(files.output, str) else files.output
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = sys.__stdout__ = _stream(1)  # type: ignore[misc,assignment]
    sys.stderr = sys.__stderr__ = _stream(2)  # type: ignore[misc,assignment]
    _log_here()
    # a rank that crashes has its stack among what it printed
    faulthandler.enable(file=2, all_threads=False)
    if files.stack is not None and hasattr(signal, "SIGUSR1"):
        stack = os.open(files.stack, flags, 0o600) if isinstance(files.stack, str) else files.stack
        faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)


def _log_here() -> None:
    """What is logged goes where prints go: the handlers of pytest keep it for a process that this one is not."""
    import logging

    root = logging.getLogger()
    kept = [handler for handler in root.handlers if not type(handler).__module__.startswith("_pytest.")]
    if len(kept) < len(root.handlers):
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(logging.Formatter("%(levelname)s %(name)s:%(filename)s:%(lineno)d %(message)s"))
        root.handlers[:] = [*kept, shown]


def _stream(number: int) -> TextIO:
    return io.TextIOWrapper(open(number, "wb", 0, closefd=False), "utf-8", "backslashreplace", write_through=True)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # the body may have closed it
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _destroy() -> None:
    if "torch.distributed" in sys.modules:
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()
