"""What tests need of a machine, and what a run reports when a test hangs.

Tests are skipped by mark, with the reason, where the machine lacks something. A test that runs out of time fails with
the stacks of the processes that it started, and these don't outlive it.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest

# how long an example takes says more of the machine than of what is tested; benchmarks/ measure. CI draws the same
# examples in each run, so that chance fails no change; every other run draws new ones
hypothesis.settings.register_profile("untimed", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("untimed")

# the cache of lint is in the user's cache folder: tests have one of their own, which ends with them
_caches = tempfile.TemporaryDirectory(prefix="distcheck-tests-")
os.environ["XDG_CACHE_HOME"] = _caches.name


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that makes a run short on one more Python."""
    parser.addoption(
        "--cases",
        type=int,
        metavar="N",
        help="of a function with more than N cases run N, evenly spaced [default: all]",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make pytest-rerunfailures quick under xdist: for each test it asks the first process over a socket.

    It sends two short messages in a row, of which the second waits for an acknowledgement of the first: 40 ms a test.
    """
    asked = getattr(getattr(config, "failures_db", None), "sock", None)
    if asked is not None:
        asked.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _restore_signals()


def _restore_signals() -> None:
    """Take the default for signals that a parent ignores (`nohup`, `&` in a script): processes inherit that, and tests send them."""
    for number, default in (
        (signal.SIGINT, signal.default_int_handler),
        (getattr(signal, "SIGHUP", None), signal.SIG_DFL),
    ):
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that use none of the marks of ``-m "(A or B) and …"``: importing all of them takes a minute."""
    asked = re.match(r"\((\w+(?: or \w+)*)\) and ", config.option.markexpr)
    if asked is None or collection_path.suffix != ".py" or asked[1].split(" or ") != list(_WRITTEN):
        return None
    return not _marks_written_in(collection_path) or None


#: Marks of which a file that uses them has the name; the runs of tox that want them import no other file.
_WRITTEN = ("torch", "numpy", "slow", "netns")


@functools.cache
def _marks_written_in(path: Path) -> frozenset[str]:
    """Return those of the marks whose names a test file has."""
    return frozenset(re.findall(rf"\bmark\.({'|'.join(_WRITTEN)})\b", path.read_text(encoding="utf-8")))


#: How pytest-timeout limits a test: it starts its timer once, and a test that is run again needs another.
TIMEOUT = pytest.StashKey[Any]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the timer of a test that is run again."""
    if getattr(item, "execution_count", 1) > 1 and TIMEOUT in item.stash:
        item.ihook.pytest_timeout_set_timer(item=item, settings=item.stash[TIMEOUT])


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Add the stacks of child processes to the report of a test that runs out of time; its own stack is the failure."""
    item.stash[TIMEOUT] = settings
    result = yield
    fail = signal.getsignal(signal.SIGALRM) if settings.method == "signal" else None
    if callable(fail):

        def report_first(number: int, frame: Any) -> None:
            item.add_report_section("call", "stacks of child processes", stacks_of_children())
            fail(number, frame)

        signal.signal(signal.SIGALRM, report_first)
    return result


def stacks_of_children() -> str:
    """Return the stacks of each process below this one, read by py-spy and, where it is installed, by gdb."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())[:200]
        except psutil.Error:
            continue
        dump = subprocess.run(
            ["py-spy", "dump", "--nonblocking", "--pid", str(process.pid)],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        found.append(f"process {process.pid}: {command}\n{dump.stdout or dump.stderr}")
        if shutil.which("gdb"):  # threads of torch, gloo and the store
            threads = subprocess.run(
                ["gdb", "--batch", "-p", str(process.pid), "-ex", "thread apply all backtrace 25"],
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            found.append(threads.stdout)
    return "\n".join(found) or "no child process runs"


@pytest.fixture(autouse=True, scope="session")
def _children_end_with_a_failed_test() -> Generator[None, None, None]:
    """End the process of a `with Popen(…)` whose body failed: leaving the block waits for it, longer than any time-out."""
    leave = subprocess.Popen.__exit__

    def kill_first(self: subprocess.Popen[bytes], kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, (AssertionError, pytest.fail.Exception)):
            self.kill()
        leave(self, kind, error, trace)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__exit__", kill_first)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip by mark, with the reason; in CI the run with torch must not be skipped. Leave what isn't sampled to the full run."""
    if (most := config.getoption("cases")) is not None:
        chosen = set(_spaced(items, most))
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    seen: Counter[str] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is not None:
            function = item.nodeid.partition("[")[0]
            if seen[function] % sampled.kwargs["every"]:
                item.add_marker(pytest.mark.full)
            seen[function] += 1
    reasons = {
        "torch": _no_torch(),
        "netns": _no_namespaces(items),
        "root": None if hasattr(os, "geteuid") and os.geteuid() == 0 else "needs root",
        "gpu": _no_gpu(),
    }
    for item in items:
        for mark in item.iter_markers():
            if mark.name in _WRITTEN and mark.name not in _marks_written_in(item.path):
                raise pytest.UsageError(f"{item.nodeid}: runs that want mark.{mark.name} do not find its file")
        for mark, reason in reasons.items():
            if reason is not None and item.get_closest_marker(mark) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Take thousands of collected tests out of the garbage collector's rounds, of which pytest itself starts many."""
    gc.freeze()


def _no_torch() -> str | None:
    if importlib.util.find_spec("torch") is not None:
        return None
    if os.environ.get("TOX_ENV_NAME") in ("torch", "quiet"):
        raise pytest.UsageError("this run must have torch, and torch is not installed")
    return "torch is not installed for this Python (its CPU build is for CPython 3.11)"


def _no_namespaces(items: list[pytest.Item]) -> str | None:
    if not any(item.get_closest_marker("netns") for item in items):
        return None
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    program = shutil.which("ip")
    if program is None:
        return "network namespaces need iproute2"
    name = f"distcheck-probe-{os.getpid()}"
    made = subprocess.run([program, "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made here: {made.stderr.strip()}"
    subprocess.run([program, "netns", "del", name], capture_output=True, check=False)
    return None


def _no_gpu() -> str | None:
    return None if os.path.exists("/dev/nvidiactl") else "no NVIDIA GPU here"


def _spaced(items: list[pytest.Item], most: int) -> list[pytest.Item]:
    """Return the tests of each function, at most some of its cases: the first one, and others at equal distances."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [
        cases[number * len(cases) // taken]
        for cases in functions.values()
        for taken in [min(most, len(cases))]
        for number in range(taken)
    ]
