"""What stands around a launch line: nodes, tasks, places, and what its words are made of."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.context import (
    NODES_OPTIONS,
    ExpectedNodes,
    edit_value,
    expected_nodes,
    host_of,
    location_of,
    only_variable,
    rendezvous_lines,
    rendezvous_of,
    several_nodes,
    source_of,
    step_of,
    unquoted,
    with_variables,
    worst_per_location,
)
from distcheck.checks.launch_files.model import LaunchFiles, LaunchSite
from distcheck.checks.launch_files.node_ranks import launcher_expects_the_nodes_there_are
from distcheck.launch.schedulers import SchedulerStep

from .judging import TWO_NODES, findings, read
from .sites import site_of


def last(text: str) -> LaunchSite:
    return read(text).sites[-1]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("srun torchrun train.py", SchedulerStep("srun", 2, 2, 1)),
        ("srun -N 1 torchrun train.py", SchedulerStep("srun", 1, 1, 1)),
        ("srun -n 4 torchrun train.py", SchedulerStep("srun", 2, 4, 2)),
        ("srun -n 1 torchrun train.py", SchedulerStep("srun", 1, 1, 1)),
        ("srun -n $N torchrun train.py", SchedulerStep("srun", 2)),
        ("srun --ntasks-per-node=8 python train.py", SchedulerStep("srun", 2, 16, 8)),
        ("srun torchrun train.py &", SchedulerStep("srun", 2, 2, 1, partial=True)),
        ("srun -w $HOST torchrun train.py", SchedulerStep("srun", 2, 2, 1, partial=True)),
        ("torchrun train.py", SchedulerStep()),
        ("mpirun -np 4 -npernode 2 python train.py", SchedulerStep("mpirun", None, 4, 2)),
    ],
)
def test_steps(command: str, expected: SchedulerStep) -> None:
    assert step_of(last(TWO_NODES + command + "\n")) == expected


def test_a_step_that_asks_for_fewer_tasks_than_the_job_is_not_known() -> None:
    """Versions of Slurm differ: SLURM_NTASKS of the job may win."""
    text = TWO_NODES.replace("per-node=1", "per-node=8") + "srun --ntasks-per-node=1 torchrun train.py\n"
    assert step_of(last(text)).tasks_on_node is None


@pytest.mark.parametrize(
    ("command", "nodes", "several"),
    [
        ("torchrun --nnodes=2 train.py", ExpectedNodes(2, 2), True),
        ("torchrun --nnodes=1:4 train.py", ExpectedNodes(1, 4), True),
        ("torchrun --nnodes=$SLURM_NNODES train.py", ExpectedNodes(2, 2, literal=False), True),
        ("N=$SLURM_JOB_NUM_NODES; torchrun --nnodes=${N} train.py", ExpectedNodes(2, 2, literal=False), True),
        ("torchrun --nnodes=$OTHER train.py", None, None),
        ("srun torchrun --nnodes=$OTHER train.py", None, True),
        ("torchrun train.py", None, False),
        ("torchrun --standalone --nnodes=1 train.py", ExpectedNodes(1, 1), False),
        ("accelerate launch train.py", None, None),
        ("srun python train.py", None, True),
        ("python train.py", None, None),
    ],
)
def test_nodes(command: str, nodes: ExpectedNodes | None, several: bool | None) -> None:
    site = last(TWO_NODES + command + "\n")
    assert expected_nodes(site) == nodes
    assert several_nodes(site) is several


def test_what_a_word_is_made_of() -> None:
    site = last('A=$(hostname)\nB="$A"\nC=$C:x\nD=7\ntorchrun --nnodes=2 train.py\n')
    assert with_variables(site, "$B:${D}") == "$(hostname):7"
    assert with_variables(site, "$C $UNKNOWN") == "$C $UNKNOWN"
    first = source_of(site, "$B")
    assert first is not None and (first.name, first.span.line) == ("A", 1)
    assert source_of(site, "x$B") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$A", "A"), ('"${A}"', "A"), ("$A:1", None), ("${A:-1}", None), ("A", None)],
)
def test_a_single_variable(text: str, expected: str | None) -> None:
    assert only_variable(text) == expected


def test_unquoted() -> None:
    assert [unquoted(text) for text in ('"a"', "'a'", "a", '"a', "'", " a ")] == ["a", "a", "a", '"a', "'", "a"]


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("node1:29400", "node1"),
        ("[fd00::1]:29400", "fd00::1"),
        ("node1", "node1"),
        ("$A:$P", "$A"),
        ("${A:-x}:29400", "${A:-x}"),
        ("$(scontrol show hostnames a:b | head -n1):29400", "$(scontrol show hostnames a:b | head -n1)"),
        ("`hostname`:29400", "`hostname`"),
        ("$(hostname)", "$(hostname)"),
    ],
)
def test_the_host_of_an_endpoint(endpoint: str, expected: str) -> None:
    assert host_of(endpoint) == expected


def test_a_place_within_an_array() -> None:
    site = last("ARGS=(\n  --nnodes=4\n  --nproc-per-node 8\n)\ntorchrun ${ARGS[@]} train.py\n")
    where = location_of(site, site.value(*NODES_OPTIONS), "--nnodes")
    assert (where.line, where.column, where.end_column) == (2, 12, 13)
    (edit,) = edit_value(site, NODES_OPTIONS, "2")
    assert (edit.line, edit.column, edit.end_column, edit.text) == (2, 12, 13, "2")
    where = location_of(site, site.value("--nproc-per-node"))
    assert (where.line, where.column, where.end_column) == (3, 20, 21)


def test_no_edit_of_a_value_in_quotes_or_of_an_unknown_one() -> None:
    assert edit_value(site_of('torchrun --nnodes="4" train.py'), NODES_OPTIONS, "2") == ()
    assert edit_value(site_of("torchrun --nnodes=$N train.py"), NODES_OPTIONS, "2") != ()
    assert edit_value(site_of("torchrun train.py"), NODES_OPTIONS, "2") == ()


def test_where_the_ranks_meet() -> None:
    site = last("export MASTER_ADDR=node1\nsrun python train.py\n")
    rendezvous = rendezvous_of(site)
    assert rendezvous is not None and (rendezvous.host, rendezvous.variable, rendezvous.span.line) == (
        "node1",
        "MASTER_ADDR",
        1,
    )
    site = last("A=node1\ntorchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$A:29400 train.py\n")
    rendezvous = rendezvous_of(site)
    assert rendezvous is not None and (rendezvous.host, rendezvous.variable, rendezvous.span.line) == ("node1", "A", 1)
    # torchrun reads no exported address, and none at all with --standalone
    assert rendezvous_of(last("export MASTER_ADDR=node1\ntorchrun train.py\n")) is None
    assert rendezvous_of(last("torchrun --standalone --master-addr=node1 train.py\n")) is None


def test_a_file_of_variables_is_a_line_of_its_own() -> None:
    file = read("export MASTER_ADDR=node1\nexport MASTER_PORT=29500\n")
    assert file.sites == ()
    ((_, site),) = rendezvous_lines(LaunchFiles((file,)))
    assert set(site.settings) == {"MASTER_ADDR", "MASTER_PORT"}
    assert list(rendezvous_lines(LaunchFiles((read("echo torchrun\n"),)))) == []


def test_one_finding_at_one_place() -> None:
    text = TWO_NODES + "start() { srun torchrun --nnodes=4 train.py --seed $1; }\nstart 1\nstart 2\n"
    found = findings(launcher_expects_the_nodes_there_are, text)
    assert [finding.where.line for finding in found] == [5]
    assert list(worst_per_location(lambda: iter([*found, *found]))()) == found
