"""How workers ended, as launchers report it: torchrun's failure report, its error files, and other launchers' lines.

Only read, never judged: the rows are part of the timeline. The layout of the report is that of
``torch/distributed/elastic/multiprocessing/errors/__init__.py``, torch 1.9 to 2.13; other lines may stand between its
own.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Hashable
from signal import Signals
from typing import TYPE_CHECKING, Any, NamedTuple

from distcheck.core.patterns import lazy

from .model import LONGEST_TEXT, LogSource, WorkerFailure

if TYPE_CHECKING:
    from .prefixes import LineHead

_INDEX = lazy(r"\[\d{1,10}\]:$")
_ROOT = lazy(r"Root Cause(?P<new> \(first observed failure\))?:$")
_OTHERS = lazy(r"(?:Other )?Failures:$")
_BAR = lazy(r"(?P<sign>[=*-])(?P=sign){15,}$")
_FIELD = lazy(r"(?P<key>time|host|rank|exitcode|error_file|msg|message|traceback) *: *(?P<value>.*)$")
_RANK = lazy(r"(?P<rank>\d{1,10}) \(local_rank: (?P<local_rank>\d{1,10})\)")
_EXIT = lazy(r"(?P<code>-?\d{1,10}) \(pid: (?P<pid>\d{1,10})\)")
_EXCEPTION = lazy(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Failure|Warning)\b.{0,400}")
_TIME = "%Y-%m-%d_%H:%M:%S"
#: Lines without any of the report after which it counts as ended.
_PATIENCE = 400

# One line for one worker, as other launchers (and torchrun's agent) write it.
_ENDED = lazy(
    r"failed \(exitcode: (?P<code>-?\d{1,10})\) local_rank: (?P<local_rank>\d{1,10}) \(pid: (?P<pid>\d{1,10})\)"
)
_OLD = lazy(
    r"Child process (?P<pid>\d{1,10}) \(local_rank (?P<local_rank>\d{1,10})\) FAILED \(exitcode (?P<code>-?\d{1,10})\)"
)
_SPAWNED = lazy(
    r"[Pp]rocess (?P<local_rank>\d{1,10}) terminated with (?:signal (?P<signal>SIG\w+)|exit code (?P<code>\d{1,10}))"
)
_DEEPSPEED = lazy(
    r"(?:--local[-_]rank(?:=|', ')(?P<local_rank>\d{1,10})\b.*)?exits with return code = (?P<code>-?\d{1,10})"
)
_CALLED = lazy(
    r"CalledProcessError: Command .*--local[-_]rank(?:=|', ')(?P<local_rank>\d{1,10})\b.*"
    r"(?:returned non-zero exit status (?P<code>\d{1,10})|died with <Signals\.(?P<signal>SIG\w+))"
)
_SRUN = lazy(
    r"srun: error: (?P<host>[\w.-]+): task (?P<rank>\d{1,10}): (?:Exited with exit code "
    r"(?P<code>\d{1,10})|(?P<how>[A-Z][\w ]*\w))"
)
_MPIRUN = lazy(
    r"process rank (?P<rank>\d{1,10}) with PID (?P<pid>\d{1,10}) on node(?: (?P<host>[\w.-]+))? exited on signal "
    r"(?P<number>\d{1,10})"
)
#: torch.multiprocessing.spawn's head of the traceback of the process that failed first.
_RAISED = lazy(r"-- Process (?P<local_rank>\d{1,10}) terminated with the following error:")
#: Open MPI's and Horovod's reports of the first process that failed; its exit code is another line.
_FIRST_OF_MPI = lazy(
    r"Process name: (?:\[(?:\[\d{1,10},\d{1,10}\]|[\w.@-]{1,100}),(?P<rank>\d{1,10})\]|(?P<task>\d{1,10}))$"
)
#: Open MPI's report of a process that ended without MPI_Finalize; its process id may be 0.
_IMPROPER = lazy(r"exited due to process rank (?P<rank>\d{1,10}) with PID \d{1,10} on")
#: Intel MPI's and MPICH's, and jsrun's.
_HYDRA = lazy(r"RANK (?P<rank>\d{1,10}) PID (?P<pid>\d{1,10}) RUNNING AT (?P<host>[\w.-]{1,64})")
_JSRUN = lazy(r"\(first noticed rank (?P<rank>\d{1,10})\) terminated with signal (?P<number>\d{1,10})")
#: Horovod without MPI.
_HOROVOD = lazy(r"^Process (?P<rank>\d{1,10}) exit with status code (?P<code>-?[1-9]\d{0,9})")
_LIGHTNING = lazy(
    r"(?:\[rank: (?P<rank>\d{1,10})\] )?Child process with PID (?P<pid>\d{1,10}) terminated with code "
    r"(?P<code>-?\d{1,10})"
)
#: mpiexec of Cray PALS.
_PALS = lazy(
    r"\brank (?P<rank>\d{1,10}) (?:died from signal (?P<number>\d{1,10})|exited with code (?P<code>[1-9]\d{0,9}))"
)
#: aprun of Cray ALPS.
_ALPS = lazy(r"PE RANK (?P<rank>\d{1,10}) exit signal (?P<how>Killed|Terminated|Segmentation fault|Aborted|Bus error)")
_COMPOSER = lazy(r"\bRank (?P<rank>\d{1,10}) crashed with exit code (?P<code>-?[1-9]\d{0,9})")
_OF_COMPOSER = lazy(
    r"Global rank (?P<rank>\d{1,10}) \(PID (?P<pid>\d{1,10})\) exited with code (?P<code>-?[1-9]\d{0,9})"
)
#: vLLM's executor found this one dead first.
_VLLM = lazy(r"Worker proc VllmWorker-(?P<rank>\d{1,10}) died unexpectedly")
#: A rank that ends the job itself: Open MPI, MPICH and Intel MPI.
_ABORT = lazy(
    r"MPI_ABORT was invoked on rank (?P<rank>\d{1,10}) in communicator "
    r"(?:MPI_COMM_WORLD|MPI COMMUNICATOR \d{1,4} DUP FROM 0\b)"
)
_ABORT_OF_HYDRA = lazy(
    r"(?:Abort\(-?[1-9]\d{0,9}\) on node \d{1,10} \(rank (?P<rank>\d{1,10}) in comm 0\)"
    r"|application called MPI_Abort\(MPI_COMM_WORLD, -?[1-9]\d{0,9}\) - process (?P<task>\d{1,10}))"
)
#: Paddle's launcher lists the trainers that it found dead; of several, the first is unknown.
_PADDLE = lazy(r"trainer process with rank=\[(?P<rank>\d{1,10})\] was aborted")
#: Flux reports the first task that failed, or left while others went on.
_FLUX = lazy(
    r"flux-shell\[\d{1,6}\]: FATAL: (?:doom|task-exit): .{0,200}\brank (?P<rank>\d{1,10}) on host "
    r"(?P<host>[\w.-]{1,64}) (?:exited|failed) and "
)
#: Kubeflow's operator reports the end of a pod.
_POD = lazy(
    r"(?:Error pod (?P<host>[\w.-]{1,253}) container \S{1,63} exitCode:"
    r"|Pod: [\w-]{1,63}\.(?P<pod>[\w.-]{1,190}) exited with code) (?P<code>[1-9]\d{0,9})"
)
_LINES = (
    _ENDED, _OLD, _SPAWNED, _RAISED, _DEEPSPEED, _CALLED, _SRUN, _MPIRUN, _FIRST_OF_MPI, _IMPROPER, _HYDRA, _JSRUN,
    _HOROVOD, _LIGHTNING, _PALS, _ALPS, _COMPOSER, _OF_COMPOSER, _ABORT, _ABORT_OF_HYDRA, _PADDLE, _FLUX, _POD,
    _VLLM,
)  # fmt: skip
#: Lines with the command of the last process that the launcher started, whichever failed: its variable ``cmd`` (torch
#: 1.8 ``distributed/launch.py``, DeepSpeed 0.15 ``launcher/launch.py``). Local rank 0 is the last only if it is alone.
_NAME_THE_LAST = (_DEEPSPEED, _CALLED)
#: Lines that name the process which failed first. An agent's line is of the first of its host, and with several hosts
#: another may have been before.
_NAME_THE_FIRST = (
    _SPAWNED, _RAISED, _FIRST_OF_MPI, _IMPROPER, _HYDRA, _JSRUN, _ABORT, _ABORT_OF_HYDRA, _PADDLE, _FLUX, _VLLM,
)  # fmt: skip
#: srun's words for signals; it writes the code where there is none.
_HOW = {
    "Killed": -9,
    "Terminated": -15,
    "Segmentation fault": -11,
    "Aborted": -6,
    "Bus error": -7,
    "Hangup": -1,
    "Out Of Memory": -9,
}


class _Row:
    """A row of the report as far as it was read."""

    def __init__(self, line: int, first: bool, later: bool) -> None:
        self.line = line
        self.first = first
        self.later = later
        self.fields: dict[str, str] = {}
        self.message = ""

    def failure(self) -> WorkerFailure | None:
        rank, ended = _RANK.match(self.fields.get("rank", "")), _EXIT.match(self.fields.get("exitcode", ""))
        if rank is None and ended is None:
            return None
        return WorkerFailure(
            rank=int(rank["rank"]) if rank else None,
            local_rank=int(rank["local_rank"]) if rank else None,
            host=self.fields.get("host") or None,
            exitcode=int(ended["code"]) if ended else None,
            time=_seconds(self.fields.get("time", "")),
            pid=int(ended["pid"]) if ended else None,
            first=self.first,
            later=self.later,
            message=self.message[:LONGEST_TEXT],
            line=self.line,
        )


class _Table:
    """The report of one agent."""

    def __init__(self) -> None:
        self.row: _Row | None = None
        self.in_root = False
        self.in_others = False
        self.old = False
        self.roots = 0
        self.idle = 0

    def feed(self, line: int, text: str) -> tuple[list[WorkerFailure], bool]:
        """The rows that end with this line, and whether the report does."""
        root = _ROOT.search(text)
        if root is not None or _OTHERS.search(text):
            self.idle = 0
            done = self.close()
            self.in_root, self.in_others = root is not None, root is None
            self.old = self.old or (root is not None and root["new"] is None)
            return done, False
        bar = _BAR.match(text)
        if bar is not None:
            self.idle = 0
            done = self.close()
            ended = bool(self.roots) and (bar["sign"] == "*" if self.old else bar["sign"] == "=")
            return done, ended
        if _INDEX.match(text):
            self.idle = 0
            return self.close(), False
        return self._field(line, text)

    def _field(self, line: int, text: str) -> tuple[list[WorkerFailure], bool]:
        field = _FIELD.match(text)
        if field is None:
            self.idle += 1
            self._continue(text)
            return [], self.idle > _PATIENCE
        if (
            field["key"] in ("rank", "exitcode")
            and (_RANK if field["key"] == "rank" else _EXIT).match(field["value"]) is None
        ):
            return [], False
        self.idle = 0
        done: list[WorkerFailure] = []
        if self.row is not None and field["key"] in self.row.fields:
            done = self.close()
        if self.row is None:
            self.row = _Row(line, self.in_root, self.in_others)
        self.row.fields[field["key"]] = field["value"].strip()
        if field["key"] in ("msg", "message"):
            self.row.message = _own_words(field["value"].strip().strip('"'))
        return done, False

    def _continue(self, text: str) -> None:
        """The traceback in a row: its exception is the last line that looks like one."""
        if self.row is not None and "traceback" in self.row.fields:
            match = _EXCEPTION.match(text)
            if match is not None:
                self.row.message = match[0].strip()

    def close(self) -> list[WorkerFailure]:
        """The row that is open, if any."""
        if self.row is None:
            return []
        failure, self.row = self.row.failure(), None
        if failure is None:
            return []
        self.roots += failure.first
        return [failure]


class FailureReport:
    """Reads the reports of all agents whose lines a log mixes.

    It is fed with the first line that fits the signature ``elastic-report`` or ``worker-ended`` and, while it is
    ``open``, with every line after it.
    """

    def __init__(self) -> None:
        self._tables: dict[Hashable, _Table] = {}

    @property
    def open(self) -> bool:
        """Whether lines of a report are still to come."""
        return bool(self._tables)

    def feed(self, line: int, head: LineHead) -> list[WorkerFailure]:
        """The rows that this line completes."""
        text = head.text.strip()
        one = worker_in(text)
        if one is not None:
            rank = head.who.rank if _LIGHTNING.match(text) and one.rank is None else one.rank
            return [_of(one._replace(line=line, time=head.time, rank=rank), head)]
        key = head.who
        table = self._tables.get(key)
        if table is None:
            if not _begins(text):
                return []
            table = self._tables[key] = _Table()
        rows, ended = table.feed(line, text)
        if ended:
            del self._tables[key]
        return [_of(row, head) for row in rows]

    def finish(self) -> list[WorkerFailure]:
        """Return the values of rows that were cut off."""
        rows = [row for table in self._tables.values() for row in table.close()]
        self._tables.clear()
        return rows


def _begins(text: str) -> bool:
    """Whether a line is one of the report; the agent's own log has none of them."""
    if "ChildFailedError" in text or _ROOT.search(text) or text in ("Failures:", "Other Failures:"):
        return True
    field = _FIELD.match(text)
    if field is None:
        return False
    return (field["key"] == "rank" and _RANK.match(field["value"]) is not None) or (
        field["key"] == "exitcode" and _EXIT.match(field["value"]) is not None
    )


def _of(row: WorkerFailure, head: LineHead) -> WorkerFailure:
    """A row with the host that the line's prefix names, where it names none itself."""
    return row if row.host is not None or head.who.host is None else row._replace(host=head.who.host)


def worker_in(text: str) -> WorkerFailure | None:
    """Return the end of one worker that a line reports, or None."""
    for pattern in _LINES:
        match = pattern.search(text)
        if match is not None:
            found = match.groupdict()
            code = _code(found)
            if code is None and pattern not in _NAME_THE_FIRST:
                return None
            local_rank = _number(found.get("local_rank"))
            return WorkerFailure(
                rank=_number(found.get("rank") or found.get("task")),
                local_rank=None if pattern in _NAME_THE_LAST and local_rank else local_rank,
                host=found.get("host") or found.get("pod"),
                exitcode=code,
                time=None,
                pid=_number(found.get("pid")),
                first=pattern in _NAME_THE_FIRST,
            )
    return None


def _code(found: dict[str, str | None]) -> int | None:
    if found.get("signal"):
        try:
            return -Signals[str(found["signal"])]
        except KeyError:
            return None
    if found.get("number"):
        return -int(str(found["number"]))
    if found.get("how"):
        return _HOW.get(str(found["how"]))
    return _number(found.get("code"))


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _own_words(message: str) -> str:
    """The message of a row; what torch writes where it knows nothing is none."""
    return "" if message.startswith(("Process failed with exitcode", "Signal ", "To enable traceback")) else message


def _seconds(text: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(text[:19], _TIME)))
    except ValueError:
        return None


class _Recorded(NamedTuple):
    """What an error file holds."""

    message: str
    time: float | None


def read_error_file(data: bytes, source: LogSource) -> list[WorkerFailure]:
    """The row that an ``error.json`` stands for: what a worker under ``@record`` wrote of its own end.

    :param source: its folder (``attempt_0/3``) names its rank
    :return: empty for what is no such file
    """
    try:
        recorded = _recorded(data)
    except ValueError:
        return []
    return [
        WorkerFailure(
            rank=source.who.rank,
            local_rank=source.who.local_rank,
            host=source.who.host,
            exitcode=None,
            time=recorded.time,
            pid=source.who.pid,
            message=recorded.message[:LONGEST_TEXT],
            attempt=source.attempt or 0,
        )
    ]


def _recorded(data: bytes) -> _Recorded:
    import json

    try:
        content: Any = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON") from error
    message = content.get("message") if isinstance(content, dict) else None
    if isinstance(message, str):
        return _Recorded(_first_line(message), None)
    if not isinstance(message, dict):
        raise ValueError("it holds no message of a worker")
    extra = message.get("extraInfo")
    stamp = str(extra.get("timestamp", "")) if isinstance(extra, dict) else ""
    return _Recorded(
        _first_line(str(message.get("message") or "")), float(stamp) if stamp.isdecimal() and len(stamp) < 12 else None
    )


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0].strip()
