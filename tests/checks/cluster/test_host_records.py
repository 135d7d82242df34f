"""The local ranks of a host hand their reports to local rank 0, and nothing is left behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from distcheck import rules
from distcheck.checks.cluster import host_records
from distcheck.checks.cluster.local_position import LocalPosition, place_of
from distcheck.core.model import Fix, NotChecked, ProbeRun, Report, Where
from distcheck.launch.model import Launch

FIX = Fix("fix it")


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(host_records, "WAIT_FOR_RANKS_S", 0.3)
    return tmp_path


def report(rank: int) -> Report:
    finding = rules.DC203.found("one GPU", fix=FIX, where=Where(rank=rank, local_rank=rank))
    return Report("env", findings=(finding,), probes=(ProbeRun("x", "ran", 0.1),), checked=frozenset({"DC203"}))


def test_records_come_together_and_the_folder_goes(scratch: Path) -> None:
    sent = threading.Thread(target=lambda: host_records.send(LocalPosition(1, 3, "run"), report(1)))
    with host_records.collecting(LocalPosition(0, 3, "run")) as trouble:
        assert trouble is None
        sent.start()
        assert host_records.send(LocalPosition(2, 3, "run"), report(2))
        merged = report(0).merge(*host_records.receive(LocalPosition(0, 3, "run")))
    sent.join()
    assert [finding.where.ranks for finding in merged.findings] == ["0-2"]
    assert merged.not_checked == ()
    assert list(scratch.iterdir()) == []


def test_a_rank_that_does_not_come_is_not_checked(scratch: Path) -> None:
    with host_records.collecting(LocalPosition(0, 2, "run")):
        (absent,) = host_records.receive(LocalPosition(0, 2, "run"))
    assert absent.not_checked == (NotChecked("local rank 1", "its record did not come within 0.3 s"),)


def test_a_rank_that_comes_too_late_leaves_nothing(scratch: Path) -> None:
    assert not host_records.send(LocalPosition(1, 2, "run"), report(1))
    assert list(scratch.iterdir()) == []


def test_a_damaged_record_is_not_checked(scratch: Path) -> None:
    with host_records.collecting(LocalPosition(0, 2, "run")):
        (folder,) = scratch.iterdir()
        (folder / "1.json").write_text("{")
        (absent,) = host_records.receive(LocalPosition(0, 2, "run"))
    assert "damaged" in absent.not_checked[0].why


def test_somebody_elses_folder_is_not_used(scratch: Path) -> None:
    folder = host_records._folder(LocalPosition(0, 2, "run"))
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with host_records.collecting(LocalPosition(0, 2, "run")) as trouble:
        (absent,) = host_records.receive(LocalPosition(0, 2, "run"), trouble)
    assert "belongs to another user" in absent.not_checked[0].why
    assert not host_records.send(LocalPosition(1, 2, "run"), report(1))
    assert folder.exists()


def test_no_room_for_a_folder(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(scratch / "gone"))
    with host_records.collecting(LocalPosition(0, 2, "run")) as trouble:
        assert trouble is not None
        assert "No such file" in trouble


def test_what_killed_runs_left_is_swept(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = host_records._folder(LocalPosition(0, 2, "old run"))
    old.mkdir(mode=0o700)
    monkeypatch.setattr(host_records, "_STALE_S", -1.0)
    with host_records.collecting(LocalPosition(0, 2, "run")):
        assert not old.exists()


@pytest.mark.parametrize(
    ("launch", "scheduler", "place"),
    [
        (Launch("rank", local_rank=1, local_world_size=4), (None, None), (1, 4)),
        (Launch("shell"), (3, 8), (3, 8)),
        (Launch("rank", local_rank=0, local_world_size=1), (None, None), None),
        (Launch("rank", local_rank=5, local_world_size=4), (None, None), None),
        (Launch("shell"), (None, None), None),
    ],
)
def test_where_a_process_stands(
    launch: Launch, scheduler: tuple[int | None, int | None], place: tuple[int, int] | None
) -> None:
    found = place_of(launch, {"TORCHELASTIC_RUN_ID": "x"}, *scheduler)
    assert (None if found is None else (found.local_rank, found.local_size)) == place


def test_other_runs_have_other_places() -> None:
    launch = Launch("rank", local_rank=0, local_world_size=2)
    places = [place_of(launch, {"TORCHELASTIC_RUN_ID": run}, None, None) for run in ("a", "b")]
    assert places[0] != places[1]


@pytest.mark.parametrize("stale", [False, True])
def test_bad_another_folder_of_the_user_gets_the_name_of_ours(scratch: Path, stale: bool) -> None:
    """In a folder of temporary files without the sticky bit, all users can rename: the folder was removed."""
    place = LocalPosition(0, 2, "run")
    folder = host_records._folder(place)
    other = folder.with_name(f"{folder.name}0") if stale else folder
    other.mkdir(mode=0o700)
    for name in ("model.pt", "1.json"):
        (other / name).write_text("mine")
    os.utime(other, (0, 0))
    with host_records.collecting(place):
        pass
    assert sorted(path.name for path in other.iterdir()) == ["1.json", "model.pt"]
