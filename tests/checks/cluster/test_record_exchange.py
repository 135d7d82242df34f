"""Records travel through a shared folder: whole or not at all, nothing left behind, nothing mixed up."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck import rules
from distcheck.checks.cluster import record_exchange
from distcheck.checks.cluster.merge import HostReport
from distcheck.checks.cluster.record_exchange import (
    JobStep,
    collect,
    collecting,
    folder_of,
    from_text,
    send,
    step_of,
    to_text,
)
from distcheck.checks.cluster.records import Device, HostRecord, RankRecord, RecordError
from distcheck.core.model import Fix, NotChecked, ProbeRun, Report, Where, to_plain
from distcheck.launch.model import Launch
from distcheck.launch.schedulers import scheduler_of


def report(number: int = 0, **more: Any) -> HostReport:
    name = f"gpu{number:02d}"
    finding = rules.DC309.found("1 error", fix=Fix("reset it", where="host"), where=Where(gpu="0"), evidence={"n": 1})
    return HostReport(
        name,
        Report(
            "env",
            "shell",
            {"host": name, "line": [name]},
            (finding,),
            (NotChecked("DC301", "no driver"),),
            (ProbeRun("x", "failed", 0.1, "Traceback"), ProbeRun("y", "ran", 0.1)),
            elapsed_s=0.25,
            checked=frozenset({"DC309"}),
        ),
        HostRecord(name, (RankRecord(number, device=Device("GPU-1")),), boot_id=f"b{number}", versions={"torch": "2"}),
        task=number,
        **more,
    )


def step(rank: int, tasks: int = 3, **more: Any) -> JobStep:
    return JobStep("77.0", rank, tasks=tasks, hosts=tasks, **more)


# records as text


def test_a_record_comes_back_as_it_was() -> None:
    sent = report(3, node="n3", tasks=8, backend="nccl", rendezvous="c10d", world_size=16)
    back = from_text(to_text(sent))
    assert back == sent._replace(report=sent.report._replace(probes=sent.report.probes[:1]))
    assert "\n" not in to_text(sent)
    assert from_text(to_text(sent._replace(record=None))).record is None


def test_what_stuck_sends_comes_back_without_a_stage() -> None:
    subject = {"jobs": ({"ranks": [{"host": "n3", "pid": 7, "gpu": "1"}]},), "snapshots": ({"host": "n3"},)}
    sent = report(3)
    back = from_text(to_text(sent._replace(report=sent.report._replace(stage=None, subject=subject)))).report
    assert back.stage is None
    assert to_plain(back.subject) == to_plain(subject)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "damaged"),
        ("{", "damaged"),
        ("[" * 100_000, "damaged"),
        ("[]", "no record"),
        ('{"kind": "distcheck facts"}', "no record"),
        ('{"kind": "distcheck record", "v": 99}', "version 99"),
        ('{"kind": "distcheck record", "v": 1}', "damaged: KeyError: 'host'"),
        ('{"kind": "distcheck record", "v": 1, "host": 5}', "expected a name"),
    ],
)
def test_bad_what_is_no_record_says_so(text: str, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        from_text(text)


@given(st.integers(0, 2000), st.sampled_from(["", "null", "{", '"x"', "-1", "[]"]))
def test_a_damaged_record_is_refused_and_never_a_crash(place: int, junk: str) -> None:
    text = to_text(report())
    with contextlib.suppress(RecordError):
        from_text(text[:place] + junk + text[place + len(junk) :])


@pytest.mark.parametrize(
    "path", [("report",), ("report", "findings"), ("record",), ("record", "record"), ("launch",), ("tasks",)]
)
@pytest.mark.parametrize("value", [None, 5, "x", [], {}, [5], {"a": 1}])
def test_a_record_with_a_part_of_another_shape_is_refused_or_read(path: tuple[str, ...], value: Any) -> None:
    plain = json.loads(to_text(report()))
    inner = plain
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    try:
        assert isinstance(from_text(json.dumps(plain)), HostReport)
    except RecordError as error:
        assert str(error)


# who takes part


SLURM = {
    "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "3", "SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
    "SLURM_NTASKS": "16", "SLURM_STEP_NUM_TASKS": "16", "SLURM_STEP_TASKS_PER_NODE": "8(x2)", "SLURM_NNODES": "2",
    "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "gpu[07,31]", "SLURMD_NODENAME": "gpu31",
}  # fmt: skip


def step_in(environ: dict[str, str], launch: Launch = Launch()) -> JobStep | None:
    return step_of(environ, launch, scheduler_of(environ))


def test_a_step_of_slurm() -> None:
    nodes = ("gpu07", "gpu31")
    assert step_in(SLURM) == JobStep("12.3", 9, False, 8, 16, 2, "gpu31", nodes, "slurm")
    first = step_in({**SLURM, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"})
    assert first is not None and first.first_on_host and first.collects
    assert step_in({**SLURM, "SLURM_RESTART_COUNT": "2"})._replace(key="") == step_in(SLURM)._replace(key="")  # type: ignore[union-attr]
    assert step_in({**SLURM, "SLURM_RESTART_COUNT": "2"}).key == "12.3.2"  # type: ignore[union-attr]


def test_a_step_of_torchrun_inside_of_slurm() -> None:
    elastic = {"TORCHELASTIC_RUN_ID": "abc", "MASTER_ADDR": "gpu07", "MASTER_PORT": "29500"}
    launch = Launch("rank", rank=8, local_rank=0, local_world_size=8, world_size=16, nnodes=2, scheduler="slurm")
    found = step_in({**SLURM, **elastic}, launch)
    assert found == JobStep("abc.gpu07.29500.12", 8, True, 8, 16, 2, "gpu31", ("gpu07", "gpu31"), "slurm")


def test_tasks_of_mpirun() -> None:
    environ = {
        "OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "prterun-head-4711@1",
    }  # fmt: skip
    assert step_in(environ) == JobStep("prterun-head-4711_1", 4, True, 4, 8)
    assert step_in({"PMI_RANK": "1", "PMI_SIZE": "2"}) == JobStep("", 1, True, 1, 2)


def test_tasks_without_a_local_number_speak_for_themselves() -> None:
    assert step_in({"PMIX_RANK": "3", "PMIX_NAMESPACE": "x"}) == JobStep("x", 3, True, 1)


def test_nodes_of_pbs_come_from_its_file(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.write_text("n1\nn1\nn2\n")
    environ = {
        "PBS_JOBID": "5.head",
        "PBS_NODEFILE": str(nodes),
        "PMI_RANK": "0",
        "PMI_SIZE": "2",
        "PBS_NUM_NODES": "2",
    }
    found = step_in(environ)
    assert found is not None
    assert (found.nodes, found.key, found.scheduler) == (("n1", "n2"), "5.head", "pbs")
    assert step_in({**environ, "PBS_NODEFILE": str(tmp_path / "gone")}).nodes == ()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "environ", [{}, {"SLURM_JOB_ID": "12", "SLURM_NNODES": "2"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}]
)
def test_no_step_where_nobody_else_takes_part(environ: dict[str, str]) -> None:
    assert step_in(environ) is None


def test_pods_of_an_operator() -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "PET_NNODES": "4", "PET_NODE_RANK": "2", "RANK": "2"}
    assert step_in(environ) == JobStep("", 2, tasks=4, hosts=4, scheduler="kubernetes")


def test_a_long_name_of_a_run_is_still_a_file_name() -> None:
    found = step_in({**SLURM, "SLURM_JOB_ID": "x/" * 300})
    assert found is not None
    assert len(found.key) == 32
    assert folder_of(Path("/a"), found).parent == Path("/a")


# the folder


def hand_in(base: Path, number: int, wait_s: float = 5.0, delay_s: float = 0.0, **more: Any) -> threading.Thread:
    def work() -> None:
        time.sleep(delay_s)
        assert send(base, step(number, **more), to_text(report(number)), wait_s)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_records_come_together_and_the_folder_goes(tmp_path: Path) -> None:
    early = hand_in(tmp_path, 1)
    time.sleep(0.1)
    with collecting(tmp_path, step(0)) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        late = hand_in(tmp_path, 2, delay_s=0.1)
        found = collect(folder, step(0), 10.0, report(0))
    early.join()
    late.join()
    assert sorted(item.host for item in found.reports) == ["gpu00", "gpu01", "gpu02"]
    assert found.complete and not found.damaged and found.waited_s < 8
    assert list(tmp_path.iterdir()) == []


def test_bad_a_host_that_sends_nothing_is_missed_in_time(tmp_path: Path) -> None:
    with collecting(tmp_path, step(0)) as folder:
        hand_in(tmp_path, 1).join()
        found = collect(folder, step(0), 0.3, report(0))
    assert [item.host for item in found.reports] == ["gpu00", "gpu01"]
    assert not found.complete
    assert 0.3 <= found.waited_s < 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sends", [True, False])
def test_bad_no_wait_is_longer_than_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends: bool) -> None:
    now = [1000.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now[0]

        @staticmethod
        def sleep(seconds: float) -> None:
            now[0] += seconds + 1e-9  # a real clock never stands

    with collecting(tmp_path, step(0)) as folder:
        monkeypatch.setattr(record_exchange, "time", Clock)
        if sends:
            assert not send(tmp_path / "other", step(1), to_text(report(1)), 3.3)
        else:
            assert not collect(folder, step(0), 3.3, report(0)).complete
        monkeypatch.undo()
    assert now[0] == pytest.approx(1003.3, abs=0.001)


def test_complete_by_the_tasks_that_records_stand_for(tmp_path: Path) -> None:
    mpi = JobStep("x", 0, tasks=12, tasks_here=4)
    with collecting(tmp_path, mpi) as folder:
        assert send(tmp_path, mpi._replace(rank=4), to_text(report(1, tasks=8)), 1.0)
        found = collect(folder, mpi, 10.0, report(0, tasks=4))
    assert found.complete and len(found.reports) == 2 and found.waited_s < 8


@pytest.mark.slow
def test_bad_a_damaged_record_is_said_and_the_others_count(tmp_path: Path) -> None:
    with collecting(tmp_path, step(0)) as folder:
        hand_in(tmp_path, 1).join()
        (folder / "2+gpu02.json").write_text('{"kind": "distcheck rec')
        found = collect(folder, step(0), 10.0, report(0))
    assert found.complete and found.waited_s < 8
    assert len(found.reports) == 2
    ((name, why),) = found.damaged
    assert name == "gpu02" and "damaged" in why


def test_good_a_record_whose_bytes_come_late_is_whole_in_the_end(tmp_path: Path) -> None:
    with collecting(tmp_path, step(0, 2)) as folder:
        record = folder / "1+gpu01.json"
        record.write_text("")
        timer = threading.Timer(0.4, lambda: record.write_text(to_text(report(1))))
        timer.start()
        found = collect(folder, step(0, 2), 10.0, report(0))
        timer.join()
    assert not found.damaged and len(found.reports) == 2


def test_drafts_and_strange_files_are_no_records(tmp_path: Path) -> None:
    with collecting(tmp_path, step(0, 2)) as folder:
        (folder / "draft.gpu01.5.1").write_text("{")
        (folder / ".nfs0001").write_text("x")
        found = collect(folder, step(0, 2), 0.1, report(0))
    assert len(found.reports) == 1 and found.damaged == () and not found.complete


def test_bad_nobody_collects(tmp_path: Path) -> None:
    assert not send(tmp_path, step(1), to_text(report(1)), 0.1)
    assert list(tmp_path.iterdir()) == []


def test_two_runs_do_not_mix(tmp_path: Path) -> None:
    other = JobStep("77.1", 0, tasks=3, hosts=3)
    with collecting(tmp_path, step(0)) as folder, collecting(tmp_path, other) as second:
        hand_in(tmp_path, 1).join()
        assert len(collect(folder, step(0), 0.1, report(0)).reports) == 2
        assert len(collect(second, other, 0.1, report(0)).reports) == 1


def test_the_folder_goes_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), collecting(tmp_path, step(0)) as folder:
        (folder / "1+gpu01.json").write_text("{")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_bad_somebody_elses_folder_is_not_used(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, step(0))
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(record_exchange.ExchangeError, match="belongs to another user"), collecting(tmp_path, step(0)):
        pass
    with pytest.raises(record_exchange.ExchangeError, match="belongs to another user"):
        send(tmp_path, step(1), to_text(report(1)), 0.1)
    assert folder.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_bad_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(record_exchange.ExchangeError, match="Permission denied"), collecting(tmp_path, step(0)):
            pass
    finally:
        tmp_path.chmod(0o700)


def test_bad_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(record_exchange.ExchangeError, match="No such file"), collecting(tmp_path / "gone", step(0)):
        pass


def test_another_task_that_collects_already_is_left_alone(tmp_path: Path) -> None:
    with collecting(tmp_path, step(2)) as folder:
        with pytest.raises(record_exchange.TakenError), collecting(tmp_path, step(0)):
            pass
        assert folder.exists()


def test_records_of_a_killed_run_of_the_same_name_do_not_count(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, step(0))
    folder.mkdir(mode=0o700)
    (folder / "collector").write_text("0")
    old = folder / "1+gpu01.json"
    old.write_text(to_text(report(1)))
    long_ago = time.time() - 3600
    os.utime(old, (long_ago, long_ago))
    with collecting(tmp_path, step(0)) as again:
        assert len(collect(again, step(0), 0.1, report(0)).reports) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_killed_runs_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    long_ago = time.time() - 10 * 24 * 3600
    left, foreign, young = (tmp_path / f".distcheck-{name}" for name in ("old.0", "mine", "young"))
    for folder in (left, foreign, young):
        folder.mkdir(mode=0o700)
    for folder in (left, young):
        (folder / "collector").write_text("0")
    for folder in (left, foreign):
        os.utime(folder, (long_ago, long_ago))
    with collecting(tmp_path, step(0)):
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            ".distcheck-77.0",
            ".distcheck-mine",
            ".distcheck-young",
        ]


@pytest.mark.parametrize(
    "change",
    [
        {"fix": {"text": "x", "where": "nowhere"}},
        {"fix": {"text": ["x"]}},
        {"message": 5},
        {"evidence": "x"},
        {"where": {"line": "x"}},
    ],
)
def test_bad_a_finding_that_a_neighbor_forged_is_no_record(change: dict[str, Any]) -> None:
    """It was read, and ended in a traceback where it was shown."""
    plain = json.loads(to_text(report()))
    plain["report"]["findings"][0].update(change)
    with pytest.raises(RecordError, match="damaged"):
        from_text(json.dumps(plain))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tasks",), float("inf")),
        (("report", "elapsed_s"), 10**400),
        (("record", "record"), {"unavailable": "x"}),
        (("record", "record"), {"not_applicable": "x"}),
    ],
)
def test_bad_numbers_without_a_bound_are_no_record(path: tuple[str, ...], value: Any) -> None:
    plain = json.loads(to_text(report()))
    inner = plain
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(RecordError, match=r"damaged|holds no HostRecord"):
        from_text(json.dumps(plain))


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="folders can't be opened")
@pytest.mark.parametrize("sends", [True, False])
def test_bad_a_folder_that_a_neighbor_swaps_for_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends: bool
) -> None:
    """In a folder without the sticky bit, all users can rename: old files behind the link were deleted."""
    (base := tmp_path / "base").mkdir()
    (victim := tmp_path / "victim").mkdir(mode=0o700)
    (precious := victim / "id_rsa").write_text("mine")
    os.utime(precious, (0, 0))
    folder = folder_of(base, step(0))

    def swap() -> None:
        folder.rename(base / "moved")
        folder.symlink_to(victim)

    if sends:
        folder.mkdir(mode=0o700)
        private = record_exchange.is_private
        monkeypatch.setattr(record_exchange, "is_private", lambda path: private(path) and (swap(), True)[1])
        with pytest.raises(record_exchange.ExchangeError):
            send(base, step(1), to_text(report(1)), 1.0)
    else:
        make = Path.mkdir

        def mkdir(self: Path, *arguments: Any, **more: Any) -> None:
            make(self, *arguments, **more)
            if self == folder:
                swap()

        monkeypatch.setattr(Path, "mkdir", mkdir)
        with pytest.raises(record_exchange.ExchangeError), collecting(base, step(0)):
            pass
    assert [path.name for path in victim.iterdir()] == ["id_rsa"]
    assert precious.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_bad_a_pipe_among_the_records_is_not_awaited(tmp_path: Path) -> None:
    with collecting(tmp_path, step(0)) as folder:
        os.mkfifo(folder / "1+gpu01.json")
        found = collect(folder, step(0, 2), 2.0, report(0))
    assert found.damaged == (("gpu01", "it can't be read: it is no ordinary file"),)


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="folders can't be opened")
@pytest.mark.parametrize("when", ["before", "while it is made", "while it is open", "later"])
def test_bad_another_folder_of_the_user_gets_the_name_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """In a folder without the sticky bit, all users can rename: the folder was emptied and removed."""
    (results := tmp_path / "results").mkdir(mode=0o700)
    (results / "epochs").mkdir()
    for name in ("model.pt", "config.json", "epochs/1.pt"):
        (results / name).write_text("mine")
        os.utime(results / name, (0, 0))
    folder = folder_of(tmp_path, step(0))

    def swap() -> None:
        folder.rename(tmp_path / "moved")
        results.rename(folder)

    if when == "before":
        results.rename(folder)
    if when == "later":
        results.rename(tmp_path / f"{record_exchange.PREFIX}old")
        os.utime(tmp_path / f"{record_exchange.PREFIX}old", (0, 0))
    make = Path.mkdir

    def mkdir(self: Path, *arguments: Any, **more: Any) -> None:
        make(self, *arguments, **more)
        if self == folder and when == "while it is made":
            swap()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with contextlib.suppress(record_exchange.ExchangeError), collecting(tmp_path, step(0)):
        if when == "while it is open":
            swap()
    (kept,) = {path.parent for path in tmp_path.rglob("model.pt")}
    assert sorted(path.name for path in kept.rglob("*")) == ["1.pt", "config.json", "epochs", "model.pt"]
    assert not list(tmp_path.rglob("collector"))
