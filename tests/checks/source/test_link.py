"""Which file an import means: the nearest one, whatever order the files are read in."""

from __future__ import annotations

import itertools

import pytest

from distcheck.checks.source.engine import SourceFile, read
from distcheck.checks.source.link import Index

#: A file that is analysed at once.
_TEXT = b"import torch.distributed as dist\ndist.barrier()\n"


def index(*paths: str) -> Index:
    return Index(read([SourceFile(path, lambda: _TEXT) for path in paths]).files)


@pytest.mark.parametrize(
    ("file", "dotted", "others", "found", "rest"),
    [
        # the folder of the file, then those above it
        ("a/train.py", "utils", ["a/utils.py", "utils.py", "b/utils.py"], "a/utils.py", ()),
        ("a/b/train.py", "utils", ["a/utils.py", "utils.py", "b/utils.py"], "a/utils.py", ()),
        ("a/b/train.py", "utils", ["utils.py", "c/utils.py"], "utils.py", ()),
        # a module with the name of the package around it: inside, the name means the package
        ("a/utils.py", "a.b.f", ["a/__init__.py", "a/a.py", "a/b.py"], "a/b.py", ("f",)),
        ("a/utils.py", "a.a.f", ["a/__init__.py", "a/a.py"], "a/a.py", ("f",)),
        ("a/utils.py", "a.f", ["a/a.py"], "a/a.py", ("f",)),
        ("train.py", "utils", ["a/utils.py", "utils.py"], "utils.py", ()),
        # a folder next to it
        ("tools/train.py", "lib.utils", ["src/lib/utils.py"], "src/lib/utils.py", ()),
        # a folder above comes before one that is next to the file
        ("lib/tools/train.py", "lib.log", ["lib/other/lib.py", "lib/log.py", "lib/__init__.py"], "lib/log.py", ()),
        # a name of a near module is no far module
        ("a/train.py", "utils.log", ["a/utils.py", "b/utils/log.py"], "a/utils.py", ("log",)),
        ("a/train.py", "utils.log", ["a/utils/__init__.py", "a/utils/log.py"], "a/utils/log.py", ()),
        # several are equally near
        ("train.py", "utils", ["a/utils.py", "b/utils.py"], None, ()),
        ("a/train.py", "utils", ["b/c/d/utils.py"], None, ()),
    ],
)
def test_the_nearest_module_is_imported(
    file: str, dotted: str, others: list[str], found: str | None, rest: tuple[str, ...]
) -> None:
    for order in itertools.permutations([file, *others]):
        tables = index(*order)
        located = tables.locate(order.index(file), dotted)
        assert (None if located is None else (order[located[0]], located[1])) == (
            None if found is None else (found, rest)
        )


def test_files_hang_together_by_imports() -> None:
    texts = {"a/train.py": b"import helper\n" + _TEXT, "a/helper.py": _TEXT, "b/train.py": _TEXT}
    tables = Index(read([SourceFile(path, lambda text=text: text) for path, text in texts.items()]).files)  # type: ignore[misc]
    roots = tables.roots()
    assert roots[0] == roots[1] != roots[2]
