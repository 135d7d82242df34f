"""Texts of files, logs and names that a CI system would obey if its log showed them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from distcheck.cli.main import group
from distcheck.reporters import CI_COMMAND, FORMATS, escape

#: What a runner of GitHub Actions, Azure Pipelines or TeamCity takes for a command in a line of a log.
_OBEYED = re.compile(
    r"^\s*::(?:stop-commands|error|add-mask|warning|notice)(?:\s.*)?::|##(?:vso|teamcity)?\[",
    re.IGNORECASE | re.MULTILINE,
)
NAMES = (
    "##[stop-commands]x.py",
    "::stop-commands::x.py",
    "a ::error::.py",
    "##vso[task.complete result=Failed]x.py",
    "b.py",
)
SOURCE = "import os\nimport torch\n::CODE\nif os.environ['RANK'] == 0:  # ##[stop-commands]x\n    print(torch)\n"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in NAMES:
        (tmp_path / name).write_text(SOURCE.replace("::CODE", "'''\n::stop-commands::x\n'''"))
    words = "##[stop-commands]x ::stop-commands::x " * 4
    (tmp_path / "a.log").write_text(
        f'[rank0]: starting\n[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/train.py", line 3, in main\n'
        f"[rank1]: RuntimeError: CUDA error: invalid device ordinal {words}\n"
    )
    (tmp_path / "b.log").write_text(f"Traceback (most recent call last):\n::error::ValueError: {words}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize(
    "words",
    [("lint", "--isolated", "--no-cache", "-j", "1", "-v", "."), ("log", "-v", "a.log"), ("log", "-v", "b.log")],
)
@pytest.mark.usefixtures("checkout")
def test_bad_no_text_of_a_file_is_a_command(output_format: str, words: tuple[str, ...]) -> None:
    """GitHub's `##[stop-commands]` in a name hid all annotations that followed."""
    result = CliRunner().invoke(group, [*words, "--output-format", output_format])
    own = re.compile(r"^::(?:error|warning|notice) (?:file|title)=[^\n]*", re.MULTILINE)
    shown = own.sub("", result.stdout) if output_format == "github" else result.stdout
    assert not _OBEYED.search(shown + result.stderr), _OBEYED.findall(shown)
    assert result.exception is None and result.stdout


@pytest.mark.usefixtures("checkout")
def test_good_programs_read_the_same_text() -> None:
    words = ["lint", "--isolated", "--no-cache", "-j", "1", "-v", "--output-format", "json", "."]
    found = {each["where"]["path"] for each in json.loads(CliRunner().invoke(group, words).stdout)["findings"]}
    assert found >= set(NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "[::1]:29500",
        "::1",
        "c10::Error: x",
        "at ::at::Tensor",
        "## heading",
        "#[derive]",
        "##",
        "std::error::kind",
        "a::error",
    ],
)
def test_good_other_texts_stay(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize(
    "text", ["::error::", "::Error file=a::b", "::add-mask", "##[x", "##VSO[", "x##[group]", "##teamcity["]
)
def test_bad_commands_are_visible(text: str) -> None:
    assert CI_COMMAND.search(text) and not CI_COMMAND.search(escape(text))


@pytest.mark.parametrize("output_format", ["concise", "full", "github", "junit"])
def test_bad_a_failure_without_a_text_has_a_line(output_format: str, tmp_path: Path) -> None:
    """A traceback whose exception is cut off ended the formats of one line with an IndexError."""
    log = tmp_path / "a.log"
    log.write_text("Traceback (most recent call last):\n::error::ValueError: no such layer\n")
    result = CliRunner().invoke(group, ["log", "--output-format", output_format, str(log)])
    assert result.exception is None and result.stdout
