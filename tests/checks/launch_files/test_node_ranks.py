"""How many nodes a launcher expects, and which number each of them gets."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.node_ranks import (
    every_node_has_its_own_rank,
    launcher_expects_the_nodes_there_are,
    node_rank_has_an_effect,
)

from .judging import C10D, HEAD, TWO_NODES, findings, fixed, said

STATIC = "--master-addr=$HEAD --master-port=29500"
HOSTS = "for host in n1 n2; do\n  {line}\ndone\n"
#: Both nodes of one job, in a loop over something else.
BOTH = (
    f'  ssh n1 "torchrun --nnodes=2 --node-rank=1 {STATIC} train.py --seed $seed" &\n'
    f"  torchrun --nnodes=2 --node-rank=0 {STATIC} train.py --seed $seed\n"
)


# DC804


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"srun torchrun --nnodes=4 {C10D} train.py", "waits for 2 that never come"),
        # the agents share one rendezvous, and it takes one of them
        (f"srun torchrun --nnodes 1 --nproc-per-node=8 {C10D} train.py", "one node trains alone and the other waits"),
        (f"srun torchrun --nnodes 1 --nproc-per-node=8 {STATIC} train.py", "in the store of $HEAD, and collide"),
        ("srun torchrun --nnodes 1 --nproc-per-node=8 train.py", "2 independent jobs"),
        ("srun torchrun --nnodes 1 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 t.py", "2 independent jobs"),
        (f"srun bash -c 'torchrun --nnodes 1 {C10D.replace('$SLURM_JOB_ID', '$RANDOM')} t.py'", "2 independent jobs"),
        (f"srun torchrun --nnodes 1 {C10D.replace('$SLURM_JOB_ID', '$RANDOM')} t.py", "the other waits"),
        ("srun accelerate launch --num_machines 1 --main_process_ip $HEAD t.py", "2 independent jobs"),
        (f"srun torchrun --nnodes=3:4 {C10D} train.py", "3 to 4 nodes"),
        (f"NODES=4; srun torchrun --nnodes=$NODES {C10D} train.py", "4 nodes"),
        (f"srun -N 1 torchrun --nnodes=2 {C10D} train.py", "waits for 1 that never comes"),
        (f"srun bash -c 'torchrun --nnodes=4 {C10D} train.py'", "4 nodes"),
        (f"torchrun --nnodes=4 {C10D} train.py", "the job requests 2 nodes"),
        ("srun accelerate launch --num_machines 4 --num_processes 32 train.py", "--num_machines"),
        ("deepspeed --num_nodes 4 train.py", "4 nodes"),
        # one round after the other, each on all nodes
        (
            f"for lr in 1 2; do srun torchrun --nnodes=1 --nproc-per-node=8 {C10D} t.py --lr $lr; done",
            "the other waits until it ends",
        ),
        # a part of the nodes each, and more in all than there are
        (f"srun -N1 -w $A torchrun --nnodes=4 {C10D} t.py & srun -N1 -w $B torchrun --nnodes=4 {C10D} t.py", "2 nodes"),
    ],
)
def test_bad_node_counts(body: str, message: str) -> None:
    found = findings(launcher_expects_the_nodes_there_are, TWO_NODES + HEAD + body + "\n")
    assert found and {(one.code, one.severity.word, one.where.line) for one in found} == {("DC804", "error", 6)}
    assert message in found[0].message


@pytest.mark.parametrize(
    "body",
    [
        f"srun torchrun --nnodes=2 {C10D} train.py",
        f"srun torchrun --nnodes=$SLURM_NNODES {C10D} train.py",
        f"srun torchrun --nnodes=$NODES {C10D} train.py",
        f"srun torchrun --nnodes=1:4 {C10D} train.py",
        f"# srun torchrun --nnodes=4 {C10D} train.py",
        f"srun -N1 -n1 -w $A torchrun --nnodes=2 {C10D} t.py &\nsrun -N1 -n1 -w $B torchrun --nnodes=2 {C10D} t.py &\nwait",
        "srun --ntasks=4 --ntasks-per-node=2 torchrun --nnodes=4 --nproc-per-node=4 train.py",
        "srun torchrun --standalone --nnodes=1 train.py",
        "srun torchrun --nnodes=1 generate.py --shard=$SLURM_PROCID",
        f'if [ "$NODES" = 4 ]; then srun torchrun --nnodes=4 {C10D} train.py; fi',
        "deepspeed --num_nodes 1 train.py",
        f"for lr in 1 2; do srun torchrun --nnodes=1 --nproc-per-node=8 {C10D} t.py --lr $lr & done",
    ],
)
def test_good_node_counts(body: str) -> None:
    assert said(launcher_expects_the_nodes_there_are, TWO_NODES + HEAD + body + "\n") == []


@pytest.mark.parametrize(
    "directives",
    [
        "#SBATCH --nodes=2-4\n",
        "#SBATCH --nodes=$N\n",
        "##SBATCH --nodes=2\n",
        "#SBATCH --nodes=2\n#SBATCH hetjob\n#SBATCH --nodes=1\n",
        "#PBS -l select=4:ngpus=8\n",
    ],
)
def test_good_nodes_that_are_not_known_or_fit(directives: str) -> None:
    text = f"#!/bin/bash\n{directives}srun torchrun --nnodes=4 {C10D} train.py\n"
    assert said(launcher_expects_the_nodes_there_are, text) == []


def test_good_elements_of_an_array_as_nodes() -> None:
    text = (
        "#SBATCH --nodes=1\n#SBATCH --array=0-3\nsrun torchrun --nnodes=4 --node-rank=$SLURM_ARRAY_TASK_ID train.py\n"
    )
    assert said(launcher_expects_the_nodes_there_are, text) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ssh $host torchrun --nnodes=4 --node-rank=$RANK train.py &", [(2, "error")]),
        ("ssh $host torchrun --nnodes=2 --node-rank=$RANK train.py &", []),
    ],
)
def test_a_loop_over_hosts_counts_them(line: str, expected: list[tuple[int, str]]) -> None:
    assert said(launcher_expects_the_nodes_there_are, HOSTS.format(line=line)) == expected


def test_good_first_node_outside_of_the_loop() -> None:
    line = "ssh $host torchrun --nnodes=3 --node-rank=$RANK --master-addr=$A train.py &"
    text = HOSTS.format(line=line) + "torchrun --nnodes=3 --node-rank=0 --master-addr=$A train.py\n"
    assert said(launcher_expects_the_nodes_there_are, text) == []


@pytest.mark.parametrize(
    "body",
    [
        f"srun torchrun --nnodes=4 {C10D} train.py",
        f"srun torchrun --nnodes 4 {C10D} train.py",
        f"NODES=4\nsrun torchrun --nnodes=$NODES {C10D} train.py",
        f"ARGS=(--nnodes=4 --nproc-per-node=8)\nsrun torchrun ${{ARGS[@]}} {C10D} train.py",
    ],
)
def test_the_fix_takes_slurms_count(body: str) -> None:
    text = TWO_NODES + HEAD + body + "\n"
    (finding,) = findings(launcher_expects_the_nodes_there_are, text)
    new = fixed(text, finding)
    assert "$SLURM_NNODES" in new and "4 " not in new.split("\n")[-2]
    assert said(launcher_expects_the_nodes_there_are, new) == []


def test_the_fix_of_a_step_with_fewer_nodes_is_a_number() -> None:
    text = TWO_NODES + HEAD + f"srun -N 1 torchrun --nnodes=2 {C10D} train.py\n"
    (finding,) = findings(launcher_expects_the_nodes_there_are, text)
    assert "--nnodes=1 " in fixed(text, finding)


# DC805


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO_NODES + HEAD + f"srun torchrun --nnodes=2 --node-rank=0 {STATIC} train.py\n", [(6, "error")]),
        (TWO_NODES + HEAD + f"srun torchrun --nnodes=2 --node_rank $SLURM_NODEID {STATIC} train.py\n", [(6, "error")]),
        (
            TWO_NODES + HEAD + f"R=$SLURM_PROCID\nsrun torchrun --nnodes=2 --node_rank=$R {STATIC} t.py\n",
            [(7, "error")],
        ),
        (
            TWO_NODES + HEAD + f'srun bash -c "torchrun --nnodes=2 --node-rank=$SLURM_PROCID {STATIC} t.py"\n',
            [(6, "error")],
        ),
        (
            TWO_NODES + "srun accelerate launch --num_machines 2 --machine_rank 0 --main_process_ip $H train.py\n",
            [(5, "error")],
        ),
        (HOSTS.format(line="ssh $host torchrun --nnodes=2 --node-rank=0 --master-addr=n1 t.py &"), [(2, "error")]),
        (
            TWO_NODES + HEAD + f'ARGS="--nnodes 2 --node_rank $SLURM_NODEID {STATIC}"\nsrun torchrun $ARGS train.py\n',
            [(6, "error")],
        ),
        ("pdsh -w n[1-2] torchrun --nnodes=2 --node_rank=0 --master_addr=n1 train.py\n", [(1, "error")]),
        ("clush -w n[1-2],n7 torchrun --nnodes=3 --node_rank=0 --master_addr=n1 train.py\n", [(1, "error")]),
        (
            "ssh n1 torchrun --nnodes=2 --node_rank=0 --master_addr=n1 t.py &\n"
            "ssh n2 torchrun --nnodes=2 --node_rank=0 --master_addr=n1 t.py &\n",
            [(2, "error")],
        ),
        # one in the background, and one in the foreground behind it
        (
            "torchrun --nnodes=2 --node-rank=0 --master-addr=127.0.0.1 t.py &\n"
            "torchrun --nnodes=2 --node-rank=0 --master-addr=127.0.0.1 t.py\nwait\n",
            [(2, "error")],
        ),
        # this script may be the one of node 0
        ("torchrun --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 train.py\n", [(1, "info")]),
    ],
)
def test_bad_node_rank_for_all(text: str, expected: list[tuple[int, str]]) -> None:
    assert said(every_node_has_its_own_rank, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        TWO_NODES + HEAD + f"srun bash -c 'torchrun --nnodes=2 --node-rank=$SLURM_NODEID {STATIC} train.py'\n",
        TWO_NODES + HEAD + f'srun bash -c "torchrun --nnodes=2 --node-rank=\\$SLURM_NODEID {STATIC} train.py"\n',
        TWO_NODES
        + HEAD
        + f'RUN="torchrun --nnodes 2 --node_rank \\$SLURM_NODEID {STATIC}"\nsrun bash -c "$RUN t.py"\n',
        # c10d numbers the nodes itself
        TWO_NODES + HEAD + f"srun torchrun --nnodes=2 --node-rank=0 {C10D} train.py\n",
        TWO_NODES + HEAD + f"srun torchrun --nnodes=2 --node-rank=0 --rdzv-backend=$B {STATIC} train.py\n",
        # a line for each node
        TWO_NODES
        + f"srun -N1 -n1 -w n1 torchrun --nnodes=2 --node-rank=0 {STATIC} t.py &\n"
        + f"srun -N1 -n1 -w n2 torchrun --nnodes=2 --node-rank=1 {STATIC} t.py &\n",
        "torchrun --nnodes=2 --node-rank=0 --master-addr=127.0.0.1 t.py &\n"
        "torchrun --nnodes=2 --node-rank=1 --master-addr=127.0.0.1 t.py\nwait\n",
        "torchrun --nnodes=2 --node_rank=$1 --master_addr=10.0.0.1 train.py\n",
        "torchrun --nnodes=1 --node_rank=0 --master_addr=localhost --master_port=29500 train.py\n",
        "torchrun --nnodes=$N --node_rank=0 --master_addr=$A train.py\n",
        HOSTS.format(line="ssh $host torchrun --nnodes=2 --node-rank=$i --master-addr=n1 t.py &"),
        "if [ $IP = 10.0.0.1 ]; then R=0; else R=1; fi\ntorchrun --nnodes=2 --node_rank=$R --master_addr=$A t.py\n",
        "case $(hostname) in\n"
        "  a) torchrun --nnodes=2 --node_rank=0 --master_addr=a t.py ;;\n"
        "  b) torchrun --nnodes=2 --node_rank=1 --master_addr=a t.py ;;\nesac\n",
    ],
)
def test_good_node_rank_of_its_own(text: str) -> None:
    assert said(every_node_has_its_own_rank, text) == []


def test_bad_rank_twice_and_the_free_one() -> None:
    text = (
        "case $(hostname) in\n"
        "  a) torchrun --nnodes=3 --node_rank=0 --master_addr=a t.py ;;\n"
        "  b) torchrun --nnodes=3 --node_rank=1 --master_addr=a t.py ;;\n"
        "  c) torchrun --nnodes=3 --node_rank=1 --master_addr=a t.py ;;\nesac\n"
    )
    (finding,) = findings(every_node_has_its_own_rank, text)
    assert finding.where.line == 4
    assert "none gives 2" in finding.message
    assert said(every_node_has_its_own_rank, fixed(text, finding)) == []


@pytest.mark.parametrize("ends", [("", ""), ("", " &"), ("", "", "")], ids=["both", "first", "all"])
def test_lines_that_run_one_after_another_are_no_nodes_of_one_job(ends: tuple[str, ...]) -> None:
    lines = [f"torchrun --nnodes={len(ends)} --node-rank=0 --master-addr=10.0.0.1 t.py{end}" for end in ends]
    assert not [
        item for item in findings(every_node_has_its_own_rank, "\n".join(lines) + "\n") if "two lines" in item.message
    ]


def test_bad_nodes_of_one_job_that_count_differently() -> None:
    lines = [f"ssh n{rank} torchrun --nnodes=4 --node_rank={rank} --master_addr=n0 t.py &" for rank in range(4)]
    lines[2] = lines[2].replace("--nnodes=4", "--nnodes=2")
    assert said(launcher_expects_the_nodes_there_are, "\n".join(lines) + "\n") == [(3, "error")]


# DC806


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (f"--nnodes=2 --node-rank=$R {C10D}", [(1, "info")]),
        (f"--nnodes=2 --node_rank 1 {C10D}", [(1, "info")]),
        ("--standalone --node_rank=1", [(1, "info")]),
        ("--nnodes=2 --node_rank=1 --master_addr=$A", []),
        ("--nnodes=2 --node_rank=1 --rdzv_backend=static --rdzv_endpoint=$A:29500", []),
        ("--nnodes=2 --node_rank=1 --rdzv_backend=$B --rdzv_endpoint=$A:29500", []),
        ("--nnodes=1 --node_rank=0 --rdzv_backend=c10d", []),
        (f"--nnodes=2 {C10D}", []),
    ],
)
def test_bad_and_good_rank_with_a_backend(options: str, expected: list[tuple[int, str]]) -> None:
    assert said(node_rank_has_an_effect, f"torchrun {options} train.py --node_rank=3\n") == expected


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("-w node[01-04]", [(1, "error")]),
        ("-w a,b,c", [(1, "error")]),
        ("-w node[1-2]", []),
        ("-w node[1-2],node2", []),
        ("-w ^hosts", []),
        ("-w node[1-4],-node3", []),
        ("-w node[1-4] -x node[3-4]", []),
        ("-w node[0-6/2]", []),
        ("-w gpus", []),
        ("-w $HOSTS", []),
    ],
)
def test_hosts_of_pdsh_are_counted(hosts: str, expected: list[tuple[int, str]]) -> None:
    text = f"pdsh {hosts} 'torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_id=1 --rdzv_endpoint=a:29400 train.py'\n"
    assert said(launcher_expects_the_nodes_there_are, text) == expected


def test_what_starts_it_on_all_hosts_is_named() -> None:
    text = "{} 'torchrun --nnodes=4 --node_rank=0 --master_addr=n1 train.py'\n"
    (finding,) = findings(every_node_has_its_own_rank, text.format("pdsh -w n[1-4]"))
    assert finding.message.startswith("pdsh starts it on 4 hosts, ")
    assert finding.fix.text == "let pdsh number them: --node_rank=%n"
    (finding,) = findings(every_node_has_its_own_rank, "for h in a b c d; do\n" + text.format("ssh $h") + "done\n")
    assert finding.message.startswith("the loop starts it on 4 hosts, ")


# loops over hosts, and over something else


@pytest.mark.parametrize(
    "head", ["for seed in 1 2 3; do", "for ((seed = 0; seed < 3; seed++)); do", "while read seed; do"]
)
def test_good_a_loop_whose_variable_goes_along_to_one_host(head: str) -> None:
    text = f"HEAD=10.0.0.1\n{head}\n{BOTH}done\n"
    assert said(launcher_expects_the_nodes_there_are, text) == []
    assert said(every_node_has_its_own_rank, text) == []


@pytest.mark.parametrize("host", ["$HOST", "-p 22 me@${HOST}", "${MACHINES[$i]}", '"${SSH_OPTS[@]}" "$HOST"'])
def test_bad_dc805_a_loop_whose_variable_leads_to_a_host(host: str) -> None:
    launch = f"torchrun --nnodes=2 --node-rank=0 {STATIC} train.py"
    text = f'HEAD=10.0.0.1\nfor i in "${{!MACHINES[@]}}"; do\n  HOST="${{MACHINES[$i]}}"\n  ssh {host} "{launch}" &\ndone\n'
    assert [(one.code, one.where.line) for one in findings(every_node_has_its_own_rank, text)] == [("DC805", 4)]
