"""The door of ``distcheck env --profile prolog``: at most 5 seconds, one line on standard error, and it fails open.

A scheduler that runs a prologue takes a node out of service for any other status than 0. So everything that can go
wrong with distcheck itself happens in a child process, and this one keeps the time: it imports nothing of ours and
nothing that was installed, and it waits for nobody who can't answer. What is looked at, and what of it gives status 1,
stands in :mod:`.commands.prolog`.
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

#: Of these, what is left for the line and the end once time is up; and before that, for judging what was read.
_TO_END_S = 0.5
_TO_JUDGE_S = 0.5
#: How often it is asked whether the child has ended, in seconds.
_BEAT_S = 0.02
#: An age of this process beyond this many seconds is a sandbox that does not know it (gVisor says 0 for every start).
_ODD_AGE_S = 60.0
#: What a scheduler or an impatient administrator sends.
_ENDING_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
_TAKEN = "--ignore, --timeout, --config or --isolated"


class Misused(Exception):  # noqa: N818 - what the caller typed
    """A command line that can't be understood; the text says what and what is."""


class _PrologSignalled(BaseException):
    """A signal asked this process to end."""


def is_prolog(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether a command line is meant for this door, however wrong the rest of it is.

    ``--profile Prologue`` is as well: whoever writes it means a prologue, and a usage error would drain the node.
    ``tools/one_file_main.py`` asks the same in the words of Pythons that are too old for this module.
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
    """The console script's way in; ends the process."""
    status = 0
    try:
        status = run(words, process_age_s())
    finally:
        # nothing that hangs in the interpreter's end counts any more
        os._exit(status)


def run(words: Sequence[str], spent_s: float = 0.0) -> int:
    """Look at this node, say one line, return the exit status: 1 only for what takes a node out of service.

    :param words: the command line behind ``distcheck``
    :param spent_s: seconds that this process has already used of its limit
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
        # a signal between the fork and the next line would leave a child that nobody knows of
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
    except Exception as error:  # noqa: BLE001 - whatever it is, the node is not to blame
        return _open_end(_text(error))
    finally:
        if child:
            _leave(child)
        for number, handler in before.items():
            signal.signal(number, handler)


def read(words: Sequence[str]) -> PrologOptions:
    """The command line, without the parser of options that may not import; raises Misused."""
    options = PrologOptions()
    rest = list(words)
    rest.remove("env")
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name == "--isolated" and not equals:
            options = options._replace(isolated=True)
            continue
        if name not in ("--profile", "--ignore", "--timeout", "--config"):
            raise Misused(f"{word[:30]!r} is no option here; expected {_TAKEN}")
        if not equals:
            if not rest:
                raise Misused(f"{name} needs a value")
            value = rest.pop(0)
        if name == "--profile" and value != "prolog":
            raise Misused(f"no profile is called {value[:20]!r}; expected prolog")
        if name == "--ignore":
            options = options._replace(ignore=(*options.ignore, value))
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
    """One line on standard error, if somebody takes it before ``until`` (monotonic seconds)."""
    text = one_line(NAME + line) + "\n"
    # a pipe that nobody empties would keep us for ever
    with suppress(OSError, ValueError):
        _, ready, _ = select.select([], [2], [], max(0.0, until - time.monotonic()))
        if ready:
            os.write(2, text.encode("ascii"))


def process_age_s() -> float:
    """Seconds since this process was started; 0 where the system does not tell."""
    try:
        with open("/proc/self/stat", "rb") as file:
            # field 22 (proc(5)), counted behind the program's name, which may hold blanks
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age if 0 < age < _ODD_AGE_S else 0.0


def _open_end(why: str) -> int:
    """Nothing could be said about the node: that is said, and the job goes on."""
    say(f"{NOT_CHECKED}: {why}", time.monotonic() + _TO_END_S / 2)
    return 0


def _open_what_is_closed() -> None:
    """A pipe of ours must not get the number of a standard stream that whoever started this has closed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            nowhere = _nowhere()
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)


def _nowhere() -> int:
    """A stream that swallows everything, or refuses it where a bare root has no /dev/null."""
    try:
        return os.open(os.devnull, os.O_RDWR)
    except OSError:
        read_end, write_end = os.pipe()
        os.close(read_end)
        return write_end


def _fork(options: PrologOptions, until: float, signals: set[int]) -> tuple[int, int]:
    """The child that looks and judges; its number and the pipe on which it answers."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(options, until, write_end, signals)
    os.close(write_end)
    with suppress(OSError):  # it may have done so itself already
        os.setpgid(child, child)
    return child, read_end


def _be_the_child(options: PrologOptions, until: float, pipe: int, signals: set[int]) -> NoReturn:
    """Look, judge, answer; whatever is printed on the way goes nowhere, and whoever hangs holds no stream open."""
    answer = f"0{NOT_CHECKED}: it ended without an answer"
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        for name in _ENDING_SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        signal.alarm(int(LIMIT_S) + 1)  # should nobody be left to end it
        nowhere = _nowhere()
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        if options.config is not None:
            options = options._replace(config=os.path.abspath(options.config))
        os.chdir("/")  # the folder that it was started in may be gone, or a user's
        from .prolog_check import check_node

        status, line = check_node(options, until)
        answer = f"{status}{line}"
    except ImportError as error:
        answer = f"0{NOT_CHECKED}: a library is missing or broken: {_text(error)}"
    except BaseException as error:  # noqa: BLE001 - a crash of ours is no fault of the node
        answer = f"0{NOT_CHECKED}: distcheck failed: {_text(error)}"
    finally:
        with suppress(BaseException):
            os.write(pipe, answer.replace("\n", " ").encode("utf-8", "backslashreplace") + b"\n")
        os._exit(0)


def _answer(child: int, pipe: int, deadline: float) -> tuple[int, str]:
    """What the child says before the deadline.

    Its last words end with a line's end: the pipe itself may be held open by what the child has left behind.
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
                # what it wrote just before is read first
                exited = f" by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""
    text = received.decode("utf-8", "replace").strip()
    if text[:1] == "1":
        return 1, text[1:]
    return 0, text[1:]


def _leave(child: int) -> None:
    """End the child and what it has started, without waiting: who hangs in the kernel dies when the kernel lets it."""
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(child, os.WNOHANG)


def _end(number: int, _frame: object) -> NoReturn:
    raise _PrologSignalled(signal.Signals(number).name)


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - even its text can be broken
        return type(error).__name__
