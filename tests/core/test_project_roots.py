"""The folders that files belong to."""

from __future__ import annotations

from distcheck.core.project_roots import RootFinder


def test_bad_folders_that_are_nested_more_deeply_than_calls() -> None:
    """1,200 folders in each other ended `lint` with a RecursionError, and a traceback."""
    inspected: list[str] = []

    def exists(path: str) -> bool:
        inspected.append(path)
        return path in ("a/.git", "a/d/d/pyproject.toml")

    finder = RootFinder(exists)
    deep = "a" + "/d" * 3000
    found = finder.of_file(f"{deep}/b.py")
    assert (found.repository, found.project) == ("a", "a/d/d")
    assert finder.of_file("a/d/b.py").project == "a"
    before = len(inspected)
    assert finder.of_file(f"{deep}/c.py") == found and len(inspected) == before
