"""Limits of the process, its cgroup and its CPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import distcheck
from distcheck.checks.host import limits as room
from distcheck.checks.host.devices import Devices
from distcheck.checks.host.fabric import Fabric, RdmaPort
from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.limits import (
    Limits,
    cpus_are_enough,
    files_are_enough,
    memory_can_be_locked,
    memory_is_enough,
    rank_is_near_its_gpu,
    read_limits,
    srun_passes_the_cpus_on,
    threads_are_enough,
)
from distcheck.checks.host.platform import Platform
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.launch.model import Launch, LaunchCommand
from distcheck.launch.settings import Setting, Settings
from tests.recorded import recorded_world

MIB, GIB = 1 << 20, 1 << 30
NO_GPU = Unavailable("no NVIDIA driver")
HOST = Platform("linux", cpus=64)
DOCKER = Platform("linux", container="docker", cpus=64)
POD = Platform("linux", container="kubernetes", cpus=64)
NOTHING_SET = Settings()
TORCHRUN_8 = Launch("planned", launcher="torchrun", nproc=8)
TWO_NODES = Launch("planned", launcher="torchrun", nproc=8, nnodes=2)
RANK = Launch("rank", launcher="torchrun", world_size=8, local_world_size=8, local_rank=3, agent_store=True)
SRUN_RANK = Launch("rank", launcher="slurm", scheduler="slurm", world_size=8, local_world_size=8, local_rank=3)
INFINIBAND = Fabric((RdmaPort("mlx5_0", 1, "ACTIVE"), RdmaPort("mlx5_1", 1, "ACTIVE"), RdmaPort("mlx5_2", 1, "DOWN")))
REPOSITORY = str(Path(distcheck.__file__).parent.parent)


def settings(**values: str) -> Settings:
    return Settings(tuple(Setting(name, value) for name, value in values.items()))


def gpus(count: int, **fields: Any) -> Gpus:
    return Gpus(
        "nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", **fields) for index in range(count))
    )


def the_finding(findings: Any) -> Finding:
    (finding,) = findings
    assert isinstance(finding, Finding)
    return finding


# DC321 open-files-limit


@pytest.mark.parametrize(
    ("launch", "limits", "severity", "words"),
    [
        pytest.param(TORCHRUN_8, Limits(1024, 2048), Severity.WARNING, "can't raise that above 2048", id="hard limit"),
        pytest.param(
            Launch("planned", nproc=8, nnodes=4), Limits(1024, 1048576), Severity.WARNING, "about 4096", id="32 ranks"
        ),
        pytest.param(
            Launch("rank", world_size=1024, local_world_size=8),
            Limits(20000, 20000),
            Severity.WARNING,
            "about 65536",
            id="1024 ranks",
        ),
        pytest.param(TORCHRUN_8, Limits(1024, 1048576), Severity.INFO, "to 1048576 at most", id="what a desktop has"),
        pytest.param(TORCHRUN_8, Limits(1024, None), Severity.INFO, "raises that itself;", id="no hard limit"),
    ],
)
def test_bad_open_files(launch: Launch, limits: Limits, severity: Severity, words: str) -> None:
    finding = the_finding(files_are_enough(launch, limits, HOST))
    assert (finding.code, finding.severity) == ("DC321", severity)
    assert words in finding.message
    assert finding.evidence["soft_limit"] == limits.open_files_soft


@pytest.mark.parametrize(
    ("launch", "limits"),
    [
        pytest.param(Launch(), Limits(256, 512), id="nothing is launched"),
        pytest.param(TORCHRUN_8, Limits(4096, 4096), id="just enough"),
        pytest.param(TORCHRUN_8, Limits(None, None), id="unlimited"),
        pytest.param(Launch("rank", world_size=64), Limits(65536, 1048576), id="a job script that raised it"),
    ],
)
def test_good_open_files(launch: Launch, limits: Limits) -> None:
    assert list(files_are_enough(launch, limits, HOST)) == []


@pytest.mark.parametrize(
    ("limits", "platform", "by", "command", "words"),
    [
        (Limits(1024, 16384), HOST, "user", "ulimit -n 16384", "job script"),
        (Limits(1024, None), DOCKER, "user", "ulimit -n 65536", "job script"),
        (Limits(1024, 2048), HOST, "admin", None, "LimitNOFILE"),
        (Limits(1024, 2048), DOCKER, "user", None, "--ulimit nofile"),
        (Limits(1024, 2048), POD, "admin", None, "container runtime"),
        (Limits(1024, 2048), Unavailable("no /proc"), "admin", None, "limits.conf"),
    ],
)
def test_who_raises_open_files(limits: Limits, platform: Any, by: str, command: str | None, words: str) -> None:
    fix = the_finding(files_are_enough(TORCHRUN_8, limits, platform)).fix
    assert (fix.by, fix.command) == (by, command)
    assert words in fix.text


# DC322 memlock-limit


@pytest.mark.parametrize(
    ("launch", "limits", "severity"),
    [
        pytest.param(
            TWO_NODES,
            Limits(locked_memory_soft_bytes=65536, locked_memory_hard_bytes=65536),
            Severity.WARNING,
            id="64 KiB",
        ),
        pytest.param(
            Launch("planned", nproc=8, nnodes=2, backend="nccl"),
            Limits(locked_memory_soft_bytes=8 * MIB, can_lock_memory=False),
            Severity.WARNING,
            id="8 MiB",
        ),
        pytest.param(
            TORCHRUN_8, Limits(locked_memory_soft_bytes=65536), Severity.INFO, id="one node goes without RDMA"
        ),
        pytest.param(Launch(), Limits(locked_memory_soft_bytes=65536), Severity.INFO, id="nothing is launched"),
    ],
)
def test_bad_locked_memory(launch: Launch, limits: Limits, severity: Severity) -> None:
    finding = the_finding(memory_can_be_locked(launch, limits, INFINIBAND, gpus(8), HOST))
    assert (finding.code, finding.severity) == ("DC322", severity)
    assert finding.evidence["devices"] == ["mlx5_0", "mlx5_1"]


@pytest.mark.parametrize(
    ("launch", "limits", "fabric", "cards"),
    [
        pytest.param(TWO_NODES, Limits(), INFINIBAND, gpus(8), id="unlimited"),
        pytest.param(
            TWO_NODES,
            Limits(locked_memory_soft_bytes=65536, can_lock_memory=True),
            INFINIBAND,
            gpus(8),
            id="CAP_IPC_LOCK",
        ),
        pytest.param(TWO_NODES, Limits(locked_memory_soft_bytes=65536), Fabric(), gpus(8), id="no RDMA device"),
        pytest.param(
            TWO_NODES,
            Limits(locked_memory_soft_bytes=65536),
            Fabric((RdmaPort("mlx5_0", 1, "DOWN"),)),
            gpus(8),
            id="the port is down",
        ),
        pytest.param(Launch(), Limits(locked_memory_soft_bytes=65536), INFINIBAND, NO_GPU, id="login node"),
        pytest.param(
            TWO_NODES._replace(backend="gloo"), Limits(locked_memory_soft_bytes=65536), INFINIBAND, gpus(8), id="gloo"
        ),
        pytest.param(TWO_NODES, Limits(locked_memory_soft_bytes=4 * GIB), INFINIBAND, gpus(8), id="limited, but large"),
    ],
)
def test_good_locked_memory(launch: Launch, limits: Limits, fabric: Fabric, cards: Gpus | Unavailable) -> None:
    assert list(memory_can_be_locked(launch, limits, fabric, cards, HOST)) == []


@pytest.mark.parametrize(
    ("launch", "hard", "platform", "by", "command", "words"),
    [
        (TWO_NODES, None, HOST, "user", "ulimit -l unlimited", "job script"),
        (TWO_NODES, 2 * GIB, HOST, "user", "ulimit -l 2097152", "job script"),
        (TWO_NODES, 65536, DOCKER, "user", None, "--ulimit memlock=-1"),
        (TWO_NODES, 65536, POD, "user", None, "IPC_LOCK"),
        (TWO_NODES._replace(scheduler="slurm"), 65536, HOST, "admin", None, "slurmd"),
        (TWO_NODES, 65536, HOST, "admin", None, "limits.conf"),
    ],
)
def test_who_raises_locked_memory(
    launch: Launch, hard: int | None, platform: Platform, by: str, command: str | None, words: str
) -> None:
    limits = Limits(locked_memory_soft_bytes=65536, locked_memory_hard_bytes=hard)
    fix = the_finding(memory_can_be_locked(launch, limits, INFINIBAND, gpus(8), platform)).fix
    assert (fix.by, fix.command) == (by, command)
    assert words in fix.text


# DC323 host-memory-limit


@pytest.mark.parametrize(
    ("launch", "limits", "cards", "severity", "words"),
    [
        pytest.param(
            TORCHRUN_8,
            Limits(memory_limit_bytes=4 * GIB, memory_used_bytes=0, memory_available_bytes=900 * GIB),
            gpus(8),
            Severity.WARNING,
            "the memory limit of 4.0 GiB leaves 4.0 GiB",
            id="Slurm's default for one CPU",
        ),
        pytest.param(
            TORCHRUN_8,
            Limits(memory_limit_bytes=64 * GIB, memory_used_bytes=60 * GIB, memory_available_bytes=900 * GIB),
            gpus(8),
            Severity.WARNING,
            "leaves 4.0 GiB",
            id="a container that is nearly full",
        ),
        pytest.param(
            TORCHRUN_8,
            Limits(memory_available_bytes=GIB),
            NO_GPU,
            Severity.WARNING,
            "this host's memory",
            id="a full host",
        ),
        pytest.param(
            Launch(), Limits(memory_limit_bytes=2 * GIB), gpus(8), Severity.INFO, "8 ranks", id="nothing is launched"
        ),
        pytest.param(
            RANK,
            Limits(memory_limit_bytes=6 * GIB, memory_used_bytes=GIB),
            gpus(8),
            Severity.WARNING,
            "6.0 GiB",
            id="rank",
        ),
    ],
)
def test_bad_memory(launch: Launch, limits: Limits, cards: Gpus | Unavailable, severity: Severity, words: str) -> None:
    finding = the_finding(memory_is_enough(launch, limits, cards, HOST))
    assert (finding.code, finding.severity) == ("DC323", severity)
    assert words in finding.message


@pytest.mark.parametrize(("launch", "severity"), [(TORCHRUN_8, Severity.WARNING), (Launch(), Severity.INFO)])
def test_bad_memory_processes_were_killed(launch: Launch, severity: Severity) -> None:
    limits = Limits(memory_limit_bytes=64 * GIB, memory_used_bytes=GIB, memory_available_bytes=90 * GIB, oom_kills=3)
    finding = the_finding(memory_is_enough(launch, limits, gpus(8), POD))
    assert (finding.code, finding.severity) == ("DC323", severity)
    assert finding.message == "at the memory limit of 64.0 GiB the kernel has already ended 3 processes here"
    assert "resources.limits.memory" in finding.fix.text


@pytest.mark.parametrize(
    ("launch", "limits", "cards"),
    [
        pytest.param(TORCHRUN_8, Limits(memory_available_bytes=900 * GIB), gpus(8), id="no limit"),
        pytest.param(TORCHRUN_8, Limits(memory_limit_bytes=8 * GIB, memory_used_bytes=0), gpus(8), id="just enough"),
        pytest.param(TORCHRUN_8, Limits(memory_limit_bytes=2 * GIB), NO_GPU, id="just enough without GPUs"),
        pytest.param(Launch(), Limits(memory_limit_bytes=GIB), NO_GPU, id="a small container without GPUs or a launch"),
        pytest.param(
            TORCHRUN_8, Limits(memory_available_bytes=90 * GIB, oom_kills=7), gpus(8), id="a desktop's old kills"
        ),
        pytest.param(
            RANK,
            Limits(memory_limit_bytes=9 * GIB, memory_used_bytes=8 * GIB, memory_available_bytes=GIB),
            gpus(8),
            id="running ranks have taken their part",
        ),
        pytest.param(TORCHRUN_8, Limits(), gpus(8), id="nothing is known"),
    ],
)
def test_good_memory(launch: Launch, limits: Limits, cards: Gpus | Unavailable) -> None:
    assert list(memory_is_enough(launch, limits, cards, HOST)) == []


def test_who_gives_more_memory() -> None:
    limits = Limits(memory_limit_bytes=GIB)
    texts = {
        "--mem": (TORCHRUN_8._replace(scheduler="slurm"), HOST),
        "resources.limits.memory": (TORCHRUN_8, POD),
        "--memory": (TORCHRUN_8, DOCKER),
        "fewer ranks": (TORCHRUN_8, HOST),
    }
    for words, (launch, platform) in texts.items():
        assert words in the_finding(memory_is_enough(launch, limits, gpus(8), platform)).fix.text


# DC324 process-limit


@pytest.mark.parametrize(
    ("launch", "limits", "values", "words"),
    [
        pytest.param(TORCHRUN_8, Limits(tasks_limit=200, tasks_now=50), {}, "room for 150 threads", id="a small pod"),
        pytest.param(TORCHRUN_8, Limits(tasks_limit=200, tasks_now=300), {}, "room for 0 threads", id="already above"),
        pytest.param(TORCHRUN_8, Limits(processes_soft=100, tasks_limit=4096), {}, "ulimit -u", id="ulimit"),
        pytest.param(
            Launch("planned", launcher="slurm", nproc=8),
            Limits(tasks_limit=1024, affinity=tuple(range(128))),
            {},
            "at least 1216",
            id="one thread for each CPU and rank",
        ),
        pytest.param(RANK, Limits(tasks_limit=150, tasks_now=140), {}, "room for 150", id="rank"),
    ],
)
def test_bad_processes(launch: Launch, limits: Limits, values: dict[str, str], words: str) -> None:
    finding = the_finding(threads_are_enough(launch, limits, settings(**values), HOST))
    assert (finding.code, finding.severity) == ("DC324", Severity.WARNING)
    assert words in finding.message


@pytest.mark.parametrize(
    ("launch", "limits", "values"),
    [
        pytest.param(TORCHRUN_8, Limits(), {}, id="no limit"),
        pytest.param(TORCHRUN_8, Limits(tasks_limit=2048, tasks_now=30), {}, id="Podman's default"),
        pytest.param(Launch(), Limits(tasks_limit=10), {}, id="nothing is launched"),
        pytest.param(Launch("planned"), Limits(tasks_limit=10), {}, id="the number of ranks is not known"),
        pytest.param(RANK, Limits(tasks_limit=400, tasks_now=390), {}, id="running ranks have taken their part"),
        pytest.param(
            Launch("planned", launcher="slurm", nproc=8),
            Limits(tasks_limit=1024, affinity=tuple(range(128))),
            {"OMP_NUM_THREADS": "8"},
            id="threads are bounded",
        ),
    ],
)
def test_good_processes(launch: Launch, limits: Limits, values: dict[str, str]) -> None:
    assert list(threads_are_enough(launch, limits, settings(**values), HOST)) == []


@pytest.mark.parametrize(
    ("limits", "platform", "by", "words"),
    [
        (Limits(tasks_limit=100), DOCKER, "user", "--pids-limit"),
        (Limits(tasks_limit=100), POD, "admin", "podPidsLimit"),
        (Limits(tasks_limit=100), HOST, "admin", "TasksMax"),
        (Limits(processes_soft=100), DOCKER, "user", "ulimit -u"),
    ],
)
def test_who_raises_processes(limits: Limits, platform: Platform, by: str, words: str) -> None:
    fix = the_finding(threads_are_enough(TORCHRUN_8, limits, NOTHING_SET, platform)).fix
    assert fix.by == by
    assert words in fix.text


# DC325 cpu-quota


@pytest.mark.parametrize(
    ("launch", "limits", "severity", "message"),
    [
        pytest.param(
            TORCHRUN_8,
            Limits(cpu_quota=2.0, affinity=tuple(range(64))),
            Severity.WARNING,
            "8 ranks share a quota of 2 CPUs",
            id="a container with two CPUs",
        ),
        pytest.param(
            TORCHRUN_8, Limits(affinity=(5,)), Severity.WARNING, "8 ranks share 1 of 64 CPUs", id="srun torchrun"
        ),
        pytest.param(
            TORCHRUN_8, Limits(affinity=(0, 1, 2, 3)), Severity.WARNING, "8 ranks share 4 of 64 CPUs", id="taskset"
        ),
        pytest.param(
            SRUN_RANK, Limits(affinity=(5,)), Severity.WARNING, "this rank may run on 1 of 64 CPUs", id="one CPU a task"
        ),
        pytest.param(
            RANK, Limits(cpu_quota=4.0), Severity.WARNING, "8 ranks share a quota of 4 CPUs", id="quota of a pod"
        ),
        pytest.param(
            Launch(), Limits(affinity=(5,)), Severity.INFO, "8 ranks share 1 of 64 CPUs", id="nothing is launched"
        ),
    ],
)
def test_bad_cpus(launch: Launch, limits: Limits, severity: Severity, message: str) -> None:
    finding = the_finding(cpus_are_enough(launch, limits, NOTHING_SET, gpus(8), HOST))
    assert (finding.code, finding.severity) == ("DC325", severity)
    assert finding.message.startswith(message)


def test_bad_cpus_a_machine_that_has_no_more_is_only_told() -> None:
    laptop = Platform("linux", cpus=2)
    finding = the_finding(cpus_are_enough(TORCHRUN_8, Limits(affinity=(0, 1)), NOTHING_SET, NO_GPU, laptop))
    assert (finding.severity, finding.message) == (Severity.INFO, "8 ranks share 2 CPUs")


@pytest.mark.parametrize(
    ("launch", "limits", "cards"),
    [
        pytest.param(TORCHRUN_8, Limits(affinity=tuple(range(64))), gpus(8), id="all CPUs"),
        pytest.param(TORCHRUN_8, Limits(cpu_quota=8.0, affinity=tuple(range(64))), gpus(8), id="just enough"),
        pytest.param(Launch(), Limits(affinity=(0,), cpu_quota=0.5), NO_GPU, id="a small container without GPUs"),
        pytest.param(SRUN_RANK, Limits(affinity=(0, 1, 2, 3)), gpus(8), id="a task with CPUs of its own"),
        pytest.param(Launch("planned", nproc=1), Limits(affinity=(0,)), NO_GPU, id="one rank, one CPU"),
        pytest.param(TORCHRUN_8, Limits(), gpus(8), id="nothing is known"),
    ],
)
def test_good_cpus(launch: Launch, limits: Limits, cards: Gpus | Unavailable) -> None:
    assert list(cpus_are_enough(launch, limits, NOTHING_SET, cards, HOST)) == []


def test_good_cpus_one_cpu_of_one() -> None:
    assert list(cpus_are_enough(SRUN_RANK, Limits(affinity=(0,)), NOTHING_SET, NO_GPU, Platform("linux", cpus=1))) == []


@pytest.mark.parametrize(
    ("launch", "values", "platform", "command", "words"),
    [
        (TORCHRUN_8, {"SLURM_CPUS_PER_TASK": "16"}, HOST, "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK", "srun"),
        (SRUN_RANK, {}, HOST, None, "--cpus-per-task"),
        (TORCHRUN_8, {}, POD, None, "resources.limits.cpu"),
        (TORCHRUN_8, {}, DOCKER, None, "--cpuset-cpus"),
        (TORCHRUN_8, {}, HOST, None, "taskset"),
    ],
)
def test_who_gives_more_cpus(
    launch: Launch, values: dict[str, str], platform: Platform, command: str | None, words: str
) -> None:
    finding = the_finding(cpus_are_enough(launch, Limits(affinity=(5,)), settings(**values), gpus(8), platform))
    assert finding.fix.command == command
    assert words in finding.fix.text


def test_bad_srun_cpus_per_task() -> None:
    launch = Launch("planned", on_this_host=False, command=LaunchCommand("torchrun", wrappers=("srun",)))
    finding = the_finding(srun_passes_the_cpus_on(launch, settings(SLURM_CPUS_PER_TASK="16")))
    assert (finding.code, finding.severity) == ("DC325", Severity.WARNING)
    assert finding.fix.command == "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"


@pytest.mark.parametrize(
    ("command", "values"),
    [
        pytest.param(None, {"SLURM_CPUS_PER_TASK": "16"}, id="no command"),
        pytest.param(LaunchCommand("torchrun"), {"SLURM_CPUS_PER_TASK": "16"}, id="no srun"),
        pytest.param(LaunchCommand("torchrun", wrappers=("srun",)), {}, id="nothing was asked for"),
        pytest.param(
            LaunchCommand("torchrun", wrappers=("srun",)), {"SLURM_CPUS_PER_TASK": "1"}, id="one was asked for"
        ),
        pytest.param(
            LaunchCommand("torchrun", wrappers=("srun",), cpus_per_task=16), {"SLURM_CPUS_PER_TASK": "16"}, id="srun -c"
        ),
        pytest.param(
            LaunchCommand("torchrun", wrappers=("srun",), unknown=frozenset({"cpus_per_task"})),
            {"SLURM_CPUS_PER_TASK": "16"},
            id="srun -c $CPUS",
        ),
        pytest.param(
            LaunchCommand("torchrun", wrappers=("srun",)),
            {"SLURM_CPUS_PER_TASK": "16", "SRUN_CPUS_PER_TASK": "16"},
            id="passed on",
        ),
    ],
)
def test_good_srun_cpus_per_task(command: LaunchCommand | None, values: dict[str, str]) -> None:
    assert list(srun_passes_the_cpus_on(Launch("planned", command=command), settings(**values))) == []


# DC326 numa-affinity

TWO_SOCKETS = Gpus(
    "nvidia",
    (
        Gpu(0, "GPU-a", "NVIDIA A100", cpus=tuple(range(32)), numa_node=0),
        Gpu(1, "GPU-b", "NVIDIA A100", cpus=tuple(range(32, 64)), numa_node=1),
    ),
)
ON_FIRST = Limits(affinity=tuple(range(8)))


@pytest.mark.parametrize(
    ("local_rank", "devices"),
    [
        pytest.param(1, Devices(), id="no mask"),
        pytest.param(1, Devices(visible=("0", "1")), id="all are visible"),
        pytest.param(0, Devices(visible=("GPU-b",)), id="a mask by UUID"),
        pytest.param(1, Devices(visible=("1",)), id="one GPU a task"),
        pytest.param(1, Unavailable("the masks can't be read"), id="masks are not known"),
    ],
)
def test_bad_affinity(local_rank: int, devices: Devices | Unavailable) -> None:
    finding = the_finding(rank_is_near_its_gpu(Launch("rank", local_rank=local_rank), ON_FIRST, TWO_SOCKETS, devices))
    assert (finding.code, finding.severity) == ("DC326", Severity.INFO)
    assert finding.evidence == {"affinity": "0-7", "gpu_cpus": "32-63", "numa_node": 1}


@pytest.mark.parametrize(
    ("launch", "limits", "cards", "devices"),
    [
        pytest.param(Launch("rank", local_rank=0), ON_FIRST, TWO_SOCKETS, Devices(), id="near"),
        pytest.param(
            Launch("rank", local_rank=1), Limits(affinity=tuple(range(64))), TWO_SOCKETS, Devices(), id="free"
        ),
        pytest.param(
            Launch("rank", local_rank=1), ON_FIRST, TWO_SOCKETS, Devices(visible=("0",)), id="masked to the near one"
        ),
        pytest.param(Launch("rank", local_rank=5), ON_FIRST, TWO_SOCKETS, Devices(), id="no such GPU"),
        pytest.param(
            Launch("rank", local_rank=3), ON_FIRST, TWO_SOCKETS, Devices(visible=("1", "0")), id="outside the mask"
        ),
        pytest.param(Launch(), ON_FIRST, TWO_SOCKETS, Devices(), id="no rank"),
        pytest.param(Launch("rank", local_rank=1), Limits(), TWO_SOCKETS, Devices(), id="affinity is not known"),
        pytest.param(Launch("rank", local_rank=1), ON_FIRST, gpus(2), Devices(), id="near CPUs are not known"),
    ],
)
def test_good_affinity(launch: Launch, limits: Limits, cards: Gpus, devices: Devices) -> None:
    assert list(rank_is_near_its_gpu(launch, limits, cards, devices)) == []


# reading

RLIMITS = {"nofile": [1024, 1048576], "memlock": [8388608, 8388608], "nproc": [4096, None]}
MEMORY_INFO = "MemTotal:       1000000 kB\nMemFree:          5000 kB\nMemAvailable:    600000 kB\n"


def test_limits_of_a_host(tmp_path: Path) -> None:
    world = recorded_world(
        tmp_path,
        limits=RLIMITS,
        affinity=[0, 1, 2],
        files={
            "/proc/meminfo": MEMORY_INFO,
            "/proc/self/status": "Name:\tpython\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n",
            "/proc/self/uid_map": "         0          0 4294967295\n",
        },
    )
    assert read_limits(world) == Limits(
        open_files_soft=1024,
        open_files_hard=1048576,
        locked_memory_soft_bytes=8388608,
        locked_memory_hard_bytes=8388608,
        processes_soft=4096,
        can_lock_memory=False,
        memory_available_bytes=600000 * 1024,
        memory_total_bytes=1000000 * 1024,
        affinity=(0, 1, 2),
    )


@pytest.mark.parametrize(
    ("status", "users", "can"),
    [
        ("CapEff:\t0000000000004000\n", "0 0 4294967295\n", True),
        ("CapEff:\t000001ffffffffff\n", "", True),
        ("CapEff:\t000001ffffffbfff\n", "0 0 4294967295\n", False),
        pytest.param("CapEff:\t000001ffffffffff\n", "0 1000 1\n", False, id="root of a user namespace"),
        ("CapEff:\tzz\n", "", None),
        ("Name:\tpython\n", "", None),
    ],
)
def test_capability_to_lock(tmp_path: Path, status: str, users: str, can: bool | None) -> None:
    files = {"/proc/self/status": status, "/proc/self/uid_map": users}
    assert read_limits(recorded_world(tmp_path, limits=RLIMITS, files=files)).can_lock_memory is can


def test_the_process_limit_of_root_does_not_count(tmp_path: Path) -> None:
    assert read_limits(recorded_world(tmp_path, limits=RLIMITS, user_id=0)).processes_soft is None


V2_MOUNT = "30 24 0:26 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_cgroup_v2_of_a_container(tmp_path: Path) -> None:
    top = "/sys/fs/cgroup"
    world = recorded_world(
        tmp_path,
        limits=RLIMITS,
        files={
            "/proc/self/cgroup": "0::/\n",
            "/proc/self/mountinfo": V2_MOUNT.format(root="/"),
            f"{top}/memory.max": "8589934592\n",
            f"{top}/memory.current": "3221225472\n",
            f"{top}/memory.stat": "anon 100\ninactive_file 1073741824\n",
            f"{top}/memory.events": "low 0\nmax 12\noom 2\noom_kill 2\n",
            f"{top}/cpu.max": "150000 100000\n",
            f"{top}/pids.max": "2048\n",
            f"{top}/pids.current": "17\n",
        },
    )
    found = read_limits(world)
    assert (found.cgroup_version, found.memory_limit_bytes, found.memory_used_bytes) == (2, 8 * GIB, 2 * GIB)
    assert (found.oom_kills, found.cpu_quota, found.tasks_limit, found.tasks_now) == (2, 1.5, 2048, 17)


def test_the_tightest_level_of_a_job_counts(tmp_path: Path) -> None:
    job = "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7"
    world = recorded_world(
        tmp_path,
        limits=RLIMITS,
        files={
            "/proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
            "/proc/self/mountinfo": V2_MOUNT.format(root="/"),
            f"{job}/memory.max": "17179869184\n",
            f"{job}/memory.current": "1073741824\n",
            f"{job}/memory.events": "oom_kill 1\n",
            f"{job}/step_0/memory.max": "34359738368\n",
            f"{job}/step_0/user/memory.max": "max\n",
            f"{job}/step_0/user/task_0/memory.events": "oom_kill 0\n",
            f"{job}/cpu.max": "max 100000\n",
            f"{job}/step_0/cpu.max": "400000 100000\n",
            f"{job}/pids.max": "max\n",
            "/sys/fs/cgroup/system.slice/pids.max": "512\n",
            "/sys/fs/cgroup/system.slice/pids.current": "500\n",
        },
    )
    found = read_limits(world)
    assert (found.memory_limit_bytes, found.memory_used_bytes, found.oom_kills) == (16 * GIB, GIB, 1)
    assert (found.cpu_quota, found.tasks_limit, found.tasks_now) == (4.0, 512, 500)


@pytest.mark.parametrize(
    ("root", "path"),
    [
        pytest.param("/docker/abc", "/docker/abc", id="the host's path, a part of the tree"),
        pytest.param("/docker/abc", "/somewhere/else", id="a path outside of what is mounted"),
        pytest.param("/", "/../..", id="above the namespace's root"),
    ],
)
def test_cgroup_v1_of_a_container(tmp_path: Path, root: str, path: str) -> None:
    memory = "/sys/fs/cgroup/memory"
    world = recorded_world(
        tmp_path,
        limits=RLIMITS,
        files={
            "/proc/self/cgroup": f"9:cpu,cpuacct:{path}\n4:memory:{path}\n3:pids:{path}\n1:name=systemd:/\n0::/\n",
            "/proc/self/mountinfo": f"40 31 0:33 {root} {memory} ro - cgroup cgroup rw,memory\n"
            f"41 31 0:34 {root} /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
            + V2_MOUNT.format(root="/").replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
            f"{memory}/memory.limit_in_bytes": "4294967296\n",
            f"{memory}/memory.usage_in_bytes": "2147483648\n",
            f"{memory}/memory.stat": "inactive_file 5\ntotal_inactive_file 1073741824\n",
            f"{memory}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/pids/pids.max": "100\n",
            "/sys/fs/cgroup/pids/pids.current": "3\n",
        },
    )
    found = read_limits(world)
    assert (found.cgroup_version, found.memory_limit_bytes, found.memory_used_bytes) == (1, 4 * GIB, GIB)
    assert (found.oom_kills, found.cpu_quota, found.tasks_limit) == (4, 2.0, 100)


def test_cgroup_without_limits(tmp_path: Path) -> None:
    world = recorded_world(
        tmp_path,
        limits=RLIMITS,
        files={
            "/proc/self/cgroup": "4:memory:/\n2:cpu:/\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    found = read_limits(world)
    assert (found.cgroup_version, found.memory_limit_bytes, found.cpu_quota) == (1, None, None)


def test_windows_has_no_limits(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="Windows"):
        read_limits(recorded_world(tmp_path, platform="win32"))


def test_limits_that_can_not_be_asked_are_not_unlimited(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nofile"):
        read_limits(recorded_world(tmp_path))


def test_macos(tmp_path: Path) -> None:
    found = read_limits(recorded_world(tmp_path, platform="darwin", limits=RLIMITS, affinity=[0]))
    assert (found.open_files_soft, found.cgroup_version, found.memory_total_bytes) == (1024, None, None)


@given(st.text(alphabet="/.ab", max_size=30), st.sampled_from(["/", "/a", "/a/b"]))
def test_the_folders_of_a_cgroup_stay_below_the_mount(path: str, root: str) -> None:
    folders = room._folders("/mnt", root, "/" + path)
    assert folders[-1] == "/mnt"
    assert all(folder == "/mnt" or folder.startswith("/mnt/") for folder in folders)
    assert all(".." not in folder.split("/") for folder in folders)
    assert [len(folder) for folder in folders] == sorted({len(folder) for folder in folders}, reverse=True)


@given(st.text(max_size=200))
def test_files_of_the_kernel_may_hold_anything(text: str) -> None:
    assert all(number >= 0 for number in room._numbers(text).values())
    assert all(mount and root for mount, root in room._cgroup_mounts(text).values())
    number = room._number(text)
    assert number is None or str(number) == str(int(text.strip()))


# on this machine


def in_child(code: str, **options: Any) -> dict[str, Any]:
    """What a Python of its own prints as JSON."""
    environ = {**os.environ, "PYTHONPATH": REPOSITORY}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, **options
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


JUDGE = """
import json
from distcheck.checks.host.limits import files_are_enough, read_limits
from distcheck.checks.host.platform import read_platform
from distcheck.launch.model import Launch
from distcheck.core.world import World
world = World()
limits = read_limits(world)
found = list(files_are_enough(Launch("planned", nproc=2), limits, read_platform(world)))
print(json.dumps({"limits": limits._asdict(), "found": [item.as_dict() for item in found]}))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
def test_bad_open_files_of_a_real_process() -> None:
    answer = in_child("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 400))" + JUDGE)
    assert (answer["limits"]["open_files_soft"], answer["limits"]["open_files_hard"]) == (200, 400)
    (finding,) = answer["found"]
    assert (finding["code"], finding["severity"]) == ("DC321", "warning")
    assert "can't raise that above 400" in finding["message"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
def test_affinity_and_memory_of_a_real_process() -> None:
    cpu = min(os.sched_getaffinity(0))
    answer = in_child(f"import os; os.sched_setaffinity(0, {{{cpu}}})" + JUDGE)["limits"]
    assert answer["affinity"] == [cpu]
    assert 0 < answer["memory_available_bytes"] <= answer["memory_total_bytes"]
    assert answer["can_lock_memory"] in (True, False)


FULL = """
import json, sys
from distcheck.checks.host.platform import read_platform
from distcheck.checks.host.storage import read_shared_memory, shared_memory_holds_the_ranks
from distcheck.launch.model import Launch
from distcheck.core.model import Unavailable
from distcheck.core.world import World
world = World()
memory = read_shared_memory(world)
launch = Launch("planned", nproc=int(sys.argv[1]), backend="nccl")
unseen = Unavailable("not read")
found = list(shared_memory_holds_the_ranks(launch, memory, unseen, unseen, read_platform(world)))
print(json.dumps({"memory": memory._asdict(), "found": [item.as_dict() for item in found]}))
"""


def on_a_real_mount(folder: Path, size: str, program: str) -> list[str]:
    """The lines that a shell prints which has a /dev/shm of its own, and $judge to judge it for some ranks."""
    script = folder / "full.py"
    script.write_text(FULL)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces are not allowed here")
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-e", "-c", f"mount -t tmpfs -o size={size} tmpfs /dev/shm; {program}"],
        env={**os.environ, "PYTHONPATH": REPOSITORY, "judge": f"{sys.executable} {script}"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if "mount:" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.root
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_bad_shared_memory_of_a_real_mount(tmp_path: Path) -> None:
    program = "head -c 12582912 /dev/zero > /dev/shm/nccl-left; $judge 2"
    answer = json.loads(*on_a_real_mount(tmp_path, "16m", program))
    assert answer["memory"] == {"total_bytes": 16 * MIB, "free_bytes": 4 * MIB, "leftovers": 1}
    (finding,) = answer["found"]
    assert (finding["code"], finding["severity"]) == ("DC320", "warning")
    assert "size=16g" in finding["fix"]["text"] + (finding["fix"]["command"] or "")


@pytest.mark.root
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_the_fix_of_a_full_dc320_lists_the_caller_s_own_files(tmp_path: Path) -> None:
    fill = (
        "head -c 545259520 /dev/zero > /dev/shm/nccl-left; touch /dev/shm/other; chown 65534 /dev/shm/other; $judge 8"
    )
    (finding,) = json.loads(*on_a_real_mount(tmp_path, "1g", fill))["found"]
    assert "; 1 file there may be left over" in finding["message"]
    assert "size" not in finding["fix"]["text"]
    words = f"{fill} > /dev/null; {finding['fix']['command']}; rm /dev/shm/nccl-left; $judge 8"
    listed, judged = on_a_real_mount(tmp_path, "1g", words)
    assert listed.endswith("/dev/shm/nccl-left")
    assert json.loads(judged)["found"] == []
