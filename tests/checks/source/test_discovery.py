"""Which files are found: excludes, ignore files, links, and what can't be looked at."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.source import discovery
from distcheck.checks.source.discovery import (
    DEFAULT_EXCLUDES,
    LAUNCH_SUFFIXES,
    MARKDOWN_SUFFIXES,
    FoundFiles,
    Globs,
    _GitIgnore,
    _linear,
    _Name,
    _patterns_of,
    _regex,
    discover,
)


def tree(folder: Path, *paths: str, **texts: str) -> None:
    for path in paths:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x = 1\n")
    for name, text in texts.items():
        (folder / name.replace("__", "/").replace("_gitignore", ".gitignore")).write_text(text)


def found(folder: Path, *paths: str, excludes: tuple[str, ...] = (), **more: bool) -> FoundFiles:
    globs = Globs((pattern, str(folder)) for pattern in (*DEFAULT_EXCLUDES, *excludes))
    return discover(paths or (".",), excludes=globs, working_folder=str(folder), **more)


def files(folder: Path, *paths: str, excludes: tuple[str, ...] = (), **more: bool) -> list[str]:
    result = found(folder, *paths, excludes=excludes, **more)
    assert result.problems == ()
    return list(result.files)


def test_python_files_and_notebooks_below_a_folder_in_order(tmp_path: Path) -> None:
    tree(tmp_path, "b.py", "a.py", "a/z.py", "a/m.ipynb", "a/stub.pyi", "a/run.sh", "c.pyw", ".hidden/x.py", "script")
    assert files(tmp_path) == [".hidden/x.py", "a.py", "a/m.ipynb", "a/z.py", "b.py", "c.pyw"]


def test_folders_that_are_nobodys_own_are_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", ".venv/b.py", "x/node_modules/c.py", ".git/d.py", "x/__pycache__/e.py", ".tox/f.py")
    assert files(tmp_path) == ["a.py"]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("sub", ["a.py", "other/d.py"]),
        ("sub/", ["a.py", "other/d.py"]),
        ("./sub/deep", ["a.py", "other/d.py", "sub/b.py"]),
        ("sub/*.py", ["a.py", "other/d.py"]),
        ("**/deep/*.py", ["a.py", "other/d.py", "sub/b.py"]),
        ("d.py", ["a.py", "sub/b.py", "sub/deep/c.py"]),
        ("[a-b].py", ["other/d.py", "sub/deep/c.py"]),
        ("[!a-b].py", ["a.py", "sub/b.py"]),
        ("?.py", []),
        ("other/**", ["a.py", "sub/b.py", "sub/deep/c.py"]),
        ("[", ["a.py", "other/d.py", "sub/b.py", "sub/deep/c.py"]),
        ("", ["a.py", "other/d.py", "sub/b.py", "sub/deep/c.py"]),
    ],
)
def test_excludes_are_as_in_ruff(tmp_path: Path, pattern: str, left: list[str]) -> None:
    tree(tmp_path, "a.py", "sub/b.py", "sub/deep/c.py", "other/d.py")
    assert files(tmp_path, excludes=(pattern,)) == left


def test_what_is_named_counts_although_excluded(tmp_path: Path) -> None:
    tree(tmp_path, "sub/a.py", "sub/b.py", "c.py")
    assert files(tmp_path, "sub/a.py", "c.py", excludes=("sub", "c.py")) == ["c.py", "sub/a.py"]
    assert files(tmp_path, "sub", excludes=("sub",)) == ["sub/a.py", "sub/b.py"]
    assert files(tmp_path, "sub/a.py", "sub", "c.py", excludes=("sub",), force_exclude=True) == ["c.py"]


def test_ignore_files_nested_with_negation_and_anchors(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "keep.py",
        "gen_a.py",
        "gen_keep.py",
        "out/x.py",
        "sub/gen_b.py",
        "sub/out/y.py",
        "sub/z.py",
        "sub/t/z.py",
    )
    tree(tmp_path, _gitignore="gen_*.py\n!gen_keep.py\n/out/\n# a comment\n\n!\n")
    tree(tmp_path, sub___gitignore="!gen_b.py\n/z.py\n")
    assert files(tmp_path) == ["gen_keep.py", "keep.py", "sub/gen_b.py", "sub/out/y.py", "sub/t/z.py"]
    assert len(files(tmp_path, respect_gitignore=False)) == 8


def test_what_is_below_an_ignored_folder_stays_ignored(tmp_path: Path) -> None:
    tree(tmp_path, "data/a.py", "b.py", _gitignore="data/\n!data/a.py\n")
    assert files(tmp_path) == ["b.py"]


def test_ignore_files_above_count_within_the_repository(tmp_path: Path) -> None:
    tree(tmp_path, "repo/.git/HEAD", "repo/sub/a.py", "repo/sub/gen.py", "repo/sub/local.py")
    (tmp_path / ".gitignore").write_text("*.py\n")
    (tmp_path / "repo" / ".gitignore").write_text("gen.py\n")
    (tmp_path / "repo" / ".git" / "info").mkdir()
    (tmp_path / "repo" / ".git" / "info" / "exclude").write_text("local.py\n")
    assert files(tmp_path / "repo" / "sub") == ["a.py"]
    assert files(tmp_path / "repo", "sub") == ["sub/a.py"]


def test_an_ignored_folder_that_is_named_is_looked_at(tmp_path: Path) -> None:
    tree(tmp_path, ".git/HEAD", "build/a.py", "build/x/b.py", _gitignore="build/\nx/\n")
    assert files(tmp_path) == []
    assert files(tmp_path, "build") == ["build/a.py", "build/x/b.py"]
    assert files(tmp_path, "build/x") == ["build/x/b.py"]


def test_a_file_without_a_suffix_counts_by_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/usr/bin/env python3\nx = 1\n")
    (tmp_path / "job").write_text("#!/bin/bash\n")
    (tmp_path / "binary").write_bytes(b"#!\xff\x00" * 1000)
    (tmp_path / "LICENSE").write_text("All rights\n")
    assert found(tmp_path, "run").files == ("run",)
    assert found(tmp_path, "job").launch_files == ("job",)
    assert found(tmp_path).files == ()
    for name in ("binary", "LICENSE"):
        (problem,) = found(tmp_path, name).problems
        assert problem.path == name
        assert "no Python file and no launch file" in problem.why


def test_what_may_be_a_launch_file_is_listed_apart(tmp_path: Path) -> None:
    tree(
        tmp_path, "a.py", "run.sh", "job.sbatch", "k8s/job.yaml", "ds.json", "Dockerfile.train", "gpu.Dockerfile",
        "Makefile", "hostfile_2nodes.txt", "README.md", "notes.txt", "x.png", "script", "sub/.hidden",
    )  # fmt: skip
    result = found(tmp_path)
    launch = (
        "Dockerfile.train", "Makefile", "ds.json", "gpu.Dockerfile", "hostfile_2nodes.txt", "job.sbatch",
        "k8s/job.yaml", "run.sh", "script",
    )  # fmt: skip
    assert (result.files, result.launch_files, result.named) == (("a.py",), launch, frozenset())
    assert "README.md" in found(tmp_path, include_markdown=True).launch_files
    named = found(tmp_path, "README.md", "run.sh", "a.py", "k8s")
    assert named.files == ("a.py",)
    assert named.launch_files == ("README.md", "k8s/job.yaml", "run.sh")
    assert named.named == {"README.md", "run.sh", "a.py"}


def test_excludes_and_ignore_files_are_about_launch_files_as_well(tmp_path: Path) -> None:
    tree(tmp_path, "a.sh", "out/b.sh", "old/c.sh", "d.yaml", _gitignore="out/\n*.yaml\n")
    assert found(tmp_path, excludes=("old",)).launch_files == ("a.sh",)
    assert found(tmp_path, "old/c.sh", "d.yaml", excludes=("old",)).launch_files == ("d.yaml", "old/c.sh")
    assert found(tmp_path, "old/c.sh", excludes=("old",), force_exclude=True) == FoundFiles()


def test_every_suffix_that_is_read_is_found_in_folders(tmp_path: Path) -> None:
    """The names that the readers know are those that the walk knows."""
    from distcheck.checks.launch_files import files as readers

    own = {suffix.removeprefix(".") for suffix in LAUNCH_SUFFIXES}
    assert own == {*readers._SHELL_SUFFIXES, *readers._JOB_SUFFIXES, *readers._MAKE_SUFFIXES, "yaml", "yml", "json"}
    assert {suffix.removeprefix(".") for suffix in MARKDOWN_SUFFIXES} == readers._MARKDOWN_SUFFIXES
    for name in ("Dockerfile", "dockerfile.gpu", "train.Dockerfile", "Containerfile", "GNUmakefile", "Makefile.am"):
        tree(tmp_path, name)
        assert readers.kind_of(name, b"") in ("dockerfile", "makefile")
        assert name in found(tmp_path).launch_files


def test_each_file_once_by_whatever_way(tmp_path: Path) -> None:
    tree(tmp_path, "sub/a.py", "b.py")
    (tmp_path / "link.py").symlink_to(tmp_path / "b.py")
    (tmp_path / "sub" / "far.py").symlink_to(tmp_path / "elsewhere.txt")
    (tmp_path / "elsewhere.txt").write_text("x = 1\n")
    assert files(tmp_path, "sub", ".", "./b.py", "sub/../sub/a.py", str(tmp_path)) == ["b.py", "sub/a.py", "sub/far.py"]


def test_loops_and_broken_links_end(tmp_path: Path) -> None:
    tree(tmp_path, "sub/a.py")
    (tmp_path / "sub" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / ".#lock.py").symlink_to("nobody@nowhere")
    assert files(tmp_path) == ["sub/a.py"]
    (tmp_path / "way").symlink_to(tmp_path / "sub", target_is_directory=True)
    assert files(tmp_path, "way") == ["way/a.py"]


def test_what_is_not_there_is_told_and_the_rest_is_found(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    (tmp_path / "broken.py").symlink_to("nowhere.py")
    os.mkfifo(tmp_path / "pipe.py")
    result = found(tmp_path, "gone.py", "a.py", "no/folder", "broken.py", "pipe.py", "gone.py")
    assert result.files == ("a.py",)
    told = dict(result.problems)
    assert sorted(told) == ["broken.py", "gone.py", "no/folder", "pipe.py"]
    assert "does not exist" in told["gone.py"]
    assert "leads nowhere" in told["broken.py"]
    assert "no ordinary file" in told["pipe.py"]


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may list any folder")
def test_a_folder_that_is_not_ours_to_list_is_told(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "closed/b.py")
    (tmp_path / "closed").chmod(0)
    try:
        result = found(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert result.files == ("a.py",)
    assert result.problems[0].path == "closed"
    assert "can't be listed" in result.problems[0].why


def test_a_folder_that_vanishes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "a.py", "gone/b.py")
    listing = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("gone"):
            raise PermissionError(13, "Permission denied")
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = found(tmp_path)
    assert result.files == ("a.py",)
    assert result.problems[0] == ("gone", "the folder can't be listed: Permission denied")


def test_paths_are_shown_as_a_user_would_write_them(tmp_path: Path) -> None:
    tree(tmp_path, "here/a.py", "there/b.py")
    here = tmp_path / "here"
    assert files(here, str(here), "../there") == ["../there/b.py", "a.py"]
    assert files(here, str(tmp_path / "there")) == [f"{tmp_path}/there/b.py"]


@settings(deadline=None)
@given(st.text(max_size=12), st.text(alphabet="ab/.", min_size=1, max_size=8))
def test_no_pattern_breaks_it(pattern: str, path: str) -> None:
    globs = Globs([(pattern, "/base")])
    assert globs.match_file(path, "/base") in (True, False)
    if (
        pattern.strip("/. ")
        and not set(pattern) & set("*?[]\\/ \t\r\n\x1c\x1d\x1e\x1f\x0b\x0c\x85\xa0")
        and pattern == pattern.strip()
    ):
        assert Globs([(pattern, "/base")]).match("/base/x", pattern)


def test_a_package_named_dist_is_read(tmp_path: Path) -> None:
    tree(tmp_path, "engine/dist/__init__.py", "engine/dist/utils.py")
    assert "engine/dist/utils.py" in files(tmp_path)


GLOBS = st.lists(st.sampled_from(["a", "b", "*", "*", "**/", "/", "?", "[ab]", "[!a]", "."]), min_size=2, max_size=9)


@settings(max_examples=500, deadline=None)
@given(GLOBS.map("".join), st.lists(st.text("ab/.", max_size=12), min_size=5, max_size=5))
def test_a_glob_without_retries_fits_what_it_fits_with_them(pattern: str, paths: list[str]) -> None:
    for source in (_regex(pattern), *(each for _, _, each in _patterns_of([pattern]))):
        slow, fast = re.compile(source, re.DOTALL), re.compile(_linear(source), re.DOTALL)
        for path in paths:
            assert (slow.match(path) is None) == (fast.match(path) is None)
            assert (slow.fullmatch(path) is None) == (fast.fullmatch(path) is None)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="re has no atomic groups")
@pytest.mark.parametrize("pattern", ["*a" * 17 + "b", "**/a/" * 17 + "b", "**/" * 100 + "x"])
def test_patterns_of_a_project_that_retry_forever_take_no_time(tmp_path: Path, pattern: str) -> None:
    deep = "/".join("a" * 60)
    tree(tmp_path, "a" * 250 + ".py", f"{deep}/a.py")
    (tmp_path / ".gitignore").write_text(pattern + "\n")
    assert len(files(tmp_path, excludes=(pattern,))) == 2


def test_an_ignore_file_that_is_no_ordinary_file_is_not_read(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "b/b.py")
    os.mkfifo(tmp_path / "b" / ".gitignore")  # would block
    (tmp_path / ".gitignore").symlink_to("/dev/zero")
    assert files(tmp_path) == ["a.py", "b/b.py"]


PATTERNS = (
    "build/", "*.pyc", "name", "/abs", ".env", "*.py[cod]", "docs/_build/", "*$py.class", "foo*", "!keep", "a b",
    "*.egg-info/", r"\#odd", "x?z",
)  # fmt: skip
PARTS = ("build", "a.pyc", ".pyc", "name", "name\n", "names", "abs", ".env", "m.pyo", "keep", "docs", "_build", "#odd")


@pytest.mark.parametrize("folder", [True, False])
def test_patterns_of_one_name_fit_what_their_regular_expressions_fit(folder: bool) -> None:
    patterns = _patterns_of(PATTERNS)
    assert {_Name.of(source) is None for _, _, source in patterns} == {True, False}
    ignore = _GitIgnore("/r", patterns)
    for length in (1, 2, 3):
        for parts in itertools.product(PARTS, repeat=length):
            relative = "/".join(parts)
            wanted = next(
                (
                    include
                    for include, folders, source in reversed(patterns)
                    if (folder or not folders) and re.match(source, f"{relative}/" if folder else relative)
                ),
                None,
            )
            assert ignore.ignores(f"/r/{relative}", folder=folder) is wanted, relative


#: Lines of ignore files, most of them plain, and some that only look like it.
_LINES = (
    "__pycache__/", "*.py[cod]", "*$py.class", "build/", "/dist", "docs/_build/", ".env", "a/b", "/a/b/", "logs/*", "/*",
    "*.egg-info/", "a*b", "a/*/b", "!keep", "!data/x", "x  ", "~x", "a-b+c", "é/", "*/", "*", "/", "//", "!", "", " ", "#x",
    "!#x", r"\#x", "a b", "**/x", "x/**", "a**b", "[!a]x", "[a-z]", "[a", "a]", "x\r", "a//b", "x/ ", "a?",
)  # fmt: skip


@pytest.mark.parametrize("line", _LINES)
def test_a_plain_line_of_an_ignore_file_means_what_the_library_makes_of_it(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = discovery._patterns_of([line])
    monkeypatch.setattr(discovery, "_simple_pattern", lambda line: None)
    assert ours == discovery._patterns_of([line])


def test_an_ignore_file_of_plain_lines_does_not_load_the_library() -> None:
    code = (
        "import sys; from distcheck.checks.source.discovery import _patterns_of; "
        "assert len(_patterns_of(['# x', '', '*.py[cod]', '/dist', 'docs/_build/', '!a/*.log'])) == 4; "
        "assert 'pathspec' not in sys.modules; _patterns_of(['**/x']); assert 'pathspec' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
