"""The port on which ranks meet: one that exists, is not given away, and is not taken twice."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.launch_files.ports import HIGHEST_PORT, Range, port_is_not_fixed, port_is_wise, range_of

from .judging import TWO_NODES, findings, fixed, said, typed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torchrun --nproc_per_node=2 --master_port=66665 train.py\n", [(1, "error")]),
        ("torchrun --nproc_per_node=2 --master_port 123456 train.py\n", [(1, "error")]),
        ("torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=node1:99999 train.py\n", [(1, "error")]),
        ("export MASTER_PORT=70000\nsrun -n 2 python train.py\n", [(1, "error")]),
        ("PORT=70000\ntorchrun --nproc_per_node=2 \\\n  --master_port=$PORT train.py\n", [(1, "error")]),
        ("torchrun --nnodes=2 --node_rank=$1 --master_addr=$A --master_port=0 train.py\n", [(1, "error")]),
        ("torchrun --nproc_per_node=2 --master_port=80 train.py\n", [(1, "warning")]),
        ("torchrun --nproc_per_node=2 --master_port=45678 train.py\n", [(1, "warning")]),
        ("accelerate launch --main_process_port 60000 train.py\n", [(1, "warning")]),
        ("deepspeed --master_port=50001 train.py\n", [(1, "warning")]),
        ("export MASTER_PORT=$(shuf -n 1 -i 20000-65000)\nsrun python train.py\n", [(1, "warning")]),
        ("export MASTER_PORT=$((10000 + RANDOM))\nsrun python train.py\n", [(1, "warning")]),
        ("export MASTER_PORT=$RANDOM\nsrun python train.py\n", [(1, "warning")]),
        ("PORT=`expr $RANDOM + 1000`\ntorchrun --nproc_per_node=2 --master_port=$PORT t.py\n", [(1, "warning")]),
        ("torchrun --nproc_per_node=2 --master_port=$((60000 + RANDOM % 10000)) train.py\n", [(1, "warning")]),
        ("export MASTER_PORT=$((10000 + SLURM_JOB_ID))\nsrun python train.py\n", [(1, "warning")]),
        ("export MASTER_ADDR=node1 MASTER_PORT=70000\n", [(1, "error")]),
    ],
)
def test_bad_ports(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(port_is_wise, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc_per_node=2 --master_port=29500 train.py\n",
        "torchrun --nproc_per_node=2 --master_port=0 train.py\n",
        "torchrun --nproc_per_node=2 --rdzv_backend=c10d --rdzv_endpoint=localhost:0 train.py\n",
        "torchrun --nproc_per_node=2 --master_port=$PORT train.py\n",
        "torchrun --nproc_per_node=2 --master_port=$((20000 + SLURM_JOB_ID % 10000)) train.py\n",
        "torchrun --nproc_per_node=2 --master_port=$(shuf -i 20000-29999 -n 1) train.py\n",
        "torchrun --nproc_per_node=2 --master_port=$(expr $RANDOM % 1000 + 20000) train.py\n",
        "export MASTER_PORT=$((20000 + $$ % 10000))\nsrun python train.py\n",
        "torchrun --nproc_per_node=2 --master_port=$(python free_port.py) train.py\n",
        "torchrun --nproc_per_node=2 --master_port=$((29500 + SLURM_ARRAY_TASK_ID)) train.py\n",
        # c10d takes the endpoint's
        "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$A:29400 --master_port=45678 train.py\n",
        # torchrun does not read it
        "export MASTER_PORT=45678\ntorchrun --nproc_per_node=2 train.py\n",
        "torchrun --standalone --master_port=45678 train.py\n",
        "# torchrun --master_port=66665 train.py\n",
        "torchrun --nproc_per_node=2 train.py --master_port=66665\n",
        "torchrun --rdzv_conf=store_type=file --rdzv_backend=c10d --rdzv_endpoint=/tmp/x:70000 train.py\n",
    ],
)
def test_good_ports(text: str) -> None:
    assert said(port_is_wise, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc_per_node=2 --master_port=66665 train.py\n",
        "torchrun --nproc_per_node=2 --master_port 45678 train.py\n",
        TWO_NODES + "torchrun --nproc_per_node=2 --master_port=45678 train.py\n",
    ],
)
def test_the_fix_writes_a_wise_port(text: str) -> None:
    (finding,) = findings(port_is_wise, text)
    assert said(port_is_wise, fixed(text, finding)) == []


ONE_NODE = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\n"
SRUN = "srun -N2 --ntasks-per-node=1 torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_id=1 "


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # one host: torchrun takes a free port, and DC744 has nothing to report
        ("torchrun --nproc_per_node=2 --master_port=45678 train.py\n", "--standalone"),
        ("torchrun --nproc_per_node=2 --master_addr=localhost --master_port 45678 train.py\n", "--standalone"),
        ("torchrun --nproc_per_node=2 --rdzv_backend=c10d --rdzv_endpoint=localhost:45678 t.py\n", "--standalone"),
        ("python -m torch.distributed.run --nproc_per_node=2 --master_port $RANDOM train.py\n", "--standalone"),
        # the launcher's shell is one for all ranks
        ("deepspeed --num_gpus 2 --master_port 45678 train.py\n", "$((20000 + $$ % 10000))"),
        ("accelerate launch --num_processes=2 --main_process_port=45678 train.py\n", "$((20000 + $$ % 10000))"),
        # a script that calls srun has no SLURM_JOB_ID
        ("export MASTER_PORT=$RANDOM\nsrun -N2 -n16 python train.py\n", "$((20000 + $$ % 10000))"),
        (SRUN + "--rdzv_endpoint=node1:45678 train.py\n", "node1:$((20000 + $$ % 10000))"),
        # a batch script has one
        (
            ONE_NODE + "export MASTER_PORT=$((RANDOM + 10000))\nsrun python train.py\n",
            "$((20000 + SLURM_JOB_ID % 10000))",
        ),
        (TWO_NODES + SRUN + "--rdzv_endpoint=$HEAD:45678 train.py\n", "$HEAD:$((20000 + SLURM_JOB_ID % 10000))"),
        # each node starts its own launcher: no shell knows a common number
        ("torchrun --nnodes=2 --node_rank=$1 --master_addr=$A --master_port=45678 t.py\n", "29500"),
    ],
)
def test_the_fix_works_when_it_is_typed(text: str, wanted: str) -> None:
    (finding,) = findings(port_is_wise, text)
    after = typed(text, finding)
    assert wanted in after
    assert subprocess.run(["bash", "-n"], input=after, text=True, check=False).returncode == 0
    assert said(port_is_wise, after) == []
    # an explicit port of several nodes stays fixed
    assert said(port_is_not_fixed, after) == ([(1, "info")] if wanted == "29500" else [])


def test_a_document_shows_an_example() -> None:
    block = "```bash\ntorchrun --nnodes=2 --node_rank=0 --master_addr=10.1.1.1 --master_port=29500 t.py\n```\n"
    assert said(port_is_not_fixed, block, path="README.md") == []
    assert [severity for _, severity in said(port_is_not_fixed, block.split("\n")[1] + "\n")] == ["info"]


def test_the_port_of_a_shell_is_one_for_all_ranks() -> None:
    (finding,) = findings(port_is_wise, "export MASTER_PORT=$RANDOM\nsrun -N2 -n4 python train.py\n")
    line = f"export {finding.fix.text.partition(': ')[2]}\nfor rank in 0 1; do bash -c 'echo $MASTER_PORT'; done\n"
    ports = subprocess.run(["bash"], input=line, text=True, capture_output=True, check=True).stdout.split()
    assert len(ports) == 2 and ports[0] == ports[1]
    assert 20000 <= int(ports[0]) < 30000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$RANDOM", Range(0, 32767)),
        ("$(expr $RANDOM + 1000)", Range(1000, 33767)),
        ("`expr $RANDOM % 1000 + 20000`", Range(20000, 20999)),
        ("$(expr $RANDOM \\* 2)", Range(0, 65534)),
        ("$(( ((RANDOM<<15)|RANDOM) % 49152 + 10000 ))", Range(10000, 59151)),
        ("$((20000 + $$ % 10000))", Range(20000, 29999)),
        ("$((20000 + $$))", None),
        ("$(( 1 << 900 ))", None),
        ("$(expr $(hostname) + 1000)", None),
        ("$(shuf -i 20000-65000 -n 1)", Range(20000, 65000)),
        ("`shuf -n1 -i 1024-2048`", Range(1024, 2048)),
        ("$((RANDOM % 1000 + 20000))", Range(20000, 20999)),
        ("$(( 20000 + ${SLURM_JOB_ID} % 10000 ))", Range(20000, 29999)),
        ("$((10000 + $SLURM_JOBID))", Range(10000, None)),
        ("$((29500 + OFFSET))", None),
        ("$((29500 + OFFSET % 100))", Range(29500, 29599)),
        ("$((29500 + i++))", None),
        ("$((20000 +))", None),
        ("$((29500))", None),
        ("29500", None),
        ("$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))", None),
    ],
)
def test_ranges(text: str, expected: Range | None) -> None:
    assert range_of(text) == expected


@given(st.integers(0, 70000), st.integers(1, 40000), st.integers(0, 32767))
def test_a_range_holds_what_bash_can_give(base: int, modulus: int, random: int) -> None:
    taken = range_of(f"$(({base} + RANDOM % {modulus}))")
    assert taken is not None and taken.high is not None
    assert taken.low <= base + random % modulus <= taken.high


@given(st.text("0123456789+-*/%()$ RANDOMSLURM_JOB_ID{}", max_size=40))
def test_any_expression_is_read(text: str) -> None:
    taken = range_of(f"$(({text}))")
    assert taken is None or taken.high is None or taken.low <= taken.high


# DC744


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CUDA_VISIBLE_DEVICES=0 torchrun --master_port=29501 a.py &\n"
            "CUDA_VISIBLE_DEVICES=1 torchrun --master_port=29501 b.py &\nwait\n",
            [(1, "info"), (2, "warning")],
        ),
        ("#SBATCH --array=0-7\ntorchrun --nproc_per_node=1 --master_port=29501 train.py\n", [(2, "warning")]),
        (
            "for seed in 1 2 3; do\n  torchrun --nproc_per_node=1 --master_port=29501 train.py --seed $seed &\ndone\n",
            [(2, "warning")],
        ),
        ("torchrun --nproc_per_node=8 --master_port=29501 train.py\n", [(1, "info")]),
    ],
)
def test_bad_ports_that_stand_fixed(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(port_is_not_fixed, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --standalone --nproc_per_node=8 train.py\n",
        "torchrun --nproc_per_node=8 --master_port=$PORT train.py\n",
        "torchrun --nproc_per_node=8 train.py\n",
        # port_is_wise says more of it
        "torchrun --nproc_per_node=8 --master_port=45678 train.py\n",
        f"torchrun --nproc_per_node=8 --master_port={HIGHEST_PORT + 1} train.py\n",
    ],
)
def test_good_ports_of_the_job(text: str) -> None:
    assert said(port_is_not_fixed, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --master_port=29501 a.py &\nwait\ntorchrun --master_port=29501 b.py\n",
        "torchrun --master_port=29501 a.py\ntorchrun --master_port=29501 b.py\n",
        "torchrun --master_port=29501 a.py &\ntorchrun --master_port=29502 b.py &\n",
        # the ranks of one job
        "export MASTER_ADDR=localhost MASTER_PORT=29501\nRANK=0 python a.py &\nRANK=1 python a.py &\nwait\n",
        "export MASTER_PORT=29501\nfor r in 0 1; do\n  RANK=$r python a.py &\ndone\n",
        # two nodes of one job
        "ssh a torchrun --nnodes=2 --node_rank=0 --master_addr=a --master_port=29501 a.py &\n"
        "ssh b torchrun --nnodes=2 --node_rank=1 --master_addr=a --master_port=29501 a.py &\n",
        'if [ "$1" ]; then torchrun --master_port=29501 a.py & else torchrun --master_port=29501 b.py & fi\n',
    ],
)
def test_good_no_two_jobs_at_once(text: str) -> None:
    assert "warning" not in [severity for _, severity in said(port_is_not_fixed, text)]


def test_the_fix_of_an_endpoint_keeps_its_host() -> None:
    text = "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_id=1 --rdzv_endpoint=node1:29400 train.py\n"
    (finding,) = findings(port_is_not_fixed, text)
    assert "--rdzv-endpoint=node1:29401 " in finding.fix.text
