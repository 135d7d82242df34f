"""The commands that run ranks, on the installed torch: what each release between the oldest and the newest must do.

``tox -e torch-oldest,torch-middle`` runs them with the oldest torch that is declared, and with one in the middle.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import environment

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.full]

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"

#: Meets what an older torch has in another form: a barrier between a write and a read, an RNN, autocast, a DDP model,
#: attention, streams, a batch of messages, the end of the group.
REHEARSED = """
import os
from pathlib import Path
import torch, torch.distributed as dist, torch.nn as nn

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
if dist.get_rank() == 0:
    Path("words.txt").write_text("a")
dist.barrier()
assert Path("words.txt").read_text() == "a"
model = nn.parallel.DistributedDataParallel(nn.LSTM(4, 4).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(dist.get_rank())
for step in range(2):
    with torch.cuda.stream(torch.cuda.Stream()):
        output, _ = model(torch.randn(3, 2, 4, generator=generator).cuda())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output = output @ torch.ones(4, 4, device="cuda")
        output = nn.functional.scaled_dot_product_attention(output, output, output)
    optimizer.zero_grad()
    output.float().sum().backward()
    optimizer.step()
rank, size = dist.get_rank(), dist.get_world_size()
sent, received = torch.full((2,), float(rank), device="cuda"), torch.empty(2, device="cuda")
for work in dist.batch_isend_irecv([
    dist.P2POp(dist.isend, sent, (rank + 1) % size), dist.P2POp(dist.irecv, received, (rank - 1) % size)
]):
    work.wait()
assert received.tolist() == [float((rank - 1) % size)] * 2
mean = output.detach().float().mean()
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
assert str(mean.device) == f"cuda:{local_rank}", repr(mean)
dist.destroy_process_group()
"""

DIFFERENT_CALLS = """
import torch, torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(2)
dist.all_reduce(x)
if dist.get_rank() == 0:
    dist.all_reduce(x)
else:
    dist.broadcast(x, 0)
dist.destroy_process_group()
"""


def run(*words: str, folder: Path, until: str | None = None) -> tuple[int, str]:
    """Exit status and all output; a job that hangs is ended after a line with this text."""
    command = [sys.executable, "-m", *words]
    variables = {**environment(), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if until is not None and until in line:
                process.terminate()
    return process.returncode, "".join(lines)


def torchrun(*words: str) -> tuple[str, ...]:
    return ("torch.distributed.run", "--standalone", "--nproc-per-node=2", *words)


def test_good_rehearse_of_a_script_that_is_right(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REHEARSED, encoding="utf-8")
    status, output = run("distcheck", "rehearse", "--nnodes", "1", "--steps", "0", "train.py", folder=tmp_path)
    assert status == 0, output
    assert "0 errors, 0 warnings" in output
    assert "not checked\n" not in output, output


def test_good_rehearse_of_an_example(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    status, output = run("distcheck", "rehearse", "ddp.py", folder=tmp_path)
    assert status == 0, output
    assert "0 errors, 0 warnings" in output
    # three, and more where they are fast
    ended = re.search(r"ended after (\d+) optimizer steps", " ".join(output.split()))
    assert ended is not None and int(ended[1]) >= 3, output


def test_good_collective(tmp_path: Path) -> None:
    status, output = run("distcheck", "collective", "--nproc", "2", "-e", "64K", folder=tmp_path)
    assert status == 0, output
    assert "2 ranks on 1 host: all collectives correct" in " ".join(output.split())


def test_good_watch_of_an_example(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    status, output = run(*torchrun("-m", "distcheck.watch", "ddp.py"), folder=tmp_path)
    assert status == 0, output
    assert "no longer watches" not in output
    assert "distcheck watch: 2 ranks" in output


def test_bad_dc517_watch_of_calls_that_differ(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DIFFERENT_CALLS, encoding="utf-8")
    words = torchrun("-m", "distcheck.watch", "--hang-timeout", "5", "train.py")
    _, output = run(*words, folder=tmp_path, until="1 error")
    assert "error DC517" in output, output
