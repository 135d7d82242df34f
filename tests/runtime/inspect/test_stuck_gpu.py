"""A rank of NCCL on a real GPU, seen from outside: its recorder's pipe, its use of the GPU, a loop that gets on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.torch, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
RANK = """
import os, sys, time
import torch, torch.distributed as dist

def loop():
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        loss = model(torch.randn(256, 512, device="cuda")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        loss.item()

torch.cuda.set_device(0)
dist.init_process_group("nccl")
for _ in range(3):
    dist.all_reduce(torch.ones(20, device="cuda"))
torch.cuda.synchronize()
print("ready", flush=True)
loop() if sys.argv[1] == "loop" else time.sleep(600)
"""


@pytest.fixture
def rank(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "train.py").write_text(RANK, encoding="utf-8")
    environ = {
        **os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "TORCHELASTIC_RUN_ID": job(),
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/ask-", "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump-",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "train.py", request.param], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def job() -> str:
    return f"stuck-gpu-{os.getpid()}"


def report() -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "distcheck", "stuck", "--job", job(), "--isolated", "--output-format", "json"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("rank", ["sleep"], indirect=True)
def test_the_recorder_of_a_real_rank_answers_and_the_rank_goes_on(rank: subprocess.Popen[str], tmp_path: Path) -> None:
    plain = report()
    (seen,) = plain["subject"]["jobs"][0]["ranks"]
    assert (seen["pid"], seen["recorded"]) == (rank.pid, True)
    assert "GPU 0" in seen["gpu"]
    assert not [item for item in plain["not_checked"] if "flight recorder" in item["what"]]
    assert (tmp_path / "dump-0").stat().st_size > 0
    assert rank.poll() is None


@pytest.mark.parametrize("rank", ["loop"], indirect=True)
def test_good_a_loop_that_asks_for_its_loss_gets_on(rank: subprocess.Popen[str]) -> None:
    """Its main thread may spin at loss.item() whenever it is looked at."""
    for _ in range(3):
        plain = report()
        assert [item for item in plain["findings"] if item["severity"] != "info"] == []
    assert rank.poll() is None
