"""Which rank a process is, by the variables of whatever launcher started it."""

from __future__ import annotations

import pytest

from distcheck.runtime.coordination.rank_info import RankInfo, rank_info_of, with_rank_variables

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


def rank_info(environ: dict[str, str]) -> RankInfo | None:
    return rank_info_of(with_rank_variables(environ))


def test_torchrun() -> None:
    found = rank_info(TORCHRUN)
    assert found == RankInfo(3, 4, 1, 2, 1, "node0", 29500, True, 2)
    assert not found.serves
    assert not found.leads


def test_slurm_tasks_meet_on_the_first_host_of_the_step() -> None:
    found = rank_info(SLURM)
    assert found is not None
    assert found[:6] == (5, 8, 1, 4, 1, "gpu07")
    assert not found.agent_store


def test_all_tasks_of_a_step_draw_one_port_and_another_step_another() -> None:
    ports = {rank_info({**SLURM, "SLURM_PROCID": str(rank)}).master_port for rank in range(8)}  # type: ignore[union-attr]
    assert len(ports) == 1
    assert ports != {rank_info({**SLURM, "SLURM_STEP_ID": "1"}).master_port}  # type: ignore[union-attr]
    # below the range that the kernel gives to outgoing connections
    assert all(1024 < port < 32768 for port in ports)


def test_what_the_user_chose_wins() -> None:
    found = rank_info({**SLURM, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "12345"})
    assert found is not None
    assert found[5:7] == ("10.0.0.1", 12345)


def test_mpi_tasks_of_one_host_meet_there() -> None:
    found = rank_info(OPEN_MPI)
    assert found is not None
    assert found[:3] == (1, 2, 1)
    assert found.master_addr == "127.0.0.1"


def test_mpi_tasks_of_several_hosts_must_be_told_where_to_meet() -> None:
    several = {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "4"}
    assert rank_info(several) is None
    assert rank_info({**several, "MASTER_ADDR": "node0"}) is not None


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RANK": "0"},
        {"RANK": "x", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
        {"RANK": "0", "WORLD_SIZE": "0"},
        {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a"},
        {"RANK": "-1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
        # the body of an sbatch is no task
        {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"},
    ],
)
def test_too_little_is_no_rank_info(environ: dict[str, str]) -> None:
    assert rank_info(environ) is None


def test_one_rank_needs_no_meeting_place() -> None:
    assert rank_info({"RANK": "0", "WORLD_SIZE": "1"}) == RankInfo(0, 1)


def test_the_first_rank_of_a_host_leads_and_one_that_can_not_tell_does_too() -> None:
    assert RankInfo(4, 8, 0, 4).leads
    assert not RankInfo(5, 8, 1, 4).leads
    assert RankInfo(5, 8).leads
