"""Many runs, each with a fault at a place that was drawn: no hang, the right rank and phase, nothing left behind.

The draws are fixed, so that a run that fails can be repeated: its name tells all.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from distcheck.runtime.smoke_test.live_group import Operations
from distcheck.runtime.smoke_test.model import Options, Step

from . import ranks

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.quiet]

#: Runs in all; each takes one to ten seconds.
RUNS = 64
KINDS = ("kill", "kill-supervisor", "stop", "stop-supervisor", "raise", "exit", "cut", "slow", "wrong")
PHASES = ("start", "verify", "measure", "stragglers")
TIMEOUT_S = 6.0
OPTIONS = Options(timeout_s=TIMEOUT_S, min_bytes=1024, max_bytes=4096, iterations=3, warmup=1, pairs=True)


class Draw(NamedTuple):
    """One run."""

    number: int
    kind: str
    phase: str
    rank: int
    size: int
    #: at which of the phase's steps
    step: int
    #: one supervisor for all ranks, or one each as a launcher starts them
    together: bool


def draws() -> list[Draw]:
    chance = random.Random(20261121)
    found = []
    for number in range(RUNS):
        kind = KINDS[number % len(KINDS)]
        size = chance.choice((2, 3, 4))
        # a supervisor of all ranks can't be lost: the run is lost with it
        together = not kind.endswith("supervisor") and kind != "cut" and chance.random() < 0.4
        phase = "verify" if kind == "wrong" else chance.choice(PHASES)
        found.append(Draw(number, kind, phase, chance.randrange(size), size, chance.choice((1, 2, 3)), together))
    return found


class Chaos:
    """Strikes before a step."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.seen = 0

    def __call__(self, rank: int, step: Step) -> None:
        draw = self.draw
        if rank != draw.rank or step.phase != draw.phase:
            return
        self.seen += 1
        if draw.kind == "slow":
            time.sleep(0.02)
        if self.seen != min(draw.step, 2 if draw.phase == "start" else 3):
            return
        if draw.kind == "raise":
            raise ValueError("out of luck")
        if draw.kind == "exit":
            os._exit(7)
        if draw.kind == "cut":
            _cut_off(os.getpid())
            os.kill(os.getppid(), signal.SIGUSR2)
            time.sleep(0.1)
        strikes = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
        name, _, whose = draw.kind.partition("-")
        if name in strikes:
            os.kill(os.getppid() if whose else os.getpid(), strikes[name])


def _cut_off(_number: int, _frame: object = None) -> None:
    """All connections of this process end, as if its network had gone."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


class Wrong(Operations):
    """One rank's result of one collective is wrong in one element."""

    rank = -1

    def all_reduce(self, tensor: Any) -> None:
        super().all_reduce(tensor)
        if self.dist.get_rank() == self.rank and tensor.numel() > 1000:
            tensor[17] += 1


def wrong_on(rank: int) -> Callable[[], Operations]:
    class Here(Wrong):
        pass

    Here.rank = rank
    return Here


def processes_of(session: int) -> set[int]:
    """Every process of this test's process group that is not a zombie."""
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == session and fields[0] != "Z":
            found.add(int(name))
    return found


def leftovers() -> set[str]:
    """Files that the smoke test might leave: temporary ones and shared memory."""
    found: set[str] = set()
    for folder, marks in (("/dev/shm", ("distcheck", "torch_", "pym", "gloo", "nccl")), ("/tmp", ("distcheck",))):
        if os.path.isdir(folder):
            found |= {f"{folder}/{name}" for name in os.listdir(folder) if name.startswith(marks)}
    # the cache folders of tests that run next to this one (tests/conftest.py)
    return {path for path in found if not path.startswith("/tmp/distcheck-tests-")}


@pytest.mark.parametrize("draw", draws(), ids=lambda draw: "-".join(map(str, draw)))
@pytest.mark.sampled(every=16)
def test_a_fault_at_random(draw: Draw, tmp_path: Path) -> None:
    import torch.distributed  # noqa: F401 - once, before the forks

    before, files = processes_of(os.getpgid(0)), leftovers()
    seams = ranks.WorkerHooks(wrong_on(draw.rank) if draw.kind == "wrong" else Operations, Chaos(draw))
    begun = time.monotonic()
    if draw.together:
        report = ranks.run_alone(draw.size, OPTIONS, seams)
        spoken = [report.as_dict()]
        slowest = time.monotonic() - begun
    else:
        said = ranks.launch(
            draw.size, tmp_path, OPTIONS, seams, limit_s=90.0,
            prepare=lambda _rank: signal.signal(signal.SIGUSR2, _cut_off) and None,
        )  # fmt: skip
        spoken = [item.report for item in said if item.report is not None]
        # one that was killed, or stopped until the launcher killed it, can say nothing
        struck = draw.rank if draw.kind.endswith("supervisor") else None
        slowest = max(item.seconds for item in said if item.rank != struck)
        statuses = {item.rank: item.status for item in said if item.rank != struck}
        # one that has left the smoke test may still be ended by the launcher
        assert set(statuses.values()) <= ({0} if draw.kind == "slow" else {1, -signal.SIGTERM}), statuses
    # no phase may take longer than its limit; those before the fault took their own time
    assert slowest < TIMEOUT_S + 5.0 + 15.0 * (draw.kind == "slow") + (
        20.0 if draw.phase in ("measure", "stragglers") else 6.0
    )
    assert spoken, "nobody spoke"
    judge(draw, spoken)
    time.sleep(0.05)
    assert processes_of(os.getpgid(0)) <= before, "a process was left"
    assert leftovers() <= files


def judge(draw: Draw, spoken: list[dict[str, Any]]) -> None:
    """The right phase and rank, in whatever was said."""
    found = spoken[0]
    failure = found["measurements"]["failure"]
    codes = {item["code"] for item in found["findings"] if item["severity"] == "error"}
    if draw.kind == "slow":
        assert failure is None
        assert codes == set()
        return
    if draw.kind == "wrong":
        assert "DC510" in codes
        [finding] = [item for item in found["findings"] if item["code"] == "DC510"][:1]
        assert finding["where"].get("rank", finding["where"].get("ranks")) in (draw.rank, str(draw.rank))
        return
    assert failure is not None, found["measurements"]["sentence"]
    assert codes & {"DC501", "DC511", "DC512"}, codes
    culprits = {rank for plain in spoken for rank in plain["measurements"]["failure"]["culprits"]}
    if draw.kind == "cut" or (draw.kind.endswith("supervisor") and draw.rank == 0):
        # what served the store went with rank 0, or the way to it: then each host says that it lost the others
        assert culprits <= {draw.rank} or failure["kind"] == "lost"
    else:
        assert culprits == {draw.rank}
    phases = {plain["measurements"]["failure"]["phase"] for plain in spoken}
    # a supervisor that is gone, or that nobody can reach, says nothing of its own: the others may have been one phase behind
    # or ahead, as where rank 0 is cut off in the first step of a phase that the others have not entered yet
    apart = draw.kind.endswith("supervisor") or (draw.kind == "cut" and draw.rank == 0)
    order = ["membership", "compare", *PHASES, "end"]
    assert all(abs(order.index(phase) - order.index(draw.phase)) <= apart for phase in phases)
