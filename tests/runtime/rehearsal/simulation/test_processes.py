"""Each process has the environment that its launcher would give it; and none outlives the rehearsal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from distcheck.runtime.rehearsal.simulation import processes
from distcheck.runtime.rehearsal.simulation.plan import VARIABLE, RehearsalPlan, read_plan, write_plan
from distcheck.runtime.rehearsal.simulation.processes import RehearsedProcess, end_all, environment

PLAN = RehearsalPlan("train.py", nnodes=2, nproc_per_node=2, gpus_per_node=2, folder="/work", private="/tmp/private")
SHELL = {"PATH": "/bin", "RANK": "7", "CUDA_VISIBLE_DEVICES": "3", "SLURM_JOB_ID": "4711", "MASTER_PORT": "1"}


def of(plan: RehearsalPlan, number: int, **more: str) -> dict[str, str]:
    return environment(plan, number, 5000, SHELL, more)


def test_torchrun_numbers_ranks_and_sets_no_mask() -> None:
    found = of(PLAN, 3)
    assert {name: found[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")} == {
        "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1",
    }  # fmt: skip
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", "5000")
    assert found["TORCHELASTIC_USE_AGENT_STORE"] == "True"
    assert found["OMP_NUM_THREADS"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in found
    assert "SLURM_JOB_ID" not in found
    assert found["PATH"] == f"{os.path.join(PLAN.private, 'bin')}:/bin"


def test_it_says_what_torchs_own_agent_says() -> None:
    pytest.importorskip("torch")
    import inspect
    import re

    from torch.distributed.elastic.agent.server import local_elastic_agent

    source = inspect.getsource(local_elastic_agent.LocalElasticAgent._start_workers)
    names = set(re.findall(r'^ +"([A-Z_]+)":', source, re.MULTILINE))
    assert len(names) > 10
    assert names <= set(of(PLAN, 0))


def test_slurm_numbers_tasks_and_knows_no_rank() -> None:
    found = of(PLAN._replace(launcher="slurm"), 3)
    assert (found["SLURM_PROCID"], found["SLURM_LOCALID"], found["SLURM_NODEID"]) == ("3", "1", "1")
    assert (found["SLURM_NTASKS"], found["SLURM_TASKS_PER_NODE"]) == ("4", "2(x2)")
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES"} & set(found)
    assert found["SLURM_JOB_ID"] != "4711"


def test_slurm_masks_the_gpus_of_each_task_where_it_is_told_to() -> None:
    plan = PLAN._replace(launcher="slurm", gpus_per_task=1)
    assert [of(plan, rank)["CUDA_VISIBLE_DEVICES"] for rank in range(4)] == ["0", "1", "0", "1"]
    plan = plan._replace(gpus_per_task=2, gpus_per_node=4)
    assert [of(plan, rank)["CUDA_VISIBLE_DEVICES"] for rank in range(2)] == ["0,1", "2,3"]


def test_a_script_that_starts_its_own_ranks_is_told_nothing_of_them() -> None:
    plan = PLAN._replace(launcher="script", nnodes=1)
    found = of(plan, 0)
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "SLURM_PROCID"} & set(found)
    found = of(plan._replace(nnodes=2), 1)
    assert (found["NODE_RANK"], found["MASTER_ADDR"]) == ("1", "127.0.0.1")
    assert "RANK" not in found


def test_what_the_line_assigns_counts_but_not_where_the_job_meets() -> None:
    found = of(PLAN, 0, CUDA_VISIBLE_DEVICES="1", NCCL_DEBUG="INFO", OMP_NUM_THREADS="4", MASTER_PORT="29500")
    assert (found["CUDA_VISIBLE_DEVICES"], found["NCCL_DEBUG"], found["OMP_NUM_THREADS"]) == ("1", "INFO", "4")
    assert found["MASTER_PORT"] == "5000"


def test_without_gpus_none_is_visible() -> None:
    assert of(PLAN._replace(gpus_per_node=0), 0)["CUDA_VISIBLE_DEVICES"] == ""


def test_real_gpus_are_dealt_out_to_the_nodes() -> None:
    plan = PLAN._replace(real_gpus=True)
    base = {"PATH": "/bin"}
    assert [environment(plan, rank, 1, base)["CUDA_VISIBLE_DEVICES"] for rank in range(4)] == [
        "0,1",
        "0,1",
        "2,3",
        "2,3",
    ]
    base["CUDA_VISIBLE_DEVICES"] = "4,5,6,7"
    assert environment(plan, 2, 1, base)["CUDA_VISIBLE_DEVICES"] == "6,7"
    tasks = plan._replace(launcher="slurm", gpus_per_task=1)
    assert environment(tasks, 3, 1, base)["CUDA_VISIBLE_DEVICES"] == "7"


def test_the_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = PLAN._replace(private=str(tmp_path), arguments=("--lr", "1"), seconds=4.5)
    write_plan(plan, 12.5)
    assert read_plan(str(tmp_path)) == (plan, 12.5)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_nothing_is_left_of_what_a_rank_has_started(tmp_path: Path) -> None:
    # one child in the rank's session, and one that leaves it
    program = (
        "import os, subprocess, sys, time; sleep = [sys.executable, '-c', 'import time; time.sleep(600)'];"
        "a = subprocess.Popen(sleep); b = subprocess.Popen(sleep, start_new_session=True);"
        "os.write(1, f'{a.pid} {b.pid} '.encode()); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True,
        env={**os.environ, VARIABLE: str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        text = b""
        while text.count(b" ") < 2:
            text += os.read(process.stdout.fileno(), 100)
    children = [int(word) for word in text.split()]
    end_all([RehearsedProcess(0, process, "", "")], str(tmp_path))
    until = time.monotonic() + 30
    while any(_runs(pid) for pid in children) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in children if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_scontrol_names_the_hosts_of_the_rehearsal(tmp_path: Path) -> None:
    plan = PLAN._replace(launcher="slurm", private=str(tmp_path))
    processes._put_programs(plan, sys.executable)
    own = environment(plan, 0, 5000, dict(os.environ))

    def scontrol(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["scontrol", *words], env=own, capture_output=True, text=True, timeout=30, check=False)

    assert scontrol("show", "hostnames", own["SLURM_JOB_NODELIST"]).stdout.split() == ["127.0.0.1", "127.0.0.2"]
    assert scontrol("show", "job").returncode == 1


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_nvidia_smi_lists_the_gpus_of_a_node(tmp_path: Path) -> None:
    """YOLOX counts the lines of the list, and a mask does not hide a GPU from it."""
    plan = PLAN._replace(private=str(tmp_path / "it's private"), gpus_per_node=4)
    os.mkdir(plan.private)
    processes._put_programs(plan, sys.executable)
    own = {**environment(plan, 0, 5000, dict(os.environ)), "CUDA_VISIBLE_DEVICES": "1"}

    def printed(command: str) -> str:
        return subprocess.run(command, shell=True, env=own, capture_output=True, text=True, timeout=30).stdout

    assert [line.partition(" (")[0] for line in printed("nvidia-smi -L").splitlines()] == [
        f"GPU {index}: NVIDIA H100 80GB HBM3" for index in range(4)
    ]
    assert printed("nvidia-smi -L | wc -l").strip() == "4"
    assert printed("nvidia-smi --query-gpu=memory.total --format=csv,nounits,noheader").split() == ["81920"] * 4


@pytest.mark.parametrize("change", [{"gpus_per_node": 0}, {"real_gpus": True}])
def test_no_program_hides_real_gpus(tmp_path: Path, change: dict[str, Any]) -> None:
    processes._put_programs(PLAN._replace(private=str(tmp_path), **change), sys.executable)
    assert os.listdir(tmp_path / "bin") == []
