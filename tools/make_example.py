"""Makes the examples of the documents: what they show is what happened when this ran.

    python tools/make_example.py [FILE.md …]   makes them (all documents without a name)
    python tools/make_example.py --all         writes those as well that are current, for the seconds that they took
    python tools/make_example.py --check       changes nothing; 1 where a document shows something else

An example is a fenced block between two comments. Lines that begin with ``$`` are its commands; they are run, and what
they print is put below each::

    <!-- example: in=docs/stories/files/ema status=1 -->
    ```console
    $ distcheck lint train.py
    ```
    <!-- end of example -->

========== ==============================================================================================
word       what it does
========== ==============================================================================================
in=FOLDER  run in a copy of this folder (else in an empty one), as ``/home/you/FOLDER``
status=N,M how each command ends; 0 where nothing is said. A command that ends otherwise is a fault
before=P   Python runs this file of the folder first, and nothing of it is shown
host=NAME  ``distcheck env`` looks at the machine ``tests/hosts/NAME`` (``tools/recorded_host.py``)
set=A=B    a variable for the commands; may stand several times
torch      needs torch: made, and compared, only by a Python that has it
vary       numbers differ from run to run and from machine to machine: they are not compared
file=PATH  no commands: the block shows this file; ``lines=3-9`` only those
========== ==============================================================================================

Seconds, dates, process numbers, addresses in memory and the version of distcheck are never compared; where nothing else
differs, what stands in the document stays.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
#: What the folder of an example is called in its output; the real one is temporary.
HOME = "/home/you"
_EXAMPLE = re.compile(
    r"^<!-- example:(?P<words>[^\n]*?) -->\n```[^\n]*\n(?P<body>.*?)^```\n<!-- end of example -->",
    re.MULTILINE | re.DOTALL,
)
_WORDS = ("in", "status", "before", "host", "set", "torch", "vary", "file", "lines")
#: What differs from run to run, and what stands for it where two outputs are compared.
_UNSETTLED = (
    (re.compile(r"\b\d+(\.\d+)?(e-\d+)? (s|ms|µs|seconds)\b"), "0 s"),
    (re.compile(r"\belapsed s \d+(\.\d+)?"), "elapsed s 0"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d([.,]\d+)?"), "DATE"),
    (re.compile(r"\b[WIEF]\d{4} \d\d:\d\d:\d\d\.\d+ \d+"), "DATE"),
    (re.compile(r"\b(pid|PID|process)(:? ?)\d+"), "PID"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x0"),
)
_LIMIT_S = 120


class Example(NamedTuple):
    """One example of a document: where its body stands (as offsets), its words, the body."""

    begin: int
    end: int
    words: tuple[tuple[str, str], ...]
    body: str

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a word."""
        return tuple(value for key, value in self.words if key == name)

    def word(self, name: str) -> str:
        """Return the value of a word; empty if it is absent."""
        return (self.all(name) or ("",))[-1]

    def has(self, name: str) -> bool:
        """Whether the word stands there at all."""
        return any(key == name for key, _ in self.words)


class ExampleError(Exception):
    """An example that can't be made; the message has the reason."""


def examples(text: str) -> list[Example]:
    """The examples of a document, in order."""
    found = []
    for match in _EXAMPLE.finditer(text):
        words = tuple((key, value) for key, _, value in (word.partition("=") for word in shlex.split(match["words"])))
        if unknown := [key for key, _ in words if key not in _WORDS]:
            raise ExampleError(f"unknown word {unknown[0]!r} in: example: {match['words']}")
        found.append(Example(match.start("body"), match.end("body"), words, match["body"]))
    if len(found) != text.count("<!-- example:"):
        raise ExampleError("an example has no fenced block, or no '<!-- end of example -->' behind it")
    return found


def commands(body: str) -> list[str]:
    """The commands of a block: its lines behind ``$``, with the lines behind ``>`` that continue them."""
    found: list[str] = []
    continued = False
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif continued and line.startswith("> "):
            found[-1] += "\n" + line[2:]
        else:
            continued = False
            continue
        continued = line.endswith("\\")
    return found


def has_torch() -> bool:
    """Whether this Python can make the examples that need torch."""
    return importlib.util.find_spec("torch") is not None


def made(example: Example) -> str:
    """Return the body of the example, run again.

    :raises ExampleError: the exit status differs from the example's
    """
    if example.has("file"):
        return shown_file(example.word("file"), example.word("lines"))
    folder, before, host, status = (example.word(name) for name in ("in", "before", "host", "status"))
    # what a document shows is the processor's, also where this is made on a machine with GPUs
    hidden = ("CUDA_VISIBLE_DEVICES=",) if example.has("torch") else ()
    return session(tuple(commands(example.body)), folder, before, host, status, hidden + example.all("set"))


def shown_file(path: str, lines: str) -> str:
    """A file of the project, or some lines of it."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if not lines:
        return text
    first, _, last = lines.partition("-")
    return "".join(text.splitlines(keepends=True)[int(first) - 1 : int(last or first)])


@cache
def session(lines: tuple[str, ...], folder: str, before: str, host: str, status: str, settings: tuple[str, ...]) -> str:
    """What a shell shows that is given these commands, one after another; the same session is run once."""
    expected = [int(number) for number in status.split(",")] if status else [0]
    expected += expected[-1:] * (len(lines) - len(expected)) if len(expected) == 1 else []
    if not lines or len(expected) != len(lines):
        raise ExampleError(f"{len(lines)} commands, and {len(expected)} statuses: {lines}")
    with tempfile.TemporaryDirectory() as temporary:
        here = Path(temporary, Path(folder).name or "job")
        if folder:
            shutil.copytree(ROOT / folder, here)
        else:
            here.mkdir()
        environ = environment(Path(temporary), host, settings)
        if before:
            subprocess.run([sys.executable, before], cwd=here, env=environ, check=True, timeout=_LIMIT_S)
        parts = []
        for line, wanted in zip(lines, expected, strict=True):
            ran = subprocess.run(
                ["bash", "-c", line],
                cwd=here,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_LIMIT_S,
                check=False,
            )
            output = normalized(ran.stdout, temporary)
            if ran.returncode != wanted:
                raise ExampleError(f"'{line}' ended with {ran.returncode} and not with {wanted}:\n{output}")
            if re.search(r"^(\$ |```)", output, re.MULTILINE):
                raise ExampleError(f"'{line}' prints what a document would take for a command or a fence:\n{output}")
            typed = "$ " + line.replace("\n", "\n> ") + "\n"
            parts.append(typed + output + ("\n" if output and not output.endswith("\n") else ""))
    return "\n".join(parts) if any("\n" in part.rstrip("\n") for part in parts) else "".join(parts)


def environment(temporary: Path, host: str, settings: Sequence[str]) -> dict[str, str]:
    """The variables of an example: the tools under the names that a reader types, and nothing of this machine."""
    tools = temporary / ".tools"
    tools.mkdir()
    python = shlex.quote(sys.executable)
    recorded = f"{python} {shlex.quote(str(ROOT / 'tools' / 'recorded_host.py'))} {shlex.quote(host)}"
    programs = {
        "distcheck": recorded if host else f"{python} -m distcheck",
        "python": python,
        "torchrun": f"{python} -m torch.distributed.run",
    }
    for name, program in programs.items():
        path = tools / name
        path.write_text(f'#!/bin/sh\nexec {program} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    # ``set=PYTHONPATH=../.site``: distcheck as pip installs it from a commit, without a checkout that CI can't reach
    metadata = temporary / ".site" / "distcheck.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: distcheck\nVersion: 0\n", encoding="utf-8")
    origin = {"url": "https://github.com/distcheck/distcheck", "vcs_info": {"vcs": "git", "commit_id": "COMMIT"}}
    metadata.with_name("direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    (temporary / ".site" / "distcheck").symlink_to(ROOT / "distcheck")
    environ = {
        "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(temporary),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        # torch's warnings about what this machine lacks are no part of any story
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    return environ | dict(setting.split("=", 1) for setting in settings)


def normalized(output: str, temporary: str) -> str:
    """An output as a reader would see it: without the folders of this run."""
    output = output.replace(os.path.realpath(temporary), HOME).replace(temporary, HOME)
    output = re.sub(r"[^\s\"']*/(site-packages|dist-packages)/", "…/", output)
    output = re.sub(rf"[^\s\"']*/lib/python{sys.version_info[0]}\.\d+/", "…/", output)
    return re.sub(r"[ \t]+$", "", output.replace(str(ROOT), "…"), flags=re.MULTILINE)


def settled(text: str, example: Example) -> str:
    """An output without what differs from run to run."""
    for pattern, instead in _UNSETTLED:
        text = pattern.sub(instead, text)
    if example.has("vary"):
        text = re.sub(r"[─-]+", " ", re.sub(r"\d+(\.\d+)?", "0", text))
    # a time that is longer by a digit moves the end of its line
    return re.sub(r"\s+", " ", text) if example.has("vary") or example.has("torch") else text


def remade(text: str, *, with_torch: bool, every: bool = False) -> tuple[str, list[str], int]:
    """A document with its examples regenerated; the commands whose example was not current; how many were skipped.

    :param every: count an example as not current whenever a character differs
    """
    found = examples(text)
    mine = [example for example in found if with_torch or not example.has("torch")]
    stale = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        bodies = list(pool.map(made, mine))
    for example, body in reversed(list(zip(mine, bodies, strict=True))):
        if body != example.body and (every or settled(body, example) != settled(example.body, example)):
            stale.append(example.word("file") or commands(example.body)[0])
            text = text[: example.begin] + body + text[example.end :]
    return text, stale[::-1], len(found) - len(mine)


def documents() -> Iterator[Path]:
    """Every document of the project."""
    yield from sorted(ROOT.glob("README*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def main(arguments: Sequence[str]) -> int:
    """Write or compare."""
    check = "--check" in arguments
    every = "--all" in arguments
    named = [Path(word).resolve() for word in arguments if not word.startswith("--")]
    left_out = 0
    status = 0
    for path in named or documents():
        try:
            text, stale, skipped = remade(path.read_text(encoding="utf-8"), with_torch=has_torch(), every=every)
        except ExampleError as fault:
            print(f"{path.name}: {fault}", file=sys.stderr)
            status = 1
            continue
        left_out += skipped
        if stale and check:
            print(f"{path.name}: not what happens: {'; '.join(stale)}; run tools/make_example.py", file=sys.stderr)
            status = 1
        elif stale:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name}: made {len(stale)}")
    if left_out:
        print(f"{left_out} examples need torch, and were left as they are", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
