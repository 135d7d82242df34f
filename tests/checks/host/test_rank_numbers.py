"""Ranks, counts and node numbers against each other and against the scheduler's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host.rank_numbers import node_rank_is_in_range, ranks_agree
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.launch.model import Launch
from distcheck.launch.schedulers import scheduler_of

from .launches import OPENMPI_TASK, SRUN_TASK, SRUN_TASK_A_NODE, TORCHRUN_WORKER, make

MAPPED = {
    **SRUN_TASK,
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
}
#: rank 9 of two nodes with eight ranks each
TWO_NODES = {
    **TORCHRUN_WORKER,
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
}


def judge(environ: Mapping[str, str], command: str = "") -> list[Finding]:
    return list(ranks_agree(make(environ, command=command), scheduler_of(environ) or Unavailable("none")))


@pytest.mark.parametrize(
    ("environ", "variable", "words"),
    [
        ({"RANK": "3", "WORLD_SIZE": "2"}, "RANK", "the last of 2 ranks is 1"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK", "RANK is 2, but WORLD_SIZE is 2"),
        ({"LOCAL_RANK": "8", "LOCAL_WORLD_SIZE": "8"}, "LOCAL_RANK", "on this node"),
        ({**TWO_NODES, "GROUP_RANK": "2"}, "GROUP_RANK", "GROUP_WORLD_SIZE is 2"),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "4"}, "LOCAL_WORLD_SIZE", "counts all nodes"),
        ({**TWO_NODES, "GROUP_WORLD_SIZE": "1", "GROUP_RANK": "0"}, "WORLD_SIZE", "1 node, 8 ranks"),
        ({**TWO_NODES, "GROUP_WORLD_SIZE": "12"}, "WORLD_SIZE", "12 nodes"),
        ({**TWO_NODES, "RANK": "1"}, "RANK", "is rank 9"),
        ({**MAPPED, "RANK": "0", "LOCAL_RANK": "0"}, "RANK", "set once, before the tasks were started"),
        ({**MAPPED, "RANK": "4"}, "RANK", "task 9 of 16"),
        ({**OPENMPI_TASK, "RANK": "0", "WORLD_SIZE": "8"}, "RANK", "OMPI_COMM_WORLD_RANK=3"),
    ],
)
def test_bad_numbers(environ: Mapping[str, str], variable: str, words: str) -> None:
    (finding,) = judge(environ)
    assert (finding.code, finding.severity, finding.where.variable) == ("DC103", Severity.ERROR, variable)
    assert words in finding.message


def test_bad_rank_exported_before_srun() -> None:
    (finding,) = judge({"RANK": "0"}, "srun -n 8 python t.py")
    assert (finding.code, finding.where.variable) == ("DC103", "RANK")
    assert "SLURM_PROCID" in finding.fix.text


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param(TORCHRUN_WORKER, id="torchrun"),
        pytest.param(TWO_NODES, id="torchrun on two nodes"),
        pytest.param({**TWO_NODES, "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "1"}, id="--virtual-local-rank"),
        pytest.param({**TWO_NODES, "WORLD_SIZE": "12", "RANK": "5"}, id="nodes of eight and four"),
        pytest.param(MAPPED, id="a task a rank"),
        pytest.param({**MAPPED, "LOCAL_RANK": "0"}, id="one visible GPU a task"),
        pytest.param({**MAPPED, "SLURM_PROCID": "3"}, id="tasks dealt out in turn, ranks node by node"),
        pytest.param({**SRUN_TASK_A_NODE, **TWO_NODES}, id="torchrun in a task of srun"),
        pytest.param({**MAPPED, "WORLD_SIZE": "32", "RANK": "20"}, id="a task that starts two ranks"),
        pytest.param({"RANK": "abc", "WORLD_SIZE": "2"}, id="what can't be read is DC102"),
        pytest.param({"RANK": "0", "WORLD_SIZE": "0"}, id="and so is a world of none"),
        pytest.param({}, id="nothing"),
    ],
)
def test_good_dc103_numbers(environ: Mapping[str, str]) -> None:
    assert judge(environ) == []


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({"RANK": "5", "WORLD_SIZE": "2"}, "torchrun t.py"),  # torchrun sets its own
        ({}, "srun bash -c 'export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS; exec python t.py'"),
        ({"RANK": "0"}, "srun -n 1 python t.py"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "python t.py"),
    ],
)
def test_good_planned_numbers(environ: Mapping[str, str], command: str) -> None:
    assert judge(environ, command) == []


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        pytest.param({}, Severity.ERROR, id="torchrun"),
        pytest.param({"LOCAL_RANK": "0"}, Severity.ERROR, id="a rank of no local rank of this node"),
        pytest.param({"GROUP_WORLD_SIZE": None}, Severity.ERROR, id="the number of nodes follows"),
        pytest.param({"TORCHELASTIC_RUN_ID": None}, Severity.INFO, id="another launcher may number them in turn"),
    ],
)
def test_bad_dc103_a_rank_of_another_node(changes: Mapping[str, str | None], severity: Severity) -> None:
    two = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "2"}
    wrong = {"RANK": "5", "LOCAL_RANK": "1", "GROUP_RANK": "1"}
    environ = {name: value for name, value in {**TORCHRUN_WORKER, **two, **wrong, **changes}.items() if value}
    (finding,) = judge(environ)
    assert (finding.code, finding.severity, finding.where.variable) == ("DC103", severity, "RANK")


@given(st.integers(1, 8), st.integers(1, 8), st.data())
def test_whatever_torchrun_sets_is_good(nodes: int, here: int, data: st.DataObject) -> None:
    node, local = data.draw(st.integers(0, nodes - 1)), data.draw(st.integers(0, here - 1))
    virtual = data.draw(st.booleans())
    environ = {
        **TORCHRUN_WORKER,
        "RANK": str(node * here + local),
        "LOCAL_RANK": "0" if virtual else str(local),
        "WORLD_SIZE": str(nodes * here),
        "LOCAL_WORLD_SIZE": str(here),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(nodes),
    }
    assert judge(environ) == []


@pytest.mark.parametrize("rank", [-1, 2, 7])
def test_bad_dc103_a_node_that_is_none_of_them(rank: int) -> None:
    launch = Launch("planned", "torchrun", nnodes=2, nnodes_max=2, node_rank=rank)
    (finding,) = node_rank_is_in_range(launch)
    assert (finding.code, finding.evidence["node_rank"]) == ("DC103", rank)


@pytest.mark.parametrize(
    "launch",
    [
        Launch("planned", "torchrun", nnodes=2, nnodes_max=2, node_rank=1),
        Launch("planned", "torchrun", nnodes=1, nnodes_max=4, node_rank=3),
        Launch("planned", "torchrun", nnodes=2),
        Launch("rank", "torchrun", nnodes=2, node_rank=5),
    ],
)
def test_good_dc103_nodes(launch: Launch) -> None:
    assert list(node_rank_is_in_range(launch)) == []
