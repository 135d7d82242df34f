"""Ranks are found by the environment of processes: made ones here, and children of this test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from distcheck.core.world import World
from distcheck.runtime.inspect.jobs import Job, find_jobs, jobs_called, jobs_of_process, spawned_job, with_spawned
from distcheck.runtime.inspect.processes import Processes, RankCandidate, look_at, read_processes

TORCHRUN = {
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "r7",
}


def rank(
    number: int, pid: int, parent: int = 10, *, torch: bool = True, age_s: float = 100.0, **more: str
) -> RankCandidate:
    variables = {**TORCHRUN, "RANK": str(number), "LOCAL_RANK": str(number), **more}
    return RankCandidate(pid, parent, "python3", ("python3", "train.py"), None, age_s, True, torch, variables=variables)


AGENT = RankCandidate(
    10,
    1,
    "torchrun",
    ("python3", "torchrun"),
    "torchrun",
    110.0,
    True,
    True,
    variables={"RANK": "0", "WORLD_SIZE": "1"},
)


def seen(*processes: RankCandidate, **parents: int) -> Processes:
    return Processes(
        processes, {**{item.pid: item.parent for item in processes}, **{int(k[1:]): v for k, v in parents.items()}}
    )


def only(processes: Processes) -> Job:
    (job,) = find_jobs(processes)
    return job


def test_the_ranks_of_a_launcher_are_one_job_and_the_launcher_is_none() -> None:
    job = only(seen(AGENT, *(rank(number, 20 + number) for number in range(4))))
    assert [(item.rank, item.pid, item.local_rank) for item in job.ranks] == [(n, 20 + n, n) for n in range(4)]
    assert (job.name, job.world_size, job.above, job.ended) == ("torchrun r7", 4, (10,), ())


@pytest.mark.parametrize("value", ["9" * 5000, "1000000000000"])
def test_a_number_that_fits_no_job_makes_no_rank(value: str) -> None:
    """The environment of a process is the choice of its user: no traceback, and no list of a billion ranks."""
    assert find_jobs(seen(rank(0, 20, WORLD_SIZE=value))) == ()
    assert find_jobs(seen(rank(0, 20, RANK=value))) == ()
    job = only(seen(rank(0, 20, LOCAL_RANK=value, LOCAL_WORLD_SIZE=value)))
    assert (job.ended, job.hidden, job.ranks[0].local_rank) == ((), (), None)


def test_children_of_a_rank_have_its_environment_and_are_none() -> None:
    worker, tracker = rank(0, 30, 20), rank(0, 31, 30, torch=False)
    job = only(seen(AGENT, rank(0, 20), worker, tracker, rank(1, 21)))
    assert [item.pid for item in job.ranks] == [20, 21]
    assert job.surplus == ()


def test_a_child_behind_a_shell_is_none_either() -> None:
    job = only(seen(AGENT, rank(0, 20), rank(0, 40, 39), p39=20))
    assert [item.pid for item in job.ranks] == [20]


def test_a_wrapper_in_python_that_has_no_torch_is_not_the_rank() -> None:
    job = only(seen(AGENT, rank(0, 20, torch=False), rank(0, 30, 20), rank(0, 31, 30)))
    assert [item.pid for item in job.ranks] == [30]


def test_a_rank_that_has_not_imported_torch_yet_is_one() -> None:
    assert [item.pid for item in only(seen(AGENT, rank(0, 20, torch=False), rank(0, 21, 20, torch=False))).ranks] == [
        20
    ]


def test_a_rank_whose_process_has_gone_has_ended_where_its_launcher_is_seen() -> None:
    job = only(seen(AGENT, rank(0, 20), rank(2, 22), rank(3, 23)))
    assert (job.ended, job.hidden) == ((1,), ())


def test_in_a_container_of_its_own_a_rank_that_is_missing_may_only_be_hidden() -> None:
    job = only(seen(rank(0, 20, 1), rank(2, 22, 1)))
    assert (job.ended, job.hidden) == ((), (1, 3))


def test_the_second_node_numbers_its_own_ranks() -> None:
    job = only(seen(AGENT, *(rank(n, 20 + n, WORLD_SIZE="8", LOCAL_RANK=str(n - 4)) for n in (4, 5, 7))))
    assert (job.world_size, job.ended) == (8, (6,))


def test_two_jobs_of_one_host_stay_two() -> None:
    other = {"MASTER_PORT": "29501", "TORCHELASTIC_RUN_ID": "r8", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    jobs = find_jobs(
        seen(AGENT, rank(0, 20), rank(1, 21), rank(2, 24), rank(0, 22, 11, **other), rank(1, 23, 11, **other))
    )
    assert [(job.name, len(job.ranks)) for job in jobs] == [("torchrun r7", 3), ("torchrun r8", 2)]


def test_what_an_earlier_start_left_is_no_rank_of_this_one() -> None:
    job = only(seen(AGENT, rank(0, 20), rank(0, 9, 1, age_s=9000.0)))
    assert [item.pid for item in job.ranks] == [20]
    assert [item.pid for item in job.surplus] == [9]


def test_a_task_of_slurm_counts_where_torch_is_loaded() -> None:
    def task(pid: int, number: int, torch: bool) -> RankCandidate:
        made = rank(number, pid, 5, torch=torch, SLURM_JOB_ID="4711", SLURM_STEP_ID="0")
        return made._replace(torchs_own=False)

    job = only(seen(task(20, 0, True), task(21, 1, True), task(22, 2, False)))
    assert [item.pid for item in job.ranks] == [20, 21]
    assert job.name == "slurm job 4711"
    assert jobs_called([job], "4711.0") == jobs_called([job], "4711") == (job,)
    assert jobs_called([job], "471") == ()


@pytest.mark.parametrize("pid", [20, 10, 50, 51], ids=["rank", "launcher", "worker", "below a worker"])
def test_a_job_is_found_by_any_process_of_it(pid: int) -> None:
    processes = seen(AGENT, rank(0, 20), p50=20, p51=50, p60=1)
    job = only(processes)
    assert jobs_of_process([job], pid, processes.parents) == (job,)
    assert jobs_of_process([job], 60, processes.parents) == ()


def test_a_process_of_its_own_that_starts_ranks_numbers_them_by_their_start() -> None:
    parent = RankCandidate(20, 1, python=True, torch=True)
    children = [
        RankCandidate(31, 20, age_s=9.0, python=True, torch=True),
        RankCandidate(30, 20, age_s=9.5, python=True, torch=True),
    ]
    tracker = RankCandidate(29, 20, age_s=9.6, python=True)
    job = spawned_job(parent, [*children, tracker, parent])
    assert job is not None
    assert [(item.rank, item.pid) for item in job.ranks] == [(0, 30), (1, 31)]
    assert job.numbered_by == "start"
    assert spawned_job(tracker, children) is None


def test_a_pod_whose_process_starts_the_ranks_counts_nodes() -> None:
    """An operator gives RANK and WORLD_SIZE to the pod; its process calls mp.spawn, and the children inherit them."""
    pod = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "master-0", "MASTER_PORT": "23456"}
    parent = RankCandidate(20, 1, age_s=20.0, python=True, torch=True, variables=pod)
    children = [RankCandidate(30 + n, 20, age_s=9.5 - n, python=True, torch=True, variables=pod) for n in range(4)]
    job = only(seen(parent, *children))
    assert [(item.rank, item.pid) for item in job.ranks] == [(1, 20)]
    made = spawned_job(parent, children)
    assert made is not None
    whole = with_spawned(job, {20: made})
    assert [(item.rank, item.pid) for item in whole.ranks] == [(4, 30), (5, 31), (6, 32), (7, 33)]
    assert (whole.world_size, whole.numbered_by, 20 in whole.above) == (8, "start", True)


# reading


def write_process(
    root: Path, pid: int, parent: int, environ: Mapping[str, str], *, user: int, program: str, maps: str = ""
) -> None:
    folder = root / "proc" / str(pid)
    task = folder / "task" / str(pid)
    task.mkdir(parents=True)
    stat = f"{pid} (a (b) c) S {parent} 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 3 0 1000 0 0\n"
    for place in (folder, task):
        (place / "stat").write_text(stat)
        (place / "status").write_text(
            f"Name:\ta\nUid:\t{user}\t{user}\t0\t0\nTracerPid:\t0\nvoluntary_ctxt_switches:\t17\n"
        )
    (folder / "environ").write_bytes(b"".join(f"{name}={value}\0".encode() for name, value in environ.items()))
    (folder / "cmdline").write_bytes(b"python3\0train.py\0--token\0secret\0")
    (folder / "maps").write_text(maps)
    (folder / "exe").symlink_to(program)
    (folder / "cwd").symlink_to("/home/u/run")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "uptime").write_text("110.0 400.0\n")
    return tmp_path


def test_of_an_environment_only_what_names_rank_and_job_is_kept(tree: Path) -> None:
    user = os.geteuid()
    write_process(
        tree, 300, 12, {**TORCHRUN, "RANK": "1", "API_KEY": "x", "EMPTY": ""},
        user=user, program="/usr/bin/python3.11", maps="7f00 r-xp /x/libtorch_cpu.so\n7f01 r-xp /y/libcuda.so.1\n",
    )  # fmt: skip
    write_process(tree, 301, 12, {**TORCHRUN, "RANK": "1"}, user=user + 1, program="/usr/bin/python3.11")
    write_process(tree, 302, 12, {**TORCHRUN, "RANK": "1"}, user=user, program="/bin/bash")
    found = read_processes(World({}, root=str(tree)))
    (process,) = found.processes
    assert (process.pid, process.parent, process.python, process.torch, process.torchs_own) == (
        300,
        12,
        True,
        True,
        True,
    )
    assert process.cuda
    assert process.variables == {**TORCHRUN, "RANK": "1"}
    assert process.folder == "/home/u/run"
    assert process.age_s == pytest.approx(110.0 - 1000 / os.sysconf("SC_CLK_TCK"))
    assert found.parents == {300: 12, 301: 12, 302: 12}
    assert {item.pid for item in read_processes(World({}, root=str(tree)), everyone=True).processes} == {300, 301}


def test_under_sudo_the_ranks_of_who_called_it_are_looked_at(tree: Path) -> None:
    write_process(tree, 300, 12, {**TORCHRUN, "RANK": "1"}, user=os.geteuid() + 7, program="/usr/bin/python3.11")
    world = World({"SUDO_UID": str(os.geteuid() + 7)}, root=str(tree))
    assert [item.pid for item in read_processes(world).processes] == ([300] if os.geteuid() == 0 else [])
    assert read_processes(World({}, root=str(tree))).processes == ()


def test_time_of_children_counts_as_around(tree: Path) -> None:
    for pid, parent in ((300, 12), (301, 300), (302, 301)):
        write_process(tree, pid, parent, {}, user=0, program="/usr/bin/python3")
    for parent, child in ((300, 301), (301, 302)):
        (tree / "proc" / str(parent) / "task" / str(parent) / "children").write_text(f"{child} \n")
    ticks = os.sysconf("SC_CLK_TCK")
    assert look_at(World({}, root=str(tree)), 300).around_s == pytest.approx(900 / ticks)


def test_a_look_is_of_the_main_thread_and_those_for_gradients(tree: Path) -> None:
    write_process(tree, 300, 12, {}, user=0, program="/usr/bin/python3")
    for thread, name in ((301, "pt_autograd_0"), (302, "pt_nccl_watchdg")):
        (tree / "proc" / "300" / "task" / str(thread)).mkdir()
        (tree / "proc" / "300" / "task" / str(thread) / "status").write_text(
            f"Name:\t{name}\nvoluntary_ctxt_switches:\t1000\n"
        )
    look = look_at(World({}, root=str(tree)), 300)
    assert (look.state, look.sleeps, look.tracer) == ("S", 1017, 0)
    assert look.cpu_s == pytest.approx(300 / os.sysconf("SC_CLK_TCK"))
    assert look_at(World({}, root=str(tree)), 301).state == ""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, **TORCHRUN, "RANK": "2", "LOCAL_RANK": "2", "TORCHELASTIC_RUN_ID": f"test-{os.getpid()}"}
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_real_process_is_found_and_is_seen_to_be_stopped(child: subprocess.Popen[bytes]) -> None:
    world = World()
    end = time.monotonic() + 10
    while not (jobs := jobs_called(find_jobs(read_processes(world)), f"test-{os.getpid()}")) and time.monotonic() < end:
        time.sleep(0.05)
    (item,) = jobs[0].ranks
    assert (item.rank, item.pid) == (2, child.pid)
    child.send_signal(signal.SIGSTOP)
    while look_at(world, child.pid).state != "T" and time.monotonic() < end:
        time.sleep(0.02)
    assert look_at(world, child.pid).state == "T"


def test_a_process_that_can_not_be_read_does_not_hold_the_others(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    for pid in (300, 301):
        write_process(tree, pid, 12, {**TORCHRUN, "RANK": "1"}, user=user, program="/usr/bin/python3.11")
    (tree / "proc" / "300" / "status").write_text(f"Name:\tpython3\nUid:\t{user}\t{user}\t0\t0\n")
    (tree / "proc" / "300" / "environ").unlink()
    os.mkfifo(tree / "proc" / "300" / "environ")  # whoever opens it waits, as for a lock
    monkeypatch.setattr("distcheck.runtime.inspect.processes._LIMIT_S", 0.2)
    found = read_processes(World({}, root=str(tree)))
    assert [item.pid for item in found.processes] == [301]
    assert found.unreadable == (300,)
    # let the thread that waits go
    os.close(os.open(tree / "proc" / "300" / "environ", os.O_WRONLY))
