"""Every file of the corpus gets the verdict that was written down for it, and nothing of it is imported, called or run."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import distcheck

from . import corpus
from .corpus import Case

CASES = corpus.every()
#: What a scanner has no reason to do: start something, connect to something, find what a pickle names.
FORBIDDEN = (
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.startfile", "os.remove", "os.rename",
    "os.mkdir", "os.rmdir", "os.chmod", "os.putenv", "os.unsetenv", "os.kill", "subprocess.Popen", "socket.", "pty.spawn",
    "pickle.find_class", "ctypes.", "webbrowser.open", "urllib.Request", "ftplib.", "smtplib.", "code.__new__", "builtins.input",
    "shutil.", "tempfile.", "sqlite3.", "mmap.__new__", "signal.pthread_kill", "sys._current_frames", "sys.settrace",
)  # fmt: skip
#: Modules that unpacking needs.
UNPACKERS = {
    "zlib",
    "bz2",
    "_bz2",
    "lzma",
    "_lzma",
    "_compression",
    "gzip",
    "compression",
    "_zstd",
    "json",
    "encodings",
    "struct",
}

_seen: list[str] = []
_watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what a scan does that it should not do. A hook can't be taken away, so it is told when to look."""
    if not _watching:
        return
    if event.startswith(FORBIDDEN):
        _seen.append(f"{event} {arguments!r:.200}")
    elif event == "import":
        first = str(arguments[0]).partition(".")[0]
        if first != "distcheck" and first not in UNPACKERS:
            _seen.append(f"import of {arguments[0]}")
    elif event == "open":
        path, mode, flags = arguments
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
            _seen.append(f"open of {path} for writing")


sys.addaudithook(_watch)


@contextmanager
def watched() -> Iterator[None]:
    """Fail if anything in the block does what only a payload would do."""
    global _watching
    _seen.clear()
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    _watching = True
    try:
        yield
    finally:
        _watching = False
        sys.dont_write_bytecode = kept
    assert not _seen


@pytest.fixture(scope="module", autouse=True)
def _modules_of_the_scanner_itself() -> None:
    """What the scanner imports for itself, it imports before we look."""
    for case in (corpus.dangerous()[0], corpus.benign()[-1], corpus.malformed()[0]):
        distcheck.scan_pickle(case.make())


def test_the_watch_sees(tmp_path: Path) -> None:
    with pytest.raises(AssertionError), watched():
        (tmp_path / "written").write_text("x")
    with pytest.raises(AssertionError), watched(), suppress(ImportError):
        __import__("antigravity_is_nowhere")
    with pytest.raises(AssertionError), watched():
        pickle.loads(b"cmath\nsqrt\n.")  # ours, and harmless


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    counts = {
        "dangerous": len(corpus.dangerous()),
        "benign": len(corpus.benign()),
        "malformed": len(corpus.malformed()),
    }
    assert counts["dangerous"] >= 700
    assert counts["benign"] >= 180
    assert counts["malformed"] >= 100
    assert not [name for name, count in Counter(case.name for case in corpus.dangerous()).items() if count > 1]


#: Findings that a word brings with it, and those that it rules out.
BRINGS = {"dangerous": "DC610", "malformed": "DC612"}
CALM = {"safe", "needs-allow-listing"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict(case: Case) -> None:
    content = case.make()
    with watched():
        report = distcheck.scan_pickle(content)
    codes = {finding.code for finding in report.findings}
    assert report.verdict in case.words, report.sentence
    if case.weights_only is not None:
        assert report.weights_only == case.weights_only, report.why
    assert set(case.codes) <= codes
    if report.verdict in BRINGS:
        assert BRINGS[report.verdict] in codes
    if report.verdict == "safe":
        assert codes <= set(case.codes), [str(finding) for finding in report.findings]
    if report.verdict in CALM:
        assert not codes & set(BRINGS.values())
    assert not [code for code in codes if code.startswith("DC9")]
    printed = str(report)
    assert all(char.isprintable() or char in "\n " for char in printed), "something unescaped is printed"
    json.dumps(report.as_dict())


def test_the_command_line(tmp_path: Path) -> None:
    """The same verdicts for files under names that say nothing, or lie; all of them in one run."""
    endings = (".pt", ".txt", ".safetensors", ".bin", "", ".npy", ".md")
    chosen = [*CASES[::40], *corpus.benign()[::9], *corpus.malformed()[::9]]
    chosen = list({case.name: case for case in chosen}.values())
    paths = []
    for number, case in enumerate(chosen):
        paths.append(tmp_path / f"{number:03}{endings[number % len(endings)]}")
        paths[-1].write_bytes(case.make())
    command = [sys.executable, "-m", "distcheck", "pickle", "--output-format", "json", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[3])
    assert done.returncode == 1, done.stderr
    rows = {Path(row["path"]).name: row["verdict"] for row in json.loads(done.stdout)["subject"]["verdicts"]}
    wrong = {
        case.name: rows.get(path.name)
        for case, path in zip(chosen, paths, strict=True)
        if rows.get(path.name) not in case.words
    }
    assert not wrong


@pytest.mark.parametrize(("word", "status"), [("safe", 0), ("dangerous", 1), ("malformed", 1)])
def test_the_exit_status(word: str, status: int, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.words == (word,) and not case.codes)
    (tmp_path / "file").write_bytes(case.make())
    command = [sys.executable, "-m", "distcheck", "pickle", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[3])
    assert done.returncode == status, done.stdout + done.stderr
    assert word in done.stdout


@pytest.mark.torch
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.weights_only is not None and "dangerous" not in case.words],
    ids=lambda case: case.name,
)
def test_the_labels_are_true(case: Case, tmp_path: Path) -> None:
    """What the table says of torch is what torch does. Only files that are known to be harmless are given to it."""
    import torch

    path = tmp_path / "file"
    path.write_bytes(case.make())
    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # noqa: BLE001 - whatever it says, it refuses
        accepted = False
    else:
        accepted = True
    assert accepted == (case.weights_only == "accept")
