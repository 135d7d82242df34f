"""The rank's side of a rehearsal's agreement: it queries the parent before each call, and ends on its order.

The lines to the parent are this process's own: what it forks has none of them until it becomes a rank itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distcheck.core.model import to_plain
from distcheck.runtime.coordination.child_processes import follow, rank_info_in
from distcheck.runtime.coordination.coordinator import MonitorReporter
from distcheck.runtime.coordination.frames import leave_out_inside
from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.coordination.model import SETUP, RecordedCall
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.rank_monitor import RankMonitor
from distcheck.runtime.coordination.run_script import ScriptExit
from distcheck.runtime.coordination.shared_table import OtherRank
from distcheck.runtime.rehearsal.simulation.coordinator import ADDRESS, STOPPED, TICK_S
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

from . import compiled

__all__ = ["STOPPED", "Agreement", "ParentConnection", "ParentStore", "ParentStoreConnection"]

#: Calls whose root may go on before the others have come (it only sends), and those whose other ranks may.
_ROOT_ONLY_SENDS = frozenset({"broadcast", "broadcast_object_list", "scatter", "scatter_object_list"})
_ROOT_ONLY_TAKES = frozenset({"reduce", "gather", "gather_object"})


class ParentConnection:
    """One connection to the parent; one question at a time."""

    def __init__(self, private: str) -> None:
        with open(os.path.join(private, ADDRESS), encoding="utf-8") as file:
            path = file.read()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._file = self._socket.makefile("rb")

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """The parent's answer, when it comes.

        :raises ConnectionError: the parent has exited
        """
        self._socket.sendall(json.dumps({"do": what, **more}).encode() + b"\n")
        line = self._file.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the rehearsal's parent has exited")
        answer: dict[str, Any] = json.loads(line)
        return answer


class ParentStore:
    """The store in the parent's memory, over its socket."""

    def __init__(self, line: ParentConnection) -> None:
        self._line = line

    def set(self, key: str, value: str) -> None:
        self._value("set", key, value)

    def get(self, key: str) -> str | None:
        value = self._value("get", key)
        return None if value is None else str(value)

    def multi_get(self, keys: Sequence[str]) -> list[str]:
        return list(map(str, self._value("multi_get", keys)))

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._value("check", keys))

    def add(self, key: str, amount: int = 1) -> int:
        return int(self._value("add", key, amount))

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        return str(self._value("compare_set", key, expected, desired))

    def delete_key(self, key: str) -> bool:
        return bool(self._value("delete_key", key))

    def wait(self, key: str, seconds: float) -> str | None:
        end = time.monotonic() + seconds
        while (value := self.get(key)) is None and time.monotonic() < end:
            time.sleep(TICK_S)
        return value

    def _value(self, method: str, *arguments: Any) -> Any:
        return self._line.ask(method, **{"with": arguments})["value"]


class ParentStoreConnection:
    """Connects a monitor to the parent's store."""

    outlives_ranks = True

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self) -> ParentStore:
        return ParentStore(ParentConnection(self._folder))

    def release(self) -> None:
        """Keep the connection: the parent serves each process group."""


class _LoggedReporter(MonitorReporter):
    """Logs why the position of this rank is no longer known; the parent reports everything else."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log

    def line(self, text: str) -> None:
        self._event_log.note("stage.hook_failed", place=("", ""), hook="the monitor", why=text)


class Agreement:
    """This process as a rank that others wait for; before :meth:`install` it waits for no rank.

    :param on_stop: called with the parent's reason before this process is ended
    """

    def __init__(
        self,
        plan: RehearsalPlan,
        event_log: EventLog,
        on_stop: Callable[[str], None],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.plan = plan
        self.event_log = event_log
        self.calls = event_log.calls
        self._on_stop = on_stop
        self._environ = environ
        self.renew()

    def install(self) -> None:
        """Agree each call of this process with the other ranks from now on."""
        leave_out_inside(__file__)
        if self.event_log.rank is not None:
            self.sit(self.event_log.rank, self.plan.world_size)
        follow("distcheck.runtime.rehearsal.simulation.worker:child")
        when_imported("torch.distributed.distributed_c10d", self.calls.attach)
        compiled.watch(self.calls)

    def renew(self) -> None:
        """In a fork: it is no rank yet, and its parent's lines are not its own."""
        self.calls.forget()
        self.calls.observe(self)
        self.rank_info: RankInfo | None = None
        self._pid = os.getpid()
        self._lines = threading.local()
        self._monitor: RankMonitor | None = None

    def joining(self, given: tuple[tuple[Any, ...], dict[str, Any]] | None) -> None:
        """Send the rank of a process that the script itself has started when it joins the others."""
        if self.rank_info is not None or os.getpid() != self._pid:
            return
        module = sys.modules["torch.distributed.distributed_c10d"]
        if given is not None:
            rank_info = rank_info_in(*given, self._environ)
        else:
            rank_info = (module.get_rank(), module.get_world_size()) if module.is_initialized() else None
        if rank_info is not None:
            self.sit(*rank_info)

    def sit(self, rank: int, world_size: int) -> None:
        """This process is that rank."""
        self.event_log.rank = rank
        line = ParentConnection(self.plan.private)
        line.ask("sit", rank=rank, world_size=world_size, pid=self._pid)
        rank_info = RankInfo(rank, world_size, host=self.plan.node_name(rank))
        monitor = RankMonitor(
            self.calls, rank_info, ParentStoreConnection(self.plan.private), _LoggedReporter(self.event_log),
            hang_timeout_s=self.plan.hang_timeout_s, tick_s=TICK_S,
        )  # fmt: skip
        self.rank_info, self._monitor = rank_info, monitor
        monitor.start()
        threading.Thread(target=self._listen, args=(line,), name="distcheck coordinator", daemon=True).start()

    def before(self, note: RecordedCall, waits: bool) -> None:
        """Compare a call with those of the other ranks; wait for them where the call itself would."""
        rank_info = self.rank_info
        if rank_info is None or os.getpid() != self._pid:
            if self.calls.is_in_group_of_parent(note.call):
                self._end_worker(note)
            return
        call = note.call
        ranks, ordinal = self.calls.groups.get(call.group, ()), note.ordinal
        if call.group.startswith(SETUP):
            # the store makes them wait, and torch makes names of groups without a query
            ranks, ordinal, waits = ranks or tuple(range(rank_info.world_size)), call.number, False
        if not ordinal or rank_info.rank not in ranks:
            return
        if call.operation in _ROOT_ONLY_SENDS:
            waits = waits and call.peer != rank_info.rank
        elif call.operation in _ROOT_ONLY_TAKES:
            waits = waits and call.peer == rank_info.rank
        self._ask("agree", rank=rank_info.rank, ranks=ranks, ordinal=ordinal, call=to_plain(call), waits=waits)

    def _end_worker(self, note: RecordedCall) -> None:
        """End a child of a rank that calls a collective of its parent's group: it would hang, and no rank would."""
        call = note.call
        self.event_log.note("groups.in_worker", place=(call.place, call.function), operation=call.operation)
        sys.stderr.write(
            f"distcheck rehearse: a child of a rank calls {call.text_with_place} in the group of its parent, and ends\n"
        )
        sys.stderr.flush()
        os._exit(STOPPED)

    def differs(self, call: RecordedCall, other: OtherRank) -> None:
        """Leave it to the parent, which compares all calls."""

    def finished(self, steps: int, step_s: float) -> bool:
        """This rank has done its steps: whether to end now, with all; False: another rank can't go on without it.

        :param step_s: seconds of the last step
        """
        if self.rank_info is None or os.getpid() != self._pid:
            return True
        return bool(self._ask("finished", rank=self.rank_info.rank, steps=steps, step_s=step_s)["end"])

    def ended(self, ended: ScriptExit) -> None:
        """The script has ended."""
        if self._monitor is not None:
            self._monitor.ended(ended.state, ended.status, ended.detail, ended.stack)

    def leave(self) -> None:
        """Before the interpreter ends."""
        if self._monitor is not None:
            self._monitor.leave()

    def _ask(self, what: str, **more: Any) -> dict[str, Any]:
        line = getattr(self._lines, "line", None)
        if line is None:
            line = self._lines.line = ParentConnection(self.plan.private)
        try:
            answer: dict[str, Any] = line.ask(what, **more)
        except OSError:
            self._stop("the rehearsal's parent has exited")
        return answer

    def _listen(self, line: ParentConnection) -> None:
        try:
            reason = line.ask("listen")["stop"]
        except (OSError, ValueError):
            reason = "the rehearsal's parent has exited"
        self._stop(str(reason))

    def _stop(self, reason: str) -> None:
        with contextlib.suppress(Exception):
            self._on_stop(reason)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(STOPPED)
