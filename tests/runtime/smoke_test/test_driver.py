"""The smoke test with real ranks: healthy ones, and one that is at fault, in one supervisor and in one a rank."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.cluster.records import RankRecord
from distcheck.runtime.smoke_test.driver import Siblings, takes_the_floor, watched_ranks
from distcheck.runtime.smoke_test.model import Options, Step

from . import ranks

pytestmark = [pytest.mark.torch, pytest.mark.quiet]

QUICK = Options(quick=True, timeout_s=8.0)


@pytest.fixture(autouse=True)
def warm() -> None:
    """torch is imported once, here; every rank is a fork."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    import torch.distributed  # noqa: F401


def errors(plain: dict[str, Any]) -> list[str]:
    return [item["code"] for item in plain["findings"] if item["severity"] == "error"]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_good_ranks_of_one_supervisor(size: int) -> None:
    plain = ranks.run_alone(size, QUICK).as_dict()
    assert errors(plain) == []
    assert plain["measurements"]["failure"] is None
    assert plain["measurements"]["proof"]["ranks"] == size
    assert plain["measurements"]["proof"]["mismatches"] == []
    assert list(plain["measurements"]["phases"]) == ["membership", "compare", "start", "verify"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 16])
def test_good_many_ranks_of_one_supervisor(size: int) -> None:
    plain = ranks.run_alone(size, Options(quick=True, timeout_s=60.0)).as_dict()
    assert errors(plain) == []
    assert plain["measurements"]["proof"]["ranks"] == size


def test_good_a_whole_run_measures_and_finds_nobody() -> None:
    options = Options(timeout_s=30.0, min_bytes=1024, max_bytes=1 << 18, iterations=5, warmup=1)
    plain = ranks.run_alone(2, options).as_dict()
    assert errors(plain) == []
    found = plain["measurements"]
    assert [item["size_bytes"] for item in found["measured"]["bandwidth"]] == [
        1 << 10,
        1 << 12,
        1 << 14,
        1 << 16,
        1 << 18,
    ]
    assert all(item["busbw_gbytes_per_s"] > 0 for item in found["measured"]["bandwidth"])
    assert len(found["lateness"]["own_time_s"]) in (0, 2)
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]["pairs"]][:1] in ([], [(0, 1)])
    assert list(found["phases"]) == ["membership", "compare", "start", "verify", "measure", "stragglers", "end"][:6]


def test_good_one_rank_is_told_what_has_no_meaning() -> None:
    options = Options(timeout_s=30.0, max_bytes=4096, iterations=2)
    plain = ranks.run_alone(1, options).as_dict()
    assert errors(plain) == []
    assert all(item["busbw_gbytes_per_s"] is None for item in plain["measurements"]["measured"]["bandwidth"])
    assert plain["measurements"]["pairs"]["not_applicable"]


@pytest.mark.parametrize(("size", "per_node"), [(2, 2), (3, 3), (4, 2)])
def test_good_one_supervisor_a_rank(size: int, per_node: int, tmp_path: Path) -> None:
    """Only rank 0 speaks, also of two hosts; nobody is left waiting."""
    options = QUICK._replace(timeout_s=30.0)
    said = ranks.launch(size, tmp_path, options, per_node=per_node)
    assert [item.status for item in said] == [0] * size
    assert [item.rank for item in said if item.report is not None] == [0]
    assert said[0].report is not None
    assert said[0].report["measurements"]["proof"]["ranks"] == size
    assert len(said[0].report["measurements"]["hosts"]) == size // per_node


def collect_garbage(rank: int, step: Step) -> None:
    gc.collect()


def test_good_workers_write_nothing_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    """NCCL_DEBUG writes there, in the middle of a report."""
    talk = ranks.WorkerHooks(before_step=lambda rank, step: os.write(1, b"NCCL INFO"))
    ranks.run_alone(2, QUICK, talk)
    output, errors = capfd.readouterr()
    assert output == ""
    assert "NCCL INFO" in errors


def test_good_a_store_of_the_parent_that_is_garbage_hangs_no_worker() -> None:
    """Its destructor waits for a thread that a forked process does not have (torch 2.13)."""
    import torch.distributed as dist

    class Holder:
        pass

    gc.disable()
    try:
        holder: Any = Holder()
        holder.store = dist.TCPStore("127.0.0.1", ranks.free_port(), is_master=True, wait_for_workers=False)
        holder.itself = holder
        del holder
        plain = ranks.run_alone(2, QUICK, ranks.WorkerHooks(before_step=collect_garbage)).as_dict()
    finally:
        gc.enable()
        gc.collect()
    assert errors(plain) == []


class Fault:
    """Something that happens to one rank before a step of a phase; picklable, since a worker may be spawned."""

    def __init__(self, kind: str, rank: int, phase: str, step: int = 1) -> None:
        self.kind = kind
        self.rank = rank
        self.phase = phase
        self.step = step
        self.seen = 0

    def __call__(self, rank: int, step: Step) -> None:
        if rank != self.rank or step.phase != self.phase:
            return
        self.seen += 1
        if self.seen != self.step:
            return
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.kind == "exit":
            os._exit(7)
        elif self.kind == "raise":
            raise ValueError("out of luck")
        elif self.kind == "hang":
            time.sleep(1000)


#: What each fault is called in the report.
KINDS = {"kill": "died", "exit": "died", "stop": "stopped", "raise": "raised", "hang": "timeout"}


@pytest.mark.parametrize("phase", ["start", "verify"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_bad_a_fault_names_rank_and_phase(kind: str, phase: str) -> None:
    options = QUICK._replace(timeout_s=5.0)
    begun = time.monotonic()
    report = ranks.run_alone(3, options, ranks.WorkerHooks(before_step=Fault(kind, 1, phase, 2)))
    seconds = time.monotonic() - begun
    failure = report.as_dict()["measurements"]["failure"]
    assert (failure["kind"], failure["phase"], failure["culprits"]) == (KINDS[kind], phase, [1])
    assert seconds < options.timeout_s + 5.0
    assert report.worst is not None
    assert report.worst.word == "error"
    assert "rank 1" in report.as_dict()["measurements"]["sentence"]


@pytest.mark.parametrize("kind", ["kill", "stop", "raise"])
def test_bad_a_fault_is_told_by_rank_0_alone(kind: str, tmp_path: Path) -> None:
    options = QUICK._replace(timeout_s=6.0)
    said = ranks.launch(3, tmp_path, options, ranks.WorkerHooks(before_step=Fault(kind, 2, "verify", 3)))
    assert [item.status for item in said] == [1] * len(said), said
    assert [item.rank for item in said if item.report is not None] == [0]
    assert said[0].report is not None
    failure = said[0].report["measurements"]["failure"]
    assert (failure["kind"], failure["phase"], failure["culprits"]) == (KINDS[kind], "verify", [2])


def test_bad_the_process_of_a_rank_is_killed(tmp_path: Path) -> None:
    """Its supervisor goes with it, so that only the launcher knows how; the others see that it has exited."""

    def kill(_rank: int, step: Step) -> None:
        if _rank == 1 and step.collective == "broadcast":
            os.kill(os.getppid(), signal.SIGKILL)

    said = ranks.launch(3, tmp_path, QUICK, ranks.WorkerHooks(before_step=kill))
    assert said[1].status == -signal.SIGKILL
    assert [item.rank for item in said if item.report is not None] == [0]
    assert said[0].report is not None
    assert said[0].report["measurements"]["failure"]["culprits"] == [1]
    assert "DC512" in errors(said[0].report)


def test_bad_rank_0_is_killed_and_another_speaks(tmp_path: Path) -> None:
    def kill(rank: int, step: Step) -> None:
        if rank == 0 and step.collective == "broadcast":
            os.kill(os.getppid(), signal.SIGKILL)

    said = ranks.launch(3, tmp_path, QUICK, ranks.WorkerHooks(before_step=kill), per_node=1)
    assert said[0].status == -signal.SIGKILL
    spoken = [item for item in said if item.report is not None]
    assert spoken
    for item in spoken:
        assert item.report is not None
        assert item.status == 1
        assert errors(item.report)


def test_bad_a_rank_that_never_comes(tmp_path: Path) -> None:
    port = ranks.free_port()
    rank_infos = tuple(ranks.RankInfo(rank, 4, rank % 2, 2, rank // 2, "127.0.0.1", port) for rank in (0, 1, 2))
    said = ranks.launch(4, tmp_path, QUICK._replace(timeout_s=2.0), rank_infos=rank_infos, as_torchrun=False)
    assert [item.status for item in said] == [1] * len(said), said
    assert said[0].report is not None
    assert errors(said[0].report) == ["DC501"]
    [finding] = [item for item in said[0].report["findings"] if item["code"] == "DC501"]
    assert "rank 3" in finding["message"]
    assert "host1" in finding["message"]
    assert max(item.seconds for item in said) < 2.0 + 5.0
    assert [item.rank for item in said if item.report is not None] == [0]


def test_bad_a_number_is_given_twice(tmp_path: Path) -> None:
    port = ranks.free_port()
    rank_infos = tuple(ranks.RankInfo(rank, 3, rank, 3, 0, "127.0.0.1", port) for rank in (0, 1, 1))
    said = ranks.launch(3, tmp_path, QUICK._replace(timeout_s=4.0), rank_infos=rank_infos, as_torchrun=False)
    assert said[0].report is not None
    assert {"DC501", "DC502"} & set(errors(said[0].report))
    assert [item.status for item in said] == [1] * len(said), said


def test_bad_ranks_count_differently(tmp_path: Path) -> None:
    """Rank 0 believes in two ranks, the other in three: that one says so itself."""
    port = ranks.free_port()
    rank_infos = (ranks.RankInfo(0, 2, 0, 2, 0, "127.0.0.1", port), ranks.RankInfo(1, 3, 1, 2, 0, "127.0.0.1", port))
    said = ranks.launch(2, tmp_path, QUICK._replace(timeout_s=2.0), rank_infos=rank_infos, as_torchrun=False)
    assert [item.status for item in said] == [1, 1]
    codes = {code for item in said if item.report is not None for code in errors(item.report)}
    assert "DC103" in codes


def test_bad_nobody_serves_the_store(tmp_path: Path) -> None:
    rank_infos = (ranks.RankInfo(1, 2, 0, 1, 1, "127.0.0.1", ranks.free_port()),)
    [said] = ranks.launch(2, tmp_path, QUICK._replace(timeout_s=3.0), rank_infos=rank_infos, as_torchrun=False)
    assert said.status == 1
    assert said.report is not None
    assert errors(said.report)
    assert said.seconds < 3.0 + 5.0


def test_bad_rank_0_never_comes_and_another_rank_of_the_host_says_so(tmp_path: Path) -> None:
    """None of those that came is the first of its host, which speaks as a rule."""
    port = ranks.free_port()
    rank_infos = tuple(ranks.RankInfo(rank, 3, rank, 3, 0, "127.0.0.1", port) for rank in (1, 2))
    said = ranks.launch(2, tmp_path, QUICK._replace(timeout_s=2.0), rank_infos=rank_infos, as_torchrun=False)
    assert [item.status for item in said] == [1, 1]
    spoken = [item.report for item in said if item.report is not None]
    assert spoken
    assert all(errors(report) == ["DC501"] for report in spoken)


def test_every_rank_leaves_a_record(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    ranks.launch(2, tmp_path, QUICK, output_dir=str(folder))
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["rank-00000.json", "rank-00001.json"]
    records = [json.loads((folder / name).read_text())["record"] for name in names]
    assert [record["ended"] for record in records] == [True, True]
    assert records[0]["report"]["command"] == "collective"


def test_duplicate_devices_stop_the_run_before_a_group_is_made() -> None:
    """What the comparison finds ends the run; the live phases are listed as not run."""
    rank_infos = tuple(ranks.RankInfo(rank, 2, rank, 2, 0) for rank in range(2))
    inspected = ranks.inspected(rank_infos)
    from distcheck.checks.cluster.records import Device

    device = Device("GPU-1", "00000000:1A:00.0", "NVIDIA H100")
    record = inspected.record._replace(
        ranks=tuple(RankRecord(rank, rank, 2, 2, 0, 1, device) for rank in range(2)),
        gpus=(device,),
        backends=("gloo", "nccl"),
    )
    ask = ranks.run.Request(options=QUICK)
    ended = ranks.run.run(rank_infos, inspected._replace(record=record), ask)
    assert ended.report is not None
    plain = ended.report.as_dict()
    assert errors(plain) == ["DC303"]
    assert "start" not in plain["measurements"]["phases"]
    assert any("start" in item["what"] for item in plain["not_checked"])


@pytest.mark.parametrize("sizes", [(2,), (4,), (1, 1), (1, 1, 1), (4, 4), (2, 3, 1), (8,) * 64])
def test_each_supervisor_is_watched_by_another(sizes: tuple[int, ...]) -> None:
    hosts = tuple(host for host, size in enumerate(sizes) for _ in range(size))
    watched = {rank: watched_ranks(rank, hosts) for rank in range(len(hosts))}
    assert {one for some in watched.values() for one in some} == set(range(len(hosts)))
    assert all(rank not in some for rank, some in watched.items())
    # rank 0 watches the first of each host, and the first of a host the others there
    assert len(watched[0]) == len(sizes) - 1 + sizes[0] - 1
    assert sum(map(len, watched.values())) <= 3 * len(hosts)


def test_one_rank_watches_nobody() -> None:
    assert watched_ranks(0, (0,)) == ()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def siblings_of(process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> Siblings:
    """What a sibling of this process, a child of this test, sees of it."""
    monkeypatch.setattr(os, "getppid", os.getpid)
    return Siblings({3: process.pid})


def test_good_a_sibling_that_runs_is_not_spoken_for(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    siblings = siblings_of(sleeper, monkeypatch)
    assert not siblings.stopped(0.0)
    assert not siblings.stopped(100.0)
    assert siblings.states("host", "verify") == ()


def test_bad_a_sibling_is_stopped_for_a_while(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    siblings = siblings_of(sleeper, monkeypatch)
    sleeper.send_signal(signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    assert not siblings.stopped(10.0)
    assert not siblings.stopped(12.9)
    assert siblings.stopped(13.0)
    [state] = siblings.states("host", "verify")
    assert (state.rank, state.state, state.detail, state.pid) == (3, "stopped", "SIGSTOP", sleeper.pid)
    sleeper.send_signal(signal.SIGCONT)
    os.waitpid(sleeper.pid, os.WCONTINUED)
    assert not siblings.stopped(14.0)
    assert siblings.states("host", "verify") == ()


def test_bad_a_sibling_has_exited(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    siblings = siblings_of(sleeper, monkeypatch)
    sleeper.kill()
    sleeper.wait()
    [state] = siblings.states("host", "verify")
    assert (state.rank, state.state) == (3, "exited")


def test_a_process_of_another_launcher_is_not_known(sleeper: subprocess.Popen[bytes]) -> None:
    """A process ID of another PID namespace names any process here."""
    siblings = Siblings({3: sleeper.pid})
    assert siblings.pids == {}
    sleeper.kill()
    sleeper.wait()
    assert siblings.states("host", "verify") == ()


@pytest.mark.slow
def test_good_two_signals_at_once_are_one_request(tmp_path: Path) -> None:
    """Ctrl-C reaches the ranks of a terminal, and torchrun passes it on."""

    at_work = tmp_path / "at-work"

    def interrupt(processes: dict[int, Any]) -> None:
        while not at_work.exists():
            time.sleep(0.05)
        for number in (signal.SIGINT, signal.SIGTERM):
            for process in processes.values():
                os.kill(process.pid, number)

    options = QUICK._replace(check=100_000, timeout_s=60.0)
    seams = ranks.WorkerHooks(before_step=lambda _rank, step: at_work.touch() if step.phase == "verify" else None)
    said = ranks.launch(2, tmp_path, options, seams, disturb=interrupt, as_torchrun=False)
    assert said[0].report is not None
    failure = said[0].report["measurements"]["failure"]
    assert (failure["kind"], failure["error"], failure["culprits"]) == ("ended", "SIGINT", [])
    assert [item.status for item in said] == [1, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets")
@pytest.mark.parametrize("listens", [True, False])
def test_a_neighbor_does_not_keep_the_report_of_a_host_back(listens: bool) -> None:
    """The name of the socket can be guessed: another user who bound it first had no process report."""
    run = f"10.0.0.1:29500:{os.getpid()}"
    name = b"\0distcheck-" + hashlib.sha256(run.encode()).digest()[:12]
    program = (
        "import os, socket, sys, time\n"
        f"held = socket.socket(socket.AF_UNIX); os.setuid(12345); held.bind({name!r})\n"
        f"{'held.listen(4)' if listens else ''}\n"
        "print('bound', flush=True); time.sleep(60)\n"
    )
    if os.geteuid() != 0:
        pytest.skip("becomes another user")
    neighbor = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert neighbor.stdout is not None and neighbor.stdout.readline() == b"bound\n"
        assert takes_the_floor(run, leads=True) is not None
        assert takes_the_floor(run, leads=False) is None
    finally:
        neighbor.kill()
        neighbor.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets")
def test_one_process_of_a_user_reports_for_its_host() -> None:
    run = f"10.0.0.2:29500:{os.getpid()}"
    first = takes_the_floor(run, leads=False)
    assert isinstance(first, socket.socket)
    assert takes_the_floor(run, leads=True) is None
    first.close()
    second = takes_the_floor(run, leads=True)
    assert isinstance(second, socket.socket)
    second.close()
