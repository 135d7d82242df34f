"""Paths from the root of the repository, words for what has no file, fingerprints that stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings

from distcheck.core.model import Report, Where
from distcheck.reporters.locations import (
    FileLocation,
    Repository,
    context,
    fingerprints,
    has_file,
    lead,
    repository,
    shown,
    stand_in,
    words,
)

from .any_report import reports
from .invented import BLIND, LINT, LOG, MERGED, PLACES, UNDECIDED


def test_a_path_is_seen_from_the_root_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")  # a worktree has a file
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    base = repository()
    assert base == Repository(str(tmp_path), str(tmp_path / "a" / "b"))
    assert base.place("train.py") == FileLocation("a/b/train.py", True)
    assert base.place("../../job.sh") == FileLocation("job.sh", True)
    assert base.place(str(tmp_path / "x.py")) == FileLocation("x.py", True)
    assert base.place("./x y.py") == FileLocation("a/b/x y.py", True)
    assert base.place("../..") == FileLocation(".", True)
    assert base.place("/etc/nccl.conf") == FileLocation("/etc/nccl.conf", False)
    # a folder whose name begins like the root's is not in it
    assert base.place(f"{tmp_path}-other/x.py") == FileLocation(f"{tmp_path}-other/x.py", False)


def test_without_a_repository_the_working_folder_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: not str(path).endswith(".git") and real(path))
    assert repository().place("sub/train.py") == FileLocation("sub/train.py", True)


@pytest.mark.parametrize("name", ["a\x00b", "\ud800", "\udcff"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    assert Repository(str(tmp_path), str(tmp_path)).place(name) == FileLocation(name, True)
    assert not Repository(str(tmp_path / "a"), str(tmp_path / "a")).place(f"../{name}").inside


def test_a_root_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    base = Repository(str(tmp_path / "link"), str(tmp_path / "link"))
    assert base.place(str(tmp_path / "real" / "x.py")) == FileLocation("x.py", True)
    base = Repository(str(tmp_path / "real"), str(tmp_path / "real"))
    assert base.place(str(tmp_path / "link" / "x.py")) == FileLocation("x.py", True)
    # a link in the checkout is a file of the checkout
    (tmp_path / "real" / "hosts.py").symlink_to("/etc/hosts")
    assert base.place("hosts.py") == FileLocation("hosts.py", True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("file", "<module>"),
        ("cell", "cell 4, line 3"),
        ("member", "archive/data.pkl, byte 35"),
        ("byte", "byte 4294967296"),
        ("object", "trainer.lock"),
        ("variable", "MASTER_PORT"),
        ("GPU", "local rank 3, GPU 3"),
        ("host", "gpu39"),
        ("ranks", "gpu[07,31], ranks 48-55,240-247, /dev/shm"),
        ("peer", "node1, rank 2, peer rank 5, phase stragglers"),
    ],
)
def test_what_has_no_line_is_said_in_words(kind: str, text: str) -> None:
    where = PLACES[kind][1].where
    assert words(where) == text
    # a path and a line say it all
    assert context(where) == ("" if kind == "file" else f" ({text})")


def test_a_line_does_not_say_of_which_host_it_is() -> None:
    assert context(Where("/etc/nccl.conf", 1, host="gpu07", variable="NCCL_IB_DISABLE")) == " (gpu07)"
    assert context(Where("train.log", 18, host="gpu07", rank=3, object="main")) == " (gpu07, rank 3)"


def test_words_without_what_moves() -> None:
    assert words(PLACES["cell"][1].where, lines=False) == "cell 4"
    assert words(PLACES["member"][1].where, lines=False) == "archive/data.pkl"
    assert words(Where()) == ""
    assert words(Where(host="a\x1b[31m\udc80")) == "a\\x1b[31m\\udc80"


def test_standard_input_is_no_file() -> None:
    assert not has_file(Where("-", 3))
    assert not has_file(Where("<stdin>", 3))
    assert context(Where("<stdin>", 3)) == " (line 3)"
    assert not has_file(Where())
    assert not has_file(Where(""))
    assert has_file(Where("x.py"))
    assert stand_in(BLIND) == "distcheck-env"


def test_a_failure_without_a_rule_is_shown_first() -> None:
    assert shown(LOG) == LOG.findings
    (first,) = shown(UNDECIDED)
    assert (first.code, first.where.path, first.where.line) == ("undecided", "logs/train.log", 15)
    assert lead(UNDECIDED) == first
    assert lead(LOG) == LOG.findings[0]
    assert lead(LOG._replace(findings=())) is None
    assert lead(LINT) is None


def test_fingerprints_stay_when_lines_move() -> None:
    moved = [finding._replace(where=finding.where._replace(line=99, column=1)) for finding in LINT.findings]
    assert fingerprints(moved) == fingerprints(LINT.findings)
    other = LINT.findings[0]._replace(where=LINT.findings[0].where._replace(path="other.py"))
    assert fingerprints([other]) != fingerprints(LINT.findings[:1])
    # another host, the same trouble
    elsewhere = MERGED.findings[1]._replace(where=MERGED.findings[1].where._replace(host="gpu08"))
    assert fingerprints([elsewhere]) == fingerprints(MERGED.findings[1:])


@settings(max_examples=30)
@given(reports())
def test_fingerprints_are_unique(report: Report) -> None:
    found = fingerprints(report.findings)
    assert len(set(found)) == len(report.findings)
    assert all(len(text) == 64 for text in found)


def test_a_working_folder_that_was_removed_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert repository() == Repository("/", "/")
    monkeypatch.chdir(tmp_path)
