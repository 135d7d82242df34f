"""Ranks for tests, forked from the warm process of the tests: supervisors as torchrun would start them, with faults.

Each "process" here is what a launcher would start for one rank: it meets the others in one store, watches its own
worker, and leaves what it would print in a file. Nothing but the launcher is left out.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from distcheck.checks.cluster.records import HostRecord, RankRecord
from distcheck.core.model import Report
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.smoke_test import run
from distcheck.runtime.smoke_test.model import Options
from distcheck.runtime.smoke_test.worker import WorkerHooks


class Said(NamedTuple):
    """What one launched process did."""

    rank: int
    #: exit status; negative for a signal
    status: int | None
    #: the report that it would have printed, None where it was silent
    report: dict[str, Any] | None
    seconds: float


def free_port() -> int:
    """A port that nobody holds right now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def inspected(rank_infos: tuple[RankInfo, ...], host: str = "host") -> run.HostResult:
    """A look that found nothing, on a host without GPUs."""
    ranks = tuple(
        RankRecord(
            rank_info.rank,
            rank_info.local_rank,
            rank_info.world_size,
            rank_info.local_world_size,
            rank_info.node_rank,
            os.getpid(),
        )
        for rank_info in rank_infos
    )
    record = HostRecord(host, ranks, "boot", {"uts": "1"}, versions={"torch": "2.13.0"}, backends=("gloo",))
    return run.HostResult(Report("env", subject={"host": host}), record)


def run_alone(size: int, options: Options = Options(), seams: WorkerHooks = WorkerHooks(), **asked: Any) -> Report:
    """All ranks of one supervisor, in this process."""
    rank_infos = tuple(RankInfo(rank, size, rank, size, 0) for rank in range(size))
    ended = run.run(rank_infos, inspected(rank_infos), run.Request(options=options, seams=seams, **asked))
    assert ended.report is not None
    ended.publish(0)
    report = ended.report
    del ended
    # the store goes here, where its thread is, and not in a process that is forked later
    gc.collect()
    return report


def launch(
    size: int,
    folder: Path,
    options: Options = Options(),
    seams: WorkerHooks = WorkerHooks(),
    *,
    limit_s: float = 60.0,
    per_node: int | None = None,
    disturb: Callable[[dict[int, Any]], None] | None = None,
    as_torchrun: bool = True,
    prepare: Callable[[int], None] | None = None,
    agent_store: bool = False,
    rank_infos: tuple[RankInfo, ...] | None = None,
    **asked: Any,
) -> tuple[Said, ...]:
    """One process a rank, each with its supervisor and its worker; what each of them said.

    :param disturb: called with the processes by rank once they run
    :param as_torchrun: end all others with SIGTERM when the first one fails, as torchrun does
    :param prepare: runs in each launched process before anything else
    """
    context = multiprocessing.get_context("fork")
    port = free_port()
    local = per_node or size
    places = rank_infos or tuple(
        RankInfo(rank, size, rank % local, local, rank // local, "127.0.0.1", port, agent_store) for rank in range(size)
    )
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    processes: dict[int, Any] = {}
    for number, rank_info in enumerate(places):
        place = rank_info._replace(master_port=port)
        processes[number] = context.Process(
            target=_process, args=(place, number, folder, options, seams, asked, prepare)
        )
        processes[number].start()
    if disturb is not None:
        disturb(processes)
    seconds: dict[int, float] = {}
    ended_at: float | None = None
    while len(seconds) < len(processes):
        now = time.monotonic() - begun
        for rank, process in processes.items():
            if rank not in seconds and process.exitcode is not None:
                seconds[rank] = now
                if process.exitcode != 0 and as_torchrun and ended_at is None:
                    ended_at = now
                    for other in processes.values():
                        if other.exitcode is None:
                            other.terminate()
        # torchrun's own grace is 30 s; a stopped process takes no other signal
        if now > limit_s or (ended_at is not None and now > ended_at + 9.0):
            for rank, process in processes.items():
                if rank not in seconds:
                    process.kill()
                    process.join(5)
                    seconds[rank] = now
        time.sleep(0.01)
    return tuple(
        Said(rank, process.exitcode, _told(folder / f"{rank}.json"), round(seconds[rank], 2))
        for rank, process in processes.items()
    )


def _process(
    rank_info: RankInfo,
    number: int,
    folder: Path,
    options: Options,
    seams: WorkerHooks,
    asked: dict[str, Any],
    prepare: Any,
) -> None:
    status = 1
    gc.freeze()
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if prepare is not None:
            prepare(rank_info.rank)
        host = f"host{rank_info.node_rank or 0}"
        ended = run.run((rank_info,), inspected((rank_info,), host), run.Request(options=options, seams=seams, **asked))
        if ended.report is None:
            status, _ = ended.hear()
        else:
            status = 1 if any(item.severity.word == "error" for item in ended.report.findings) else 0
            (folder / f"{number}.json").write_text(json.dumps(ended.report.as_dict()))
            ended.keep(ended.report.as_dict())
            ended.publish(status)
    finally:
        os._exit(status)


def _told(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found
