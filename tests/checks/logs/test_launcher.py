"""Who started the ranks, as probes judge it from a timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from distcheck.checks.logs.launcher import (
    ROWS,
    node_rank_counts,
    ranks_agreed,
    ranks_were_started_once,
    rendezvous_variables_were_set,
    the_store_was_served,
    variables_have_their_new_names,
)
from distcheck.checks.logs.model import Event, LineAuthor, Timeline
from distcheck.core.model import Finding, Severity
from distcheck.rules.signatures import Kind

from .made import SITE, code, found_by, said, timeline, worker

_MISSING = "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable {} expected, but not set"
_BIND = "torch.distributed.DistNetworkError: The server socket has failed to listen. port: 29500, name: EADDRINUSE"


def test_a_plain_python_gets_torchrun_with_its_own_script() -> None:
    made = timeline(said(_MISSING.format("RANK"), code("finetune.py", "main()", "<module>")))
    (finding,) = rendezvous_variables_were_set(made)
    assert finding.code == "DC101"
    assert finding.severity is Severity.ERROR
    assert finding.message == "RANK was not set: no launcher has started this process"
    assert finding.fix.command == "torchrun --standalone --nproc-per-node=gpu finetune.py"


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ('dist.init_process_group("gloo")', "2"),
        ('dist.init_process_group("nccl")', "gpu"),
        ("dist.init_process_group()", "gpu"),
        ('dist.init_process_group("nccl" if cuda else "gloo")', "gpu"),
    ],
)
def test_a_group_of_gloo_alone_counts_no_gpus(line: str, number: str) -> None:
    made = timeline(said(_MISSING.format("RANK"), code("train.py", line, "<module>")))
    (finding,) = rendezvous_variables_were_set(made)
    assert finding.fix.command == f"torchrun --standalone --nproc-per-node={number} train.py"
    assert ("without GPUs" in finding.fix.text) == (number == "gpu")


def test_tasks_of_srun_get_their_numbers_mapped() -> None:
    lines = [said(_MISSING.format("RANK"), who=LineAuthor(task=task), line=task + 1) for task in range(4)]
    made = timeline(*lines, paths=("slurm-4711.out",))
    (finding,) = rendezvous_variables_were_set(made)
    assert finding.message.startswith("RANK was not set: srun started the tasks")
    assert "RANK=$SLURM_PROCID" in (finding.fix.command or "")
    assert finding.evidence["lines"] == 4


def test_tasks_of_mpirun_get_their_numbers_mapped() -> None:
    made = timeline(
        said("KeyError: 'WORLD_SIZE'", who=LineAuthor(task=1)),
        said("mpirun detected that one or more processes exited with non-zero status, thus causing"),
    )
    (finding,) = rendezvous_variables_were_set(made)
    assert "RANK=$OMPI_COMM_WORLD_RANK" in (finding.fix.command or "")


def test_a_script_that_reads_slurms_variables_needs_srun() -> None:
    (finding,) = rendezvous_variables_were_set(timeline(said("KeyError: 'SLURM_PROCID'")))
    assert finding.message.startswith("the script takes its rank from SLURM_PROCID, which srun sets")
    assert finding.fix.command == "srun python train.py"


def test_all_that_is_missing_is_named_once() -> None:
    made = timeline(said(_MISSING.format("RANK")), said(_MISSING.format("MASTER_ADDR")), said(_MISSING.format("RANK")))
    (finding,) = rendezvous_variables_were_set(made)
    assert finding.evidence["variables"] == ["RANK", "MASTER_ADDR"]


def test_a_number_of_a_variable_that_is_none() -> None:
    text = "TypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'"
    ours = timeline(said(text, code("train.py", 'rank = int(os.environ.get("RANK"))')))
    assert [code for code, *_ in found_by(rendezvous_variables_were_set, ours)] == ["DC101"]
    theirs = timeline(said(text, code("train.py", 'size = int(os.environ.get("BATCH"))')))
    assert not found_by(rendezvous_variables_were_set, theirs)


def test_mpi4py_counts_where_deepspeed_looks_for_it() -> None:
    text = "ModuleNotFoundError: No module named 'mpi4py'"
    frame = code(f"{SITE}/deepspeed/comm/comm.py", "from mpi4py import MPI", "mpi_discovery")
    assert found_by(rendezvous_variables_were_set, timeline(said(text, frame)))
    assert not found_by(rendezvous_variables_were_set, timeline(said(text, code("train.py", "import mpi4py"))))


def test_what_the_job_lived_through_is_a_remark() -> None:
    made = timeline(said("KeyError: 'RANK'"), went_on=True)
    (finding,) = rendezvous_variables_were_set(made)
    assert finding.severity is Severity.INFO
    assert finding.evidence["role"] == "context"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("RuntimeError: rank < size. 3 vs 2", "rank 3 does not exist among 2 ranks, which are numbered from 0"),
        ("RuntimeError: rank < size. 0 vs -1", "the world size is -1"),
        ("RuntimeError: rank >= 0. -1 vs 0", "the rank is -1"),
        (
            "ValueError: Invalid rank 4, rank should be in the interval [0, 3]",
            "rank 4 does not exist among 4 ranks, which are numbered from 0",
        ),
        (
            "AssertionError: LOCAL_RANK (0) != OMPI_COMM_WORLD_LOCAL_RANK (1), not sure how to proceed",
            "LOCAL_RANK is 0, and OMPI_COMM_WORLD_LOCAL_RANK is 1",
        ),
    ],
)
def test_a_rank_that_can_not_be(line: str, message: str) -> None:
    assert found_by(ranks_agreed, timeline(said(line))) == [("DC103", "error", message)]


def test_the_rank_of_the_line_is_to_blame() -> None:
    (finding,) = ranks_agreed(timeline(said("RuntimeError: rank < size. 3 vs 2")))
    assert finding.where.rank == 3


_TIMED_OUT = (
    "torch.distributed.DistNetworkError: The client socket has timed out after 1800000ms while trying to connect"
)
_OWN = code("train.py", 'dist.init_process_group("gloo", init_method="tcp://10.0.0.4:23456")')


def test_an_address_of_its_own_under_torchrun() -> None:
    made = timeline(
        said(_TIMED_OUT, _OWN, who=LineAuthor(rank=0)),
        said(_TIMED_OUT, _OWN, who=LineAuthor(rank=1), line=2),
        workers=[worker(0, 0)],
    )
    assert [code for code, *_ in found_by(the_store_was_served, made)] == ["DC104"]


@pytest.mark.parametrize("under_torchrun", [True, False])
def test_a_store_that_is_only_far_away(under_torchrun: bool) -> None:
    own = _OWN if not under_torchrun else code("train.py", 'dist.init_process_group("gloo")')
    made = timeline(said(_TIMED_OUT, own), workers=[worker(0, 0)] if under_torchrun else ())
    assert not found_by(the_store_was_served, made)


def bind(task: int | None, *paths: str, line: int = 1) -> list[Event]:
    made = said(_BIND, *(code(path, "run()") for path in paths), who=LineAuthor(task=task), line=line)
    return [
        event._replace(signature="port-taken", kind=Kind.CAUSE, codes=("DC401",), values={"port": "29500"})
        for event in made
    ]


_AGENT = f"{SITE}/torch/distributed/run.py"


def test_several_agents_want_one_port() -> None:
    made = timeline(bind(1, _AGENT), bind(2, _AGENT, line=9))
    (finding,) = ranks_were_started_once(made)
    assert finding.code == "DC106"
    assert finding.message.startswith("tasks 1, 2 of one step each started a launcher that wants port 29500: srun")
    assert finding.evidence["tasks"] == [1, 2]


@pytest.mark.parametrize("tasks", [(0,), (0, 0)])
def test_one_agent_meets_a_port_of_somebody_else(tasks: tuple[int, ...]) -> None:
    assert not found_by(ranks_were_started_once, timeline(*(bind(task, _AGENT, line=task + 1) for task in tasks)))


def test_ranks_that_bind_are_no_agents() -> None:
    made = timeline(bind(1, "/workspace/train.py"), bind(2, "/workspace/train.py", line=9))
    assert not found_by(ranks_were_started_once, made)


def test_processes_spawned_under_torchrun() -> None:
    spawned = bind(None, f"{SITE}/torch/multiprocessing/spawn.py")
    assert found_by(ranks_were_started_once, timeline(spawned, workers=[worker(0, 0)]))
    assert not found_by(ranks_were_started_once, timeline(spawned))


@pytest.mark.parametrize(
    ("probe", "line", "rule"),
    [
        (
            variables_have_their_new_names,
            "PYTORCH_CUDA_ALLOC_CONF is deprecated, use PYTORCH_ALLOC_CONF instead",
            "DC111",
        ),
        (
            ROWS["threads_were_set"],
            "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
            "DC115",
        ),
        (ROWS["launcher_is_no_old_one"], "FutureWarning: The module torch.distributed.launch is deprecated", "DC801"),
        (node_rank_counts, "node_rank is only used for static rdzv_backend.", "DC806"),
    ],
)
@pytest.mark.parametrize("went_on", [True, False])
def test_what_healthy_jobs_print_is_never_above_info(
    probe: Callable[[Timeline], Iterator[Finding]], line: str, rule: str, went_on: bool
) -> None:
    (finding,) = probe(timeline(said(line), went_on=went_on))
    assert (finding.code, finding.severity, finding.evidence["role"]) == (rule, Severity.INFO, "context")
