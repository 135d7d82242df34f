"""Tensors of calls: what the hook writes down in a process with simulated GPUs, and DC709, DC711, DC712, DC713, DC717."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Severity
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.event_log import read_rows
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

ROOT = Path(__file__).parents[4]
PLAN = RehearsalPlan("train.py", nproc_per_node=2)
INSTALL = """
import runpy, sys
from distcheck.runtime.coordination.frames import this_is_own
from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, on_import
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.hooks import buffers
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
folder, script, begun = sys.argv[1:]
event_log = EventLog(folder, float(begun), 0)
on_import(FakeGpus(1))
buffers.install(event_log, RehearsalPlan(script))
when_imported("torch.distributed.distributed_c10d", event_log.calls.attach)
this_is_own(script)
runpy.run_path(script, run_name="__main__")
event_log.close()
assert not event_log.lost, event_log.lost
"""
HEAD = """\
import torch
import torch.distributed as dist
dist.init_process_group("{backend}", store=dist.HashStore(), rank=0, world_size=1)
x = torch.full((4,), 2.0, device="{device}")
"""


def rows_of(folder: Path, body: str, backend: str = "gloo") -> list[tuple[str, int, int]]:
    """Kind, line of the call and line of the use of each row; lines count from the first one of the body."""
    events, script = folder / "events", folder / "train.py"
    events.mkdir()
    head = HEAD.format(backend=backend, device="cuda" if backend == "nccl" else "cpu")
    script.write_text(head + textwrap.dedent(body).lstrip("\n"), encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-W", "ignore", "-c", INSTALL, str(events), str(script), str(time.time())]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=240, cwd=folder, env=environ)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = read_rows(str(events))
    assert not [row for row in rows if row.kind == "stage.hook_failed"], rows
    first = head.count("\n")
    return [
        (row.kind.partition(".")[2] + kept(row), line(row.place) - first, line(row.data.get("at") or "") - first)
        for row in rows
    ]


def kept(row: LoggedEvent) -> str:
    return " kept" if row.data.get("kept") else ""


def line(place: str) -> int:
    return int(place.rpartition(":")[2] or 0)


@pytest.mark.torch
def test_bad_tensors_that_are_used_too_early(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        """
        dist.all_reduce(x, async_op=True)
        x[1:].add_(1)
        work = dist.all_reduce(x, async_op=True)
        x.sum().item()
        work.wait()
        for turn in range(2):
            y = torch.ones(2) * turn
            works = [dist.all_gather([torch.zeros(2)], y, async_op=True)]
            y.mul_(2)
        dist.barrier(async_op=True)
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.ones(3)
        dist.all_reduce(parameter.grad, async_op=True)
        torch.optim.SGD([parameter], lr=0.1).step()
        """,
    )
    assert found == [
        ("used", 1, 2), ("used kept", 3, 4), ("used kept", 8, 9), ("unwaited", 10, -4), ("used", 13, 14),
    ]  # fmt: skip


@pytest.mark.torch
def test_good_tensors_that_are_used_after_the_wait_or_only_read(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        """
        work = dist.all_reduce(x, async_op=True)
        other = torch.empty_like(x)
        x.view(2, 2)
        work.wait()
        x.add_(1)
        # the gathered tensor is only read
        work = dist.all_gather([torch.zeros(4)], x, async_op=True)
        x.sum().item()
        work.wait()
        # parts of one buffer
        buffer = torch.zeros(8)
        work = dist.all_reduce(buffer[:4], async_op=True)
        buffer[4:].add_(1)
        work.wait()
        future = dist.all_reduce(x, async_op=True).get_future()
        future.wait()
        x.sum().item()
        dist.barrier(async_op=True).wait()
        work = dist.broadcast(x, 0, async_op=True)
        x.sum().item()
        work.wait()
        # another tensor at the same address
        work = dist.all_reduce(torch.ones(4), async_op=True)
        for _ in range(9):
            torch.ones(4).sum().item()
        work.wait()
        """,
    )
    assert found == []


@pytest.mark.torch
def test_nccl_may_have_ended_after_a_synchronization(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        """
        dist.all_reduce(x, async_op=True)
        torch.cuda.synchronize()
        x.sum().item()
        dist.all_reduce(x, async_op=True)
        dist.all_reduce(torch.ones(1, device="cuda"))
        x.sum().item()
        dist.all_reduce(x, async_op=True)
        torch.cuda.current_stream().wait_stream(torch.cuda.Stream())
        x.sum().item()
        dist.all_reduce(x, async_op=True)
        x.sum().item()
        """,
        backend="nccl",
    )
    # the tensor of ones ends with its call
    assert [row for row in found if row[0] != "lost"] == [("used", 10, 11)]


@pytest.mark.torch
def test_results_that_no_line_can_read(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        """
        dist.all_reduce(x / 2)
        dist.all_reduce(tensor=torch.tensor([3.0]))
        def reduce(tensor):
            dist.all_reduce(tensor)
            return tensor
        reduce(x / 2)
        def reduce_named(value):
            tensor = torch.tensor([value])
            dist.all_reduce(tensor)
            return tensor.tolist()
        reduce_named(2.0)
        dist.all_reduce(x.view(2, 2))
        dist.all_reduce(x.detach())
        dist.all_reduce(x)
        dist.all_reduce(x.contiguous())
        class Model:
            value = x.clone()
            def get(self):
                return self.value
        dist.all_reduce(Model().get())
        dist.all_reduce(x.clone())
        """,
    )
    assert found == [("lost", 1, -4), ("lost", 2, -4), ("lost", 21, -4)]


@pytest.mark.torch
def test_outputs_that_share_memory_and_calls_of_outsiders(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        """
        pair = torch.zeros(2, 4)
        try:
            dist.all_gather([x[:2], x[1:3]], x[:2])
        except RuntimeError:
            pass
        try:
            dist.all_gather(list(pair.unbind()), x)
        except RuntimeError:
            pass
        group = dist.GroupMember.NON_GROUP_MEMBER
        dist.all_reduce(x, group=group)
        dist.barrier(group=group)
        y = torch.ones(4)
        dist.all_reduce(y, group=group)
        y.fill_(1)
        y.sum().item()
        x.sum().item()
        assert dist.all_reduce(y, group=group, async_op=True) is None
        """,
    )
    assert found == [("shared", 3, -4), ("outside", 11, 17), ("no_handle", 18, -4)]


def row(kind: str, rank: int, **data: Any) -> LoggedEvent:
    own = {"operation": "all_reduce", "group": "0", **data}
    return LoggedEvent(f"buffers.{kind}", rank, rank, 1.0, 0, "train.py:12", "main", own)


def judged(*rows: LoggedEvent, ends: tuple[End, ...] = (End(0), End(1))) -> list[Finding]:
    rehearsal = Rehearsal(PLAN, ends, rows)
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.buffers",), plug_ins=False)
    return list(checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal).findings)


def test_bad_dc713_and_dc717() -> None:
    rows = [row("used", rank, at="train.py:14", write=False, kept=kept) for rank in (0, 1) for kept in (False, True)]
    found = judged(*rows)
    assert [(one.code, one.where.line, one.where.ranks) for one in found] == [
        ("DC713", 12, "0-1"),
        ("DC717", 14, "0-1"),
    ]
    assert "train.py:14 reads its tensor" in found[0].message
    assert "before wait() of the handle of all_reduce at train.py:12" in found[1].message
    (barrier,) = judged(row("unwaited", 0, operation="barrier"))
    assert (barrier.code, barrier.severity) == ("DC713", Severity.WARNING)


def test_bad_dc709_dc712() -> None:
    (found,) = judged(row("outside", 1, at="train.py:14"))
    assert (found.code, found.where.line, found.severity) == ("DC709", 12, Severity.WARNING)
    (found,) = judged(row("shared", 0, operation="all_gather"), row("shared", 1, operation="all_gather"))
    assert (found.code, found.where.line, found.severity) == ("DC712", 12, Severity.ERROR)


def test_dc709_a_rank_outside_the_group_waits_for_a_handle() -> None:
    error = "AttributeError: 'NoneType' object has no attribute 'wait'"
    ends = (End(0), End(1, how="raised", status=1, detail=error, place="train.py:30"))
    (found,) = judged(row("no_handle", 1), ends=ends)
    assert (found.code, found.where.line, found.severity) == ("DC709", 12, Severity.ERROR)
    assert "the wait for it at train.py:30 failed" in found.message
    # a rank that keeps the None to itself; another rank; another error
    assert judged(row("no_handle", 1)) == []
    assert judged(row("no_handle", 0), ends=ends) == []
    other = ends[1]._replace(detail="AttributeError: 'NoneType' object has no attribute 'grad'")
    assert judged(row("no_handle", 1), ends=(ends[0], other)) == []


def test_dc711_needs_values_of_each_rank() -> None:
    values = [[1, 1.0, 1.0, 32], [2, 2.0, 2.0, 32]]
    lost = [row("lost", rank, number=3, digest=digest) for rank, digest in enumerate(values)]
    (found,) = judged(*lost)
    assert (found.code, found.where.line, found.severity) == ("DC711", 12, Severity.ERROR)
    # ones that only start the communication; one rank; another call
    assert judged(lost[0], row("lost", 1, number=3, digest=values[0])) == []
    assert judged(lost[0]) == []
    assert judged(lost[0], row("lost", 1, number=4, digest=values[1])) == []
    assert judged() == []
