"""Where and under which id ranks meet: loopback, lists of nodes, the login node, hosts that stand fixed, ids."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.rendezvous import (
    is_loopback,
    master_is_a_node_of_the_job,
    master_is_no_loopback,
    master_is_not_fixed,
    master_is_one_host,
    nodes_have_one_rendezvous_id,
)

from .judging import C10D, HEAD, TWO_NODES, findings, fixed, said

STATIC = "--nnodes=2 --node_rank=$1 --master_port=29500"
MEETING = "--rdzv-backend=c10d --rdzv-id=job1 --rdzv-endpoint="


# DC419


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"torchrun {STATIC} --master_addr=localhost train.py\n", [(1, "error")]),
        (f"torchrun {STATIC} \\\n  --master_addr 127.0.0.1 train.py\n", [(2, "error")]),
        (f"MASTER_ADDR=localhost\ntorchrun {STATIC} --master_addr=$MASTER_ADDR train.py\n", [(1, "error")]),
        (f"A=localhost\nB=$A\ntorchrun {STATIC} --master_addr=$B train.py\n", [(1, "error")]),
        (f"ARGS='{STATIC}'\nA=localhost\ntorchrun $ARGS --master_addr $A train.py\n", [(2, "error")]),
        (f"torchrun --nnodes=2 {MEETING}localhost:29400 train.py\n", [(1, "error")]),
        (f"torchrun --nnodes=2 {MEETING}[::1]:29400 train.py\n", [(1, "error")]),
        ("accelerate launch --num_machines 2 --machine_rank $1 --main_process_ip 127.0.0.1 t.py\n", [(1, "error")]),
        (TWO_NODES + f"srun torchrun --nnodes=$SLURM_NNODES {MEETING}localhost:29400 train.py\n", [(5, "error")]),
        (TWO_NODES + "export MASTER_ADDR=localhost\nexport MASTER_PORT=29500\nsrun python train.py\n", [(5, "error")]),
        # nothing is said
        ("torchrun --nnodes=2 --node-rank=1 --nproc-per-node=8 train.py\n", [(1, "error")]),
        ("torchrun --nnodes=2 --rdzv-backend=c10d --nproc-per-node=8 train.py\n", [(1, "error")]),
        ("torchrun --nnodes=2 --rdzv-backend=c10d --master-addr=$A --master-port=29400 train.py\n", [(1, "error")]),
        (TWO_NODES + "srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 train.py\n", [(5, "error")]),
        ("accelerate launch --num_machines 2 --main_process_ip localhost --rdzv_backend c10d t.py\n", [(1, "error")]),
        # an elastic job that one node may do alone
        (f"torchrun --nnodes=1:2 {MEETING}localhost:29400 train.py\n", [(1, "info")]),
        # played on one machine, perhaps
        (f"# fake two nodes on a single machine\ntorchrun --nnodes=2 {MEETING}localhost:29400 t.py\n", [(2, "info")]),
    ],
)
def test_bad_loopback(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(master_is_no_loopback, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc_per_node=8 --master_addr=localhost --master_port=29500 train.py\n",
        "torchrun --standalone --nnodes=1 train.py\n",
        "torchrun --nnodes=1 --rdzv_backend=c10d --rdzv_endpoint=localhost:0 train.py\n",
        f"torchrun {STATIC} --master_addr=node1 train.py\n",
        f"torchrun {STATIC} --master_addr=$A train.py\n",
        "torchrun --nnodes=$N --node_rank=$R --master_addr=localhost train.py\n",
        'A=${MASTER_ADDR:-localhost}\ntorchrun --nnodes=2 --node_rank=$R --master_addr="$A" train.py\n',
        "export PET_MASTER_ADDR=node1\ntorchrun --nnodes=2 --node_rank=1 train.py\n",
        "torchrun $ARGS --nnodes=2 train.py\n",
        # the beginning of a command
        "torchrun --nnodes=2\n",
        # two agents on one machine on purpose
        "for r in 0 1; do\n  torchrun --nnodes=2 --node_rank=$r --master_addr=localhost train.py &\ndone\n",
        "torchrun --nnodes=2 --node_rank=0 --master_addr=localhost train.py &\n"
        "torchrun --nnodes=2 --node_rank=1 --master_addr=localhost train.py\n",
        "CUDA_VISIBLE_DEVICES=0 torchrun --nnodes=2 --node_rank=0 --master_addr=localhost train.py\n"
        "CUDA_VISIBLE_DEVICES=1 torchrun --nnodes=2 --node_rank=1 --master_addr=localhost train.py\n",
        f"# torchrun {STATIC} --master_addr=localhost train.py\n",
        "export MASTER_ADDR=localhost\nsrun --nodes=1 python train.py\n",
    ],
)
def test_good_meeting_places(text: str) -> None:
    assert said(master_is_no_loopback, text) == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True), ("LOCALHOST.", True), ("127.0.1.1", True), ("[::1]", True), ("0.0.0.0", True),
        ("node1", False), ("localhost1", False), ("10.0.0.1", False), ("", False),
    ],
)  # fmt: skip
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# DC109


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO_NODES + "export MASTER_ADDR=$SLURM_NODELIST\nsrun python train.py\n", [(5, "error")]),
        (TWO_NODES + 'export MASTER_ADDR="$SLURM_JOB_NODELIST"\nsrun bash train.sh\n', [(5, "error")]),
        (TWO_NODES + f"N=$SLURM_NODELIST\nsrun torchrun --nnodes=2 {MEETING}$N:29400 t.py\n", [(5, "error")]),
        (
            TWO_NODES + "A=$(scontrol show hostnames $SLURM_JOB_NODELIST)\n"
            f"srun torchrun --nnodes=2 {MEETING}$A:29400 t.py\n",
            [(5, "error")],
        ),
        (f"torchrun {STATIC} --master_addr='gpu[01-04]' train.py\n", [(1, "error")]),
        (f"torchrun {STATIC} --master_addr=a,b train.py\n", [(1, "error")]),
        (f"A=$(hostname -I)\ntorchrun {STATIC} --master_addr=$A train.py\n", [(1, "error")]),
        ("export MASTER_ADDR=$SLURM_NODELIST\npython train.py\n", [(1, "info")]),
    ],
)
def test_bad_lists(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(master_is_one_host, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        TWO_NODES + HEAD + f"srun torchrun --nnodes=2 {C10D} train.py\n",
        TWO_NODES
        + f"A=$(scontrol show hostname $SLURM_NODELIST | sed -n 1p)\nsrun torchrun --nnodes=2 {MEETING}$A:1 t.py\n",
        "#SBATCH --nodes=1\nexport MASTER_ADDR=$SLURM_NODELIST\nsrun python train.py\n",
        f"A=$(hostname -I | awk '{{print $1}}')\ntorchrun {STATIC} --master_addr=$A train.py\n",
        # torchrun does not read it
        TWO_NODES + f"export MASTER_ADDR=$SLURM_NODELIST\nsrun torchrun --nnodes=2 {MEETING}$HEAD:29400 train.py\n",
        f"torchrun {STATIC} --master_addr=${{SLURM_NODELIST%%,*}} train.py\n",
        f"torchrun {STATIC} --master_addr=[fd00::1] train.py\n",
    ],
)
def test_good_single_hosts(text: str) -> None:
    assert said(master_is_one_host, text) == []


# DC810


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TWO_NODES + f"srun bash -c 'torchrun --nnodes=2 {MEETING}$SLURM_LAUNCH_NODE_IPADDR:29400 train.py'\n", 5),
        ("export MASTER_ADDR=$SLURM_LAUNCH_NODE_IPADDR\nsrun -N 2 python train.py\n", 1),
        ("MASTER_ADDR=$SLURM_SUBMIT_HOST\ntorchrun --nnodes=$N --master_addr $MASTER_ADDR train.py\n", 1),
        (
            TWO_NODES + "A=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1 || echo localhost)\n"
            f"srun torchrun --nnodes=2 {MEETING}$A:29400 train.py\n",
            5,
        ),
    ],
)
def test_bad_other_hosts(text: str, line: int) -> None:
    assert said(master_is_a_node_of_the_job, text) == [(line, "warning")]


@pytest.mark.parametrize(
    "text",
    [
        TWO_NODES + HEAD + f"srun torchrun --nnodes=2 {C10D} train.py\n",
        f"torchrun --standalone {MEETING}$SLURM_LAUNCH_NODE_IPADDR:29400 train.py\n",
        "A=$(scontrol show hostnames || echo localhost)\ntorchrun --nnodes=1 --master_addr=$A --master_port=1 t.py\n",
        'A=$(scontrol show hostnames || exit 1)\ntorchrun --nnodes=2 --master_addr="$A" t.py\n',
        "echo $SLURM_LAUNCH_NODE_IPADDR\ntorchrun --nnodes=2 --master_addr=node1 t.py\n",
    ],
)
def test_good_hosts_of_the_job(text: str) -> None:
    assert said(master_is_a_node_of_the_job, text) == []


# DC744


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO_NODES + f"srun torchrun --nnodes=2 {MEETING}node07:29400 train.py\n", [(5, "warning")]),
        (TWO_NODES + "export MASTER_ADDR=10.1.2.3\nsrun python train.py\n", [(5, "warning")]),
        (TWO_NODES + "#SBATCH -w node[07-08]\n" + f"srun torchrun --nnodes=2 {MEETING}node07:29400 train.py\n", []),
        (TWO_NODES + f"srun torchrun --nnodes=2 {MEETING}localhost:29400 train.py\n", []),
        (TWO_NODES + HEAD + f"srun torchrun --nnodes=2 {C10D} train.py\n", []),
        # DC102 says more of it
        (TWO_NODES + "export MASTER_ADDR=10.1.2.3:29500\nsrun python train.py\n", []),
        (f"torchrun {STATIC} --master_addr=10.1.2.3 train.py\n", []),
    ],
)
def test_a_host_that_stands_fixed_in_a_job(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(master_is_not_fixed, text) == expected


# DC807


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id=$RANDOM train.py\n",
        "ID=$(uuidgen)\ntorchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id=$ID train.py\n",
        'torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id="$(date +%s)" train.py\n',
        TWO_NODES
        + "srun bash -c 'torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id=$RANDOM t.py'\n",
        "for h in a b; do\n  ssh $h torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a:29400 --rdzv-id=$RANDOM t.py &\ndone\n",
        "ssh a torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a:29400 --rdzv-id=one t.py &\n"
        "ssh b torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a:29400 --rdzv-id=two t.py &\n",
    ],
)
def test_bad_ids(text: str) -> None:
    (finding,) = findings(nodes_have_one_rendezvous_id, text)
    assert (finding.code, finding.severity.word) == ("DC807", "warning")
    assert "rdzv-id" in text.split("\n")[(finding.where.line or 0) - 1]


@pytest.mark.parametrize(
    "text",
    [
        TWO_NODES + HEAD + f"srun torchrun --nnodes=2 {C10D} train.py\n",
        # expanded once, before srun starts the tasks
        TWO_NODES + "srun torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id=$RANDOM t.py\n",
        TWO_NODES
        + "ID=$RANDOM\nexport ID\nsrun bash -c 'torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id=$ID t.py'\n",
        "ID=$RANDOM\nfor h in a b; do\n  ssh $h torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a:1 --rdzv-id=$ID t.py &\ndone\n",
        "torchrun --nnodes=1 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-id=$RANDOM train.py\n",
        "torchrun --standalone --rdzv-id=$RANDOM train.py\n",
        "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id=$(date +%F) train.py\n",
        "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id=$JOB train.py\n",
        "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 --rdzv-id=exp1 train.py\n",
        f"torchrun {STATIC} --master_addr=node1 train.py\n",
    ],
)
def test_good_ids(text: str) -> None:
    assert said(nodes_have_one_rendezvous_id, text) == []


def test_no_id_is_a_note() -> None:
    text = "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node1:29400 train.py\n"
    assert said(nodes_have_one_rendezvous_id, text) == [(1, "info")]


def test_the_fix_gives_the_first_lines_id() -> None:
    text = (
        "ssh a torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a:29400 --rdzv-id=one t.py &\n"
        "ssh b torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a:29400 --rdzv-id=two t.py &\n"
    )
    (finding,) = findings(nodes_have_one_rendezvous_id, text)
    assert said(nodes_have_one_rendezvous_id, fixed(text, finding)) == []


def test_a_secret_in_a_value_is_not_shown() -> None:
    text = f"torchrun {STATIC} --master_addr=hf_abcdefghijklmnopqrstuvwxyz123456,b train.py\n"
    (finding,) = findings(master_is_one_host, text)
    assert "abcdefghijkl" not in finding.message and "abcdefghijkl" not in str(finding.evidence)
