"""The entry point of ``distcheck env --profile prolog``: at most 5 seconds, one line on standard error, fails open.

A scheduler drains a node if its prolog exits with any status but 0. So the checks run in a child process, and this
process keeps the time. It imports only the standard library, and never waits for an unresponsive process. The checks
are in :mod:`.prolog_check`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NoReturn

from .prolog_words import LIMIT_S, NAME, NOT_CHECKED, PrologOptions, one_line

#: Seconds of the limit that are reserved for the line and the exit, and before that for judging the facts.
_TO_END_S = 0.5
_TO_JUDGE_S = 0.5
#: Seconds between two checks whether the child has exited.
_BEAT_S = 0.02
#: An age of this process above this many seconds is wrong: gVisor reports 0 as the start of each process.
_ODD_AGE_S = 60.0
#: Signals that a scheduler or an administrator sends.
_ENDING_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
_TAKEN = "--ignore, --must-check, --timeout, --config or --isolated"


class Misused(Exception):  # noqa: N818 - what the caller typed
    """The command line is not valid; the text names the error and what was expected."""


class _PrologSignalled(BaseException):
    """A signal that ends this process."""


def is_prolog(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether a command line is for this module, even if the rest of it is wrong.

    So is ``--profile Prologue``: it means the prolog, and a usage error would drain the node.
    ``tools/one_file_main.py`` has the same function for Pythons that are too old for this module.
    """
    own = list(words[: words.index("--")] if "--" in words else words)
    if "env" not in own:
        return False
    values = [word.partition("=")[2] for word in own if word.startswith("--profile=")]
    values += [value for word, value in pairwise(own) if word == "--profile"]
    if not values:
        values = [environ.get("DISTCHECK_ENV_PROFILE", "")]
    return any(value.lower().startswith("prol") for value in values)


def main(words: Sequence[str]) -> NoReturn:
    """Run the check and end the process."""
    status = 0
    try:
        status = run(words, process_age_s())
    finally:
        # the interpreter's shutdown must not hang
        os._exit(status)


def run(words: Sequence[str], spent_s: float = 0.0) -> int:
    """Check this node, print one line, and return the exit status: 1 only for rules that drain a node.

    With ``--must-check`` it is 1 also if such a rule was not checked, because the driver does not answer.

    :param words: the command line after ``distcheck``
    :param spent_s: seconds of the limit that this process has already used
    """
    start = time.monotonic() - spent_s
    before: dict[int, Any] = {}
    child = 0
    try:
        _open_what_is_closed()
        if not hasattr(os, "fork"):
            raise Misused(f"{sys.platform} has no fork, and nothing else keeps the time limit")
        for name in _ENDING_SIGNALS:
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _end)
        options = read(words)
        deadline = start + options.limit_s - min(_TO_END_S, options.limit_s / 4)
        if time.monotonic() >= deadline:
            return _open_end(f"Python took {time.monotonic() - start:.1f} s to start")
        # a signal between the fork and the next line would leave an unknown child
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, before)
        child, pipe = _fork(options, deadline - min(_TO_JUDGE_S, options.limit_s / 4), blocked)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        status, line = _answer(child, pipe, deadline)
        say(line, deadline + _TO_END_S / 2)
        return status
    except Misused as error:
        return _open_end(str(error))
    except _PrologSignalled as error:
        return _open_end(f"ended by {error}")
    except Exception as error:  # noqa: BLE001 - an error of distcheck must not drain the node
        return _open_end(_text(error))
    finally:
        if child:
            _leave(child)
        for number, handler in before.items():
            signal.signal(number, handler)


def read(words: Sequence[str]) -> PrologOptions:
    """Return the options, parsed without click, which may not import; raises Misused."""
    options = PrologOptions()
    rest = list(words)
    rest.remove("env")
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name == "--isolated" and not equals:
            options = options._replace(isolated=True)
            continue
        if name not in ("--profile", "--ignore", "--must-check", "--timeout", "--config"):
            raise Misused(f"{word[:30]!r} is no option; expected {_TAKEN}")
        if not equals:
            if not rest:
                raise Misused(f"{name} needs a value")
            value = rest.pop(0)
        if name == "--profile" and value != "prolog":
            raise Misused(f"there is no profile {value[:20]!r}; expected prolog")
        if name == "--ignore":
            options = options._replace(ignore=(*options.ignore, value))
        elif name == "--must-check":
            options = options._replace(must_check=(*options.must_check, value))
        elif name == "--config":
            options = options._replace(config=value)
        elif name == "--timeout":
            options = options._replace(limit_s=_seconds(value))
    return options


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise Misused(f"--timeout is {text[:20]!r}; expected seconds, at most {LIMIT_S:g}") from None
    if not seconds > 0:
        raise Misused(f"--timeout is {text[:20]!r}; expected more than 0 seconds")
    return min(seconds, LIMIT_S)


def say(line: str, until: float) -> None:
    """Print a line on standard error, if it can be written before ``until`` (monotonic seconds)."""
    text = one_line(NAME + line) + "\n"
    # a full pipe would block forever
    with suppress(OSError, ValueError):
        _, ready, _ = select.select([], [2], [], max(0.0, until - time.monotonic()))
        if ready:
            os.write(2, text.encode("ascii"))


def process_age_s() -> float:
    """Return the seconds since this process was started; 0 if unknown."""
    try:
        with open("/proc/self/stat", "rb") as file:
            # field 22 (proc(5)), counted after the program's name, which may hold blanks
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age if 0 < age < _ODD_AGE_S else 0.0


def _open_end(why: str) -> int:
    """Print that the node was not checked, and return 0, so that the job continues."""
    say(f"{NOT_CHECKED}: {why}", time.monotonic() + _TO_END_S / 2)
    return 0


def _open_what_is_closed() -> None:
    """Open closed standard streams, so that no pipe gets the descriptor of one."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            nowhere = _nowhere()
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)


def _nowhere() -> int:
    """Return a null stream, or a closed pipe if a minimal container has no /dev/null."""
    try:
        return os.open(os.devnull, os.O_RDWR)
    except OSError:
        read_end, write_end = os.pipe()
        os.close(read_end)
        return write_end


def _fork(options: PrologOptions, until: float, signals: set[int]) -> tuple[int, int]:
    """Fork the child that checks the node. Return its process ID and the pipe of its answer."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(options, until, write_end, signals)
    os.close(write_end)
    with suppress(OSError):  # the child may have done so already
        os.setpgid(child, child)
    return child, read_end


def _be_the_child(options: PrologOptions, until: float, pipe: int, signals: set[int]) -> NoReturn:
    """Check the node and answer. All output is dropped, and a hung process holds no stream open."""
    answer = f"0{NOT_CHECKED}: it ended without an answer"
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        for name in _ENDING_SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        signal.alarm(int(LIMIT_S) + 1)  # in case the parent has exited
        nowhere = _nowhere()
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        if options.config is not None:
            options = options._replace(config=os.path.abspath(options.config))
        os.chdir("/")  # the working folder may be removed, or belong to a user
        from .prolog_check import check_node

        status, line = check_node(options, until)
        answer = f"{status}{line}"
    except ImportError as error:
        answer = f"0{NOT_CHECKED}: a library is missing or broken: {_text(error)}"
    except BaseException as error:  # noqa: BLE001 - a crash of distcheck must not drain the node
        answer = f"0{NOT_CHECKED}: distcheck failed: {_text(error)}"
    finally:
        with suppress(BaseException):
            os.write(pipe, answer.replace("\n", " ").encode("utf-8", "backslashreplace") + b"\n")
        os._exit(0)


def _answer(child: int, pipe: int, deadline: float) -> tuple[int, str]:
    """Return the child's status and line, if it answers before the deadline.

    An answer ends with a line break. Processes that the child started may hold the pipe open.
    """
    received = b""
    exited = None
    while not received.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0:
            return 0, f"{NOT_CHECKED}: no answer in time: this node is very busy, or a driver or a file system hangs"
        if select.select([pipe], [], [], min(left, _BEAT_S))[0]:
            part = os.read(pipe, 1 << 16)
            if part:
                received += part
                continue
        if exited is not None:
            return 0, f"{NOT_CHECKED}: distcheck was ended{exited}"
        with suppress(ChildProcessError):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                # what it wrote before it exited is read first
                exited = f" by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""
    text = received.decode("utf-8", "replace").strip()
    if text[:1] == "1":
        return 1, text[1:]
    return 0, text[1:]


def _leave(child: int) -> None:
    """Kill the child and its processes without waiting: one that hangs in the kernel can't die yet."""
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(child, os.WNOHANG)


def _end(number: int, _frame: object) -> NoReturn:
    raise _PrologSignalled(signal.Signals(number).name)


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its __str__ may raise
        return type(error).__name__
