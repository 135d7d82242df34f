"""What pages and fixes recommend for finding calls that differ and unused parameters is executed in jobs with DDP on gloo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from distcheck import rules
from distcheck.rules.page import read_page

ROOT = Path(__file__).parents[2]
TRAINS = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    def forward(self, x):
        return self.used(x) + (0 if "unused" in sys.argv else self.unused(x))
model = DistributedDataParallel(Model())
for step in range(3):
    model(torch.ones(3, 4)).sum().backward()
dist.all_reduce(torch.ones(4 + ("differ" in sys.argv) * dist.get_rank()))
print("trained", flush=True)
dist.destroy_process_group()
"""


def torchrun(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(TRAINS)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=150, check=False)


def test_no_page_recommends_what_ends_a_job_on_gloo() -> None:
    for rule in rules.ALL:
        page = read_page(rule.code)
        for paragraph in re.split(r"\n(?=- |\n)", page.sections.get("How to mend it", "") if page else ""):
            if "TORCH_DISTRIBUTED_DEBUG=DETAIL" in paragraph and rule.code != "DC504":
                assert "SIGSEGV" in paragraph, f"{rule.code}: {paragraph}"


@pytest.mark.torch
@pytest.mark.slow
def test_info_leaves_ddp_on_gloo_alone_and_names_unused_parameters(tmp_path: Path) -> None:
    good = torchrun(tmp_path, "train.py", TORCH_DISTRIBUTED_DEBUG="INFO")
    assert (good.returncode, good.stdout.count("trained")) == (0, 2), good.stderr
    bad = torchrun(tmp_path, "train.py", "unused", TORCH_DISTRIBUTED_DEBUG="INFO")
    assert bad.returncode != 0
    assert "unused.weight" in bad.stderr


@pytest.mark.torch
@pytest.mark.slow
def test_watch_names_calls_that_differ_in_a_job_with_ddp(tmp_path: Path) -> None:
    ran = torchrun(tmp_path, "-m", "distcheck.watch", "train.py", "differ")
    assert "DC517" in ran.stderr
    assert re.search(r"all_reduce.*\[4\].*\[5\]|all_reduce.*\[5\].*\[4\]", " ".join(ran.stderr.split())), ran.stderr
