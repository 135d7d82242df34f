"""The launch command and what it runs under."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from distcheck.checks.host.devices import Devices
from distcheck.checks.host.gpus import Driver
from distcheck.checks.host.launcher import options_stand_before_the_script, read_script, task_plan
from distcheck.checks.host.processes import Ancestry
from distcheck.core.model import Severity, Unavailable
from distcheck.launch.reader import LaunchOptions
from distcheck.launch.schedulers import SchedulerStep, scheduler_of
from tests.recorded import recorded_world

from .launches import (
    OPENMPI_TASK,
    SBATCH_BODY,
    SRUN_TASK,
    SRUN_TASK_A_NODE,
    TERMINAL,
    TORCHRUN_WORKER,
    UNDER_TORCHRUN,
    codes,
    judge,
    make,
)

EIGHT_GPUS = Devices((), tuple(str(index) for index in range(8)))
EIGHT_RANKS = {**TORCHRUN_WORKER, "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}
NOHUP = TERMINAL._replace(under_nohup=True)


# DC106


@pytest.mark.parametrize(
    ("environ", "facts", "how", "starter"),
    [
        pytest.param(
            {}, (), {"command": "srun -N 2 --ntasks-per-node=8 torchrun --nproc-per-node=8 t.py"}, "srun", id="srun"
        ),
        pytest.param({}, (), {"command": "mpirun -np 8 torchrun --nproc-per-node=8 t.py"}, "mpirun", id="mpirun"),
        pytest.param(
            {}, (), {"command": "srun -N 1 -n 4 torchrun --nproc-per-node=gpu t.py"}, "srun", id="as many as GPUs"
        ),
        pytest.param(
            {}, (), {"command": "srun -N 1 -n 4 accelerate launch --num_processes 4 t.py"}, "srun", id="accelerate"
        ),
        pytest.param({}, (), {"command": "srun -N 1 -n 4 deepspeed --num_gpus 4 t.py"}, "srun", id="deepspeed"),
        pytest.param(
            SBATCH_BODY,
            (),
            {"command": "srun torchrun --nproc-per-node=8 t.py", "host_name": "gpu01"},
            "srun",
            id="inherited",
        ),
        pytest.param(
            SRUN_TASK,
            (),
            {"command": "torchrun --nproc-per-node=8 t.py", "host_name": "gpu02"},
            "srun",
            id="inside of a task",
        ),
        pytest.param({**SRUN_TASK, **EIGHT_RANKS}, (UNDER_TORCHRUN,), {}, "srun", id="seen by a rank"),
        pytest.param(
            {**OPENMPI_TASK, **EIGHT_RANKS}, (UNDER_TORCHRUN,), {}, "mpirun", id="seen by a rank under mpirun"
        ),
    ],
)
def test_bad_two_launchers(
    environ: Mapping[str, str], facts: tuple[object, ...], how: dict[str, object], starter: str
) -> None:
    (finding,) = judge(environ, EIGHT_GPUS, *facts, **how)  # type: ignore[arg-type]
    assert (finding.code, finding.severity, finding.where.object) == ("DC106", Severity.ERROR, starter)
    assert "tasks on a node" in finding.message


def test_one_node_needs_no_mpirun() -> None:
    (finding,) = judge({}, command="mpirun -np 8 torchrun --nproc-per-node=8 t.py")
    assert "64 in all" in finding.message
    assert finding.fix.command == "torchrun --standalone --nproc-per-node=8 t.py"
    assert judge({}, command=finding.fix.command) == []


def test_a_login_node_keeps_its_srun() -> None:
    (finding,) = judge({}, command="srun -N 1 -n 8 torchrun --nproc-per-node=8 t.py")
    assert finding.fix.command is None
    assert "srun --ntasks=$SLURM_NNODES --ntasks-per-node=1" in finding.fix.text


@pytest.mark.parametrize(
    ("environ", "facts", "how"),
    [
        pytest.param(
            {},
            (),
            {"command": "srun -N 2 --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=8 t.py"},
            id="one a node",
        ),
        pytest.param(
            {}, (), {"command": "srun -N 1 -n 8 torchrun --nnodes=8 --nproc-per-node=1 t.py"}, id="one rank an agent"
        ),
        pytest.param(
            {},
            (),
            {"command": "srun -N 1 -n 2 torchrun --nnodes=2 --nproc-per-node=4 t.py"},
            id="two agents on a node, told so",
        ),
        pytest.param(
            {},
            (),
            {"command": "srun -N 1 -n 2 --gpus-per-task=4 torchrun --nnodes='$N' --nproc-per-node=4 t.py"},
            id="agents share GPUs",
        ),
        pytest.param({}, (), {"command": "srun --ntasks-per-node='$N' torchrun --nproc-per-node=8 t.py"}, id="unknown"),
        pytest.param(SBATCH_BODY, (), {"command": "torchrun --nproc-per-node=8 t.py"}, id="torchrun in the body"),
        pytest.param({**SRUN_TASK_A_NODE, **EIGHT_RANKS}, (UNDER_TORCHRUN,), {}, id="rank of an agent a node"),
        pytest.param({**SBATCH_BODY, **EIGHT_RANKS}, (UNDER_TORCHRUN,), {}, id="rank of an agent in the body"),
        pytest.param(
            {}, (), {"command": "mpirun -np 16 --hostfile h torchrun --nproc-per-node=8 t.py"}, id="hosts unknown"
        ),
        pytest.param(SRUN_TASK, (), {}, id="no launch"),
    ],
)
def test_good_one_launcher(environ: Mapping[str, str], facts: tuple[object, ...], how: dict[str, object]) -> None:
    assert "DC106" not in codes(judge(environ, EIGHT_GPUS, *facts, **how))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environ", "command", "plan"),
    [
        ({}, "torchrun t.py", None),
        ({}, "srun -N 2 -n 16 torchrun t.py", SchedulerStep("srun", 2, 16, 8)),
        ({}, "srun -N 2 --ntasks-per-node=3 torchrun t.py", SchedulerStep("srun", 2, 6, 3)),
        ({}, "srun torchrun t.py", SchedulerStep("srun")),
        # with a total it is a maximum: one task
        ({}, "srun -n 1 --ntasks-per-node=8 torchrun t.py", SchedulerStep("srun", 1, 1, 1)),
        (SBATCH_BODY, "srun torchrun t.py", SchedulerStep("srun", 2, 16, 8)),
        (SBATCH_BODY, "srun -n 4 torchrun t.py", SchedulerStep("srun", 2, 4, 2)),
        (SBATCH_BODY, "mpirun -np 16 torchrun t.py", SchedulerStep("mpirun", 2, 16, 8)),
        (SRUN_TASK, "", SchedulerStep("srun", 2, 16, 8)),
        (SBATCH_BODY, "", None),
    ],
)
def test_task_plan(environ: Mapping[str, str], command: str, plan: SchedulerStep | None) -> None:
    launch = make(environ, command=command, launched=not command, host_name="gpu01")
    assert task_plan(launch, scheduler_of(environ) or Unavailable("none")) == plan


# DC117


@pytest.mark.parametrize(
    ("environ", "ancestry", "command"),
    [
        pytest.param({}, TERMINAL, "nohup torchrun --nproc-per-node=8 t.py", id="nohup torchrun"),
        pytest.param({}, TERMINAL, "nohup python -m torch.distributed.launch t.py", id="nohup python -m"),
        pytest.param({}, TERMINAL, "nohup accelerate launch t.py", id="accelerate runs torchrun's agent"),
        pytest.param({}, TERMINAL, "nohup bash -c 'torchrun t.py'", id="nohup bash"),
        pytest.param({}, NOHUP, "torchrun t.py", id="in a shell script under nohup"),
        pytest.param(TORCHRUN_WORKER, UNDER_TORCHRUN._replace(under_nohup=True), "", id="seen by a rank"),
    ],
)
def test_bad_nohup(environ: Mapping[str, str], ancestry: Ancestry, command: str) -> None:
    (finding,) = judge(environ, ancestry, command=command)
    assert (finding.code, finding.severity) == ("DC117", Severity.WARNING)
    assert "setsid" in finding.fix.text
    if finding.fix.command is not None:
        assert judge(environ, TERMINAL, command=finding.fix.command) == []


@pytest.mark.parametrize(
    ("environ", "ancestry", "command"),
    [
        pytest.param({}, TERMINAL, "torchrun t.py", id="a terminal is healthy"),
        pytest.param({}, TERMINAL, "setsid nohup torchrun t.py", id="setsid"),
        pytest.param({}, TERMINAL, "nohup setsid torchrun t.py", id="setsid behind it"),
        pytest.param({}, TERMINAL._replace(keepers=("tmux",)), "nohup torchrun t.py", id="tmux"),
        pytest.param({}, TERMINAL._replace(keepers=("slurmstepd",)), "nohup torchrun t.py", id="job"),
        pytest.param({}, TERMINAL, "nohup torchrun --signals-to-handle=SIGTERM,SIGINT t.py", id="SIGHUP is left alone"),
        pytest.param({}, TERMINAL, "nohup srun torchrun t.py", id="torchrun runs elsewhere"),
        pytest.param({}, TERMINAL, "nohup docker run image torchrun t.py", id="container"),
        pytest.param({}, TERMINAL, "nohup python t.py", id="python keeps nohup's setting"),
        pytest.param({}, TERMINAL, "nohup deepspeed t.py", id="so does DeepSpeed"),
        pytest.param(
            {}, NOHUP._replace(terminal=False, from_terminal=False), "torchrun t.py", id="no terminal, no hang-up"
        ),
        pytest.param(TORCHRUN_WORKER, UNDER_TORCHRUN, "", id="rank in a terminal"),
        pytest.param(
            {**TORCHRUN_WORKER, "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM"},
            UNDER_TORCHRUN._replace(under_nohup=True),
            "",
            id="rank, told",
        ),
        pytest.param({}, NOHUP, "", id="no launch"),
    ],
)
def test_good_nohup(environ: Mapping[str, str], ancestry: Ancestry, command: str) -> None:
    assert "DC117" not in [finding.code for finding in judge(environ, ancestry, command=command)]


def test_nohup_is_judged_without_ancestors() -> None:
    from distcheck.checks.host.launcher import launcher_survives_a_hangup

    (finding,) = launcher_survives_a_hangup(make({}, command="nohup torchrun t.py"), Unavailable("no /proc"))
    assert finding.code == "DC117"


# DC118


@pytest.mark.parametrize(
    ("environ", "command", "words"),
    [
        (
            {**TORCHRUN_WORKER, "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_MAX_RESTARTS": "3"},
            "",
            "restarted 2 times",
        ),
        ({**TORCHRUN_WORKER, "TORCHELASTIC_MAX_RESTARTS": "3"}, "", "up to 3 restarts"),
        ({}, "torchrun --max-restarts=1 t.py", "up to 1 restart "),
        ({"PET_MAX_RESTARTS": "3"}, "torchrun t.py", "up to 3 restarts"),
    ],
)
def test_bad_restarts(environ: Mapping[str, str], command: str, words: str) -> None:
    (finding,) = judge(environ, UNDER_TORCHRUN, command=command)
    assert (finding.code, finding.severity) == ("DC118", Severity.INFO)
    assert words in finding.message


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        (TORCHRUN_WORKER, ""),
        ({}, "torchrun --max-restarts=0 t.py"),
        ({"TORCHELASTIC_RESTART_COUNT": "1"}, "torchrun t.py"),
    ],
)
def test_good_dc118_restarts(environ: Mapping[str, str], command: str) -> None:
    assert judge(environ, UNDER_TORCHRUN, command=command) == []


# DC121


@pytest.mark.parametrize(
    ("facts", "command", "severity"),
    [
        pytest.param((Devices((), ()),), "torchrun --nproc-per-node=gpu t.py", Severity.ERROR, id="no GPU"),
        pytest.param(
            (Devices((("CUDA_VISIBLE_DEVICES", ""),), ()),),
            "torchrun --nproc-per-node=gpu t.py",
            Severity.ERROR,
            id="all masked",
        ),
        pytest.param((Driver(),), "torchrun --nproc-per-node=gpu t.py", Severity.ERROR, id="no driver"),
        pytest.param((Driver(),), "torchrun --nproc-per-node=auto t.py", Severity.INFO, id="auto takes cores"),
    ],
)
def test_bad_processes_by_gpus(facts: tuple[object, ...], command: str, severity: Severity) -> None:
    (finding,) = judge({}, *facts, command=command)
    assert (finding.code, finding.severity) == ("DC121", severity)


def test_auto_for_nccl_is_an_error() -> None:
    (finding,) = judge(
        {}, Driver(), command="torchrun --nproc-per-node=auto t.py", options=LaunchOptions(backend="nccl")
    )
    assert (finding.code, finding.severity) == ("DC121", Severity.ERROR)


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        pytest.param((EIGHT_GPUS,), "torchrun --nproc-per-node=gpu t.py", id="GPUs"),
        pytest.param((Devices((), ()),), "torchrun --nproc-per-node=2 t.py", id="a number"),
        pytest.param(
            (Driver(nodes=("/dev/nvidia0",)),),
            "torchrun --nproc-per-node=gpu t.py",
            id="there, but not to be read: not checked",
        ),
        pytest.param((), "torchrun --nproc-per-node=gpu t.py", id="nothing known: not checked"),
    ],
)
def test_good_dc121_processes_by_gpus(facts: tuple[object, ...], command: str) -> None:
    assert judge({}, *facts, command=command) == []


# the script


@pytest.mark.parametrize(
    ("text", "arranges"),
    [
        ("import torch.multiprocessing as mp\nmp.spawn(main, nprocs=8)\n", "starts its ranks itself"),
        ("os.environ['MASTER_ADDR'] = 'localhost'\n", "sets them itself"),
        ('os.environ.setdefault("RANK", "0")\n', "sets them itself"),
        (
            "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:1234')\n",
            "uses its own init_method as the rendezvous",
        ),
        ("ddp = int(os.environ.get('RANK', -1)) != -1\n", "does without them in a single process"),
        ("if 'WORLD_SIZE' in os.environ:\n", "does without them in a single process"),
        ("from lightning import Trainer\n", "uses a framework that can do without them"),
        ("rank = int(os.environ['RANK'])\nif os.environ['RANK'] == '0': pass\n", None),
        ("import arrayed\ndist.init_process_group('nccl')\n", None),
    ],
)
def test_what_a_script_arranges(tmp_path: Path, text: str, arranges: str | None) -> None:
    world = recorded_world(tmp_path, files={"/home/user/t.py": text})
    found = read_script(world, make({}, command="python t.py"))
    assert (found.path, found.arranges) == ("t.py", arranges)


def test_scheduler_variables_of_a_script(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, files={"/data/t.py": "rank = int(os.environ['SLURM_PROCID'])\n"})
    assert read_script(world, make({}, command="srun python /data/t.py")).scheduler_variables == ("SLURM_PROCID",)


@pytest.mark.parametrize(
    ("command", "words"), [("python t.py", "t.py can't be read"), ("python -m pkg", "no script"), ("", "no script")]
)
def test_no_script_is_not_checked(tmp_path: Path, command: str, words: str) -> None:
    with pytest.raises(Unavailable, match=words):
        read_script(recorded_world(tmp_path), make({}, command=command))


# DC803


@pytest.mark.parametrize(
    ("command", "names", "line"),
    [
        (
            "torchrun train.py --nproc_per_node 8 --lr 1",
            ["--nproc_per_node"],
            "torchrun --nproc_per_node 8 train.py --lr 1",
        ),
        (
            "python -m torch.distributed.run -m pkg.train -x --nnodes=2 --master-port=1",
            ["--nnodes", "--master-port"],
            "python -m torch.distributed.run --nnodes=2 --master-port=1 -m pkg.train -x",
        ),
        (
            "accelerate launch train.py --num_processes 4",
            ["--num_processes"],
            "accelerate launch --num_processes 4 train.py",
        ),
        # the words are inside of a text
        ("bash -c 'torchrun train.py --nproc-per-node 8'", ["--nproc-per-node"], None),
        ("torchrun train.py --nproc-per-node 8 --api-key=sk-ant-0123456789abcdef0123", ["--nproc-per-node"], None),
    ],
)
def test_bad_dc803(command: str, names: list[str], line: str | None) -> None:
    (finding,) = options_stand_before_the_script(make({}, command=command))
    assert (finding.code, finding.severity, finding.evidence["options"]) == ("DC803", Severity.ERROR, names)
    assert finding.fix.command == line
    if line is not None:
        assert list(options_stand_before_the_script(make({}, command=line))) == []


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc-per-node 8 train.py --lr 1",
        # the script has an option of the same name
        "torchrun --nnodes=2 train.py --nnodes 2",
        "torchrun train.py --master_port 1",
        "torchrun train.py -- --nproc-per-node 8",
        "python train.py --nproc-per-node 8",
        "",
    ],
)
def test_good_dc803(command: str) -> None:
    assert list(options_stand_before_the_script(make({}, command=command))) == []
