"""The positions of the ranks of a running job, read from outside: two samples of each process and its stack.

One sample cannot separate a hang from a slow step. A rank that is at the same line in both, and whose thread did not
wake up in between, hangs. :mod:`.processes`, :mod:`.stacks` and :mod:`.recorder_dumps` read the samples, and
:mod:`.snapshot_checks` judges them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from distcheck.checks.logs.model import Dump
from distcheck.core.files import read_ordinary
from distcheck.core.model import Unavailable, grouped
from distcheck.core.world import World
from distcheck.runtime.coordination.model import CollectiveCall, Frame, Position, Positions

from . import recorder_dumps, stacks
from .jobs import Job, RankProcess
from .processes import ThreadSample, look_at

#: Wake-ups a second of a waiting thread: it polls a store or a queue.
_WAKES_PER_S = 2.0
#: Share of the time between the two samples from which on a thread is busy: other threads may use the CPU too.
_BUSY = 0.05
#: Samples in between: a thread that is at one line in all of them and does nothing polls something.
_BETWEEN = 2
#: Processes whose stacks are read in parallel.
_AT_ONCE = 8
#: The most bytes of a source of which one line is read; the name of a source can be that of any file.
_LONGEST_SOURCE = 4 << 20
#: Methods of a tensor in which a thread waits for the GPU, and so for a queued collective.
_RESULTS = (".item(", ".cpu(", ".tolist(", ".numpy(", ".nonzero(")
#: Waits in which a thread does nothing, as the same line computes too.
_ONLY_IDLE = frozenset({"backward", "Work.wait"})


class Snapshot(NamedTuple):
    """One job as found on one host, or on several merged."""

    job: str
    positions: Positions
    #: hosts that were inspected
    hosts: tuple[str, ...] = ()
    #: seconds between the two samples
    interval_s: float = 0.0
    #: ranks at the same line in both samples, whose thread did not wake up in between
    still: tuple[int, ...] = ()
    #: ranks whose main thread used the CPU in between
    busy: tuple[int, ...] = ()
    #: ranks of which nothing is known here: on other hosts, or not visible
    elsewhere: tuple[int, ...] = ()
    #: rank → why its stack could not be read
    unseen: Mapping[int, str] = {}
    #: rank → other process IDs that claim it
    surplus: Mapping[int, tuple[int, ...]] = {}
    #: ranks whose flight recorder was read; why those of others were not
    recorded: tuple[int, ...] = ()
    unrecorded: Mapping[int, str] = {}
    #: ranks are numbered by the order of their start
    guessed: bool = False
    #: ranks whose other threads or children used the CPU, and whose main thread did not
    helped: tuple[int, ...] = ()


class _Observed(NamedTuple):
    look: ThreadSample
    threads: tuple[stacks.ThreadStack, ...] | Unavailable

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Return the stack of the main thread."""
        if isinstance(self.threads, Unavailable):
            return ()
        return next((thread.frames for thread in self.threads if thread.main), ())


def sample_twice(
    world: World, job: Job, *, interval_s: float, host: str, progress: Callable[[str], None] = lambda _: None
) -> Snapshot:
    """Sample all ranks of a job on this host twice."""
    try:
        program: str | Unavailable = stacks.find_py_spy(world)
    except Unavailable as unavailable:
        program = unavailable
    began = time.time()
    requested = recorder_dumps.request_dumps(job.ranks)
    first = _look(world, job.ranks, program)
    start = time.monotonic()
    progress(f"{len(job.ranks)} ranks, again in {interval_s:g} s")
    between = []
    for number in range(1, _BETWEEN + 1):
        _sleep_until(start + interval_s * number / (_BETWEEN + 1))
        between.append(_look(world, job.ranks, program))
    _sleep_until(start + interval_s)
    second = _look(world, job.ranks, program)
    between_s = time.monotonic() - start
    found = recorder_dumps.dumps(job.ranks, requested, began)
    return compose(
        job, first, second, found, between=between, host=host, interval_s=between_s,
        requested=requested, line_of=lambda item, frame: _source(world, item, frame),
    )  # fmt: skip


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def parent_waits(world: World, pid: int, folder: str = "", *, of_spawn: bool = False) -> bool | Unavailable:
    """Return whether a process waits for children that it started, or why that is unknown."""
    try:
        threads = stacks.read_stack(world, stacks.find_py_spy(world), pid, folder)
    except Unavailable as unavailable:
        return unavailable
    return any(stacks.waits_for_children(thread.frames, of_spawn=of_spawn) for thread in threads if thread.main)


def _look(world: World, ranks: Sequence[RankProcess], program: str | Unavailable) -> dict[int, _Observed]:
    def one(item: RankProcess) -> _Observed:
        look = look_at(world, item.pid)
        if isinstance(program, Unavailable) or look.state in ("", "Z", "X"):
            return _Observed(
                look, program if isinstance(program, Unavailable) else Unavailable("it has ended meanwhile")
            )
        try:
            return _Observed(look, stacks.read_stack(world, program, item.pid, item.process.folder))
        except Unavailable as unavailable:
            return _Observed(look, unavailable)

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return dict(zip((item.rank for item in ranks), pool.map(one, ranks), strict=True))


def _source(world: World, item: RankProcess, frame: Frame) -> str:
    """Return the source line of a frame; "" if it cannot be read."""
    path = frame.path if frame.path.startswith("/") else os.path.join(item.process.folder, frame.path)
    for seen in (f"/proc/{item.pid}/root{path}", path):
        try:
            text = read_ordinary(world.path(seen), _LONGEST_SOURCE).decode("utf-8", "replace")
            return text.splitlines()[frame.line - 1]
        except (OSError, IndexError):
            continue
    return ""


# composition: pure


def compose(
    job: Job,
    first: Mapping[int, _Observed],
    second: Mapping[int, _Observed],
    found: Mapping[int, Dump] = {},
    *,
    between: Sequence[Mapping[int, _Observed]] = (),
    host: str = "",
    interval_s: float = 0.0,
    requested: Mapping[int, str] = {},
    line_of: Callable[[RankProcess, Frame], str] = lambda item, frame: "",
) -> Snapshot:
    """Return two samples of each rank as one snapshot."""
    positions, still, busy, helped, unseen = [], [], [], [], {}
    for item in job.ranks:
        one, other = first[item.rank], second[item.rank]
        stands = _is_still(one, other, interval_s)
        works = other.look.state == "R" or other.look.cpu_s - one.look.cpu_s >= _BUSY * interval_s > 0
        around = other.look.around_s - one.look.around_s >= _BUSY * interval_s > 0
        polls = not stands and not works and _stands_in_all(one, other, [look[item.rank] for look in between])
        position = _position(item, one, other, stands, works, line_of)._replace(host=host)
        if polls and position.state == "computing" and position.call is None:
            position = position._replace(detail="polls")
        dump = found.get(item.rank)
        if dump is not None:
            position = position._replace(entered=recorder_dumps.entered(dump))
        call = None if dump is None else recorder_dumps.open_call(dump)
        if call is not None and position.state in ("computing", "waiting", "silent"):
            position = position._replace(state="waiting", call=_joined(call, position.call), detail="")
        positions.append(position._replace(since_s=interval_s if stands else 0.0))
        still.extend([item.rank] * stands)
        busy.extend([item.rank] * works)
        helped.extend([item.rank] * (around and not works))
        if isinstance(other.threads, Unavailable) and position.state not in ("left", "stopped"):
            unseen[item.rank] = other.threads.why
    positions += [Position(rank, host, state="left", detail="it has no process any more") for rank in job.ended]
    known = {position.rank for position in positions}
    groups = {recorder_dumps.group_name(name): ranks for dump in found.values() for name, ranks in dump.groups.items()}
    return Snapshot(
        job.name,
        Positions(tuple(sorted(positions, key=lambda item: item.rank)), job.world_size, 0.0, groups),
        (host,),
        round(interval_s, 3),
        tuple(still),
        tuple(busy),
        tuple(rank for rank in range(job.world_size) if rank not in known),
        unseen,
        {
            rank: tuple(item.pid for item in job.surplus if item.rank == rank)
            for rank in {item.rank for item in job.surplus}
        },
        tuple(sorted(found)),
        {rank: why for rank, why in requested.items() if rank not in found and why},
        job.numbered_by != "environment",
        tuple(helped),
    )


def _is_still(one: _Observed, other: _Observed, interval_s: float) -> bool:
    if isinstance(one.threads, Unavailable) or isinstance(other.threads, Unavailable):
        return False
    wakes = other.look.sleeps - one.look.sleeps
    return one.frames == other.frames and wakes <= _WAKES_PER_S * interval_s


def _stands_in_all(one: _Observed, other: _Observed, between: Sequence[_Observed]) -> bool:
    """Return whether a rank was at the same lines in all samples, however often it woke up: it polls something."""
    seen = (one, *between, other)
    return len(seen) > _BETWEEN and all(item.frames and item.frames == one.frames for item in seen)


def _position(
    item: RankProcess,
    one: _Observed,
    other: _Observed,
    still: bool,
    busy: bool,
    line_of: Callable[[RankProcess, Frame], str],
) -> Position:
    base = Position(item.rank, pid=item.pid, stack=other.frames)
    letter = other.look.state
    if letter in ("", "Z", "X"):
        return base._replace(state="left", detail="it has ended" + (", and it was not queried" * (letter == "Z")))
    if letter in ("T", "t"):
        by = f"by process {other.look.tracer}, which traces it" if other.look.tracer else "by a signal"
        return base._replace(state="stopped", detail=by)
    if isinstance(other.threads, Unavailable):
        return base._replace(state="silent", detail="no stack")
    if not other.frames:
        return base._replace(detail="its main thread runs no Python")
    call = stacks.call_of(other.frames) or _handle(item, other.frames[0], line_of)
    if call is not None and still and not (busy and call.operation in _ONLY_IDLE):
        return base._replace(state="waiting", call=call)
    if letter == "D" and one.look.state == "D" and still:
        return base._replace(call=call, detail="blocked in the kernel")
    detail = "" if still else "moves on"
    if still:
        detail = "uses the processor" if busy else "asleep"
    return base._replace(call=call, detail=detail)


def _handle(item: RankProcess, frame: Frame, line_of: Callable[[RankProcess, Frame], str]) -> CollectiveCall | None:
    """Return whether a wait for a handle, or for a result on the GPU, is in C++: only the source line shows it."""
    line = line_of(item, frame) if frame.own else ""
    if ".wait(" in line:
        return CollectiveCall(0, "Work.wait", place=frame.place, function=frame.function)
    if item.process.cuda and any(method in line for method in _RESULTS):
        return CollectiveCall(0, "cuda.synchronize", place=frame.place, function=frame.function)
    return None


def _joined(recorded: CollectiveCall, seen: CollectiveCall | None) -> CollectiveCall:
    """Return the call of the flight recorder with the location of the stack."""
    if recorded.place or seen is None:
        return recorded
    return recorded._replace(place=seen.place, function=seen.function)


def merge(snapshots: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """Return the snapshots of one job from several hosts as one, for each job."""
    jobs = grouped(snapshots, lambda item: (item.job, item.positions.world_size))
    return tuple(_merged(group) for group in jobs.values())


def _merged(group: Sequence[Snapshot]) -> Snapshot:
    first = group[0]
    if len(group) == 1:
        return first
    ranks = {position.rank: position for item in group for position in item.positions.ranks}
    groups = {name: members for item in group for name, members in item.positions.groups.items()}
    return Snapshot(
        first.job,
        first.positions._replace(ranks=tuple(ranks[rank] for rank in sorted(ranks)), groups=groups),
        tuple(dict.fromkeys(host for item in group for host in item.hosts)),
        min(item.interval_s for item in group),
        tuple(sorted({rank for item in group for rank in item.still})),
        tuple(sorted({rank for item in group for rank in item.busy})),
        tuple(rank for rank in range(first.positions.world_size) if rank not in ranks),
        {rank: why for item in group for rank, why in item.unseen.items()},
        {rank: pids for item in group for rank, pids in item.surplus.items()},
        tuple(sorted({rank for item in group for rank in item.recorded})),
        {rank: why for item in group for rank, why in item.unrecorded.items()},
        any(item.guessed for item in group),
        tuple(sorted({rank for item in group for rank in item.helped})),
    )
