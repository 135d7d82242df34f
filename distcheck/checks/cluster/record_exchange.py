"""Hosts that were started together hand their records to one of them, through a folder that all can see.

The first task makes a private folder and removes it; the others write one file each, whole or not at all. Where the
first task does not come, the one that waited longest replaces it. Nothing is judged here, and nothing travels over a
network of our own: on a cluster with network errors, the shared file system is what still works.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from distcheck.core.facts_file import checked_report
from distcheck.core.files import private_folder, read_ordinary, remove_files
from distcheck.core.model import Report
from distcheck.core.redaction import mask_all
from distcheck.launch.model import Launch
from distcheck.launch.schedulers import Scheduler, expand_hostlist

from .host_records import is_private
from .merge import HostReport
from .records import RECORD_VERSION, HostRecord, RecordError, from_json, to_json

#: The header of a record file.
KIND = "distcheck record"
#: Beginning of the folder's name; what follows names the run.
PREFIX = ".distcheck-"
#: The file in the folder that names the task that collects.
_COLLECTOR = "collector"
#: All files that are in it: that one, records and their drafts, and what NFS keeps of an open file that was removed.
_FILES = re.compile(rf"{_COLLECTOR}|draft\..*|\d+\+.*\.json|\.nfs.*")
#: Seconds between two checks of the folder: short at first, then so long that a thousand hosts do not load a server.
_FIRST_POLL_S = 0.02
_LAST_POLL_S = 1.0
#: A record that reads as damaged may only be on its way: a network file system shows a new file's name before its
#: bytes. It is read again for so long.
_SETTLE_S = 1.0
#: A record of the same run that is older than the collector's own file by more than this was left by a killed run
#: of the same name. Tasks of one step start within seconds of each other.
_FRESH_S = 60.0
#: A folder of ours that is older was left by a run that was killed.
_STALE_S = 24 * 3600.0


class JobStep(NamedTuple):
    """This process among the tasks that were started together, one or more on each host."""

    #: names the run, and no other; "" where nothing does
    key: str
    #: number of this task among all; None if no launcher numbers them
    rank: int | None = None
    #: the first task on its host speaks for the others there
    first_on_host: bool = True
    #: tasks that the record of this process stands for
    tasks_here: int = 1
    #: tasks and hosts in all, as far as known
    tasks: int | None = None
    hosts: int | None = None
    #: this host as the scheduler calls it
    node: str | None = None
    #: all hosts by the scheduler's names; () where nothing lists them
    nodes: tuple[str, ...] = ()
    #: ``slurm``, ``pbs``, ``kubernetes`` …; None without one
    scheduler: str | None = None

    @property
    def collects(self) -> bool:
        """This task is the one that the others send to."""
        return self.rank == 0


class Collected(NamedTuple):
    """What came together."""

    reports: tuple[HostReport, ...] = ()
    #: records that can't be read: the host as the file's name gives it, and why
    damaged: tuple[tuple[str, str], ...] = ()
    #: all that were expected came
    complete: bool = True
    waited_s: float = 0.0


class ExchangeError(Exception):
    """Records cannot be exchanged; the message gives the reason."""


class TakenError(ExchangeError):
    """Another task collects already."""


# who takes part


def step_of(environ: Mapping[str, str], launch: Launch, scheduler: Scheduler | None) -> JobStep | None:
    """Return the position of this process among those that were started together; None if there seem to be none.

    :param environ: all variables of this process
    """
    if "TORCHELASTIC_RUN_ID" in environ and launch.rank is not None:
        run = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")
        return JobStep(
            _key(environ, run),
            rank=launch.rank,
            first_on_host=launch.local_rank in (None, 0),
            tasks_here=launch.local_world_size or 1,
            tasks=launch.world_size,
            hosts=launch.nnodes,
            node=None if scheduler is None else scheduler.node_name,
            nodes=_nodes(environ, scheduler),
            scheduler=launch.scheduler,
        )
    if scheduler is None or scheduler.place == "batch":
        return None
    if scheduler.place == "pod":
        if scheduler.nodes is None or scheduler.node_rank is None:
            return None
        return JobStep(
            "", rank=scheduler.node_rank, hosts=scheduler.nodes, tasks=scheduler.nodes, scheduler="kubernetes"
        )
    names = {
        "slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
        "openmpi": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
        "pmix": ("PMIX_NAMESPACE",),
    }.get(scheduler.numbered_by or "", ("FLUX_JOB_ID", "SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "PMIX_NAMESPACE"))
    here = scheduler.tasks_on_node
    # without a local rank no task can report for the others of its host: each reports for itself
    known = scheduler.local_rank is not None and here is not None
    # Open MPI inside of Slurm may use fewer hosts than the job has
    hosts = scheduler.nodes if known and scheduler.numbered_by == "slurm" else None
    return JobStep(
        _key(environ, names),
        rank=scheduler.rank,
        first_on_host=scheduler.local_rank == 0 if known else True,
        tasks_here=here if known and here is not None else 1,
        tasks=scheduler.tasks,
        hosts=hosts,
        node=scheduler.node_name,
        nodes=_nodes(environ, scheduler),
        scheduler=scheduler.name if scheduler.runs_the_job else None,
    )


def _key(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The values that name a run, as part of a file name."""
    text = ".".join(value for name in names if (value := environ.get(name)))
    plain = re.sub(r"[^\w.-]", "_", text)
    if len(plain) <= 80:
        return plain
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _nodes(environ: Mapping[str, str], scheduler: Scheduler | None) -> tuple[str, ...]:
    """The hosts of the job by name, each once; () where no list is there or it can't be read."""
    text = "" if scheduler is None else scheduler.node_list or ""
    if not text:
        # PBS and LSF write one line a slot (qsub(1B) of PBS Professional 2022, LSF 10.1 environment variables)
        path = environ.get("PBS_NODEFILE") or environ.get("LSB_DJOB_HOSTFILE") or ""
        with contextlib.suppress(OSError):
            text = Path(path).read_text(encoding="utf-8", errors="replace") if path else ""
    try:
        return tuple(dict.fromkeys(expand_hostlist(",".join(text.split()))))
    except ValueError:
        return ()


# records as text


def to_text(report: HostReport) -> str:
    """One host's report and record in one line of JSON."""
    # of the probes only those that went wrong: the rest would be most of the record
    failed = [item for item in report.report.probes if item.status in ("failed", "timed-out")]
    return json.dumps(
        {
            "kind": KIND,
            "v": RECORD_VERSION,
            "host": report.host,
            "node": report.node,
            "task": report.task,
            "tasks": report.tasks,
            "launch": {
                "backend": report.backend,
                "rendezvous": report.rendezvous,
                "world_size": report.world_size,
            },
            "report": mask_all(report.report._replace(probes=tuple(failed)).as_record()),
            "record": None if report.record is None else json.loads(to_json(report.record)),
        },
        ensure_ascii=True,
        separators=(",", ":"),
    )


def from_text(text: str | bytes) -> HostReport:
    """Reverse :func:`to_text`; raises RecordError with the reason."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is damaged: {error}") from None
    return from_plain(plain)


def from_plain(plain: Any) -> HostReport:
    """A record from its JSON; raises RecordError."""
    if not isinstance(plain, dict) or plain.get("kind") != KIND:
        raise RecordError("it is no record; expected what 'distcheck env --save-record' writes")
    if plain.get("v") != RECORD_VERSION:
        raise RecordError(f"it is of version {plain.get('v')!r}; this distcheck reads version {RECORD_VERSION}")
    try:
        return HostReport(
            _word(plain["host"]),
            checked_report(Report.from_record(plain["report"]), ("jobs", "snapshots")),  # of ``stuck``
            None if plain.get("record") is None else from_json(HostRecord, json.dumps(plain["record"])),
            node=None if plain.get("node") is None else _word(plain["node"]),
            task=None if plain.get("task") is None else int(plain["task"]),
            tasks=max(1, int(plain.get("tasks", 1))),
            **_launch(plain.get("launch") or {}),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, RecordError):
            raise
        raise RecordError(f"it is damaged: {type(error).__name__}: {error}") from None


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"expected a name, found {value!r:.60}")
    return value


def _launch(plain: Mapping[str, Any]) -> dict[str, Any]:
    size = plain.get("world_size")
    return {
        "backend": None if plain.get("backend") is None else _word(plain["backend"]),
        "rendezvous": None if plain.get("rendezvous") is None else _word(plain["rendezvous"]),
        "world_size": None if size is None else int(size),
    }


# the folder


def folder_of(base: Path, step: JobStep) -> Path:
    """The folder of a run below a folder that all hosts see."""
    return base / f"{PREFIX}{step.key or 'run'}"


@contextlib.contextmanager
def collecting(base: Path, step: JobStep) -> Iterator[Path]:
    """Create the folder for as long as this task collects, and always remove it afterwards.

    :raises TakenError: another task collects there already
    :raises ExchangeError: it can't be made, or belongs to another user
    """
    folder = folder_of(base, step)
    try:
        _sweep(base, but=folder)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        _adopt(folder, step)
    except OSError as error:
        raise ExchangeError(f"no folder for the records can be made in {base}: {error.strerror}") from None
    with contextlib.ExitStack() as opened:
        try:
            number = opened.enter_context(private_folder(str(folder)))
            if not _is_ours(number, folder):
                # a neighbor has given another folder of this user its name
                raise OSError(errno.ENOTEMPTY, "it holds other files")
            opened.callback(_remove, folder, number)
            _write(number, folder, _COLLECTOR, str(step.rank))
            _remove_old(number, folder)
        except OSError as error:
            raise ExchangeError(f"nothing can be written in {folder}: {error.strerror}") from None
        yield folder


def _is_ours(number: int | None, folder: Path) -> bool:
    """Return whether an open folder is new, or was left by a run: no other user can put a file into it."""
    names = os.listdir(folder if number is None else number)
    return _COLLECTOR in names or not [name for name in names if not _FILES.fullmatch(name)]


def _adopt(folder: Path, step: JobStep) -> None:
    """A folder of this run that stands already: left by a killed run of the same name, or another task collects."""
    if not is_private(folder):
        raise ExchangeError(f"{folder} exists and belongs to another user")
    end = time.monotonic() + _SETTLE_S
    while True:
        with contextlib.suppress(OSError):
            collector = read_ordinary(str(folder / _COLLECTOR)).decode("utf-8", "replace").strip()
            if collector and collector != str(step.rank):
                raise TakenError(f"task {collector} collects already")
            if collector:
                return
        if time.monotonic() > end:
            return
        time.sleep(_FIRST_POLL_S)


def _write(number: int | None, folder: Path, name: str, text: str) -> None:
    """Write a file of a folder that is open; raises OSError."""
    path = str(folder / name) if number is None else name
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags, 0o600, dir_fd=number), "w", encoding="utf-8") as file:
        file.write(text)


def _remove_old(number: int | None, folder: Path) -> None:
    """Records of a killed run of the same name; all times are those of the file system's own clock."""
    with contextlib.suppress(OSError), os.scandir(folder if number is None else number) as entries:
        found = {entry.name: entry.stat(follow_symlinks=False).st_mtime for entry in entries}
        for name, changed in found.items():
            if name != _COLLECTOR and changed < found[_COLLECTOR] - _FRESH_S:
                with contextlib.suppress(OSError):
                    os.unlink(str(folder / name) if number is None else name, dir_fd=number)


def _remove(folder: Path, number: int | None) -> None:
    """Remove the folder; a record that arrives meanwhile is removed with the second try."""
    for _ in range(3):
        with contextlib.suppress(OSError):
            remove_files(str(folder), number, _FILES)
        if not folder.exists():
            return
        time.sleep(_FIRST_POLL_S)


def send(base: Path, step: JobStep, text: str, wait_s: float) -> bool:
    """Write a record where the collecting task finds it; False where none made a folder within the time.

    :param wait_s: seconds to wait for the folder
    :raises ExchangeError: the folder is there and can't be written
    """
    folder = folder_of(base, step)
    end = time.monotonic() + wait_s
    pause = _FIRST_POLL_S
    while not _is_there(base, folder):
        if time.monotonic() >= end:
            return False
        time.sleep(min(pause, max(0.0, end - time.monotonic())))
        pause = min(pause * 1.5, _LAST_POLL_S)
    if not is_private(folder):
        raise ExchangeError(f"{folder} belongs to another user")
    draft, name = f"draft.{step.node or ''}.{os.getpid()}.{step.rank}", f"{_file_name(text, step)}.json"
    try:
        with private_folder(str(folder)) as number:
            at = "" if number is not None else str(folder / "_")[:-1]
            try:
                _write(number, folder, draft, text)
                os.replace(at + draft, at + name, src_dir_fd=number, dst_dir_fd=number)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(at + draft, dir_fd=number)
                raise
    except OSError as error:
        raise ExchangeError(f"the record can't be written in {folder}: {error.strerror}") from None
    return True


def _file_name(text: str, step: JobStep) -> str:
    """Return the host, so that a damaged record still has an owner, and the task, since names may clash."""
    host = json.loads(text)
    name = re.sub(r"[^\w.-]", "_", str(host.get("node") or host["host"]))[:120]
    return f"{step.rank if step.rank is not None else os.getpid()}+{name}"


def _is_there(base: Path, folder: Path) -> bool:
    """Return whether the folder exists on the server: opening a folder of NFS makes the client read it again.

    (open(2) revalidates what is cached of the folder: nfs(5), close-to-open cache consistency.)
    """
    with contextlib.suppress(OSError):
        os.close(os.open(base, os.O_RDONLY))
    return folder.exists()


def collect(folder: Path, step: JobStep, wait_s: float, own: HostReport) -> Collected:
    """The reports of all hosts, this one's included; those that do not come within the time are missing.

    :param wait_s: seconds from now
    """
    start = time.monotonic()
    reports = [own]
    read: set[str] = set()
    damaged: dict[str, tuple[float, str]] = {}
    pause = _FIRST_POLL_S
    while True:
        now = time.monotonic()
        for name in _names(folder):
            if name in read:
                continue
            try:
                found = from_text(read_ordinary(str(folder / name)))
            except (RecordError, OSError) as error:
                first, _ = damaged.get(name, (now, ""))
                why = str(error) if isinstance(error, RecordError) else f"it can't be read: {error.strerror}"
                damaged[name] = (first, why)
                continue
            read.add(name)
            damaged.pop(name, None)
            reports.append(found)
        settled = all(now - first >= _SETTLE_S for first, _ in damaged.values())
        complete = _complete(reports, len(damaged), step)
        if (complete and settled) or now - start >= wait_s:
            broken = tuple((_host_of(name), why) for name, (_, why) in sorted(damaged.items()))
            return Collected(tuple(reports), broken, complete, now - start)
        time.sleep(min(pause, max(0.0, start + wait_s - now)))
        pause = min(pause * 1.5, _LAST_POLL_S / 4)


def _complete(reports: list[HostReport], damaged: int, step: JobStep) -> bool:
    """All hosts have sent something: by their number, or by the tasks that they stand for."""
    if step.hosts is not None and len(reports) + damaged >= step.hosts:
        return True
    if step.tasks is not None:
        return sum(item.tasks for item in reports) + damaged >= step.tasks
    return step.hosts is None


def _names(folder: Path) -> list[str]:
    """The records that are there by now; a folder that can't be listed just now is listed again later."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".json"))
    except OSError:
        return []


def _host_of(name: str) -> str:
    return name.removesuffix(".json").partition("+")[2] or name


def _sweep(base: Path, *, but: Path) -> None:
    """Remove folders that killed runs of this user left in a folder, known by their name and by our file in them."""
    for old in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if old == but or time.time() - old.lstat().st_mtime <= _STALE_S:
                continue
            with private_folder(str(old)) as number:
                if _COLLECTOR in os.listdir(old if number is None else number):
                    remove_files(str(old), number, _FILES)
