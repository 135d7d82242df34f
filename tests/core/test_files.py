"""Files in folders that other users may write to: links, pipes, files without end, a draft that was planted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from distcheck.checks.host.launcher import read_script
from distcheck.cli.env_merge import _texts
from distcheck.cli.output import write_file
from distcheck.core import files
from distcheck.core.files import read_record, write_whole
from distcheck.core.fixes import write_atomically
from distcheck.core.model import Finding, Fix, Report, Severity, Unavailable, to_plain
from distcheck.core.world import World
from distcheck.launch.command import parse_command
from distcheck.launch.reader import make_launch
from distcheck.reporters import Style, render
from distcheck.rules import Selection
from distcheck.runtime.coordination.model import RankState
from distcheck.runtime.smoke_test.rank_records import KIND, RankFile, RecordsError, merged_report, read_folder
from distcheck.runtime.smoke_test.rank_records import write as write_rank_record

as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="gives a link to another user")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a folder like /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@as_root
def test_bad_a_link_of_another_user_is_not_followed(tmp_path: Path, shared: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    link = shared / "report.json"
    link.symlink_to(victim)
    os.chown(link, 12345, 12345, follow_symlinks=False)
    for write in (write_file, lambda path, _: write_whole(path, b"x"), lambda path, _: write_atomically(path, b"x")):
        with pytest.raises(PermissionError):
            write(str(link), "x")
    assert victim.read_text() == "mine"
    assert [entry.name for entry in shared.iterdir()] == ["report.json"]


def test_good_an_own_link_stays_a_link(tmp_path: Path, shared: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    link = shared / "report.json"
    link.symlink_to(target)
    write_file(str(link), "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_bad_a_draft_that_was_planted_is_not_written(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft had a name that a neighbor could guess, and the write followed a link of that name."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (shared / f".rank-00000.json.{os.getpid()}").symlink_to(victim)
    write_file(str(shared / "rank-00000.json"), "new")
    assert victim.read_text() == "mine"
    # even if the name is known
    monkeypatch.setattr("secrets.token_hex", lambda _: "known")
    (shared / f".distcheck-draft-{files._host()}-known").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_file(str(shared / "x.json"), "new")
    assert victim.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_bad_pipes_devices_and_files_without_end_are_no_records(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(shared / "rank-00001.json")
    (shared / "rank-00002.json").symlink_to("/dev/zero")
    (shared / "rank-00003.json").write_text("[" * 200_000)
    (shared / "rank-00004.json").write_bytes(os.urandom(1000))
    with (shared / "rank-00005.json").open("wb") as file:
        file.truncate(files.LONGEST_RECORD + 1)
    (shared / "rank-00006.json").write_text(json.dumps({"kind": KIND, "version": 1, "record": {"rank": "x"}}))
    (shared / "rank-00007.json").symlink_to(shared / "nowhere")
    with pytest.raises(RecordsError, match="none of its 7"):
        read_folder(str(shared))
    for name in ("rank-00001.json", "rank-00002.json", "rank-00005.json"):
        with pytest.raises(OSError):
            read_record(str(shared / name))


def test_bad_a_folder_of_facts_with_a_pipe_does_not_hang(shared: Path) -> None:
    import click

    os.mkfifo(shared / "node1.json")
    with pytest.raises(click.UsageError, match="no ordinary file"):
        list(_texts([str(shared)]))


def test_a_file_is_written_whole_or_not_at_all(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared / "x.py"
    path.write_text("old")
    path.chmod(0o640)

    def fail(_source: str, _target: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", fail)
        with pytest.raises(OSError, match="No space"):
            write_atomically(str(path), b"new")
    assert path.read_text() == "old"
    write_atomically(str(path), b"new\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in shared.iterdir()] == ["x.py"]


def test_bad_others_never_read_the_draft_of_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft was readable for all until it was whole."""
    path = tmp_path / "facts.json"
    path.write_text("old")
    path.chmod(0o600)
    modes = []
    real = os.chmod

    def look(name: str, mode: int) -> None:
        modes.append(os.stat(name).st_mode & 0o777)
        real(name, mode)

    monkeypatch.setattr(files.os, "chmod", look)
    write_file(str(path), "secret")
    assert modes == [0o600]
    assert path.stat().st_mode & 0o777 == 0o600


@as_root
@pytest.mark.parametrize("mode", [0o644, 0o6755])
def test_the_owner_stays_and_no_file_runs_as_its_owner(tmp_path: Path, mode: int) -> None:
    """root's --fix took the file away from its owner, and made a program of the owner's one of root's."""
    for write in (write_file, lambda path, text: write_atomically(path, text.encode())):
        path = tmp_path / "x.py"
        path.write_text("old")
        os.chown(path, 12345, 23456)
        path.chmod(mode)
        write(str(path), "new")
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (12345, 23456, mode & 0o777)


def test_bad_a_link_in_a_folder_of_records_is_replaced(tmp_path: Path, shared: Path) -> None:
    """A checkout can bring such a folder: the record was written through its link."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (shared / "rank-00000.json").symlink_to(victim)
    write_rank_record(str(shared), RankFile(0, 1, "node1", RankState(0)))
    assert victim.read_text() == "mine"
    assert read_folder(str(shared))[0][0].host == "node1"
    assert not (shared / "rank-00000.json").is_symlink()


def test_bad_a_script_that_is_a_pipe_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was awaited until the limit of its reader, and reported as DC902."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("train.py")
    launch = make_launch({}, launched=False, command=parse_command(["torchrun", "train.py"], {}))
    with pytest.raises(Unavailable, match="no ordinary file"):
        read_script(World(), launch)
    os.unlink("train.py")
    Path("train.py").write_text("import torch.distributed\n")
    assert read_script(World(), launch).path == "train.py"


def _record(number: int, **changes: object) -> str:
    plain = to_plain(RankFile(number, 2, "node1", RankState(number, state="finished"), "verify", True, "run1"))
    return json.dumps({"kind": KIND, "version": 1, "record": {**plain, **changes}})


_REPORT = Report("collective", stage="rank", subject={"host": None, "line": ["2 ranks"]}).as_dict()
_FINDING = Finding("DC501", "x", Severity.ERROR, "m", Fix("do it")).as_dict()


@pytest.mark.parametrize(
    "changes",
    [
        {"world_size": 2**60},
        {"world_size": 0},
        {"rank": -1},
        {"rank": 2},
        {"report": {**_REPORT, "findings": [{**_FINDING, "fix": {**_FINDING["fix"], "where": "nowhere"}}]}},
        {"report": {**_REPORT, "findings": [{**_FINDING, "message": ["x"]}]}},
        {"report": {**_REPORT, "findings": [{**_FINDING, "evidence": "x"}]}},
        {"report": {**_REPORT, "subject": {"host": None, "placement": [{"host": "x"}]}}},
        {"report": {**_REPORT, "measurements": {"version": 1, "proof": 5}}},
        {"report": {**_REPORT, "measurements": ["x"]}},
    ],
)
def test_bad_a_record_that_a_neighbor_forged_is_named(shared: Path, changes: dict[str, object]) -> None:
    """2^60 ranks filled the memory, and values of other types ended in a traceback."""
    (shared / "rank-00001.json").write_text(_record(1))
    (shared / "rank-00000.json").write_text(_record(0, **changes))
    try:
        report = merged_report(str(shared), Selection())
    except RecordsError as error:
        assert "damaged" in str(error)
        return
    assert any("damaged" in item.why for item in report.not_checked)
    assert "1 of 2 records" in render(report, "full", Style())


def test_good_records_with_a_report_are_merged(shared: Path) -> None:
    shown = {
        **_REPORT,
        "findings": [_FINDING],
        "subject": {**_REPORT["subject"], "jobs": "x", "placement": []},
        "measurements": [],
    }
    (shared / "rank-00001.json").write_text(_record(1))
    (shared / "rank-00000.json").write_text(_record(0, report=shown))
    report = merged_report(str(shared), Selection())
    assert (report.measurements, [finding.code for finding in report.findings]) == ({}, ["DC501"])
    assert "jobs" not in report.subject
    assert "DC501" in render(report, "full", Style())


@as_root
@pytest.mark.parametrize("mode", [0o1777, 0o755])
@pytest.mark.parametrize("owners", [(0, 12345), (12345, 12345), (12345, 23456)])
def test_a_record_of_another_user_among_those_of_this_one(shared: Path, mode: int, owners: tuple[int, int]) -> None:
    """In a folder like /tmp, a newer record of a neighbor with another run took the place of all others."""
    shared.chmod(mode)
    for rank, owner in enumerate(owners):
        path = shared / f"rank-{rank:05d}.json"
        path.write_text(_record(rank, **({"run": "forged", "world_size": 900} if owner == 12345 else {})))
        os.chown(path, owner, owner)
    foreign = "it belongs to another user, and all users may write to the folder"
    if mode == 0o755 or owners[0] == owners[1]:
        records, damaged = read_folder(str(shared))
        assert records and all(why != foreign for _, why in damaged)
    elif owners[0] == 0:
        records, damaged = read_folder(str(shared))
        assert [(record.rank, record.run) for record in records] == [(0, "run1")]
        assert damaged == (("rank-00001.json", foreign),)
    else:
        with pytest.raises(RecordsError, match=foreign):
            read_folder(str(shared))


@as_root
def test_facts_of_a_neighbor_are_not_merged_and_hold_nothing_up(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, owner in (("node1.json", 0), ("node2.json", 12345)):
        (shared / name).write_text("{}")
        os.chown(shared / name, owner, owner)
    assert [name for name, _ in _texts([str(shared)])] == [str(shared / "node1.json")]
    assert "node2.json is not read: it belongs to another user" in capsys.readouterr().err
    # who names it wants it
    assert len(list(_texts([str(shared / "node1.json"), str(shared / "node2.json")]))) == 2


def _draft_name(token: str = "0123456789abcdef", host: str | None = None) -> str:
    return f".distcheck-draft-{host or files._host()}-{token}"


@pytest.mark.skipif(files.fcntl is None, reason="no locks of files")
def test_bad_the_draft_of_a_killed_process_stays(tmp_path: Path) -> None:
    """What SIGKILL left stayed forever."""
    (tmp_path / _draft_name()).write_text("half")
    write_file(str(tmp_path / "report.json"), "new")
    assert os.listdir(tmp_path) == ["report.json"]


@pytest.mark.skipif(files.fcntl is None, reason="no locks of files")
def test_good_only_dead_drafts_of_this_user_and_host_are_removed(tmp_path: Path) -> None:
    names = [
        _draft_name(host="00000000"), _draft_name("0123456789ABCDEF"), _draft_name() + ".py", "x" + _draft_name(),
        ".distcheck-draft-", ".a.py.0123456789abcdef",
    ]  # fmt: skip
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / _draft_name("a" * 16)).mkdir()
    (tmp_path / _draft_name("b" * 16)).symlink_to("report.json")
    os.mkfifo(tmp_path / _draft_name("c" * 16))
    (tmp_path / _draft_name("d" * 16)).write_text("two names")
    (tmp_path / "other").hardlink_to(tmp_path / _draft_name("d" * 16))
    live, number = files._new_draft(str(tmp_path), 0o600)
    before = sorted(os.listdir(tmp_path))
    files.remove_dead_drafts([str(tmp_path), str(tmp_path / "missing")])
    assert sorted(os.listdir(tmp_path)) == before
    os.close(number)
    files.remove_dead_drafts([str(tmp_path)])
    assert sorted(os.listdir(tmp_path)) == [name for name in before if name != os.path.basename(live)]


@as_root
def test_good_a_draft_of_another_user_stays(shared: Path) -> None:
    draft = shared / _draft_name()
    draft.write_text("not mine")
    os.chown(draft, 12345, 12345)
    files.remove_dead_drafts([str(shared)])
    assert draft.exists()


def test_good_a_draft_that_was_removed_before_its_lock_gets_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(number: int, flags: int, lock: object = files.fcntl.flock) -> None:
        if len(os.listdir(tmp_path)) == 1 and not tokens:
            tokens.append(os.listdir(tmp_path)[0])
            os.unlink(tmp_path / tokens[0])
        lock(number, flags)  # type: ignore[operator]

    tokens: list[str] = []
    monkeypatch.setattr(files.fcntl, "flock", removed)
    write_file(str(tmp_path / "report.json"), "new")
    assert tokens and (tmp_path / "report.json").read_text() == "new" and os.listdir(tmp_path) == ["report.json"]


def test_good_a_file_with_the_longest_name_is_written(tmp_path: Path) -> None:
    """The draft had a name of its own behind that of the file, and was too long for a name that is not ASCII."""
    path = tmp_path / ("ü" * 125 + ".json")
    write_file(str(path), "new")
    assert path.read_text() == "new"
