"""The scheduler's numbers, pods, counts and time against the launch."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from distcheck.checks.host.devices import Devices
from distcheck.checks.host.launcher import Script
from distcheck.core.model import Severity
from distcheck.launch.command import parse_command

from .launches import (
    NOW,
    OPENMPI_TASK,
    PYTORCHJOB_POD,
    SBATCH_BODY,
    SRUN_TASK,
    SRUN_TASK_A_NODE,
    TORCHRUN_WORKER,
    UNDER_TORCHRUN,
    codes,
    judge,
)

EIGHT_GPUS = Devices((), tuple(str(index) for index in range(8)))
ONE_GPU = Devices((), ("0",))
VOLCANO_POD = {name: value for name, value in PYTORCHJOB_POD.items() if not name.startswith("PET_")}
MAPPED = {
    **SRUN_TASK,
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
}


# DC105


@pytest.mark.parametrize(
    ("environ", "how", "words"),
    [
        pytest.param(SRUN_TASK, {"launched": True}, "SLURM_PROCID", id="task of srun"),
        pytest.param({**SRUN_TASK, "WORLD_SIZE": "16"}, {}, "SLURM_PROCID", id="the count alone"),
        pytest.param(OPENMPI_TASK, {"launched": True}, "OMPI_COMM_WORLD_RANK", id="task of mpirun"),
        pytest.param(
            SRUN_TASK, {"command": "python t.py", "host_name": "gpu02"}, "SLURM_PROCID", id="python in each task"
        ),
        pytest.param({}, {"command": "srun -n 8 python t.py"}, "SLURM_PROCID", id="srun from a login node"),
        pytest.param({}, {"command": "mpirun -np 8 python t.py"}, "OMPI_COMM_WORLD_RANK or PMI_RANK", id="mpirun"),
    ],
)
def test_bad_tasks_without_ranks(environ: Mapping[str, str], how: dict[str, object], words: str) -> None:
    (finding,) = judge(environ, EIGHT_GPUS, **how)  # type: ignore[arg-type]
    assert (finding.code, finding.severity) == ("DC105", Severity.ERROR)
    assert words in finding.message
    assert finding.fix.command is not None
    assert "RANK would be 0 for all" in finding.fix.text


def test_the_mapping_keeps_the_command_and_fixes_it() -> None:
    (finding,) = judge({}, command="srun -N 2 --ntasks-per-node=8 python -u train.py --lr 1")
    line = finding.fix.command
    assert line is not None
    assert line.startswith("srun -N 2 --ntasks-per-node=8 bash -c 'export RANK=$SLURM_PROCID ")
    assert line.endswith("; exec python -u train.py --lr 1'")
    assert codes(judge({}, command=line)) == []
    (finding,) = judge({}, command="mpirun -np 8 python train.py")
    assert finding.fix.command is not None
    assert parse_command(finding.fix.command.split()).tasks == 8
    assert codes(judge({}, command=finding.fix.command)) == []


@pytest.mark.parametrize(
    ("environ", "facts", "how"),
    [
        pytest.param(SRUN_TASK, (), {}, id="a step before its command"),
        pytest.param(MAPPED, (), {}, id="mapped"),
        pytest.param(SBATCH_BODY, (), {}, id="body"),
        pytest.param({}, (), {"command": "srun torchrun t.py"}, id="torchrun sets them"),
        pytest.param(
            {},
            (Script("t.py", None, ("SLURM_PROCID",)),),
            {"command": "srun -n 8 python t.py"},
            id="the script maps them",
        ),
        pytest.param(
            {}, (Script("t.py", "uses a framework"),), {"command": "srun -n 8 python t.py"}, id="Lightning finds them"
        ),
        pytest.param({}, (), {"command": "srun -n 8 bash run.sh"}, id="nothing is known of the script"),
    ],
)
def test_good_tasks(environ: Mapping[str, str], facts: tuple[object, ...], how: dict[str, object]) -> None:
    assert "DC105" not in codes(judge(environ, *facts, **how))  # type: ignore[arg-type]


# DC107


@pytest.mark.parametrize(
    ("environ", "devices", "how"),
    [
        pytest.param(PYTORCHJOB_POD, EIGHT_GPUS, {"command": "python train.py"}, id="plain python"),
        pytest.param(PYTORCHJOB_POD, EIGHT_GPUS, {"launched": True}, id="said to be a rank"),
        pytest.param(VOLCANO_POD, EIGHT_GPUS, {"command": "python train.py"}, id="without PET_"),
        pytest.param(
            PYTORCHJOB_POD, Devices(), {"command": "python train.py"}, id="GPUs unknown, the operator's count is not"
        ),
    ],
)
def test_bad_pods_for_ranks(environ: Mapping[str, str], devices: Devices, how: dict[str, object]) -> None:
    (finding,) = judge(environ, devices, **how)  # type: ignore[arg-type]
    assert (finding.code, finding.severity) == ("DC107", Severity.ERROR)
    assert finding.evidence["processes_per_pod"] == 8
    assert finding.fix.command is not None
    assert codes(judge(environ, devices, command=finding.fix.command)) == []


def test_the_line_says_what_no_variable_says() -> None:
    (finding,) = judge(VOLCANO_POD, EIGHT_GPUS, command="python train.py --lr 1")
    assert finding.fix.command == (
        'torchrun --nnodes="$WORLD_SIZE" --node-rank="$RANK" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" '
        "--nproc-per-node=8 train.py --lr 1"
    )
    (finding,) = judge(PYTORCHJOB_POD, EIGHT_GPUS, command="python train.py")
    assert finding.fix.command == "torchrun train.py"


@pytest.mark.parametrize(
    ("environ", "facts", "how"),
    [
        pytest.param(PYTORCHJOB_POD, (EIGHT_GPUS,), {}, id="before the command"),
        pytest.param(PYTORCHJOB_POD, (EIGHT_GPUS,), {"command": "torchrun t.py"}, id="torchrun"),
        pytest.param(VOLCANO_POD, (ONE_GPU,), {"command": "python t.py"}, id="one GPU a pod: pods are ranks"),
        pytest.param({**VOLCANO_POD, "LOCAL_RANK": "0"}, (EIGHT_GPUS,), {}, id="a launcher has started this one"),
        pytest.param(
            PYTORCHJOB_POD,
            (EIGHT_GPUS, Script("t.py", "starts its ranks itself")),
            {"command": "python t.py"},
            id="mp.spawn",
        ),
    ],
)
def test_good_dc107_pods(environ: Mapping[str, str], facts: tuple[object, ...], how: dict[str, object]) -> None:
    assert codes(judge(environ, *facts, **how)) == []  # type: ignore[arg-type]


# DC108


@pytest.mark.parametrize(
    ("environ", "command", "words"),
    [
        pytest.param(
            {},
            "srun -N 4 --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=8 t.py",
            "expects 2 nodes",
            id="four for two",
        ),
        pytest.param(
            {},
            "srun -N 2 --ntasks-per-node=1 torchrun --nproc-per-node=8 t.py",
            "2 independent jobs",
            id="two jobs",
        ),
        pytest.param(
            {},
            "srun -N 3 --ntasks-per-node=1 torchrun --rdzv-backend=c10d --rdzv-endpoint=node1:29400 t.py",
            "one node trains alone and the other 2 wait until it ends",
            id="one rendezvous for one node",
        ),
        pytest.param(
            {},
            "srun -N 2 --ntasks-per-node=1 torchrun --master-addr=node1 --master-port=29500 t.py",
            "the ranks of all 2 use the same numbers in the store of node1, and collide",
            id="one store for two jobs",
        ),
        pytest.param(
            {},
            "srun -N 2 --ntasks-per-node=1 torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 t.py",
            "2 independent jobs",
            id="each its own loopback",
        ),
        pytest.param({}, "srun -N 1 -n 1 torchrun --nnodes=1:1 --nproc-per-node=8 t.py", "", id="good: one"),
        pytest.param({}, "srun -N 2 -c 8 torchrun --nproc-per-node=8 t.py", "as many as fit", id="cores only"),
        pytest.param(
            SBATCH_BODY,
            "srun -N 2 --ntasks-per-node=1 torchrun --nnodes=3 --nproc-per-node=8 t.py",
            "expects 3",
            id="in a job",
        ),
    ],
)
def test_bad_agent_count(environ: Mapping[str, str], command: str, words: str) -> None:
    findings = [finding for finding in judge(environ, command=command, host_name="gpu01") if finding.code == "DC108"]
    if not words:
        assert findings == []
        return
    (finding,) = findings
    assert (finding.code, finding.severity) == ("DC108", Severity.WARNING)
    assert words in finding.message


def test_bad_world_size_of_a_task() -> None:
    findings = judge({**MAPPED, "WORLD_SIZE": "4", "RANK": "1"})
    assert [(finding.code, finding.severity) for finding in findings] == [("DC108", Severity.WARNING)]


@pytest.mark.parametrize(
    ("environ", "facts", "how"),
    [
        pytest.param(MAPPED, (), {}, id="tasks are ranks"),
        pytest.param(
            {**SRUN_TASK_A_NODE, **TORCHRUN_WORKER, "GROUP_WORLD_SIZE": "2", "WORLD_SIZE": "4"},
            (UNDER_TORCHRUN,),
            {},
            id="agents",
        ),
        pytest.param(
            {},
            (),
            {"command": "srun -N 2 torchrun --nnodes='$SLURM_NNODES' --nproc-per-node=8 t.py"},
            id="unknown counts",
        ),
        pytest.param(
            {},
            (),
            {"command": "srun -N 4 --ntasks-per-node=1 torchrun --nnodes=2:8 --rdzv-backend=c10d t.py"},
            id="elastic",
        ),
        pytest.param(
            SBATCH_BODY, (), {"command": "torchrun --nproc-per-node=8 t.py"}, id="torchrun in the body, without srun"
        ),
        pytest.param(SRUN_TASK, (), {}, id="no launch"),
    ],
)
def test_good_task_counts(environ: Mapping[str, str], facts: tuple[object, ...], how: dict[str, object]) -> None:
    assert "DC108" not in codes(judge(environ, *facts, **how))  # type: ignore[arg-type]


# DC125


@pytest.mark.parametrize(("how", "severity"), [({"command": "torchrun t.py"}, Severity.WARNING), ({}, Severity.INFO)])
def test_bad_time_limit_is_near(how: dict[str, object], severity: Severity) -> None:
    environ = {**SBATCH_BODY, "SLURM_JOB_END_TIME": str(int(NOW) + 95)}
    (finding,) = [finding for finding in judge(environ, **how) if finding.code == "DC125"]  # type: ignore[arg-type]
    assert (finding.code, finding.severity) == ("DC125", severity)
    assert "1 min 35 s" in finding.message
    assert finding.evidence["left_s"] == 95


@pytest.mark.parametrize("end", [str(int(NOW) + 7200), str(int(NOW) - 60), "soon", ""])
def test_good_time(end: str) -> None:
    """Time enough, the variable of a job that has ended, or one that can't be read."""
    findings = judge({**SBATCH_BODY, "SLURM_JOB_END_TIME": end}, command="torchrun t.py")
    assert "DC125" not in [finding.code for finding in findings]
