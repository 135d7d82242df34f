"""Which files are judged together: those that import each other, and those of one project."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from distcheck.checks.source.components import join_files
from distcheck.checks.source.engine import SourceFile, read
from distcheck.checks.source.link import Components, Index
from distcheck.core.project_roots import RootFinder, Roots

HEAD = "import torch.distributed as dist\n"


def together(files: Mapping[str, str], marks: frozenset[str] = frozenset()) -> list[list[str]]:
    """Return the sets of files that belong together."""
    roots = RootFinder(marks.__contains__)
    sources = [
        SourceFile(path, (HEAD + text).encode, roots.of_file(path).repository) for path, text in sorted(files.items())
    ]
    facts = read(sources).files
    components = Components()
    join_files(components, facts, [roots.of_file(file.path).project for file in facts])
    found: dict[object, list[str]] = {}
    for file in facts:
        found.setdefault(components.root(file.path), []).append(file.path)
    return sorted(found.values())


@pytest.mark.parametrize(
    ("path", "marks", "expected"),
    [
        ("train.py", (), Roots("", "")),
        ("a/b/train.py", (), Roots("", "")),
        ("a/b/train.py", ("a/.git",), Roots("a", "a")),
        ("a/b/train.py", ("a/.git", "a/b/setup.py"), Roots("a", "a/b")),
        ("a/b/c/train.py", ("a/pyproject.toml", "a/b/setup.py"), Roots("a", "a/b")),
        ("a/b/c/train.py", ("a/.git", "a/b/.git"), Roots("a/b", "a/b")),
        ("../a/train.py", ("../a/setup.cfg",), Roots("../a", "../a")),
        ("/a/train.py", ("/a/.hg",), Roots("/a", "/a")),
    ],
)
def test_the_folders_that_a_file_belongs_to(path: str, marks: tuple[str, ...], expected: Roots) -> None:
    assert RootFinder(set(marks).__contains__).of_file(path) == expected


@pytest.mark.parametrize(
    ("path", "marks", "expected"),
    [
        ("train.py", ("setup.py",), False),
        ("tools/train.py", ("setup.py",), False),
        ("pkg/train.py", ("pkg/__init__.py",), False),
        ("pkg/train.py", ("setup.py", "pkg/__init__.py"), True),
        ("utils/train.py", ("setup.py", "utils/__init__.py"), False),
        ("src/sub/train.py", ("setup.py", "src/__init__.py", "src/sub/__init__.py"), False),
        ("pkg/utils/train.py", ("setup.py", "pkg/__init__.py", "pkg/utils/__init__.py"), True),
        ("src/pkg/sub/train.py", ("pyproject.toml", "src/pkg/__init__.py", "src/pkg/sub/__init__.py"), True),
        ("r/pkg/train.py", ("setup.py", "r/.git", "r/pkg/__init__.py"), False),
        ("r/pkg/train.py", ("r/setup.cfg", "r/.git", "r/pkg/__init__.py"), True),
    ],
)
def test_a_module_of_a_package_that_users_install(path: str, marks: tuple[str, ...], expected: bool) -> None:
    assert RootFinder(set(marks).__contains__).is_packaged(path) is expected


def test_files_of_one_project_belong_together() -> None:
    assert together({"a/x.py": "", "b/y.py": ""}) == [["a/x.py", "b/y.py"]]
    marks = frozenset(["a/setup.py", "b/setup.py"])
    assert together({"a/x.py": "", "b/y.py": "", "z.py": ""}, marks) == [["a/x.py"], ["b/y.py"], ["z.py"]]


def test_an_import_joins_projects_of_one_repository() -> None:
    marks = frozenset(["r/.git", "r/a/setup.py", "r/b/setup.py"])
    files = {"r/a/x.py": "import helpers\n", "r/b/helpers.py": ""}
    assert together(files, marks) == [["r/a/x.py", "r/b/helpers.py"]]
    # a sibling folder that is another repository is not on the path
    apart = frozenset(["a/.git", "b/.git"])
    files = {"a/x.py": "import helpers\n", "b/helpers.py": ""}
    assert together(files, apart) == [["a/x.py"], ["b/helpers.py"]]


def test_the_package_that_an_import_of_its_module_binds_is_joined() -> None:
    marks = frozenset(["r/.git", "r/a/setup.py", "r/pkg/setup.py", "r/pkg/sub/setup.py"])
    files = {"r/a/x.py": "import pkg.sub.y\n", "r/pkg/__init__.py": "", "r/pkg/sub/y.py": ""}
    assert together(files, marks) == [["r/a/x.py", "r/pkg/__init__.py", "r/pkg/sub/y.py"]]


def test_a_file_of_another_repository_is_not_imported() -> None:
    roots = {"a/x.py": "a", "b/helpers.py": "b"}
    sources = [SourceFile(path, (HEAD + "import helpers\n").encode, repository) for path, repository in roots.items()]
    index = Index(read(sources).files)
    assert index.imported(0) == frozenset()
    sources = [source._replace(repository="") for source in sources]
    assert Index(read(sources).files).imported(0) == {1}


def test_a_file_of_another_repository_requests_none_of_this_one() -> None:
    saves = HEAD + "def keep(x):\n    dist.barrier()\n"
    calls = "from things import keep\n\nkeep(1)\n"
    files = {"a/things.py": saves, "b/things.py": "def keep(x):\n    return x\n", "b/use.py": calls}
    for roots, expected in (({}, 2), ({"a": "a", "b": "b"}, 1)):
        sources = [SourceFile(f"r/{path}", text.encode, roots.get(path[0], "")) for path, text in files.items()]
        assert len(read(sources).files) == expected
