"""Real jobs of two gloo ranks under ``torchrun -m distcheck.watch``: what hangs is named, what is only slow is not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEAD = """
import os, signal, sys, time
import torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(20)
"""
HANG_TIMEOUT_S = 2.0


class Ran(NamedTuple):
    output: str
    #: the report's JSON; None where none was written
    report: dict[str, Any] | None
    status: int | None
    #: seconds from the line "here" of the script to the report
    seconds: float | None

    @property
    def codes(self) -> list[str]:
        return [finding["code"] for finding in self.report["findings"]] if self.report else []

    @property
    def message(self) -> str:
        assert self.report is not None, self.output
        return str(self.report["findings"][0]["message"])


def run(
    folder: Path, body: str, *options: str, hangs: bool = True, limit_s: float = 180.0, head: str = HEAD, ranks: int = 2
) -> Ran:
    """Run it until it ends, or until its report is written: then the job is ended.

    :param hangs: False: it ends by itself, with a report or without
    :param ranks: 0: without a launcher
    """
    (folder / "train.py").write_text(head + body)
    report = folder / "report.json"
    output = folder / "output"
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
    command = [
        sys.executable, *launcher, "-m", "distcheck.watch",
        "--hang-timeout", str(HANG_TIMEOUT_S), "-o", str(report), *options, "train.py",
    ]  # fmt: skip
    with output.open("wb") as file:
        job = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    here = seen = None
    end = time.monotonic() + limit_s
    try:
        while job.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
            if here is None and (folder / "here").exists():
                here = time.monotonic()
            if hangs and report.exists():
                seen = time.monotonic()
                if "abort" in options:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        job.wait(30)
                break
    finally:
        status = job.poll()
        if status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            _end_children(folder)
    text = output.read_text(errors="replace")
    found = json.loads(report.read_text()) if report.exists() else None
    return Ran(text, found, status, seen - here if here and seen else None)


def _end_children(folder: Path) -> None:
    """torchrun puts ranks in sessions of their own; those that this test started are known by their folder."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if os.readlink(entry / "cwd") == str(folder):
                os.kill(int(entry.name), signal.SIGKILL)


def test_a_rank_that_leaves_the_loop_is_named_with_both_lines(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        """
for step in range(50):
    if rank == 1 and step == 30:
        open("here", "w").close()
        break
    dist.all_reduce(x)
""",
        hangs=False,
    )
    assert ran.codes == ["DC519"], ran.output
    assert "rank 0 waited in all_reduce #31 (float32 [20]) at train.py:14" in ran.message
    assert "rank 1 has ended with status 0, last in all_reduce #30 (float32 [20]) at train.py:14" in ran.message
    # the job failed by itself, as it does without us
    assert ran.status == 1


def test_a_reducer_that_waits_for_a_rank_in_a_barrier(tmp_path: Path) -> None:
    """No Python of torch is called for DDP's all_reduce: the group's counter and the flight recorder tell it."""
    ran = run(
        tmp_path,
        """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
for step in range(9):
    loss = model(torch.ones(2, 8)).sum()
    if rank == 1 and step == 5:
        open("here", "w").close()
        dist.barrier()
    loss.backward()
""",
    )
    assert ran.codes == ["DC701"], ran.output
    assert "calls barrier #11 at train.py:15; rank 0 calls all_reduce #11 (float32 [72]) at train.py:16" in ran.message
    assert ran.seconds is not None
    assert ran.seconds < HANG_TIMEOUT_S + 5


def test_of_four_ranks_the_one_whose_sizes_differ_is_named_though_gloo_ends_it(tmp_path: Path) -> None:
    """Whoever differs waits until it is told: a process that gloo ends would be the end of the one that tells."""
    ran = run(
        tmp_path,
        """
for step in range(20):
    dist.all_reduce(x)
if rank != 1:
    time.sleep(0.05)
dist.all_reduce(x[: 20 - (rank == 1)])
dist.barrier()
""",
        hangs=False,
        ranks=4,
    )
    assert ran.codes == ["DC709"], ran.output
    assert "call #21 of the default group differs in sizes: " in ran.message
    assert "rank 1 calls all_reduce #21 (float32 [19]) at train.py:14" in ran.message


def test_another_reduction_is_named_though_nothing_hangs(tmp_path: Path) -> None:
    """torch never compares it, and the result is silently wrong."""
    ran = run(
        tmp_path,
        """
for step in range(1200):
    dist.all_reduce(x, op=dist.ReduceOp.MAX if rank == 1 and step == 700 else dist.ReduceOp.SUM)
    time.sleep(0.004)
dist.destroy_process_group()
print("came to its end", flush=True)
""",
    )
    assert ran.codes == ["DC517"], ran.output
    assert "call #701 of the default group differs in reduction" in ran.message


@pytest.mark.parametrize(
    ("ranks", "body", "code"),
    [
        (3, "dist.all_reduce(x) if rank == 0 else dist.barrier()", "DC517"),
        # the last one comes when the others have waited for longer than the patience
        (3, "time.sleep(4 * (rank == 2)); dist.all_reduce(x) if rank == 2 else dist.barrier()", "DC517"),
        (2, "for op in ((dist.barrier, lambda: dist.all_reduce(x))[:: 1 - 2 * rank]): op()", "DC517"),
        (2, "dist.broadcast(x, rank); dist.barrier()", "DC709"),
    ],
    ids=["three", "late", "crossed", "roots"],
)
@pytest.mark.sampled(every=4)
def test_a_hang_after_calls_that_differ_ends_the_job(tmp_path: Path, ranks: int, body: str, code: str) -> None:
    ran = run(
        tmp_path,
        f"""
for step in range(3):
    dist.all_reduce(x)
open("here", "w").close()
{body}
""",
        "--on-hang",
        "abort",
        ranks=ranks,
    )
    assert ran.codes == [code], ran.output
    assert "call #4 of the default group differs in " in ran.message
    assert ran.status == 1, ran.output
    (line,) = [line for line in ran.output.splitlines() if line.startswith("distcheck watch: ")]
    assert line == (
        "distcheck watch: the job hangs because call #4 of the default group differs between ranks, and ends with "
        "status 1"
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("threading.Thread(target=threading.Event().wait).start()", "the script of rank 1 has ended, and its process"),
        ("held = Held()", "Timeout (0:00:12)!"),
    ],
    ids=["a thread", "a destructor"],
)
def test_a_process_that_does_not_end_after_its_script(tmp_path: Path, body: str, text: str) -> None:
    ran = run(
        tmp_path,
        f"""
import threading
class Held:
    def __del__(self, sleep=time.sleep):
        sleep(1000)
dist.all_reduce(x)
dist.destroy_process_group()
if rank:
    {body}
""",
        "--on-hang",
        "abort",
        hangs=False,
    )
    assert ran.status == 1, ran.output
    assert text in ran.output


@pytest.mark.parametrize("call", ["dist.all_reduce(x, op=dist.ReduceOp.MAX)", "dist.all_reduce(x.to(torch.int32))"])
@pytest.mark.sampled(every=2)
def test_calls_that_differ_and_do_not_hang_end_nothing(tmp_path: Path, call: str) -> None:
    ran = run(
        tmp_path,
        f"""
for step in range(3):
    dist.all_reduce(x)
{call} if rank else dist.all_reduce(x)
for step in range(12):
    time.sleep(0.5)
    dist.all_reduce(x)
dist.destroy_process_group()
print("came to its end", flush=True)
""",
        "--on-hang",
        "abort",
        hangs=False,
    )
    assert ran.codes == ["DC709"], ran.output
    assert ran.status == 0, ran.output
    assert ran.output.count("came to its end") == 2


def test_ranks_of_mp_spawn_and_a_call_in_a_thread(tmp_path: Path) -> None:
    """Nobody has made these processes ranks; the store is rank 0's own; and the main thread of rank 0 waits for one that
    waits in a collective. The job is ended with the verdict."""
    ran = run(
        tmp_path,
        """
import sys, threading, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    other = dist.new_group([0, 1])
    x = torch.ones(20)
    dist.all_reduce(x)
    if rank == 0:
        thread = threading.Thread(target=dist.barrier, args=(other,))
        thread.start()
        thread.join()
    dist.all_reduce(x)
if __name__ == "__main__":
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(work, args=(port,), nprocs=2)
""",
        "--on-hang",
        "abort",
        head="",
        ranks=0,
    )
    assert len(ran.codes) == 1, ran.output
    assert "rank 0 waits in barrier #1 of group" in ran.message
    assert "rank 1 waits in all_reduce #2 (float32 [20]) at train.py:14" in ran.message
    assert ran.status == 1


@pytest.mark.full
def test_a_healthy_job_that_is_slow_is_left_alone(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        """
if rank == 0:
    time.sleep(7)                       # prepares data, the others wait for it
dist.barrier()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
for step in range(3):
    model(torch.ones(2, 8)).sum().backward()
if rank == 1:
    end = time.monotonic() + 5
    while time.monotonic() < end:       # saves a checkpoint
        sum(range(1000))
work = dist.all_reduce(x, async_op=True)
work.wait()
objects = [None, None]
dist.all_gather_object(objects, "x" * (rank + 1))
gathered = [torch.zeros(20) for _ in range(2)] if rank == 0 else None
dist.gather(x, gathered, dst=0)
dist.destroy_process_group()
print("came to its end", flush=True)
""",
        hangs=False,
    )
    assert ran.status == 0, ran.output
    assert ran.output.count("came to its end") == 2
    # one line at its end, and nothing was found
    (line,) = [line for line in ran.output.splitlines() if "distcheck" in line]
    assert line.startswith("distcheck watch: 2 ranks, "), line
    assert "(rank 0, which came last)" in line
    assert "waited for others most in barrier at train.py:12" in line
    assert ran.report is not None
    assert ran.report["findings"] == []
    assert ran.report["subject"]["calls"]["last"] == 0
