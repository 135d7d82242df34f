"""How loud a file is that can't be read: errors of the project, and files that are no Python of this version."""

from __future__ import annotations

import ast
import sys

import pytest

from distcheck.checks.source.unparsed import classify, is_distributed, is_link, is_template
from distcheck.core.model import Severity

USE = "import torch.distributed as dist\n\n\ndef main():\n    dist.init_process_group()\n\n\n"


def judged(text: str, path: str = "train.py", *, named: bool = False, version: tuple[int, int] | None = None) -> str:
    """The kind and the severity of a text that this Python can't read."""
    with pytest.raises(SyntaxError) as caught:
        ast.parse(text)
    problem = (caught.value.msg, caught.value.lineno or 1, caught.value.offset or 1)
    found = classify(path, text.encode(), problem, named=named, version=version or sys.version_info[:2])
    return f"{found.kind} {found.severity.name.lower()}"


@pytest.mark.parametrize(
    "text",
    [
        "print('rank', dist.get_rank(\n",
        "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> main\n",
        "def f(x):\nreturn x\n",
        "x = f'{1}'\nprint x\n",  # an f-string: no file of Python 2
        "template = '{% for x in y %}'\nx = = 1\n",
        "x = {'a': '${HOME}'} {\n",
    ],
)
def test_a_syntax_error_in_a_distributed_script_is_an_error(text: str) -> None:
    assert judged(USE + text) == "syntax error"
    assert judged(text) == "syntax info"
    assert judged(text, named=True) == "syntax error"


@pytest.mark.parametrize(
    "text",
    [
        "print 'rank', dist.get_rank()\n",
        "try:\n    pass\nexcept ValueError, e:\n    pass\n",
        "raise ValueError, 'x'\n",
        "x = 10L\n",
        "if 1 <> 2:\n    pass\n",
        "os.chmod(x, 0755)\n",
        "exec 'x = 1'\n",
        "if x:\n\tif y:\n        z = 1\n",
    ],
)
def test_python_2_is_no_error(text: str) -> None:
    assert judged(USE + text) == "python-2 info"
    assert judged(USE + text, named=True) == "python-2 error"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("from {{ cookiecutter.name }} import x\n", "train.py"),
        ("{% if x %}\nx = 1\n{% endif %}\n", "train.py"),
        ("x = <%= port %>\n", "train.py"),
        ("x = ${PORT}\n", "train.py"),
        ("x = @PORT@ @HOST@\n", "train.py"),
        ("path = <your path>\n", "train.py"),
        ("x = = 1\n", "{{cookiecutter.name}}/train.py"),
        ("x = = 1\n", "templates/train.py"),
    ],
)
def test_a_template_is_no_error(text: str, path: str) -> None:
    assert judged(USE + text, path) == "template info"


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("type Rank = int | None = 3\n", (3, 12)),
        ("def first[T](x: list[T]) -> T return x[0]\n", (3, 12)),
        ("x = f'{d['rank']}' = 1\n", (3, 12)),
        ("x = f\"{'\\n'.join(x)}\" = 1\n", (3, 12)),
        ("class Box[T = int] return\n", (3, 13)),
        ("x = t'{rank}' = 1\n", (3, 14)),
        ("try:\n    pass\nexcept* ValueError return\n", (3, 11)),
    ],
)
def test_newer_python_is_no_error(text: str, needs: tuple[int, int]) -> None:
    # the lines have another error, so that each Python refuses them
    assert judged(USE + text, version=(3, 10)) == "newer-python warning"
    assert judged(text, version=(3, 10)) == "newer-python info"
    with pytest.raises(SyntaxError) as caught:
        ast.parse(text)
    problem = (caught.value.msg, text.count("\n", 0, text.rindex("\n")) + 1, 1)
    assert classify("x.py", text.encode(), problem, named=False, version=(3, 10)).needs == needs
    assert classify("x.py", (USE + text).encode(), problem, named=False, version=(3, 15)).kind != "newer-python"


@pytest.mark.parametrize(
    "text", ["x = f'{rank}' = 1\n", "x = f'{{\"a\"}}' = 1\n", "x = f'{d[\"a\"]}' = 1\n", "type = 3 3\n"]
)
def test_old_syntax_is_not_new(text: str) -> None:
    assert judged(USE + text, version=(3, 10)) == "syntax error"


def test_what_is_no_source_is_no_error() -> None:
    problem = ("invalid syntax", 1, 1)
    for path, data, kind in (
        ("train.py", b"../common/distributed.py", "link"),
        ("sub/train.py", b"../../torch.distributed/train.py\n", "link"),
        ("train.py", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "lfs"),
        ("train.py", b"!pip install torch\nimport torch.distributed\n", "ipython"),
    ):
        found = classify(path, data, problem, named=False, version=(3, 11))
        assert (found.kind, found.severity) == (kind, Severity.INFO)


def test_a_notebook_is_at_most_a_warning() -> None:
    problem = ("invalid syntax", 1, 1)
    data = b'{"cells": [{"source": ["import torch.distributed"]}]}'
    assert classify("x.ipynb", data, problem, named=False, version=(3, 11)).severity is Severity.WARNING
    assert classify("x.ipynb", b'{"cells": []}', problem, named=False, version=(3, 11)).severity is Severity.INFO
    assert classify("x.ipynb", data, problem, named=True, version=(3, 11)).severity is Severity.ERROR


def test_the_failing_line_is_no_evidence() -> None:
    assert is_distributed(b"x = 1\nLOCAL_RANK = 1 1\n")
    assert not is_distributed(b"x = 1\nLOCAL_RANK = 1 1\n", 2)
    assert not is_distributed(b"low_rank = 1\nimport multiprocessing\n")
    assert not is_template("src/train.py", "x = '{{ name }}'\nx = 1 1\n", 2)
    assert not is_link(b"x = 1/2\n")
