"""What a host had too little of, as the log of a dead job shows it: memory, shared memory, files, threads, disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix
from distcheck.rules import shared_fixes

from .context import came_through, failed_elsewhere, hosts_of, ranks_text, value_of
from .log_probe import LogFinding, log_probe, signature_probe
from .model import ENDED_BY_SIGTERM, Event, Timeline, WorkerFailure

#: Code of Python that allocates in /dev/shm and only reports that no space is left: heaps, semaphores.
_SHARED_MEMORY_CODE = ("multiprocessing/heap.py", "multiprocessing/synchronize.py", "multiprocessing/shared_memory.py")
_SHARED_MEMORY_WORDS = ("/dev/shm", "shm", "nccl-", "torch_")
#: Exit codes of a process that the kernel killed: as Python has it, and as shells and containers have it.
_KILLED = (-9, 137)
_BUS_ERROR = (-7, 135)
#: A scheduler or user that ends a job kills it as well.
_ENDED_FROM_OUTSIDE = ("CANCELLED", "TIME LIMIT", "PREEMPT", "Preempt", "scancel", "KeyboardInterrupt", "SIGINT")
_SMALL_SIZE = "16g"


# /dev/shm


@log_probe(rules.DC320, at_first_failed=True)
def shared_memory_was_too_small(timeline: Timeline) -> Iterator[LogFinding]:
    """/dev/shm was full: by NCCL's words, by torch's, or by a worker that died of a bus error.

    ``No space left on device`` alone is a disk (DC327), unless the text or the traceback leads to shared memory.
    """
    events = [event for event in timeline.of("shm-full") if _is_full(event)]
    events += [event for event in timeline.of("disk-full") if is_about_shared_memory(event)]
    events = in_order(timeline, events)
    if not events:
        yield from _died_of_a_bus_error(timeline)
        return
    file = value_of(events, "file")
    size = value_of(events, "bytes")
    wanted = f" for {int(size):,} bytes more" if size and size.isdecimal() else ""
    where = f" ({file})" if file else ""
    by_worker = any("DataLoader" in event.text or "in worker" in event.text for event in events)
    who = ranks_text(events)
    yield LogFinding(
        events,
        f"{'a data-loader worker of ' + who if who and by_worker else 'a data-loader worker'} died of a bus error: "
        "/dev/shm, through which it hands over its batches, is full"
        if by_worker and not size
        else f"/dev/shm has no room{wanted}{where}{' on ' + who if who else ''}",
        _enlarge_shared_memory(timeline),
    )


def _is_full(event: Event) -> bool:
    """Whether it was for want of room: a segment may be refused for other reasons, which the text then names."""
    why = (event.values.get("why") or "").strip()
    return not why or "No space" in why or "Cannot allocate" in why


def is_about_shared_memory(event: Event) -> bool:
    """Whether a device without space is /dev/shm."""
    return any(word in event.text for word in _SHARED_MEMORY_WORDS) or came_through(event, *_SHARED_MEMORY_CODE)


def in_order(timeline: Timeline, events: Sequence[Event]) -> list[Event]:
    """Events of several signatures in the order of the story, each line once."""
    lines = {(event.source, event.line) for event in events}
    names = {event.signature for event in events}
    chosen: dict[tuple[int, int], Event] = {}
    for event in timeline.events:
        if (event.source, event.line) in lines and event.signature in names:
            chosen.setdefault((event.source, event.line), event)
    return list(chosen.values())


def _died_of_a_bus_error(timeline: Timeline) -> Iterator[LogFinding]:
    rows = [worker for worker in timeline.workers if worker.exitcode in _BUS_ERROR]
    events = list(timeline.of("bus-error"))
    if not events or (timeline.workers and not rows) or timeline.went_on:
        return
    if failed_elsewhere(timeline, events, ("bus-error",)) is not None:
        return
    rows = _first_ahead(timeline, rows)
    who = ranks_text(events) or _rank_of(rows)
    yield LogFinding(
        events,
        f"{who or 'a process'} died of a bus error (SIGBUS): mostly that is /dev/shm, which is full when NCCL or a "
        "data loader writes to it",
        _enlarge_shared_memory(timeline),
        rank=rows[0].rank if rows else None,
    )


def _enlarge_shared_memory(timeline: Timeline) -> Fix:
    if _in_kubernetes(timeline):
        return shared_fixes.memory_volume(_SMALL_SIZE)
    return Fix(
        f"start the container with --shm-size={_SMALL_SIZE} or --ipc=host (Docker, Podman), or mount a memory volume "
        "at /dev/shm (Kubernetes: emptyDir with 'medium: Memory'); on a host without container remove what crashed "
        "runs left there ('ls -l /dev/shm')",
        where="launch-line",
    )


def _in_kubernetes(timeline: Timeline) -> bool:
    """Whether the hosts are named as pods are."""
    hosts = hosts_of(timeline)
    return any("-worker-" in host or "-master-" in host for host in hosts) or timeline.has("pod-failed")


def _in_slurm(timeline: Timeline) -> bool:
    return any("slurmstepd" in event.text or "srun:" in event.text for event in timeline.events)


def _first_ahead(timeline: Timeline, rows: Sequence[WorkerFailure]) -> list[WorkerFailure]:
    """The rows with the process ahead that the launcher saw fail first, if it is one of them or its code is cut off."""
    first = [row for row in timeline.workers if rows and row.first and (row in rows or row.exitcode is None)]
    return first[:1] + [row for row in rows if row not in first[:1]]


def _rank_of(rows: Sequence[WorkerFailure]) -> str:
    return f"rank {rows[0].rank}" if rows and rows[0].rank is not None else ""


# descriptors, locked memory, threads


@log_probe(rules.DC321, at_first_failed=True)
def files_could_be_opened(timeline: Timeline) -> Iterator[LogFinding]:
    """A process ran into its limit of open files; ``received 0 items of ancdata`` is the same limit elsewhere."""
    events = in_order(timeline, timeline.of("too-many-files", "shared-object-not-opened"))
    named = [event for event in events if event.signature == "too-many-files"]
    full = {(event.source, event.line) for event in timeline.of("shm-full", "disk-full")}
    events = named or [event for event in events if (event.source, event.line) not in full]
    if not events:
        return
    passed = any("ancdata" in event.text or "shared memory object" in event.text for event in events)
    sharing = (
        '; torch.multiprocessing.set_sharing_strategy("file_system") hands over tensors without descriptors'
        if passed
        else ""
    )
    who = ranks_text(events)
    yield LogFinding(
        events,
        f"{who or 'a process'} ran into its limit of open files"
        + (": each tensor that a data-loader worker hands over takes one" if passed else ""),
        Fix(
            f"raise the soft limit in the job script, before the launch, on every node{sharing}",
            command="ulimit -n 65536",
            where="job-script",
        ),
    )


@signature_probe(rules.DC322, "locked-memory", at_first_failed=True)
def memory_could_be_locked(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """The RDMA library could not pin memory: ``Cannot allocate memory`` of an ibv_ call is a limit, and no lack."""
    limit = value_of(timeline.of("locked-memory-small"), "bytes")
    current = value_of(events, "current") or (f"{int(limit):,} bytes" if limit and limit.isdecimal() else None)
    call = value_of(events, "call")
    return LogFinding(
        events,
        f"memory could not be locked for RDMA{f' (ibv_{call})' if call else ''}: the limit of locked memory is "
        + (current or "too low"),
        _lock_more(timeline),
    )


def _lock_more(timeline: Timeline) -> Fix:
    if _in_slurm(timeline):
        return shared_fixes.LOCK_MORE_IN_SLURM
    return Fix(
        "start the container with --ulimit memlock=-1 (Kubernetes: capability IPC_LOCK); without container have an "
        "administrator allow it ('memlock unlimited' in /etc/security/limits.conf for logins, LimitMEMLOCK=infinity "
        "for the daemon that starts the job)",
        where="launch-line",
    )


@signature_probe(rules.DC324, "thread-limit", at_first_failed=True)
def threads_could_be_started(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """A process or thread could not be started: the limit of the user, of the container or of the service."""
    number = value_of(events, "threads")
    who = ranks_text(events)
    return LogFinding(
        events,
        f"{who or 'a process'} could not start another thread or process"
        + (f" (it wanted {number} of them)" if number else "")
        + ": the limit of processes is reached",
        Fix(
            "set OMP_NUM_THREADS=1 and start fewer data-loader workers, or raise the limit (ulimit -u in the job "
            "script; docker run --pids-limit=-1; podPidsLimit of the kubelet; TasksMax of the service)",
            command="export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1",
            where="job-script",
        ),
    )


@signature_probe(rules.DC325, "many-workers", at_first_failed=True)
def workers_fit_the_cpus(timeline: Timeline, events: Sequence[Event]) -> LogFinding:
    """A data loader has more workers than this rank has CPUs; slow, and never why a job died."""
    workers, most = value_of(events, "workers"), value_of(events, "most")
    return LogFinding(
        events,
        f"each rank's data loader starts {workers} workers, and only {most} CPUs are there for them",
        Fix(
            f"give the ranks more CPUs (--cpus-per-task, at the srun as well; resources.limits.cpu; docker --cpus), or "
            f"num_workers={most}",
            where="job-script",
        ),
        notice=True,
    )


# the host's memory


@log_probe(rules.DC323, at_first_failed=True)
def memory_was_enough(timeline: Timeline) -> Iterator[LogFinding]:
    """The host, the container or the job ran out of memory (a GPU prints ``CUDA out of memory``).

    The kernel, the scheduler or the orchestrator reports it; or a process could not allocate; or SIGKILL is all that is
    seen of the process that failed first. A SIGKILL that the launcher or the scheduler sent itself, or that comes after
    another rank's failure, is no sign of it.
    """
    reported = [event for event in timeline.of("oom-killed", "host-allocation") if not _is_about_rdma(event)]
    reported = reported or [event for event in timeline.of("exception") if event.text.strip() == "MemoryError"]
    if reported:
        yield _out_of_memory(timeline, reported)
        return
    events = [event for event in timeline.of("sigkilled") if not _was_sent(timeline, event)]
    rows = _killed_first(timeline)
    if not events or timeline.went_on or (timeline.workers and not rows):
        return
    if _ended_from_outside(timeline, events[0]) or _others_failed(timeline, events, rows):
        return
    who = _rank_of(rows) or ranks_text(events) or "a process"
    host = next((row.host for row in rows if row.host), None) or value_of(events, "node")
    yield LogFinding(
        events,
        f"{who}{f' on {host}' if host else ''} was killed (SIGKILL) before anything else failed, which is mostly the "
        "kernel that had no memory left for it",
        _more_memory(timeline, sure=False),
        rank=rows[0].rank if rows else None,
        evidence={"host": host} if host else None,
    )


def _out_of_memory(timeline: Timeline, events: list[Event]) -> LogFinding:
    first = events[0]
    rows = _first_ahead(timeline, [row for row in timeline.workers if row.exitcode in _KILLED])
    pids = {event.values.get("pid") for event in events}
    row = next((row for row in rows if row.pid is not None and str(row.pid) in pids), rows[0] if rows else None)
    who = ranks_text(events) or (f"rank {row.rank}" if row is not None and row.rank is not None else "a process")
    size = value_of(events, "size") or _gib(value_of(events, "bytes"))
    if first.signature in ("host-allocation", "exception"):
        message = f"{who} found no memory on its host" + (f" for {size}" if size else "")
    elif "DataLoader" in first.text:
        message = f"a data-loader worker of {who} was killed, mostly because the host or container is out of memory"
    else:
        message = f"{who} was killed because the host, container or job was out of memory"
    rank = row.rank if row is not None and first.who.rank is None else None
    return LogFinding(events, message, _more_memory(timeline, sure=True), rank=rank)


def _is_about_rdma(event: Event) -> bool:
    """Whether memory was only not to be locked."""
    return "ibv_" in event.text or "NCCL WARN" in event.text


def _gib(size: str | None) -> str | None:
    return f"{int(size) / (1 << 30):.1f} GiB" if size and size.isdecimal() else None


def _killed_first(timeline: Timeline) -> list[WorkerFailure]:
    """The rows of a launcher's report of processes that were killed, if the one that it saw first is one of them."""
    killed = [row for row in timeline.workers if row.exitcode in _KILLED]
    firsts = [row for row in timeline.workers if row.first] or [
        row for row in timeline.workers if row.exitcode not in ENDED_BY_SIGTERM
    ]
    return [row for row in firsts if row in killed][:1] or ([] if firsts else killed)


def _was_sent(timeline: Timeline, event: Event) -> bool:
    """Whether the launcher sent the signal itself, to a process that ignored SIGTERM."""
    forced = {sent.values.get("pid") for sent in timeline.of("forced-kill")}
    return event.values.get("pid") in forced - {None}


def _ended_from_outside(timeline: Timeline, event: Event) -> bool:
    """Whether a scheduler or a person ended the job before."""
    for other in timeline.events:
        if other is event:
            return False
        if any(word in other.text for word in _ENDED_FROM_OUTSIDE):
            return True
    return False


def _others_failed(timeline: Timeline, events: Sequence[Event], rows: Sequence[WorkerFailure]) -> bool:
    """Whether another process had failed by then, in words of its own."""
    rank = rows[0].rank if rows else None
    for other in timeline.events:
        if other.signature in ("sigkilled", "error-line") or other.kind.name not in ("CAUSE", "FAILURE"):
            continue
        if other.attempt > events[0].attempt or "ChildFailedError" in other.text or "SIGKILL" in other.text:
            continue
        if other.who.rank is not None and rank is not None and other.who.rank == rank:
            return True
        if not _is_of_peers(other) and not _follows(other, events[0], rows):
            return True
    return False


def _is_of_peers(event: Event) -> bool:
    """Whether a failure is what a lost peer looks like."""
    return any(
        word in event.text
        for word in ("Connection reset", "Connection closed", "Broken pipe", "ncclRemoteError", "got 0 bytes", "peer")
    )


def _follows(event: Event, killed: Event, rows: Sequence[WorkerFailure]) -> bool:
    """Whether a failure came after the kill; a report's lines stand at the end, whenever it happened."""
    moment = next((row.time for row in rows if row.time is not None), None)
    if moment is not None and event.time is not None:
        return event.time > moment
    return event.source == killed.source and event.line > killed.line


def _more_memory(timeline: Timeline, *, sure: bool) -> Fix:
    look = "" if sure else "see whether it was memory ('dmesg | grep -i oom', 'sacct -o MaxRSS,State'); then "
    if _in_slurm(timeline) or _in_kubernetes(timeline):
        more = shared_fixes.MORE_MEMORY_IN_SLURM if _in_slurm(timeline) else shared_fixes.MORE_MEMORY_IN_A_POD
        return more._replace(text=f"{look}{more.text}")
    return Fix(
        f"{look}give it more memory (--mem in Slurm, resources.limits.memory in Kubernetes, --memory in Docker), or "
        f"start fewer ranks on this host, or {shared_fixes.LESS_MEMORY}",
        where="job-script",
    )


# disks


@log_probe(rules.DC327, at_first_failed=True)
def disk_had_room(timeline: Timeline) -> Iterator[LogFinding]:
    """A file could not be written for want of room, or the quota is used up; /dev/shm is another rule's (DC320)."""
    shared = {(event.source, event.line) for event in timeline.of("shm-full")}
    events = [
        event
        for event in timeline.of("disk-full")
        if (event.source, event.line) not in shared and not is_about_shared_memory(event)
    ]
    events += timeline.of("no-scratch", "socket-path", "shm-refused")
    if not events and not timeline.of("shm-full"):
        events = list(timeline.of("write-failed"))
    events = in_order(timeline, events)
    if not events:
        yield from _shares_a_compile_cache(timeline)
        return
    first = events[0]
    file = value_of(events, "file")
    yield LogFinding(events, _disk_text(first, file), _make_room(first, file))


#: Folders and code of the caches of compiled kernels.
_COMPILE_CACHES = re.compile(r"[/.](?:triton|torchinductor|inductor|torch_extensions|nv/ComputeCache)[\w.-]*/")


def _shares_a_compile_cache(timeline: Timeline) -> Iterator[LogFinding]:
    """A file of a cache of compiled kernels was replaced by another host, or can't be locked where it is shared."""
    events = [
        event
        for event in timeline.of("stale-handle")
        if _COMPILE_CACHES.search(event.values.get("file") or "")
        or came_through(event, "/triton/", "torch/_inductor/", "torch/utils/cpp_extension", "torch/utils/file_baton")
    ]
    if events:
        file = value_of(events, "file")
        yield LogFinding(
            events,
            f"the cache of compiled kernels is on a file system that hosts share{f' ({file})' if file else ''}: one "
            "host replaces a file while another reads it",
            Fix(
                "give each host a cache on its own disk, in the job script, so that every rank gets it",
                command="export TRITON_CACHE_DIR=/tmp/$USER/triton TORCHINDUCTOR_CACHE_DIR=/tmp/$USER/inductor",
                where="job-script",
            ),
        )


def _disk_text(event: Event, file: str | None) -> str:
    of = f" ({file})" if file else ""
    if event.signature == "socket-path":
        return "the path of the folder for temporary files is too long for a socket in it (108 bytes)"
    if event.signature == "shm-refused":
        return "/dev/shm can't be written: permission denied"
    if event.signature == "no-scratch":
        return "no folder for temporary files can be written"
    if event.signature == "write-failed":
        return "a checkpoint could not be written to its end, which is mostly a full disk or a used-up quota"
    if event.values.get("quota"):
        return f"the quota of the file system is used up{of}"
    return f"a file system is full{of}"


def _make_room(event: Event, file: str | None) -> Fix:
    if event.signature in ("socket-path", "no-scratch"):
        return Fix(
            "name a short folder of yours with room in it as TMPDIR, in the job script, so that every rank gets it",
            command='export TMPDIR="$HOME/tmp"',
            where="job-script",
        )
    if event.signature == "shm-refused":
        return Fix(
            "let its administrator restore the mode of /dev/shm on each host: chmod 1777 /dev/shm; it should read "
            "drwxrwxrwt",
            command="ls -ld /dev/shm",
            where="host",
        )
    what = "quota -s" if event.values.get("quota") else "df -h"
    return Fix(
        f"remove what is no longer needed there (old checkpoints, caches in ~/.cache), or point the output, TMPDIR and "
        f"caches to a file system with room; '{what}' shows how full they are",
        command=what,
        where="job-script",
    )
