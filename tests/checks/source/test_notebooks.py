"""Notebooks as Python source: magics are blanked, and each line knows its cell."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.source.notebooks import python_lines, to_source


def notebook(*cells: Any, **more: Any) -> bytes:
    """A notebook of code cells, given as texts, and of others, given as they are."""
    made = [{"cell_type": "code", "source": cell} if isinstance(cell, (str, list)) else cell for cell in cells]
    return json.dumps({"nbformat": 4, "cells": made, **more}).encode()


def test_cells_follow_each_other_and_lines_know_their_cell() -> None:
    found = to_source(
        notebook(
            ["import torch\n", "rank = 0"],
            {"cell_type": "markdown", "source": "# a title"},
            "if rank == 0:\n    print(rank)\n",
        )
    )
    assert found.source.splitlines() == ["import torch", "rank = 0", "if rank == 0:", "    print(rank)", ""]
    assert found.cells == ((1, 1), (1, 2), (3, 1), (3, 2), (3, 3))
    ast.parse(found.source)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("%matplotlib inline\nx = 1", ["pass", "x = 1"]),
        ("% pip install torch\nx = 1", ["pass", "x = 1"]),
        ("!pip install torch \\\n    torchvision\nx = 1", ["pass", "", "x = 1"]),
        ("if x:\n    !ls\ny = 2", ["if x:", "    pass", "y = 2"]),
        ("files = !ls *.py\nz = %env RANK", ["files = None", "z = None"]),
        ("model.fit?\n?print\nlen??", ["pass", "pass", "pass"]),
        ("%%time\nx = 1", ["", "x = 1"]),
        ("%%bash\necho $RANK\nls", ["", "", ""]),
        ("\n%%writefile train.py\nimport torch", ["", "", ""]),
        ('a = "%s" \\\n    % x', ['a = "%s" \\', "    % x"]),
        ("a = (b\n     % c)\n%time a", ["a = (b", "     % c)", "pass"]),
        ('t = """\n%cd x\n!ls\n"""\n%cd y', ['t = """', "%cd x", "!ls", '"""', "pass"]),
        ("t = 'it''s (' # [\n%cd y", ["t = 'it''s (' # [", "pass"]),
        ('t = "a\\"("\n!ls', ['t = "a\\"("', "pass"]),
        ("x = 5 % 3", ["x = 5 % 3"]),
        ("pip install torch", ["pass"]),
        ("# first\npip install -U torch \\\n  numpy\nx = 1", ["# first", "pass", "", "x = 1"]),
        ("conda install -y pytorch -c pytorch\ncd ..\nls *.py", ["pass", "pass", "pass"]),
        ("run = 1\ntime /= 2\n!ls", ["run = 1", "time /= 2", "pass"]),
        ("    x = 1\n    if x:\n        y = 2", ["x = 1", "if x:", "    y = 2"]),
        ("  !ls\n  x = 1", ["pass", "x = 1"]),
        (">>> x = 1\n>>> if x:\n...     y = 2\n", ["x = 1", "if x:", "    y = 2", ""]),
        ("%sh\nls -l | head\n", ["", "", ""]),
        ("await main()", ["await main()"]),
    ],
)
def test_what_only_ipython_understands_is_blanked(text: str, lines: list[str]) -> None:
    assert python_lines(text) == lines
    ast.parse("\n".join(lines))


def test_a_broken_cell_is_left_for_the_parser() -> None:
    found = to_source(notebook("x = 1", "def f(:"))
    with pytest.raises(SyntaxError) as caught:
        ast.parse(found.source)
    assert found.cells[(caught.value.lineno or 0) - 1] == (2, 1)


def test_another_language_has_no_python() -> None:
    assert to_source(notebook("x <- 1", metadata={"kernelspec": {"language": "R"}})).source == ""
    assert to_source(notebook("x = 1", metadata={"language_info": {"name": "python"}})).source == "x = 1\n"


def test_the_older_format_is_read() -> None:
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1\n", "y = 2"]}]}], "nbformat": 3}
    assert to_source(json.dumps(old).encode()).source == "x = 1\ny = 2\n"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no UTF-8"),
        (b"[]", "no notebook"),
        (b'{"cells": 3}', "no notebook"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_notebook_says_so(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        to_source(data)


@pytest.mark.parametrize("cell", [3, None, {"cell_type": "code"}, {"cell_type": "code", "source": [1, None, "x = 1"]}])
def test_strange_cells_break_nothing(cell: Any) -> None:
    assert to_source(json.dumps({"cells": [cell]}).encode()).source in ("", "x = 1\n")


@settings(deadline=None)
@given(st.text())
def test_any_text_keeps_its_lines(text: str) -> None:
    assert len(python_lines(text)) == text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["cells", "source", "cell_type", "metadata", "worksheets"]), inner)
        ),
    )
)
def test_any_json_is_read(plain: Any) -> None:
    try:
        found = to_source(json.dumps(plain).encode())
    except ValueError as error:
        assert "notebook" in str(error)
        return
    assert found.source.count("\n") == len(found.cells)


@pytest.mark.parametrize("text", ["time = = 1", "import x y", "git clone x", "pip = (1", "cat: dog cow", "print 1"])
def test_what_ipython_does_not_understand_is_left_to_the_parser(text: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse("\n".join(python_lines(text)))
