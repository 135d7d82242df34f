"""What is advised for collectives that differ, and for unused parameters, is done on DDP over gloo, and helps."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .test_cli import distcheck, environment

_LAUNCH = re.compile(
    r"torchrun … (-m distcheck\.watch) train\.py|'(-m distcheck\.watch)' before the script in torchrun's command"
)
LOGS = Path(__file__).parent.parent / "checks" / "logs"
BEGIN = """
import datetime, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
"""
GOOD = (
    BEGIN
    + """
model = DDP(torch.nn.Linear(4, 2))
model(torch.ones(2, 4)).sum().backward()
dist.barrier()
dist.destroy_process_group()
"""
)
UNUSED = (
    BEGIN
    + """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.used(x)

model = DDP(Net())
for _ in range(2):
    model(torch.ones(2, 4)).sum().backward()
"""
)
DIFFER = (
    BEGIN.replace('"gloo")', '"gloo", timeout=datetime.timedelta(seconds=15))')
    + """
model = DDP(torch.nn.Linear(4, 2))
model(torch.ones(2, 4)).sum().backward()
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(4))
else:
    dist.broadcast(torch.ones(5), 0)
dist.barrier()
"""
)


def advice(code: str, log: Path) -> str:
    """The fix that ``distcheck log`` prints for this rule."""
    report = json.loads(distcheck("log", "--output-format", "json", str(log)).stdout)
    (fix,) = {finding["fix"]["text"] for finding in report["findings"] if finding["code"] == code}
    return str(fix)


def launched(folder: Path, script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *words, "train.py"],
        cwd=folder, env=environment(**variables), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def debug_level(text: str) -> str:
    (level,) = re.findall(r"TORCH_DISTRIBUTED_DEBUG=(\w+)", text)
    return str(level)


@pytest.mark.torch
@pytest.mark.full  # the launch that is advised, above, runs always
def test_the_level_that_is_advised_names_the_parameters(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(launched(tmp_path, UNUSED).stderr)
    level = debug_level(advice("DC754", tmp_path / "train.log"))
    assert launched(tmp_path, GOOD, TORCH_DISTRIBUTED_DEBUG=level).returncode == 0
    assert "spare.weight" in launched(tmp_path, UNUSED, TORCH_DISTRIBUTED_DEBUG=level).stderr


@pytest.mark.torch
def test_the_launch_that_is_advised_names_the_calls(tmp_path: Path) -> None:
    words = _LAUNCH.search(advice("DC517", LOGS / "DC517" / "bad_gloo_aborts.log"))
    page = _LAUNCH.search(distcheck("explain", "DC517").stdout)
    assert words is not None and page is not None and words[2] == page[1]
    good = launched(tmp_path, GOOD, *words[2].split())
    assert good.returncode == 0, good.stderr
    result = launched(tmp_path, DIFFER, *words[2].split())
    assert result.returncode != 0
    assert "error DC517 collective-mismatch" in result.stdout + result.stderr
