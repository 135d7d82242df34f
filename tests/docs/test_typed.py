"""What a document says to type can be typed: shell parses, and every command of ours has options that it takes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from distcheck.cli.main import CONTEXT, group

from .reading import ELLIPSIS, Typed, blocks, commands, documents, name_of, shell, typed

DOCUMENTS = [pytest.param(path, id=name_of(path)) for path in documents()]


def fault_of(words: tuple[str, ...]) -> str | None:
    """What is wrong with a command; None where click takes it. Values are judged where they are a choice or a number."""
    given = [word for word in words if ELLIPSIS not in word]
    if not given:
        return None
    if given[0] in ("--help", "-h", "--version"):
        return None
    command = group.get_command(click.Context(group), given[0])
    if command is None:
        return f"there is no command {given[0]!r}"
    if "--help" in given:
        return None
    context = click.Context(command, info_name=given[0], **{**CONTEXT, **command.context_settings})
    try:
        values, _, _ = command.make_parser(context).parse_args(given[1:])
        for parameter in command.params:
            value = values.get(parameter.name)
            # files need not be here, and what stands for a number (N, HOST) is no number
            if isinstance(parameter.type, click.Choice) and value not in (None, (), []):
                parameter.type_cast_value(context, value)
    except click.UsageError as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_command_of_ours_can_be_typed(path: Path) -> None:
    faults = [f"{found.place}: distcheck {' '.join(found.words)}: {fault}" for found, fault in _judged(path) if fault]
    assert not faults, "\n".join(faults)


def _judged(path: Path) -> list[tuple[Typed, str | None]]:
    return [(found, fault_of(found.words)) for found in typed(path)]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_block_of_shell_parses(path: Path) -> None:
    for block in blocks(path):
        if script := shell(block):
            ran = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=20)
            assert ran.returncode == 0 and not ran.stderr, f"{block.place}: {ran.stderr}"


def test_the_documents_are_read() -> None:
    found = {name_of(path): list(typed(path)) for path in documents()}
    assert len(found["README.md"]) > 25
    assert {item.words[0] for item in found["README.md"]} >= {
        "env",
        "lint",
        "log",
        "run",
        "pickle",
        "collective",
        "diff",
    }
    assert sum(map(len, found.values())) > 150


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("distcheck env -q", [("env", "-q")]),
        ("pip install . && distcheck env      # look", [("env",)]),
        ("kubectl logs x | distcheck log -", [("log", "-")]),
        ("torchrun … -m distcheck.collective --quick", [("collective", "--quick")]),
        ("srun -N2 distcheck env --merge -- torchrun a.py", [("env", "--merge", "--", "torchrun", "a.py")]),
        ("distcheck lint > out.txt 2>&1", [("lint",)]),
        ("pip install distcheck", []),
        ("distcheck lint && distcheck env -- torchrun a.py", [("lint",), ("env", "--", "torchrun", "a.py")]),
    ],
)
def test_commands_are_found_in_shell(script: str, expected: list[Any]) -> None:
    assert list(commands(script)) == expected


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("env", "--nproc", "8"), "--nproc"),
        (("lint", "--output-format", "jason"), "jason"),
        (("lnt",), "lnt"),
        (("collective", "--quik"), "--quik"),
    ],
)
def test_what_can_not_be_typed_is_named(words: tuple[str, ...], what: str) -> None:
    assert what in (fault_of(words) or "")


@pytest.mark.parametrize("words", [("env", "--", "torchrun", "--nproc", "8"), ("env", "…"), ("lint", "--statistics")])
def test_what_can_be_typed_is_left_alone(words: tuple[str, ...]) -> None:
    assert fault_of(words) is None
