"""What a real GPU says of mistakes, and what a simulated one says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .test_simulated import ROOT, SIMULATE, TELL, server

pytestmark = [pytest.mark.gpu, pytest.mark.torch, pytest.mark.slow]
#: N is the number of GPUs, and so of none of them.
SETTING = """
import io
import torch
import torch.nn.functional as F
N = torch.cuda.device_count()
x, y, w = torch.zeros(2, 2).cuda(), torch.zeros(2, 2), torch.nn.Linear(2, 2).cuda()

def give(value, gradient):
    value.grad = gradient
    return value.grad.device

def load(place):
    kept = io.BytesIO()
    torch.save(torch.zeros(2), kept)
    kept.seek(0)
    return torch.load(kept, map_location=place)
"""
MISTAKES = (
    "torch.cuda.set_device(N)", "torch.empty(1, device=f'cuda:{N + 3}')", "y.to(f'cuda:{N}')", "torch.nn.Linear(1, 1).cuda(N)",
    "torch.cuda.get_device_properties(N)", "torch.cuda.current_device()", "x + y", "w(y)", "torch.mm(y, x)", "torch.bmm(x[None], y[None])",
    "torch.cat([x, y])", "F.embedding(torch.tensor([1]), x)", "F.cross_entropy(x, torch.tensor([0, 1]))",
    "F.conv2d(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 2, 2).cuda())", "F.layer_norm(x, (2,), torch.ones(2))",
    "F.batch_norm(x, torch.zeros(2), torch.ones(2))", "y[torch.tensor([0]).cuda()]", "x[torch.tensor([0])].device", "x.take(torch.tensor([0]))",
    "x.masked_fill_(torch.ones(2, 2, dtype=torch.bool), 0).device", "x.numpy()", "x.pin_memory()", "torch.randperm(3, generator=torch.Generator('cuda'))",
    "give(torch.zeros(1).cuda(), torch.zeros(1))", "load(f'cuda:{N}')", "torch.where(x > 0, x, y)", "x.index_add_(0, torch.tensor([0, 1]), x.clone()).device",
    "(x + torch.tensor(2.0)).device", "F.ctc_loss(torch.zeros(6, 1, 3).log_softmax(2).cuda(), torch.ones(1, 2, dtype=torch.long), torch.tensor([6]), torch.tensor([2])).device",
)  # fmt: skip


def test_a_simulated_gpu_says_what_a_real_one_says() -> None:
    text = TELL + SETTING + "".join(f"tell({mistake!r})\n" for mistake in MISTAKES)
    real = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import torch\n" + text + "print('GPUs', N)"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert real.returncode == 0, real.stderr[-2000:]
    *said, count = real.stdout.splitlines()
    simulated = server().run(SIMULATE.format(count=count.split()[1]) + text, "train.py", Path(ROOT), {}).splitlines()
    differ = [
        f"{mistake}\n  real       {one}\n  simulated  {other}"
        for mistake, one, other in zip(MISTAKES, said, simulated, strict=True)
        if one != other
    ]
    assert not differ, "\n".join(differ)
