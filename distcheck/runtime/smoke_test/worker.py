"""One rank of the smoke test: a worker process that runs the phases that its supervisor starts.

It waits for the order to begin, makes the group, and runs each live phase. In any case it destroys the group or exits
at once: a process that ends with a living group aborts (torch 2.13, one in three).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from distcheck.core.facts_file import from_plain
from distcheck.core.model import to_plain
from distcheck.runtime.coordination.flight_recorder import last_entries, last_record
from distcheck.runtime.coordination.processes import die_with_parent

from .live_group import LiveGroup, Operations
from .model import Options, Step
from .step_record import StepRecord

#: Longest text of an exception that is passed on, in characters.
_LONGEST_ERROR = 4000


class Orders(NamedTuple):
    """What the supervisor sends to a worker before it makes its group."""

    rank: int
    world_size: int
    local_rank: int
    backend: str
    device: str
    options: Options
    #: torch's store for the group
    address: str
    port: int
    prefix: str
    #: number of the host of each rank
    hosts: tuple[int, ...]
    cores: int
    #: seconds that a collective may take
    limit_s: float
    #: where NCCL may write about itself
    log_file: str | None = None


class WorkerHooks(NamedTuple):
    """Where a test may put something else: the collectives themselves, and what happens before a step."""

    operations: Callable[[], Operations] = Operations
    before_step: Callable[[int, Step], None] | None = None


def run(pipe: Any, memory: Any, stack_file: int | None, seams: WorkerHooks = WorkerHooks()) -> None:
    """The worker's main: never returns.

    :param pipe: the worker's end of a connection to the supervisor; messages are lists of JSON values
    :param memory: of the step record
    :param stack_file: a file to which a signal makes this process write its Python stack
    """
    status = 1
    # what was inherited is not this process's to destroy: a store of torch would wait for a thread that was not forked
    gc.freeze()
    try:
        die_with_parent()
        _listen_to_signals(stack_file)
        # the report is on standard output; NCCL_DEBUG and torch's warnings must not be in it
        with contextlib.suppress(OSError):  # no standard error: nothing was to be seen of it anyway
            os.dup2(2, 1)
        # before it has a group it has nothing to report
        while (first := json.loads(pipe.recv()))[0] == "recorder":
            pipe.send(json.dumps(("recorder", [])))
        if first[0] == "go":
            orders: Orders = from_plain(Orders, first[1])
            status = _Worker(orders, pipe, StepRecord(memory), seams).work()
        else:
            status = 0
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        status = 1  # the supervisor has left
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


class _Worker:
    def __init__(self, orders: Orders, pipe: Any, record: StepRecord, seams: WorkerHooks) -> None:
        self.orders = orders
        self.pipe = pipe
        self.record = record
        self.seams = seams
        self.sending = threading.Lock()
        self.words: Any = None
        #: what its parent's collectives left in the recorder is none of its own
        self.inherited = last_record()
        self.step = Step("start")

    def announce(self, step: Step) -> None:
        self.step = step
        self.record.write(step)
        if self.seams.before_step is not None:
            self.seams.before_step(self.orders.rank, step)

    def say(self, *message: object) -> None:
        with self.sending:
            self.pipe.send(json.dumps(message))

    def work(self) -> int:
        """Run the supervisor's orders until it sends the last one."""
        import queue

        self.words = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()
        try:
            live = self.start()
            while True:
                word = self.words.get()
                if word[0] != "phase":
                    break
                self.phase(word[1], live)
            if word[0] != "end":
                os._exit(1)
            import torch.distributed as dist

            self.announce(Step("end"))
            dist.destroy_process_group()
            self.say("finished")
        except Exception as error:  # noqa: BLE001 - whatever a backend raises is what the supervisor must hear
            self.failed(error)
            return 1
        return 0

    def listen(self) -> None:
        """The supervisor's words, also while the main thread is in a collective."""
        try:
            while True:
                word = json.loads(self.pipe.recv())
                if word[0] == "recorder":
                    self.say("recorder", last_entries(self.inherited))
                else:
                    self.words.put(word)
        except (EOFError, OSError):
            os._exit(1)  # the supervisor has exited: no process is left to end this one

    def start(self) -> LiveGroup:
        """Make the group, and the first collective of it."""
        begun = time.monotonic()
        orders = self.orders
        self.announce(Step("start", "init_process_group"))
        if orders.backend == "nccl" and orders.log_file is not None:
            from .nccl_log import variables

            wanted = variables(os.environ, "")
            if wanted:
                os.environ.update(wanted, NCCL_DEBUG_FILE=orders.log_file)
        import torch
        import torch.distributed as dist

        device = torch.device("cpu")
        if orders.device == "cuda":
            device = torch.device("cuda", orders.local_rank % max(1, torch.cuda.device_count()))
            torch.cuda.set_device(device)
        else:
            torch.set_num_threads(max(1, orders.cores // max(1, orders.hosts.count(orders.hosts[orders.rank]))))
        timeout = timedelta(seconds=orders.limit_s)
        store = dist.TCPStore(orders.address, orders.port, is_master=False, wait_for_workers=False, timeout=timeout)
        dist.init_process_group(
            orders.backend,
            store=dist.PrefixStore(orders.prefix, store),
            rank=orders.rank,
            world_size=orders.world_size,
            timeout=timeout,
            device_id=device if orders.backend == "nccl" else None,
        )
        init_s = time.monotonic() - begun
        operations = self.seams.operations()
        live = LiveGroup(
            orders.rank, orders.world_size, orders.backend, device, orders.options, operations,
            orders.hosts, orders.cores, self.announce,
        )  # fmt: skip
        self.announce(Step("start", "all_reduce", "float32", 4))
        first = time.monotonic()
        operations.all_reduce(torch.ones(1, device=device))
        live.synchronize()
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
        self.say(
            "done", "start", time.monotonic() - begun,
            {"init_s": init_s, "first_collective_s": time.monotonic() - first, "device_name": name},
        )  # fmt: skip
        self.begun = (init_s, time.monotonic() - first)
        return live

    def phase(self, name: str, live: LiveGroup) -> None:
        """One live phase; what it found goes to the supervisor."""
        begun = time.monotonic()
        self.announce(Step(name))
        found: dict[str, Any]
        if name == "verify":
            from .correctness_checks import verify

            found = {"proof": to_plain(verify(live))}
        elif name == "measure":
            from .bandwidth import measure

            measured = measure(live, init_s=self.begun[0], first_collective_s=self.begun[1])
            found = {"measured": to_plain(measured) if live.rank == 0 else None}
        else:
            from .stragglers import find_late, find_pairs

            late = find_late(live)
            pairs = find_pairs(live)
            found = {"lateness": to_plain(late), "pairs": to_plain(pairs)} if live.rank == 0 else {}
        self.say("done", name, time.monotonic() - begun, found)

    def failed(self, error: Exception) -> None:
        import traceback

        text = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-_LONGEST_ERROR:]
        # what was proved before it raised counts all the same
        proof = getattr(error, "proof", None)
        with contextlib.suppress(OSError):
            self.say(
                "raised", self.step.phase, self.step.text, text, trace, last_entries(self.inherited),
                None if proof is None else to_plain(proof),
            )  # fmt: skip


def _listen_to_signals(stack_file: int | None) -> None:
    # a terminal or a launcher may signal the whole group: the supervisor decides what it means, and ends its workers
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if stack_file is not None and hasattr(signal, "SIGUSR1"):
        import faulthandler

        # not all threads: walking the frames of one that runs meanwhile (the listener does) can end the process
        faulthandler.register(signal.SIGUSR1, file=stack_file, all_threads=False)
