"""Files in folders that other users may write to: links, pipes, files without end, a draft that was planted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from distcheck.cli.env_merge import _texts
from distcheck.cli.output import write_file
from distcheck.core import files
from distcheck.core.files import read_record, write_whole
from distcheck.core.fixes import write_atomically
from distcheck.runtime.smoke_test.rank_records import KIND, RecordsError, read_folder

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
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "known")
    (shared / ".x.json.known").symlink_to(victim)
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
