"""*watch* with NCCL, one rank on a real GPU: calls return at once, and waiting is done in the next line that asks for a
result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.coordination.test_rank_monitor import run

pytestmark = [pytest.mark.gpu, pytest.mark.torch, pytest.mark.slow]

HEAD = """
import time
import torch
import torch.distributed as dist
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
x = torch.ones(1 << 20, device="cuda")
clock_hz = torch.cuda.get_device_properties(0).clock_rate * 1000
dist.all_reduce(x)
torch.cuda.synchronize()
"""


def test_good_a_gpu_that_computes_for_long(tmp_path: Path) -> None:
    """A kernel of three seconds before a collective, at a patience of two: the wait is long, and it ends."""
    ran = run(
        tmp_path,
        """
torch.cuda._sleep(3 * clock_hz)
dist.all_reduce(x)
print("sum", x.sum().item())
for step in range(50):
    dist.all_reduce(x)
    x.sum().item()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
for step in range(20):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
torch.cuda.synchronize()
dist.destroy_process_group()
print("came to its end", flush=True)
""",
        hangs=False,
        head=HEAD,
        ranks=1,
    )
    assert ran.status == 0, ran.output
    assert "came to its end" in ran.output
    (line,) = [line for line in ran.output.splitlines() if "distcheck" in line]
    assert line.startswith("distcheck watch: 1 rank, "), line
    assert ran.report is not None
    assert ran.report["findings"] == []
    # calls return before their collectives have ended: who came last is not known, and that is said
    assert [item["what"] for item in ran.report["not_checked"]] == ["DC514, waiting in groups of nccl"]


def test_bad_a_collective_that_does_not_end(tmp_path: Path) -> None:
    """DC511: the main thread stands in ``.item()``; which collective it is, NCCL's flight recorder tells."""
    ran = run(
        tmp_path,
        """
open("here", "w").close()
torch.cuda._sleep(120 * clock_hz)
dist.all_reduce(x)
x.sum().item()
""",
        head=HEAD,
        ranks=1,
    )
    assert ran.codes == ["DC511"], ran.output
    assert "all_reduce" in ran.message
    assert "at train.py:15" in ran.message
