"""Which variables reach the ranks, and which are not the file's to set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from distcheck.checks.launch_files import variable_forwarding as room
from distcheck.checks.launch_files.model import LaunchFiles
from distcheck.core.model import Finding, Severity

from .judging import fixed
from .reading import read

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
TORCHRUN = "torchrun --standalone --nproc_per_node=8 train.py\n"
STATIC = "torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=n1 --master_port=29500 train.py\n"


def judge(text: str, path: str = "run.sh") -> list[Finding]:
    files = LaunchFiles((read(path, text),))

    def run() -> Iterator[Finding]:
        yield from room.variables_reach_the_ranks(files)
        yield from room.launchers_set_their_own_variables(files)

    return list(run())


def said(text: str, path: str = "run.sh", least: Severity = WARNING) -> list[tuple[int | None, str, Severity]]:
    return sorted((item.where.line, item.code, item.severity) for item in judge(text, path) if item.severity >= least)


def batch(body: str, *directives: str) -> str:
    """A job script: the body begins behind its first line and directives."""
    return "#!/bin/bash\n" + "".join(f"#SBATCH {one}\n" for one in directives) + body


# exports


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("NCCL_SOCKET_IFNAME=eth0\nNCCL_IB_HCA=mlx5_0\n" + TORCHRUN, [1, 2]),
        ("CUDA_VISIBLE_DEVICES=0,1\npython train.py\n", [1]),
        ("NCCL_DEBUG=WARN; " + TORCHRUN, [1]),
        ("NCCL_DEBUG=WARN\necho $NCCL_DEBUG\n" + TORCHRUN, [1]),
        ("MASTER_ADDR=node1\nMASTER_PORT=29500\npython train.py\n", [1, 2]),
        # what stands before the launcher has an environment of its own
        ("export NCCL_DEBUG=WARN\ndocker run --gpus all img " + TORCHRUN, [1]),
        ("NCCL_DEBUG=WARN docker run --gpus all img " + TORCHRUN, [1]),
        ("export NCCL_DEBUG=WARN\nssh node1 '" + TORCHRUN.strip() + "'\n", [1]),
        ("export NCCL_DEBUG=WARN\nsingularity exec --nv --cleanenv img.sif " + TORCHRUN, [1]),
        ("export NCCL_DEBUG=WARN\nsrun --export=NONE " + TORCHRUN, [1]),
        ("export NCCL_DEBUG=WARN\nsrun --export=HOME,PATH " + TORCHRUN, [1]),
        ("export NCCL_DEBUG=WARN\nmpirun -np 16 -H a:8,b:8 -x PATH python train.py\n", [1]),
        ("export NCCL_DEBUG=WARN\nmpirun -np 16 --hostfile hosts --mca btl self python train.py\n", [1]),
    ],
)
def test_bad_dc808_variables_that_the_ranks_do_not_get(text: str, lines: list[int]) -> None:
    assert said(text) == [(line, "DC808", WARNING) for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        "export NCCL_DEBUG=WARN\n" + TORCHRUN,
        "set -a\nNCCL_DEBUG=WARN\nset +a\n" + TORCHRUN,
        "declare -x NCCL_DEBUG=WARN\n" + TORCHRUN,
        "NCCL_DEBUG=WARN\nexport NCCL_DEBUG\n" + TORCHRUN,
        "NCCL_DEBUG=WARN " + TORCHRUN,
        "env NCCL_DEBUG=WARN " + TORCHRUN,
        "NCCL_ARGS=--x\nNCCL_TIMEOUT=60\n" + TORCHRUN,
        # the file itself works with them
        "MASTER_PORT=29500\ntorchrun --standalone --master_port=$MASTER_PORT train.py\n",
        "NCCL_DEBUG=WARN\ndocker run -e NCCL_DEBUG=$NCCL_DEBUG img " + TORCHRUN,
        "MASTER_ADDR=n1\nWORLD_SIZE=2\n" + TORCHRUN,
        # handed on
        "export NCCL_DEBUG=WARN\ndocker run --gpus all -e NCCL_DEBUG img " + TORCHRUN,
        "export NCCL_DEBUG=WARN\ndocker run --gpus all --env=NCCL_DEBUG img " + TORCHRUN,
        "export NCCL_DEBUG=WARN\ndocker run --gpus all --env-file cluster.env img " + TORCHRUN,
        "export NCCL_DEBUG=WARN\ndocker run $DOCKER_ARGS img " + TORCHRUN,
        "docker run img bash -c 'export NCCL_DEBUG=WARN; " + TORCHRUN.strip() + "'\n",
        "ssh node1 'export NCCL_DEBUG=WARN; " + TORCHRUN.strip() + "'\n",
        "export NCCL_DEBUG=WARN\nsingularity exec --nv img.sif " + TORCHRUN,
        "export NCCL_DEBUG=WARN\nsrun --export=ALL,X=1 " + TORCHRUN,
        "export NCCL_DEBUG=WARN\nsrun --export=NCCL_DEBUG,PATH " + TORCHRUN,
        "export NCCL_DEBUG=WARN\nmpirun -np 16 -H a:8,b:8 -x NCCL_DEBUG python train.py\n",
        # one host, and MPICH, which hands on everything
        "export NCCL_DEBUG=WARN\nmpirun -np 8 --allow-run-as-root python train.py\n",
        "export NCCL_DEBUG=WARN\nmpiexec -n 16 -ppn 8 -hosts a,b python train.py\n",
        # the variables of ranks are for the line with the launcher, not for a script of one process
        'MASTER_ADDR=n1\nCMD="torchrun --standalone train.py"\neval $CMD\npython collect.py\n',
        'MASTER_ADDR=n1\nC="export A=1;"\nC="$C $1 torchrun --nnodes $N a.py"\neval $C\npython collect.py\n',
        # nothing of it bears on what is started
        "NCCL_DEBUG=WARN\n./build.sh\n",
        "# NCCL_DEBUG=WARN\n" + TORCHRUN,
    ],
)
def test_good_dc808_variables_that_arrive(text: str) -> None:
    assert said(text) == []


def test_dc808_slurm_has_exported_its_own() -> None:
    assert said(batch("CUDA_VISIBLE_DEVICES=0,1\npython train.py\n", "--gpus-per-node=4")) == []
    assert said("CUDA_VISIBLE_DEVICES=0,1\npython train.py\n") == [(1, "DC808", WARNING)]


def test_dc808_a_script_submitted_without_environment_leaves_that_to_its_steps() -> None:
    body = "export NCCL_DEBUG=WARN\nsrun " + TORCHRUN
    assert said(batch(body, "--nodes=1", "--export=NONE")) == [(4, "DC808", WARNING)]
    assert said(batch("unset SLURM_EXPORT_ENV\n" + body, "--nodes=1", "--export=NONE")) == []
    assert said(batch(body, "--nodes=1", "--export=ALL")) == []
    # without a step the body's own environment counts
    assert said(batch("export NCCL_DEBUG=WARN\n" + TORCHRUN, "--nodes=1", "--export=NONE")) == []


def test_dc808_mpirun_under_slurm_starts_its_daemons_with_the_environment_of_the_job() -> None:
    body = "export NCCL_DEBUG=WARN\nmpirun -np 16 --hostfile hosts -x PATH python train.py\n"
    assert said(batch(body, "--nodes=2", "--ntasks-per-node=8")) == []


def test_dc808_lines_of_a_recipe_are_shells_of_their_own() -> None:
    text = "train:\n\texport NCCL_DEBUG=WARN\n\t" + TORCHRUN
    assert said(text, "Makefile") == [(2, "DC808", WARNING)]
    assert said("export NCCL_DEBUG := WARN\ntrain:\n\t" + TORCHRUN, "Makefile") == []
    assert said("train:\n\texport NCCL_DEBUG=WARN && " + TORCHRUN, "Makefile") == []


def test_dc808_fixes_write_what_is_missing() -> None:
    (finding,) = judge("NCCL_DEBUG=WARN\n" + TORCHRUN)
    assert "export it: export NCCL_DEBUG=WARN" in finding.fix.text
    assert [edit.text for edit in finding.fix.edits] == ["export "]
    assert not finding.fix.safe
    (finding,) = judge("export NCCL_DEBUG=WARN\ndocker run --gpus all img torchrun --nproc_per_node=2 t.py\n")
    assert "docker run -e NCCL_DEBUG --gpus all img torchrun" in finding.fix.text
    # what stands before it on its line may be anything
    (finding,) = judge("case $1 in a) NCCL_DEBUG=WARN ;; esac\n" + TORCHRUN)
    assert finding.fix.edits == ()


# presets


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (batch("export RANK=0\nexport WORLD_SIZE=8\nsrun python train.py\n", "--ntasks=8", "--nodes=1"), [4]),
        (batch("export LOCAL_RANK=0\nsrun python train.py\n", "--nodes=2", "--ntasks-per-node=4"), [4]),
        (batch("export RANK=$SLURM_PROCID\nsrun python train.py\n", "--nodes=2", "--ntasks-per-node=4"), [4]),
        ("mpirun -np 8 -x RANK=0 python train.py\n", [1]),
        ('for host in a b; do\n  ssh $host "RANK=0 WORLD_SIZE=2 python train.py" &\ndone\nwait\n', [2]),
        # torchrun replaces them, and something else was meant
        ("export WORLD_SIZE=16\n" + TORCHRUN, [1]),
        ("export RANK=1\ntorchrun --nnodes=2 --nproc_per_node=8 --master_addr=n1 --master_port=1234 train.py\n", [1]),
        ("export MASTER_ADDR=node1\nexport MASTER_PORT=29500\ntorchrun --nnodes=2 --nproc_per_node=8 train.py\n", [1]),
        ("export MASTER_ADDR=$(head -1 hosts)\ntorchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 train.py\n", [1]),
    ],
)
def test_bad_dc809_places_that_are_not_the_files_to_set(text: str, lines: list[int]) -> None:
    assert said(text) == [(line, "DC809", ERROR) for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        "export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500\npython train.py\n",
        "RANK=0 WORLD_SIZE=2 python train.py &\nRANK=1 WORLD_SIZE=2 python train.py &\nwait\n",
        "for i in 0 1; do RANK=$i WORLD_SIZE=2 python train.py & done\nwait\n",
        "for seed in 1 2; do RANK=0 WORLD_SIZE=4 python train.py --seed $seed; done\n",
        batch("srun bash -c 'export RANK=$SLURM_PROCID; python train.py'\n", "--ntasks=8", "--nodes=1"),
        batch("export RANK=0 WORLD_SIZE=1\nsrun python sweep.py\n", "--ntasks=8", "--nodes=1"),
        batch("export LOCAL_RANK=0\nsrun python train.py\n", "--nodes=8", "--ntasks-per-node=1"),
        batch("export RANK=0\nsrun python train.py\n", "--nodes=1", "--ntasks=1"),
        batch("export RANK=0\nsrun python train.py\n"),
        # a name of the file's own for a number that it hands over
        "export WORLD_SIZE=4\ntorchrun --standalone --nproc_per_node=$WORLD_SIZE train.py\n",
        "export WORLD_SIZE=2\nexport RANK=1\ntorchrun --nnodes=$WORLD_SIZE --node_rank=$RANK --nproc_per_node=8 "
        "--master_addr=n1 --master_port=1234 train.py\n",
        "export WORLD_SIZE=16\n" + STATIC,
        "export WORLD_SIZE=2\n" + STATIC,
        # the address is given, or there is one node only
        "export MASTER_ADDR=n1\n" + STATIC,
        "export MASTER_ADDR=n1\n" + TORCHRUN,
        "export MASTER_ADDR=n1\ntorchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=n1:1 t.py\n",
        "export MASTER_ADDR=n1\ntorchrun --nnodes=$N --nproc_per_node=8 train.py\n",
        "export MASTER_ADDR=n1\ntorchrun --nnodes=2 $OPTIONS train.py\n",
    ],
)
def test_good_dc809_places_that_are(text: str) -> None:
    assert said(text) == []


def test_dc808_the_fix_names_the_variable_to_open_mpi_as_well() -> None:
    text = "NCCL_IB_HCA=mlx5\nmpirun -np 16 -H a:8,b:8 -x PATH python train.py\n"
    (finding,) = judge(text)
    after = fixed(text, finding)
    assert after == "export NCCL_IB_HCA=mlx5\nmpirun -x NCCL_IB_HCA -np 16 -H a:8,b:8 -x PATH python train.py\n"
    assert said(after) == []


def test_good_dc809_deepspeed_sets_no_local_world_size() -> None:
    assert said("export LOCAL_WORLD_SIZE=8\ndeepspeed --num_gpus 8 train.py\n", least=INFO) == []
    assert said("export LOCAL_WORLD_SIZE=8\n" + TORCHRUN, least=INFO) == [(1, "DC809", INFO)]


def test_dc809_what_the_launcher_replaces_is_worth_a_line() -> None:
    assert said("export RANK=0\nexport WORLD_SIZE=8\n" + TORCHRUN, least=INFO) == [
        (1, "DC809", INFO),
        (2, "DC809", INFO),
    ]


def test_dc809_the_fix_gives_torchrun_the_address() -> None:
    text = "export MASTER_ADDR=node1 MASTER_PORT=29500\ntorchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 t.py\n"
    (finding,) = judge(text)
    assert (
        'torchrun --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" --nnodes=2 --node_rank=$1'
        in finding.fix.text
    )
    assert finding.where.variable == "MASTER_ADDR"


def test_a_credential_is_not_shown() -> None:
    findings = judge("GLOO_SOCKET_IFNAME=hf_abcdefghijklmnopqrstuvwxyz012345\n" + TORCHRUN)
    assert findings
    assert "hf_abc" not in findings[0].message
