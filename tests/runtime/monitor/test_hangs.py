"""Jobs that really hang, under `watch` and under `rehearse`: named soon, with the line; healthy ones that are slow are not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
HANG_TIMEOUT_S = 2.0
#: Of a whole job, on a machine that has more to do.
LIMIT_S = 150

HEAD = """\
import os, signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(20)


def here():
    os.write(1, f"here {time.time()}\\n".encode())  # one write, which no other rank comes between


"""


class Hang(NamedTuple):
    """A job that can't go on."""

    name: str
    body: str
    #: one of these rules is named
    codes: tuple[str, ...]
    #: texts of lines, one of which the finding is at
    lines: tuple[str, ...]
    #: what the message says
    says: str


HANGS = (
    Hang(
        "collective-in-a-rank-branch",
        """
validation = dist.new_group()
for step in range(5):
    dist.all_reduce(x)
if rank == 0:
    here()
    dist.all_reduce(x, group=validation)
dist.barrier()
""",
        ("DC701",),
        # whoever has waited longer comes first
        ("dist.all_reduce(x, group=validation)", "dist.barrier()"),
        r"rank 0 .*all_reduce",
    ),
    Hang(
        "early-exit",
        """
for step in range(5):
    dist.all_reduce(x)
if rank == 1:
    here()
    sys.exit(0)
dist.barrier()
""",
        ("DC702",),
        ("dist.barrier()",),
        r"rank 0 wait(s|ed) in barrier.*rank 1 has ended with status 0",
    ),
    Hang(
        "uneven-loader",
        """
model = DistributedDataParallel(torch.nn.Linear(4, 2))
for batch in torch.utils.data.DataLoader(torch.ones(7, 4)[rank::2]):
    model(batch).sum().backward()
here()
dist.destroy_process_group()
""",
        ("DC519",),
        ("model(batch).sum().backward()", "for batch in torch.utils.data.DataLoader(torch.ones(7, 4)[rank::2]):"),
        r"rank 0 .*all_reduce|3 on rank 1, 4 on rank 0",
    ),
    Hang(
        "other-shapes",
        """
dist.all_reduce(x)
here()
dist.all_reduce(x[: 20 - rank])
dist.barrier()
""",
        ("DC709",),
        ("dist.all_reduce(x[: 20 - rank])",),
        r"\[20\].*\[19\]",
    ),
    Hang(
        "two-groups-in-another-order",
        """
first, second = dist.new_group(), dist.new_group()
here()
for group in (first, second) if rank == 0 else (second, first):
    dist.all_reduce(x, group=group)
""",
        ("DC517",),
        ("dist.all_reduce(x, group=group)",),
        r"rank \d waits in all_reduce.*rank \d waits in all_reduce",
    ),
    Hang(
        "exception-swallowed-on-one-rank",
        """
for step in range(5):
    try:
        if rank == 1 and step == 3:
            here()
            raise ValueError("a bad file")
        dist.all_reduce(x)
    except ValueError as error:
        print("skipped:", error)
dist.barrier()
""",
        ("DC519",),
        ("dist.all_reduce(x)", "dist.barrier()"),
        r"all_reduce #5.*barrier #5|barrier #5.*all_reduce #5",
    ),
    # the same, and the rank that is still in the loop comes second: whoever comes second tells
    Hang(
        "exception-swallowed-on-the-rank-that-is-ahead",
        """
for step in range(5):
    try:
        if rank == 1 and step == 3:
            raise ValueError("a bad file")
        if rank == 0 and step == 4:
            time.sleep(1)
            here()
        dist.all_reduce(x)
    except ValueError as error:
        print("skipped:", error)
dist.barrier()
""",
        ("DC519",),
        ("dist.all_reduce(x)", "dist.barrier()"),
        r"all_reduce #5.*barrier #5|barrier #5.*all_reduce #5",
    ),
    Hang(
        "stopped-by-a-signal",
        """
for step in range(5):
    if rank == 1 and step == 3:
        here()
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(x)
""",
        ("DC511",),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "dist.all_reduce(x)"),
        r"rank 1 is stopped",
    ),
    # torchrun ends the other rank 0.1 s later
    Hang(
        "killed-by-a-signal",
        """
dist.all_reduce(x)
if rank == 1:
    here()
    os.abort()
dist.all_reduce(x)
""",
        ("DC511",),
        ("dist.all_reduce(x)",),
        r"rank 0 wait(s|ed) in all_reduce #2.*rank 1 has ended",
    ),
    # all ranks wait for their loaders, as for slow ones
    Hang(
        "collective-in-a-worker-of-a-loader",
        """
def put_together(samples):
    dist.all_reduce(x)
    return samples


dist.all_reduce(x)
here()
for batch in torch.utils.data.DataLoader(range(4), num_workers=1, collate_fn=put_together):
    pass
""",
        ("DC737",),
        ("dist.all_reduce(x)",),
        r"calls all_reduce here in the process group of its parent",
    ),
)
#: What takes long and comes to an end: each part is longer than the patience.
SLOW = """
for _ in torch.utils.data.DataLoader(range(4), num_workers=1, collate_fn=lambda samples: time.sleep(1)):
    pass
if rank == 0:
    time.sleep(5)                            # prepares the data
dist.barrier()
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

real = time.monotonic, time.time
if rank == 0:
    # ten minutes of evaluation, as far as the clocks that a script can read tell
    time.monotonic, time.time = (lambda: real[0]() + 600), (lambda: real[1]() + 600)
    end = real[0]() + 5
    while real[0]() < end:
        model.module(torch.ones(1, 4))
dist.all_reduce(x)
if rank == 0:
    for part in range(8):                    # a large checkpoint on a slow disk
        with open("last.pt", "ab") as file:
            file.write(bytes(1 << 20))
            os.fsync(file.fileno())
        time.sleep(0.6)
dist.barrier()
dist.destroy_process_group()
print("came to its end", flush=True)
"""


class Ran(NamedTuple):
    status: int | None
    output: str
    #: the first report with an error; None where there was none
    report: dict[str, Any] | None
    #: from the last line "here" of the script to the report
    seconds: float | None


def run(folder: Path, way: str, body: str) -> Ran:
    """Run a script of two ranks under one of the commands, until it has ended or a hang was reported."""
    (folder / "train.py").write_text(HEAD + body, encoding="utf-8")
    report = folder / "report.json"
    options = ["--hang-timeout", str(HANG_TIMEOUT_S), "-o", str(report)]
    if way == "watch":
        command = ["-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "distcheck.watch", "-q", *options]
    else:
        command = [
            "-m", "distcheck", "rehearse", "--nnodes=1", "--nproc-per-node=2", "--gpus-per-node=0", "--steps=30", "-v",
            "--output-format=json", *options,
        ]  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    output = folder / "output"
    with output.open("wb") as file:
        job = subprocess.Popen(
            [sys.executable, *command, "train.py"], cwd=folder, env=environ, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    end = time.monotonic() + LIMIT_S
    while job.poll() is None and time.monotonic() < end and not (way == "watch" and _told(report)):
        time.sleep(0.1)
    if job.poll() is None:
        # the job hangs, and watch leaves that to its owner; what it prints may still be on its way
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(3)
        _end(job, folder)
    text = output.read_text(errors="replace")
    moments = [float(moment) for moment in re.findall(r"here (\d+\.\d+)", text)]
    found = _told(report)
    return Ran(job.returncode, text, found, report.stat().st_mtime - max(moments) if found and moments else None)


def _told(report: Path) -> dict[str, Any] | None:
    """A report that has errors in it; under watch a job that ends well leaves one as well."""
    if not report.exists():
        return None
    try:
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        return None  # being written
    return found if found["summary"]["error"] else None


def _end(job: subprocess.Popen[bytes], folder: Path) -> None:
    """torchrun puts ranks into sessions of their own; those of this job are known by their folder."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if os.readlink(entry / "cwd") == str(folder):
                os.kill(int(entry.name), signal.SIGKILL)


@pytest.mark.parametrize("way", ["watch", "rehearse"])
@pytest.mark.parametrize("hang", HANGS, ids=lambda hang: hang.name)
@pytest.mark.sampled(every=6)
def test_a_hang_is_named_with_its_line(tmp_path: Path, hang: Hang, way: str) -> None:
    ran = run(tmp_path, way, hang.body)
    assert ran.report is not None, ran.output
    errors = [finding for finding in ran.report["findings"] if finding["severity"] == "error"]
    assert errors, ran.output
    told = errors[0]
    assert told["code"] in hang.codes, ran.output
    assert re.search(hang.says, told["message"], re.DOTALL), told["message"]
    lines = (HEAD + hang.body).splitlines()
    assert told["where"]["path"] == "train.py"
    assert lines[told["where"]["line"] - 1].strip() in hang.lines, told
    assert ran.seconds is not None, ran.output
    # patience and five seconds on a machine that is idle; this one may not be
    assert ran.seconds < HANG_TIMEOUT_S + 40


@pytest.mark.parametrize("way", ["watch", "rehearse"])
@pytest.mark.sampled(every=2)
def test_a_healthy_job_that_is_slow_is_left_alone(tmp_path: Path, way: str) -> None:
    ran = run(tmp_path, way, SLOW)
    assert ran.status == 0, ran.output
    assert ran.output.count("came to its end") == 2, ran.output
    assert ran.report is None, ran.output
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [finding for finding in report["findings"] if finding["severity"] != "info"] == [], ran.output
    if way == "watch":
        assert not [line for line in ran.output.splitlines() if line.startswith("distcheck")], ran.output
