"""Texts that are made to need much time: a line of a log for each signature, a source, a notebook, a pasted message."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from distcheck.checks.launch_files.engine import read_one
from distcheck.checks.logs.matching import LONGEST_LINE, Matcher
from distcheck.checks.logs.patterns import for_python
from distcheck.checks.logs.reading import SourceReader, matcher_of, signatures
from distcheck.checks.logs.sources import LogSource
from distcheck.checks.source.divergence import collectives_reach_all_ranks
from distcheck.checks.source.engine import SourceFile, analyse
from distcheck.checks.source.notebook_uses import unused_in_notebook
from distcheck.checks.source.undivided_data import DIVIDED_BY_RANK
from distcheck.cli.explain_text import UnknownText, explain_text
from distcheck.core.package_pins import PackagePins
from distcheck.core.signature import Signature

from .attacks import attacks

#: Characters of a source: if they needed their square, it would be minutes.
SIZE = 200_000


def seconds(run: Callable[[], object]) -> float:
    """Return the least CPU time of up to three runs: the first may include imports."""
    least = float("inf")
    for _ in range(3):
        start = time.process_time()
        run()
        least = min(least, time.process_time() - start)
        if least < 0.1:
            break
    return least


@pytest.mark.sampled(every=20)
@pytest.mark.parametrize("signature", signatures(), ids=lambda signature: signature.name)
def test_no_line_of_a_log_takes_long_without_re2(signature: Signature) -> None:
    pattern = signature.pattern.encode().decode("latin-1")
    matcher = Matcher([signature], engine="re")
    for text in attacks(for_python(pattern), LONGEST_LINE):
        line = text.encode("latin-1", "replace")[:LONGEST_LINE]
        assert seconds(lambda line=line: matcher.fitting(line)) < 0.15, text[:100]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("pattern", "slow"),
    [
        (r"(?P<left>\d+)/\d+ attempts left", True),
        (r"\b(?P<left>\d{1,9})/\d{1,9} attempts left", False),
        (r"\bwandb login\s+(?:-[\w-]+\s+)*x", False),
    ],
)
def test_the_texts_are_hard_for_a_pattern_that_needs_the_square(pattern: str, slow: bool) -> None:
    compiled = re.compile(pattern)
    texts = attacks(pattern, LONGEST_LINE)
    assert any(seconds(lambda text=text: compiled.search(text)) > 0.15 for text in texts) is slow  # type: ignore[misc]


LINES = {
    "bar": f"Tokenizing: {'9' * 8000}\n",
    "bars": "1%| |x [00:01<" * 500 + "\n",
    "algorithm": f"n1:1:2 [0] NCCL INFO {'0' * 8000}\n" * 20,
}


@pytest.mark.parametrize("name", LINES)
def test_no_log_takes_long(name: str) -> None:
    waited = (
        "[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
        "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600089 milliseconds before timing out.\n"
    )
    data = (LINES[name] + waited).encode()

    def read() -> None:
        reader = SourceReader(LogSource("a.log"), matcher_of(signatures()), budget=1 << 20, tail_lines=20)
        reader.feed(data)
        reader.reading()

    assert seconds(read) < 5


#: What a project declares that it needs.
DECLARATIONS = {
    "blanks": "torch ==" + " " * SIZE,
    "tabs": "torch>=\t'" + "\t" * SIZE,
    "extras": "torch[" * (SIZE // 6),
    "names": "[torch==1" * (SIZE // 9),
    "digits": "torch==" + "9" * SIZE,
    "pip": "pip " * (SIZE // 4),
    "item": "- torch 1.8" + " " * SIZE + "x",
    "variable": "ARG A=1" + ".1" * 5000 + "\nFROM pytorch/pytorch:$A\n" + "$A " * 30_000,
    "locked": '"torch": {"a": ' * (SIZE // 15),
    "companion": "torchvision==0." + "9" * 5000,
    "tested": "tested with torch " * (SIZE // 18),
    "image": "pytorch/pytorch:1" + ".1" * (SIZE // 2),
    "channels": "channels:" + "\n- x" * (SIZE // 4),
}


@pytest.mark.parametrize("name", DECLARATIONS)
@pytest.mark.parametrize("path", ["requirements.txt", "Dockerfile", "README.md", "pyproject.toml", "Pipfile.lock"])
def test_no_requirement_takes_long(path: str, name: str, tmp_path: Path) -> None:
    (tmp_path / path).write_text(DECLARATIONS[name])
    assert seconds(lambda: PackagePins([str(tmp_path)]).of(str(tmp_path / "train.py"))) < 5


IMPORT = "import torch.distributed as dist\n"
SOURCES = {
    "comment": "#" * SIZE,
    "bare-comments": "# noqa " * (SIZE // 7),
    "empty-lines-of-python-2": f"{IMPORT}print 1\n" + "\n" * SIZE,
    "empty-lines": f"{IMPORT}x = = 1\n" + "\n" * SIZE,
    "functions": f"{IMPORT}print 1\n" + "def f(" * (SIZE // 6),
    "calls": f"{IMPORT}print 1\n" + "print(" * (SIZE // 6),
    "annotation": f"{IMPORT}print 1\na:" + " " * SIZE,
    "placeholders": f"{IMPORT}x = = " + "{{" * (SIZE // 2),
    "statements": f"{IMPORT}x = = " + ";" * SIZE,
    "condition": f"{IMPORT}if" + "\t" * 5000 + "dist.get_rank() == 0 and (\n  True):\n  dist.barrier()\n",
    "loop": f'{IMPORT}for i in range(dist.get_rank(), len("' + "a in " * (SIZE // 5) + '")): dist.all_reduce(i)\n',
}
#: Texts of functions for a pattern that finds how data are divided.
DIVIDED = ("range(rank,", "range(rank, n, ", "islice(", "[", "[ rank")


@pytest.mark.parametrize("text", DIVIDED)
def test_no_division_of_data_takes_long(text: str) -> None:
    assert seconds(lambda: DIVIDED_BY_RANK.search(text * (SIZE // len(text)))) < 5


#: Functions of a notebook: each name in it was compared with all of them.
FUNCTIONS = "".join(f"def f{i}(a):\n    return a + f{i - 1}(a)\n" for i in range(1, 4000))


@pytest.mark.slow
def test_no_notebook_of_many_functions_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = {"cell_type": "code", "source": f"{IMPORT}{FUNCTIONS}"}
    data = json.dumps({"cells": [cell], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4}).encode()
    program = analyse([SourceFile("train.ipynb", lambda: data)])
    monkeypatch.setattr(program, "texts", SimpleNamespace(answer=lambda _: ()))
    start = time.process_time()
    assert unused_in_notebook(program, 0, 1) == ("f1()", False)
    assert time.process_time() - start < 5


#: Tests of the rank below each other: each call was compared with all others, for each test above it (125: 36 s).
NESTED = "r = dist.get_rank()\nif r == 0: pass\n" + "".join(f"elif r == {i}: dist.barrier()\n" for i in range(300))


def test_no_chain_of_tests_of_the_rank_takes_long() -> None:
    data = f"{IMPORT}{NESTED}".encode()
    assert seconds(lambda: list(collectives_reach_all_ranks(analyse([SourceFile("a.py", lambda: data)])))) < 5


#: Commands of a script: a launcher is a long word, a value never ends.
SCRIPTS = {
    "version": "python" + "6" * SIZE,
    "launchers": "python" * (SIZE // 6),
    "blanks": "torchrun" + " " * SIZE + "\\",
}
CELLS = {
    "blanks": "\t" * SIZE + "x\n!ls",
    "prompt": ">>> import torch\n" + "\t" * SIZE + "x",
    "assignment": "a" + " " * SIZE + "b\n!ls",
    "words": "a " * (SIZE // 2) + "b\n!ls",
}


@pytest.mark.parametrize("name", SOURCES)
def test_no_source_takes_long(name: str) -> None:
    data = SOURCES[name].encode()
    assert seconds(lambda: analyse([SourceFile("a.py", lambda: data)])) < 5


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("path", ["run.sh", "Dockerfile", "Makefile", "README.md", ".github/workflows/train.yml"])
def test_no_launch_file_takes_long(path: str, name: str) -> None:
    before = {"Dockerfile": "RUN ", "Makefile": "all:\n\t", "README.md": "```bash\n"}.get(path, "")
    data = f"{before}{SCRIPTS[name]}\n".encode()
    assert seconds(lambda: read_one(path, data, lambda _: None)) < 5


@pytest.mark.parametrize("name", CELLS)
def test_no_notebook_takes_long(name: str) -> None:
    cell = {"cell_type": "code", "source": CELLS[name]}
    data = json.dumps({"cells": [cell], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4}).encode()
    assert seconds(lambda: analyse([SourceFile("a.ipynb", lambda: data)])) < 5


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 1_000_000,
        " " * 1_000_000,
        " " * 3_900 + "x",
        "> " * 500_000,
        "RuntimeError: " * 70_000,
        'raise ValueError("' * 50_000,
        "a-" * 500_000,
        "\x1b]" * 500_000,
        "\udc80" * 1_000_000,
        "NCCL WARN " * 100_000,
    ],
    ids=lambda text: ascii(text[:14]),
)
def test_a_megabyte_is_explained_in_seconds(text: str) -> None:
    def explain() -> None:
        with contextlib.suppress(UnknownText):
            explain_text(text)

    assert seconds(explain) < 5
