"""Devices, gradients and parameters in whole rehearsals: what only looks wrong, in one script, and what is, in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
BEGIN = """\
import copy
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x, again=False):
        hidden = checkpoint(self.body, x, use_reentrant=False) if again else self.body(x)
        return self.head(hidden.relu())

    def loss(self, x):
        return self.head(self.body(x).relu()).square().mean()


def wrapped():
    return DDP(Net().cuda(), find_unused_parameters=False)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(model, loss=None, optimizer=None, steps=2):
    optimizer = optimizer or sgd(model)
    for _ in range(steps):
        x = torch.randn(8, 4, device="cuda")
        optimizer.zero_grad()
        (loss(x) if loss else model(x).square().mean()).backward()
        optimizer.step()


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
"""
GOOD = """
def penalty(x):
    return ddp(x).square().mean() + ddp.module.head.weight.square().sum()


ddp = wrapped()
train(ddp, penalty)
ddp.eval()
ddp.module(torch.randn(2, 4).cuda())
with torch.no_grad():
    ddp.module(torch.randn(2, 4).cuda())
ema = copy.deepcopy(ddp.module)
train(wrapped().train(), None)
train(ddp, lambda x: ddp(x, again=True).square().mean())

# accumulated, with and without communication
optimizer = sgd(ddp)
for number in range(4):
    if number % 2:
        ddp(torch.randn(8, 4).cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    else:
        with ddp.no_sync():
            ddp(torch.randn(8, 4).cuda()).mean().backward()

# averaged by hand: gradients, then parameters
ddp = wrapped()
optimizer = sgd(ddp)
for _ in range(3):
    optimizer.zero_grad()
    ddp.module.loss(torch.randn(8, 4).cuda()).backward()
    for parameter in ddp.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    optimizer.step()
ddp = wrapped()
optimizer = sgd(ddp)
for _ in range(3):
    optimizer.zero_grad()
    ddp.module.loss(torch.randn(8, 4).cuda()).backward()
    optimizer.step()
    with torch.no_grad():
        for parameter in ddp.parameters():
            dist.all_reduce(parameter)
            parameter /= world

# nothing that ranks share, and something that one rank has
train(Net().cuda())
if rank == 0:
    train(Net().cuda())

# a critic that is switched off and on
maker, critic = wrapped(), DDP(nn.Linear(1, 1).cuda())
for _ in range(2):
    for parameter in critic.parameters():
        parameter.requires_grad = True
    train(critic, lambda x: critic(maker(x).detach()).mean(), steps=1)
    for parameter in critic.parameters():
        parameter.requires_grad = False
    train(maker, lambda x: critic(maker(x)).mean(), steps=1)

# what DDP is told to leave alone; shares of the optimizer; half of the bits; steps that are left out
net = Net().cuda()
DDP._set_params_and_buffers_to_ignore_for_model(net, ["head.weight", "head.bias"])
train(DDP(net))
ddp = wrapped()
train(ddp, optimizer=ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01))
ddp = wrapped()
ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
train(ddp)
ddp = DDP(Net().cuda().bfloat16())
train(ddp, lambda x: ddp(x.bfloat16()).square().mean())
ddp = wrapped()
optimizer, scaler = sgd(ddp), torch.amp.GradScaler("cuda")
for number in range(3):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = ddp(torch.randn(8, 4).cuda()).square().mean()
    scaler.scale(loss * (float("inf") if number == 1 and rank == 0 else 1)).backward()
    scaler.step(optimizer)
    scaler.update()

# changed, and wrapped again
net = Net().cuda()
net.body.requires_grad_(False)
ddp = DDP(net)
train(ddp)
net.body.requires_grad_(True)
ddp = DDP(ddp.module)
train(ddp)
ddp.cpu()
ddp = DDP(ddp.module.cuda())
train(ddp)
Path("ranks").mkdir(exist_ok=True)
torch.save(net.state_dict(), f"ranks/{rank}.pt")
net.load_state_dict(torch.load(f"ranks/{rank}.pt"))
ddp.cpu()
dist.destroy_process_group()
"""
BAD = """
ddp = wrapped()
train(ddp, lambda x: ddp.module.loss(x))  # DC750
net = Net().cuda()
net.body.requires_grad_(False)
ddp = DDP(net)
optimizer = sgd(ddp)
train(ddp, optimizer=optimizer)
net.body.requires_grad_(True)  # DC751
train(ddp, optimizer=optimizer)
ddp = wrapped()
train(ddp, steps=1)
ddp.module.cpu()  # DC756
ddp.module.cuda()
train(ddp)
if rank == 0:
    torch.save(ddp.state_dict(), "last.pt")
dist.barrier()
torch.load("last.pt")  # DC723
ddp = DDP(Net().cuda())  # DC763
if rank == 0:
    nn.init.zeros_(ddp.module.body.weight)
train(ddp)
torch.save({"trainer": {"group": dist.new_group()}}, f"{rank}.pt")  # DC602
"""


def rehearsed(folder: Path, source: str) -> tuple[int, list[dict[str, Any]], str]:
    (folder / "train.py").write_text(source, encoding="utf-8")
    words = ["rehearse", "--nnodes", "1", "--nproc-per-node", "2", "--steps", "1000", "--output-format", "json"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "distcheck", *words, "-o", "report.json", "train.py"],
        check=False, capture_output=True, text=True, timeout=280, cwd=folder, env=environ,
    )  # fmt: skip
    output = ran.stdout + ran.stderr
    assert (folder / "report.json").exists(), output
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert not [item for item in report["not_checked"] if "hook" in item["what"]], output
    return ran.returncode, report["findings"], output


@pytest.mark.torch
@pytest.mark.slow
def test_good_dc750_dc751_dc756_dc723_and_dc743_what_only_looks_wrong(tmp_path: Path) -> None:
    status, findings, output = rehearsed(tmp_path, BEGIN + GOOD)
    assert not findings, output
    assert status == 0, output


@pytest.mark.torch
@pytest.mark.slow
def test_bad_dc750_dc751_dc756_dc723_and_dc602_each_at_its_line(tmp_path: Path) -> None:
    source = BEGIN + BAD
    status, findings, output = rehearsed(tmp_path, source)
    marked = {
        (line.partition("# ")[2], number)
        for number, line in enumerate(source.splitlines(), 1)
        if line.partition("# ")[2].startswith("DC")
    }
    assert {(one["code"], one["where"]["line"]) for one in findings} == marked, output
    assert status == 1, output
