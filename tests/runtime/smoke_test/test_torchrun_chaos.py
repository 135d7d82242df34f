"""Faults under a real torchrun: a rank is killed, stopped or hangs, and the report names it before torchrun ends all.

The draws are fixed, so that a run that fails can be repeated: its name tells all. A rank is two processes: the one that
torchrun started, which supervises, and its worker. Each is struck, from outside, while the group is at work.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from .ranks import free_port

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.quiet]

#: Runs in all; each takes 15 to 60 seconds.
RUNS = 40
KINDS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR2)
#: Seconds from the fault to the report: the longest that is promised.
NAMED_WITHIN_S = 20.0
#: Seconds that torchrun gives ranks to end after SIGTERM (PContext.close, torch 2.13); a stopped rank uses them all.
GRACE_S = 30.0

#: A process that hangs in Python, for as long as it lives.
HANGS = """\
import signal, time

def hang(number, frame):
    while True:
        time.sleep(1)

signal.signal(signal.SIGUSR2, hang)
"""


class Draw(NamedTuple):
    """One run."""

    number: int
    kind: signal.Signals
    #: the process that is struck: ``supervisor`` or ``worker``
    process: str
    rendezvous: str
    rank: int
    size: int
    #: seconds after all ranks began to verify results
    after_s: float


def draws() -> list[Draw]:
    chance = random.Random(20261127)
    found = []
    for number in range(RUNS):
        # every kind with both processes and both rendezvous, then from the front
        kind, process, rendezvous = (
            KINDS[number % 3],
            ("supervisor", "worker")[number // 3 % 2],
            ("static", "c10d")[number // 6 % 2],
        )
        size = chance.choice((2, 3, 4))
        # each rank 0 is as probable as all others together: it coordinates
        rank = 0 if chance.random() < 0.4 else chance.randrange(size)
        found.append(Draw(number, kind, process, rendezvous, rank, size, round(chance.uniform(0.0, 3.0), 2)))
    return found


def name_of(draw: Draw) -> str:
    return "-".join(
        (
            str(draw.number),
            draw.kind.name,
            draw.process,
            draw.rendezvous,
            f"{draw.rank}of{draw.size}",
            f"{draw.after_s:g}s",
        )
    )


def rendezvous_options(kind: str) -> tuple[str, ...]:
    port = free_port()
    if kind == "static":
        return ("--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={port}")
    return ("--nnodes=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-id=chaos{port}")


def supervisors_of(agent: psutil.Process) -> dict[int, psutil.Process]:
    """The processes that torchrun started, by rank."""
    found = {}
    for child in agent.children():
        try:
            found[int(child.environ()["RANK"])] = child
        except (KeyError, psutil.Error):
            continue
    return found


def at_work(folder: Path, size: int) -> bool:
    """Whether all ranks wrote that they are in the phase that takes long."""
    phases = []
    for rank in range(size):
        try:
            phases.append(json.loads((folder / f"rank-{rank:05d}.json").read_text())["record"]["phase"])
        except (OSError, ValueError, KeyError):
            return False
    return phases == ["verify"] * size


def strike(draw: Draw, agent: psutil.Process) -> None:
    supervisor = supervisors_of(agent)[draw.rank]
    struck = supervisor if draw.process == "supervisor" else supervisor.children()[0]
    os.kill(struck.pid, draw.kind)


@pytest.mark.timeout(240)
@pytest.mark.sampled(every=RUNS)
@pytest.mark.parametrize("draw", draws(), ids=name_of)
def test_the_rank_is_named_before_torchrun_ends_all(
    draw: Draw, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGS)
    records, report = tmp_path / "records", tmp_path / "report.json"
    path = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[3])))
    # a worker that hangs in its own code is found at the deadline of its phase, all else before it
    timeout = "12" if (draw.kind, draw.process) == (signal.SIGUSR2, "worker") else "40"
    command = (
        *(sys.executable, "-m", "torch.distributed.run", *rendezvous_options(draw.rendezvous)),
        *(
            f"--nproc-per-node={draw.size}",
            "-m",
            "distcheck.collective",
            "--backend",
            "gloo",
            "--output-dir",
            str(records),
        ),
        *("--check", "100000", "--timeout", timeout, "--output-format", "json", "-o", str(report)),
    )
    with open(tmp_path / "out", "w") as out:
        agent = psutil.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        try:
            end = time.monotonic() + 120.0
            while not at_work(records, draw.size):
                assert agent.poll() is None and time.monotonic() < end, (tmp_path / "out").read_text()
                time.sleep(0.1)
            time.sleep(draw.after_s)
            processes = [agent, *agent.children(recursive=True)]
            struck_at = time.time()
            strike(draw, agent)
            agent.wait(NAMED_WITHIN_S + GRACE_S + 20.0)
            seconds = time.time() - struck_at
        finally:
            for process in (agent, *agent.children(recursive=True)) if agent.poll() is None else ():
                process.kill()
    text = (tmp_path / "out").read_text()
    left = [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    for process in left:
        process.kill()
    assert report.exists(), text
    named_s = report.stat().st_mtime - struck_at
    failure = json.loads(report.read_text())["measurements"]["failure"]
    record_property("failure", failure["kind"])
    print(
        f"chaos: {name_of(draw)} named {failure['culprits']} as {failure['kind']} after {named_s:.1f} s, all ended {seconds:.1f} s"
    )
    assert failure["culprits"] == [draw.rank], failure
    assert named_s < NAMED_WITHIN_S
    assert seconds < NAMED_WITHIN_S + GRACE_S
    assert agent.returncode != 0
    assert not left, "a process was left"
