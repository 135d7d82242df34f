"""What schedulers and MPI launchers say about a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.model import Unavailable
from distcheck.launch.command import parse_command
from distcheck.launch.schedulers import (
    MAX_HOSTS,
    Scheduler,
    expand_hostlist,
    first_host,
    mapping_lines,
    read_scheduler,
    scheduler_of,
    started_by,
    task_starter,
    tasks_on_node,
)
from tests.checks.host.launches import (
    NOW,
    OPENMPI_TASK,
    PYTORCHJOB_POD,
    SBATCH_BODY,
    SRUN_TASK,
    SRUN_TASK_A_NODE,
    TORCHRUN_WORKER,
)
from tests.recorded import recorded_world


def scheduler(environ: Mapping[str, str]) -> Scheduler:
    found = scheduler_of(environ, now_s=NOW)
    assert found is not None
    return found


# Slurm


def test_a_batch_body_is_no_task_though_it_has_a_rank() -> None:
    body = scheduler(SBATCH_BODY)
    assert SBATCH_BODY["SLURM_PROCID"] == "0"
    assert (body.name, body.numbered_by, body.place, body.job_id) == ("slurm", None, "batch", "200505")
    assert (body.rank, body.tasks, body.tasks_on_node, body.nodes) == (None, 16, 8, 2)
    assert (body.gpus_on_node, body.cpus_per_task, body.node_name, body.node_list) == (8, 8, "gpu01", "gpu[01-02]")
    assert body.left_s == 7200


def test_a_task_of_srun() -> None:
    task = scheduler(SRUN_TASK)
    assert (task.name, task.numbered_by, task.place, task.step_id) == ("slurm", "slurm", "task", "0")
    assert (task.rank, task.local_rank, task.tasks, task.tasks_on_node, task.node_rank) == (9, 1, 16, 8, 1)


def test_a_step_has_counts_of_its_own() -> None:
    """What the job's script asked for stays in the environment of a smaller step."""
    task = scheduler({**SRUN_TASK_A_NODE, "SLURM_NTASKS_PER_NODE": "8"})
    assert (task.tasks, task.tasks_on_node) == (2, 1)


@pytest.mark.parametrize("step", ["4294967290", "4294967291", "4294967292"])
def test_interactive_and_batch_steps_number_nobody(step: str) -> None:
    assert scheduler({**SBATCH_BODY, "SLURM_STEP_ID": step}).numbered_by is None


@pytest.mark.parametrize(
    ("text", "node", "tasks"),
    [
        ("8", 0, 8),
        ("8(x2),4", 1, 8),
        ("8(x2),4", 2, 4),
        ("8(x2)", 2, None),
        ("", 0, None),
        ("many", 0, None),
        ("2(x999999999)", 5, 2),
    ],
)
def test_tasks_on_node(text: str, node: int, tasks: int | None) -> None:
    assert tasks_on_node(text, node) == tasks


@pytest.mark.parametrize(("text", "gpus"), [("4", 4), ("a100:4", 4), ("a100:2,v100:1", 3), ("many", None)])
def test_gpus_per_task(text: str, gpus: int | None) -> None:
    assert scheduler({**SRUN_TASK, "SLURM_GPUS_PER_TASK": text}).gpus_per_task == gpus


# others


@pytest.mark.parametrize(
    ("environ", "name", "numbered_by", "rank", "local_rank", "tasks"),
    [
        pytest.param(OPENMPI_TASK, "openmpi", "openmpi", 3, 3, 8, id="mpirun of Open MPI"),
        pytest.param(
            {**SRUN_TASK, **OPENMPI_TASK},
            "slurm",
            "openmpi",
            3,
            3,
            8,
            id="mpirun in a job: its daemon is a task of srun",
        ),
        pytest.param({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"}, "pmi", "pmi", 2, 0, 4, id="MPICH"),
        pytest.param(
            {**SRUN_TASK, "PMI_RANK": "9", "PMI_SIZE": "16"}, "slurm", "slurm", 9, 1, 16, id="srun --mpi=pmi2"
        ),
        pytest.param(
            {**SRUN_TASK, "PMI_RANK": "2", "PMI_SIZE": "4"}, "slurm", "pmi", 2, None, 4, id="mpiexec.hydra in a job"
        ),
        pytest.param({**SRUN_TASK, "PMIX_RANK": "9"}, "slurm", "slurm", 9, 1, 16, id="srun --mpi=pmix"),
        pytest.param(
            {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": "1"},
            "mvapich",
            "mvapich",
            1,
            1,
            2,
            id="MVAPICH2",
        ),
        pytest.param(
            {"FLUX_JOB_ID": "f1", "FLUX_TASK_RANK": "1", "FLUX_TASK_LOCAL_ID": "0", "FLUX_JOB_SIZE": "2"},
            "flux",
            "flux",
            1,
            0,
            2,
            id="Flux",
        ),
        pytest.param(
            {"LSB_JOBID": "7", "JSM_NAMESPACE_RANK": "5", "JSM_NAMESPACE_LOCAL_RANK": "1", "JSM_NAMESPACE_SIZE": "12"},
            "lsf",
            "jsrun",
            5,
            1,
            12,
            id="jsrun",
        ),
        pytest.param(
            {"PBS_JOBID": "9.server", "PBS_NUM_NODES": "2"}, "pbs", None, None, None, None, id="PBS job script"
        ),
        pytest.param(PYTORCHJOB_POD, "kubernetes", None, None, None, None, id="pod: RANK there numbers pods"),
    ],
)
def test_who_numbers_this_task(
    environ: dict[str, str],
    name: str,
    numbered_by: str | None,
    rank: int | None,
    local_rank: int | None,
    tasks: int | None,
) -> None:
    found = scheduler(environ)
    assert (found.name, found.numbered_by) == (name, numbered_by)
    assert (found.rank, found.local_rank, found.tasks) == (rank, local_rank, tasks)


def test_a_pod() -> None:
    pod = scheduler(PYTORCHJOB_POD)
    assert (pod.place, pod.nodes, pod.node_rank, pod.nproc_text) == ("pod", 2, 1, "8")


@pytest.mark.parametrize("environ", [{}, {"SLURM_JOB_ID": ""}, dict(TORCHRUN_WORKER), {"PET_NNODES": "2"}])
def test_no_scheduler(environ: dict[str, str], tmp_path: Path) -> None:
    assert scheduler_of(environ) is None
    with pytest.raises(Unavailable, match="no scheduler"):
        read_scheduler(recorded_world(tmp_path, environ=environ))


def test_the_reader_sees_all_that_it_needs(tmp_path: Path) -> None:
    """The world lets the variables through, and knows the time."""
    for environ in (SBATCH_BODY, SRUN_TASK, OPENMPI_TASK, PYTORCHJOB_POD):
        assert read_scheduler(recorded_world(tmp_path, environ=environ, now=NOW)) == scheduler(environ)


@given(st.dictionaries(st.sampled_from(sorted({**SRUN_TASK, **OPENMPI_TASK, **PYTORCHJOB_POD})), st.text(max_size=30)))
def test_no_value_is_a_crash(environ: dict[str, str]) -> None:
    found = scheduler_of(environ, now_s=NOW)
    assert found is None or found.place in ("task", "batch", "pod")


# host lists


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu[01-04,07],login1", ("gpu01", "gpu02", "gpu03", "gpu04", "gpu07", "login1")),
        ("node1", ("node1",)),
        ("rack[1-2]node[8-10]", tuple(f"rack{rack}node{node}" for rack in (1, 2) for node in (8, 9, 10))),
        ("n[09-11]-ib", ("n09-ib", "n10-ib", "n11-ib")),
        ("a,b , c", ("a", "b", "c")),
        ("", ()),
    ],
)
def test_good_hostlist(text: str, hosts: tuple[str, ...]) -> None:
    assert expand_hostlist(text) == hosts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu[01-04", "brackets"),
        ("gpu01-04]", "brackets"),
        ("gpu[4-1]", "backwards"),
        ("gpu[a-c]", "no number"),
        ("gpu[]", "no number"),
        (f"gpu[1-{MAX_HOSTS + 1}]", "more than"),
        ("gpu[1-999999999999999999]", "more than"),
        ("a[1-1000]b[1-1000]", "more than"),
        (",".join(["a[1-60000]", "b[1-60000]"]), "more than"),
    ],
)
def test_bad_hostlist(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        expand_hostlist(text)
    assert first_host(text) is None


@given(st.lists(st.integers(0, 99), min_size=1, max_size=20, unique=True), st.from_regex(r"[a-z]{1,5}", fullmatch=True))
def test_a_hostlist_of_numbers_gives_each_back(numbers: list[int], prefix: str) -> None:
    listed = ",".join(f"{number:02}" for number in numbers)
    assert expand_hostlist(f"{prefix}[{listed}]") == tuple(f"{prefix}{number:02}" for number in numbers)


@given(st.text(alphabet="ab019[],- ", max_size=30))
def test_any_text_is_a_list_or_a_value_error(text: str) -> None:
    try:
        hosts = expand_hostlist(text)
    except ValueError:
        return
    assert len(hosts) <= MAX_HOSTS
    assert not any("[" in host or "," in host for host in hosts)


def test_first_host_of_words() -> None:
    assert first_host("10.0.0.1 172.17.0.1") == "10.0.0.1"
    assert first_host(None) is None


# mapping


@pytest.mark.parametrize(
    "environ", [SRUN_TASK, OPENMPI_TASK, {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}]
)
def test_mapping_lines_start_the_tasks_and_warn_of_the_body(environ: dict[str, str]) -> None:
    found = scheduler(environ)
    why, line = mapping_lines(found)
    assert why.startswith("#")
    assert "in each task" in why
    assert f"RANK=${found.mapping['RANK']}" in line
    # in single quotes, so that the task's shell expands it and not the job script's
    assert line.index("'") < line.index("RANK=$") < line.rindex("'")
    command = parse_command(["bash", "-c", line])
    assert command.launcher == "python"
    assert {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(command.assignments)


def test_mapping_lines_where_nobody_numbers() -> None:
    assert mapping_lines(scheduler(SBATCH_BODY)) == ()
    assert mapping_lines(scheduler(PYTORCHJOB_POD)) == ()


def test_mapping_lines_of_flux_leave_the_master_open() -> None:
    (_, line) = mapping_lines(started_by("flux"))
    assert "RANK=$FLUX_TASK_RANK" in line
    assert "<the host of task 0>" in line


@pytest.mark.parametrize(
    ("command", "starter", "kind"),
    [
        ("srun -n 2 python t.py", "srun", "slurm"),
        ("mpirun -np 2 python t.py", "mpirun", "openmpi"),
        ("mpiexec.hydra -n 2 python t.py", "mpiexec.hydra", "pmi"),
        ("nohup python t.py", None, None),
    ],
)
def test_task_starter(command: str, starter: str | None, kind: str | None) -> None:
    found = task_starter(parse_command(command.split()))
    assert found == starter
    assert found is None or started_by(found).numbered_by == kind
