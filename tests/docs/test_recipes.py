"""The recipes are right by our own standards: the linter accepts what they tell people to type, each text leads to the rule that
stands beside it, and each launch that they show can be judged."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from distcheck import rules
from distcheck.cli.main import group
from distcheck.launch.command import parse_command

from .documents import DOCS, ROOT
from .reading import ELLIPSIS, documents, name_of, typed

RECIPES = sorted((DOCS / "recipes").glob("*.md"))
WITH_LAUNCHES = [*RECIPES, ROOT / "README.md"]
#: Texts that people see which are no message of a library: words around them say what happens.
NO_MESSAGES = {"OOMKilled", "cuda:3", "ncclRemoteError", "unrecognized arguments"}


def lint(*arguments: str) -> tuple[int, str]:
    """Status and output."""
    words = ["lint", "--isolated", "--no-cache", "--output-format", "concise", *arguments]
    result = CliRunner().invoke(group, words, standalone_mode=False, catch_exceptions=False)
    return result.return_value, result.output


@pytest.mark.parametrize("path", [*WITH_LAUNCHES, ROOT / "README.zh.md", *sorted(DOCS.glob("*.md"))], ids=name_of)
def test_the_linter_accepts_what_is_typed(path: Path) -> None:
    status, output = lint(str(path))
    assert status == 0, output


def test_the_linter_reads_the_shell_of_documents() -> None:
    status, output = lint(str(DOCS / "stories" / "two-machines.md"))
    assert status == 1
    assert "DC419" in output


@pytest.mark.parametrize("path", sorted((DOCS / "recipes" / "files").rglob("fixed")), ids=lambda path: path.parent.name)
def test_what_is_fixed_has_no_finding(path: Path) -> None:
    assert lint(str(path))[0] == 0
    assert lint(str(path.parent), "--extend-exclude", "fixed")[0] == 1


def rows(path: Path) -> Iterator[tuple[str, str]]:
    """The texts of a table's first column, and the first rule that its second one names."""
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and (code := re.match(r"DC\d{3}\b", cells[1])):
            for text in re.findall(r"`([^`]+)`", cells[0]):
                yield text, code[0]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(text, code, id=f"{path.stem}: {text}")
        for path in RECIPES
        for text, code in rows(path)
        if text not in NO_MESSAGES
    ],
)
def test_a_text_leads_to_the_rule_beside_it(text: str, code: str) -> None:
    result = CliRunner().invoke(group, ["explain", text])
    assert code in result.output, f"{text}: {result.output}"


def what_is_read() -> list[Any]:
    """The rows of the table of frameworks: the name, and the cells of env, lint and log."""
    text = (DOCS / "recipes" / "frameworks.md").read_text(encoding="utf-8")
    table = text.partition("## What distcheck reads")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    return [pytest.param(name, *cells, id=name) for name, _, *cells in rows[2:]]


def codes(text: str) -> set[str]:
    return set(re.findall(r"\bDC\d{3}\b", text))


def test_the_table_of_frameworks_has_six_of_them() -> None:
    assert len(what_is_read()) == 6


@pytest.mark.parametrize(("name", "env", "lint_reads", "log_reads"), what_is_read())
def test_what_is_read_of_a_framework_is_found_in_its_files(
    name: str, env: str, lint_reads: str, log_reads: str
) -> None:
    folder = DOCS / "recipes" / "files" / name.lower()
    assert codes(lint_reads) and codes(log_reads)
    assert codes(lint_reads) <= codes(lint(str(folder), "-v", "--extend-exclude", "fixed")[1])
    found = CliRunner().invoke(group, ["log", "--output-format", "concise", str(folder / "run.log")])
    assert codes(log_reads) <= codes(found.output), found.output
    command = re.search(r"`([^`]+)`: DC", env)
    assert (command is not None) is bool(codes(env))
    if command is not None:
        words = [sys.executable, "tools/recorded_host.py", "a100-pcie", "env", "--output-format", "concise", "--"]
        ran = subprocess.run([*words, *shlex.split(command[1])], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert codes(env) <= codes(ran.stdout), ran.stderr
        assert ran.returncode == 1


@pytest.mark.parametrize(
    "command",
    ["ray job submit -- torchrun --nproc-per-node=8 train.py", "torchx run -s slurm dist.ddp -j 1x8 --script train.py"],
)
def test_a_job_that_is_submitted_is_not_compared_with_this_host(command: str) -> None:
    words = [sys.executable, "tools/recorded_host.py", "a100-pcie", "env", "--output-format", "concise", "--"]
    ran = subprocess.run([*words, *shlex.split(command)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, codes(ran.stdout)) == (0, set()), ran.stdout


def exact_texts() -> list[str]:
    """The first column of the README's table of messages."""
    text = (
        (ROOT / "README.md")
        .read_text(encoding="utf-8")
        .partition("## The message that you have")[2]
        .partition("## ")[0]
    )
    first = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    return [found for cell in first for found in re.findall(r"`([^`]+)`", cell) if found != "init_process_group"]


def test_the_readme_has_a_dozen_texts() -> None:
    assert len(exact_texts()) >= 12


@pytest.mark.parametrize("text", exact_texts())
def test_the_readmes_texts_are_known(text: str) -> None:
    result = CliRunner().invoke(group, ["explain", text])
    assert result.exit_code == 0, result.output


def launches() -> list[Any]:
    """What the documents give to ``distcheck env --``, ``ci --`` and ``run --``."""
    found = []
    for path in WITH_LAUNCHES:
        for item in typed(path):
            if "--" in item.words and not any(ELLIPSIS in word for word in item.words):
                command = item.words[item.words.index("--") + 1 :]
                found.append(pytest.param(command, id=f"{item.place} {' '.join(command)}"))
    return found


@pytest.mark.parametrize("command", launches())
def test_every_launch_is_understood(command: tuple[str, ...]) -> None:
    parsed = parse_command(list(command), {})
    assert parsed is not None
    assert not getattr(parsed, "problems", ()), parsed


def test_every_code_that_a_document_names_is_a_rule() -> None:
    known = set(rules.known())
    for path in documents():
        text = path.read_text(encoding="utf-8")
        unknown = set(re.findall(r"\bDC\d{3}\b", text)) - known
        assert not unknown, f"{name_of(path)}: {unknown}"


def test_codes_and_names_stand_together_rightly() -> None:
    for path in documents():
        for code, name in re.findall(r"\b(DC\d{3}) ([a-z]+(?:-[a-z0-9]+)+)\b", path.read_text(encoding="utf-8")):
            rule = rules.known().get(code)
            if rule is not None and any(known.name == name for known in rules.known().values()):
                assert rule.name == name, f"{name_of(path)}: {code} is {rule.name}"
