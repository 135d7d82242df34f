"""Real ranks that agree before each call: what differs is named before gloo can bury it, and what is healthy goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding
from distcheck.runtime.coordination.model import Positions
from distcheck.runtime.rehearsal.simulation.launcher import RehearsalResult, perform
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEAD = """
import os, sys, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
def join(**how):
    torch.cuda.set_device(how.get("rank", int(os.environ.get("LOCAL_RANK", 0))))
    dist.init_process_group("nccl", **how)
    return dist.get_rank(), dist.get_world_size()
"""


def rehearsed(folder: Path, body: str, *, launcher: str = "torchrun", ranks: int = 2) -> RehearsalResult:
    (folder / "train.py").write_text(HEAD + body)
    plan = RehearsalPlan(
        "train.py", nproc_per_node=ranks, gpus_per_node=ranks, launcher=launcher, steps=None, seconds=240.0,
        hang_timeout_s=3.0, folder=str(folder),
    )  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    return perform(plan, environ, sys.executable)


def verdict(performed: RehearsalResult) -> Finding:
    assert performed.verdict is not None, performed.outputs
    checker = Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
    (finding,) = checker.plan(Positions, command="rehearse", closed=True).run(performed.verdict).findings
    return finding


def test_bad_a_call_of_ddps_reducer_meets_one_of_the_script(tmp_path: Path) -> None:
    """Both are all_reduce: the numbers of the calls alone would not tell them apart."""
    performed = rehearsed(
        tmp_path,
        """
rank, world = join()
model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
for step in range(6):
    loss = model(torch.ones(2, 8).cuda()).sum()
    if rank == 1 and step == 4:
        dist.all_reduce(torch.ones(20).cuda())
    loss.backward()
""",
    )
    finding = verdict(performed)
    assert (finding.code, finding.where.path, finding.where.line) == ("DC701", "train.py", 15)
    assert "rank 1 stands in a branch" in finding.message
    assert "all_reduce #10 (float32 [20]) at train.py:15; rank 0 calls all_reduce #10 (float32 [72])" in finding.message
    assert not any("gloo" in error for _, error in performed.outputs.values())


def test_bad_ranks_that_the_script_has_forked(tmp_path: Path) -> None:
    performed = rehearsed(
        tmp_path,
        """
import multiprocessing
def main(rank):
    join(rank=rank, world_size=2, init_method="tcp://127.0.0.1:" + os.environ["PORT"])
    x = torch.ones(20).cuda()
    dist.all_reduce(x)
    dist.all_reduce(x, op=dist.ReduceOp.AVG if rank else dist.ReduceOp.SUM)
if __name__ == "__main__":
    import socket
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        os.environ["PORT"] = str(server.getsockname()[1])
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=main, args=(rank,)) for rank in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
""",
        launcher="script",
    )
    finding = verdict(performed)
    assert finding.code == "DC709"
    assert "call #2 of the default group differs in reduction" in finding.message
    assert "all_reduce #2 (float32 [20], avg) at train.py:15" in finding.message


def test_good_what_may_differ_between_ranks(tmp_path: Path) -> None:
    performed = rehearsed(
        tmp_path,
        """
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
rank, world = join()
if rank == 0:
    time.sleep(5)                       # prepares data, longer than the patience
dist.barrier()
works = [dist.all_reduce(torch.ones(9).cuda(), async_op=True) for _ in range(9)]
time.sleep(0.5 * rank)
for work in works:
    work.wait()
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).cuda())
with Join([model]):                     # other numbers of batches
    for _ in range(3 + 2 * rank):
        model(torch.ones(4, 8).cuda()).sum().backward()
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
model(torch.ones(4, 8).cuda()).sum().backward()
optimizer.step()                        # each rank updates, and broadcasts, its part
both, only = dist.new_group([0, 1]), [dist.new_group([0]), dist.new_group([1])][rank]
dist.all_reduce(torch.ones(3 + rank).cuda(), group=only)
dist.all_reduce(torch.ones(3).cuda(), group=both)
pair = dist.new_group([0, 1], use_local_synchronization=True)
dist.all_reduce(torch.ones(3).cuda(), group=pair)
objects = [None] * world
dist.all_gather_object(objects, "x" * (1 + 99 * rank))
sizes = [1, 2]                          # parts of other sizes
out, parts = torch.ones(3).cuda(), torch.ones(world * (rank + 1)).cuda()
dist.all_to_all_single(out, parts, sizes, [rank + 1] * world)
for _ in range(3):                      # a pipeline
    if rank:
        dist.recv(out, 0)
    else:
        dist.send(out, 1)
exchange = [dist.P2POp(dist.isend, out, 1 - rank), dist.P2POp(dist.irecv, torch.ones(3).cuda(), 1 - rank)]
for work in dist.batch_isend_irecv(exchange):
    work.wait()
dist.destroy_process_group()
# numbers and names begin anew; in a store of its own, since gloo may read the first group's addresses from the other one
dist.init_process_group("nccl", store=dist.FileStore("again", world), rank=rank, world_size=world)
dist.all_reduce(torch.ones(7).cuda())
dist.destroy_process_group()
print("came to its end", flush=True)
""",
    )
    assert performed.verdict is None
    assert performed.why == "ended", performed.outputs
    assert all("came to its end" in performed.outputs[rank][0] for rank in range(2)), performed.outputs
