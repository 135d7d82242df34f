"""Starts the ranks of this process and supervises them from outside: which work, which hang, which have exited.

It takes part in no collective, so it can always report the state of a rank, and end it. ``driver.py`` decides about
other hosts, with what the supervisors exchange.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable
from multiprocessing.connection import wait as wait_for
from typing import Any, NamedTuple

from distcheck.core.model import to_plain
from distcheck.runtime.coordination.model import RankState
from distcheck.runtime.coordination.processes import how_it_ended, kernel_state, main_frames, private_file, read_file

from .step_record import SIZE, StepRecord
from .worker import Orders, WorkerHooks, run

#: Seconds that a worker has to write its stack, and that killed workers have to exit.
_STACK_WITHIN_S = 0.5
_GONE_WITHIN_S = 1.5
#: Seconds for which a process may be stopped before it counts as a fault: longer than a debugger's attach.
STOPPED_AFTER_S = 3.0
#: Longest stack that is reported, in characters.
_LONGEST_STACK = 3000


class WorkerEvent(NamedTuple):
    """A message of a worker, or its exit."""

    rank: int
    #: ``done`` (a phase), ``raised``, ``died``, ``finished``
    kind: str
    phase: str = ""
    seconds: float = 0.0
    #: what a phase found
    found: Any = None
    text: str = ""


class Worker:
    """One rank's process."""

    def __init__(self, rank: int, process: Any, pipe: Any, record: StepRecord, stack_file: int | None) -> None:
        self.rank = rank
        self.process = process
        self.pipe = pipe
        self.record = record
        self.stack_file = stack_file
        #: it has the order to make its group
        self.ordered = False
        self.finished = False
        self.raised = ""
        #: what it had proved before it raised, as plain JSON values
        self.proof: Any = None
        self.trace = ""
        self.recorder: tuple[str, ...] = ()
        self.gone = False
        self.open = True
        self.stopped_since: float | None = None

    @property
    def running(self) -> bool:
        """The process is there; it may be stopped."""
        return self.process.exitcode is None

    @property
    def answered(self) -> bool:
        """Recorder and whole stack are here: a thread sends the one, a signal handler writes the other later."""
        if not self.recorder:
            return False
        return self.stack_file is None or any(
            frame.function == "run" and frame.path.endswith("worker.py")
            for frame in main_frames(read_file(self.stack_file))
        )


class Supervisor:
    """The workers of this process.

    :param ranks: the ranks to start; fork where it is to be had: torch is imported already, and shared
    """

    def __init__(self, ranks: Iterable[int], seams: WorkerHooks = WorkerHooks()) -> None:
        method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
        context: Any = multiprocessing.get_context(method)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.workers: dict[int, Worker] = {}
        log_file = private_file() if method == "fork" else None
        for rank in ranks:
            ours, theirs = context.Pipe()
            memory = context.RawArray("c", SIZE)
            stack_file = private_file() if method == "fork" else None
            process = context.Process(
                target=_start, args=(theirs, memory, stack_file, seams, ours if method == "fork" else None), daemon=True
            )
            process.start()
            theirs.close()
            self.workers[rank] = Worker(rank, process, ours, StepRecord(memory), stack_file)
        #: what the first rank's NCCL writes about itself, in a file without a name
        self.log_file = log_file

    def go(self, orders: Iterable[Orders]) -> None:
        """Let the workers make their group."""
        for order in orders:
            self.workers[order.rank].ordered = True
            self._send(self.workers[order.rank], "go", to_plain(order))

    def begin(self, phase: str) -> None:
        """Let the workers begin a phase."""
        for worker in self.workers.values():
            self._send(worker, "phase", phase)

    def finish(self) -> None:
        """Let the workers destroy their group and end."""
        for worker in self.workers.values():
            self._send(worker, "end")

    def _send(self, worker: Worker, *words: object) -> None:
        # an exited one is seen by its end
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, OSError):
            worker.pipe.send(json.dumps(words))

    def events(self, seconds: float) -> list[WorkerEvent]:
        """What happened; waits so long for the first of it."""
        sources: dict[Any, Worker] = {}
        for worker in self.workers.values():
            if worker.open:
                sources[worker.pipe] = worker
            if not worker.gone:
                sources[worker.process.sentinel] = worker
        if not sources:
            time.sleep(max(0.0, seconds))
            return []
        found: list[WorkerEvent] = []
        for source in wait_for(list(sources), max(0.0, seconds)):
            worker = sources[source]
            if source is worker.pipe:
                found.extend(self._hear(worker))
            elif not worker.gone:
                # its last message before the exit counts first
                while worker.open and worker.pipe.poll():
                    heard = self._hear(worker)
                    found.extend(heard)
                worker.process.join(0.1)
                worker.gone = worker.process.exitcode is not None
                if worker.gone and not worker.finished and not worker.raised:
                    found.append(
                        WorkerEvent(
                            worker.rank,
                            "died",
                            worker.record.read().step.phase,
                            text=how_it_ended(worker.process.exitcode),
                        )
                    )
        return found

    def _hear(self, worker: Worker) -> list[WorkerEvent]:
        try:
            message = json.loads(worker.pipe.recv())
        except (EOFError, OSError):
            worker.open = False
            return []
        kind, *rest = message
        if kind == "done":
            return [WorkerEvent(worker.rank, "done", rest[0], rest[1], rest[2])]
        if kind == "finished":
            worker.finished = True
            return [WorkerEvent(worker.rank, "finished")]
        if kind == "recorder":
            worker.recorder = tuple(rest[0])
            return []
        worker.raised, worker.trace, worker.recorder, worker.proof = rest[2], rest[3], tuple(rest[4]), rest[5]
        return [WorkerEvent(worker.rank, "raised", rest[0], text=rest[2])]

    def stopped(self) -> tuple[int, ...]:
        """Ranks whose process has been stopped (SIGSTOP) for a while."""
        found = []
        now = time.monotonic()
        for worker in self.workers.values():
            if worker.gone or kernel_state(worker.process.pid) not in ("T", "t"):
                worker.stopped_since = None
                continue
            worker.stopped_since = worker.stopped_since or now
            if now - worker.stopped_since >= STOPPED_AFTER_S:
                found.append(worker.rank)
        return tuple(found)

    def states(self, host: str) -> tuple[RankState, ...]:
        """Where each worker is, with the stacks of those that still run."""
        # one that waits for its first order has nothing to report, and may not handle signals yet
        queried = [
            worker for worker in self.workers.values() if worker.running and worker.ordered and not worker.finished
        ]
        for worker in queried:
            if worker.stack_file is not None:
                with contextlib.suppress(ProcessLookupError, OSError):
                    os.ftruncate(worker.stack_file, 0)
                    os.kill(worker.process.pid, signal.SIGUSR1)
            self._send(worker, "recorder")
        end = time.monotonic() + _STACK_WITHIN_S
        # a stopped process cannot answer: do not wait for it
        waiting = {worker.rank for worker in queried if kernel_state(worker.process.pid) not in ("T", "t")}
        while waiting and time.monotonic() < end:
            self.events(0.05)
            waiting = {rank for rank in waiting if self.workers[rank].running and not self.workers[rank].answered}
        return tuple(self._state(worker, host) for worker in self.workers.values())

    def _state(self, worker: Worker, host: str) -> RankState:
        standing = worker.record.read()
        state, detail = "running", ""
        exitcode = worker.process.exitcode
        kernel = kernel_state(worker.process.pid) if exitcode is None else ""
        if worker.finished:
            state = "finished"
        elif worker.raised:
            state, detail = "raised", worker.raised
        elif exitcode is not None:
            state, detail = ("killed" if exitcode < 0 else "exited"), how_it_ended(exitcode)
        elif kernel in ("T", "t"):
            state, detail = "stopped", "SIGSTOP"
        elif kernel == "D":
            state, detail = "blocked", "in the kernel"
        stack = worker.trace or main_stack(read_file(worker.stack_file))
        return RankState(
            worker.rank, host, worker.process.pid or 0, standing.step.phase, standing.step.text, standing.steps,
            state, detail, stack[:_LONGEST_STACK], worker.recorder, round(standing.seconds, 3),
        )  # fmt: skip

    def end(self) -> None:
        """End what still runs, and wait until it has exited: a worker has nothing to clean up, and may be stopped."""
        for worker in self.workers.values():
            if worker.running:
                worker.process.kill()
        end = time.monotonic() + _GONE_WITHIN_S
        for worker in self.workers.values():
            # a process in the kernel (D) cannot be killed: do not wait for it
            worker.process.join(max(0.0, end - time.monotonic()))
            with contextlib.suppress(OSError):
                worker.pipe.close()
            if worker.stack_file is not None:
                os.close(worker.stack_file)
                worker.stack_file = None
        self.workers = {rank: worker for rank, worker in self.workers.items() if worker.running}


def main_stack(text: str) -> str:
    """The frames of the interrupted thread out of faulthandler's text, innermost first, without those of this package's
    own start; files by their last parts.
    """
    frames = []
    for frame in main_frames(text):
        if frame.function == "phase" and frame.path.endswith("worker.py"):
            break
        frames.append(f"{'/'.join(frame.path.split('/')[-3:])}:{frame.line} in {frame.function}")
    return "\n".join(frames)


def _start(pipe: Any, memory: Any, stack_file: int | None, seams: WorkerHooks, other_end: Any) -> None:
    if other_end is not None:
        other_end.close()  # else this process would keep its own pipe open after the supervisor has exited
    run(pipe, memory, stack_file, seams)
