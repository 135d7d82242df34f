"""Run a command with its output passed through unchanged, and copied to a callback.

Each of its streams is a pseudo-terminal if ours is a terminal, else a pipe. Signals are forwarded. The command ends
when this process is killed. This module knows nothing about the command or its output.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from .exit_status import signal_handlers

#: Signals that a scheduler or a user sends. SIGKILL and SIGSTOP can't be caught, and SIGCHLD is not forwarded.
_FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
_PIECE = 1 << 16
#: A full disk, a full quota, or a file at its maximum size.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: The shell's status of a command that does not exist, and of one that can't be executed (POSIX, exit status).
NOT_FOUND, NOT_RUNNABLE = 127, 126
#: prctl(2): the signal that a child gets when its parent dies.
_PR_SET_PDEATHSIG = 1


class CommandExit(NamedTuple):
    """The exit status of a command."""

    #: as in a shell: the status, or 128 plus the number of the signal
    status: int
    #: the signal that ended it; None if it exited
    signal: int | None = None


class CannotStart(Exception):  # noqa: N818 - shown to a user
    """The command can't be started; ``status`` is the shell's exit status."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def run(
    command: Sequence[str], listen: Callable[[bytes], None], full: Callable[[int, str], None] = lambda *_: None
) -> CommandExit:
    """Run a command until it exits.

    :param listen: called with the output of both streams, after it was passed through
    :param full: called once for each of our streams that is full, with its descriptor and the reason; the command
        continues
    :raises CannotStart: there is no such program, or it can't be executed
    """
    ends = _Ends.open()
    failed, report = os.pipe()
    os.set_inheritable(report, False)
    guard = _guard()
    process = os.fork()
    if process == 0:
        _become(command, ends, report, guard)
    os.close(report)
    ends.leave_to_the_child()
    problem = os.read(failed, _PIECE).decode()
    os.close(failed)
    if problem:
        os.waitpid(process, 0)
        ends.close()
        number, _, why = problem.partition(":")
        raise CannotStart(why, NOT_FOUND if int(number) == errno.ENOENT else NOT_RUNNABLE)
    with _forwarding(process, ends):
        with ends.raw():
            _pass_on(process, ends, listen, full)
        # a command may close its streams long before it exits: by now the terminal handles Ctrl-C again
        _, status = os.waitpid(process, 0)
    ends.close()
    code = os.waitstatus_to_exitcode(status)
    return CommandExit(code) if code >= 0 else CommandExit(128 - code, -code)


class _Ends:
    """Our ends and the child's ends of the streams."""

    def __init__(self) -> None:
        #: descriptor to read from → descriptor to write to
        self.outputs: dict[int, int] = {}
        #: our end of the pseudo-terminal
        self.terminal: int | None = None
        #: the child's descriptors of 0, 1 and 2
        self.child: list[int] = [0, 1, 2]
        self._theirs: set[int] = set()
        #: whether our own terminal is in raw mode
        self.is_raw = False
        self._modes: list[Any] = []

    @classmethod
    def open(cls) -> _Ends:
        ends = cls()
        terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]
        if 0 in terminals and not _is_in_front():
            # started with & at a prompt: reading or changing the terminal would stop us
            terminals.remove(0)
        if terminals:
            ends._open_terminal(terminals)
        plain = [descriptor for descriptor in (1, 2) if descriptor not in terminals]
        if plain == [1, 2] and _are_one(1, 2):
            # 2>&1: one pipe, so that the order of the lines is kept
            reading = ends._open_pipe(1)
            ends.child[2] = ends.child[1]
            ends.outputs[reading] = 1
        else:
            for descriptor in plain:
                ends.outputs[ends._open_pipe(descriptor)] = descriptor
        return ends

    def _open_terminal(self, terminals: Sequence[int]) -> None:
        import pty
        import termios

        ours, theirs = pty.openpty()
        self._theirs.add(theirs)
        self.terminal = ours
        shown = next(descriptor for descriptor in (1, 2, 0) if descriptor in terminals)
        _copy_size(shown, ours)
        if 0 not in terminals:
            # there is no input; only the real terminal translates the child's output
            modes = termios.tcgetattr(theirs)
            modes[1] &= ~termios.OPOST
            termios.tcsetattr(theirs, termios.TCSANOW, modes)
        else:
            termios.tcsetattr(theirs, termios.TCSANOW, termios.tcgetattr(0))
        for descriptor in terminals:
            self.child[descriptor] = theirs
        self.outputs[ours] = shown

    def _open_pipe(self, descriptor: int) -> int:
        reading, writing = os.pipe()
        self.child[descriptor] = writing
        self._theirs.add(writing)
        return reading

    def leave_to_the_child(self) -> None:
        for descriptor in self._theirs:
            os.close(descriptor)

    def close(self) -> None:
        for descriptor in self.outputs:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    @property
    def types(self) -> bool:
        """Return whether input goes to the child through the pseudo-terminal."""
        return self.terminal is not None and self.child[0] != 0

    @contextlib.contextmanager
    def raw(self) -> Iterator[None]:
        """Pass each key to the child as it is typed, and restore the terminal at the end."""
        if not self.types:
            yield
            return
        import termios
        import tty

        self._modes = termios.tcgetattr(0)
        tty.setraw(0)
        self.is_raw = True
        try:
            yield
        finally:
            self.is_raw = False
            self._restore()

    def _restore(self) -> None:
        import termios

        # a closed terminal has no modes
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, self._modes)

    def type(self, process: int) -> bool:
        """Pass input to the child; return False at its end."""
        keys = _read(0)
        if self.terminal is not None and keys:
            _write(self.terminal, keys)
            if self._stops(process, keys):
                self._stop(process)
        return bool(keys)

    def _stops(self, process: int, keys: bytes) -> bool:
        """Return whether these keys stop the command (Ctrl-Z): the kernel does not stop a session without a shell."""
        import termios

        terminal = -1 if self.terminal is None else self.terminal
        try:
            modes = termios.tcgetattr(terminal)
            in_front = os.tcgetpgrp(terminal) == process
        except (OSError, termios.error):
            return False
        key = modes[6][termios.VSUSP]
        return bool(modes[3] & termios.ISIG) and in_front and key != b"\0" and key in keys

    def _stop(self, process: int) -> None:
        """Stop this process and the command, and continue both when our shell continues us."""
        import termios
        import tty

        self._restore()
        _signal_all(process, signal.SIGSTOP)
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # without a shell that could continue us, the kernel does not stop us
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        with contextlib.suppress(termios.error):
            tty.setraw(0)
        _copy_size(self.outputs.get(self.terminal or -1, 0), self.terminal or -1)
        _signal_all(process, signal.SIGCONT)


def _pass_on(process: int, ends: _Ends, listen: Callable[[bytes], None], full: Callable[[int, str], None]) -> None:
    """Pass output and input through until the child's streams are closed, or its children alone hold them open."""
    waiting = set(ends.outputs)
    types = ends.types
    resized = _Resized(ends)
    lingering = _Lingering(process)
    reported: set[int] = set()
    with resized:
        while waiting:
            began = time.monotonic()
            readable, _, _ = select.select([*waiting, *([0] if types else [])], [], [], _PATIENCE_S)
            if lingering.is_over(bool(readable), time.monotonic() - began):
                return
            if 0 in readable and types:
                types = ends.type(process)
            for descriptor in readable:
                if descriptor not in waiting:
                    continue
                data = _read(descriptor)
                if not data:
                    waiting.discard(descriptor)
                    continue
                lingering.bytes += len(data)
                target = ends.outputs[descriptor]
                error = _write(target, data)
                listen(data)
                if error is not None and error.errno in _FULL and target not in reported:
                    reported.add(target)
                    full(target, error.strerror or "")
                if error is not None and error.errno == errno.EPIPE:
                    # the command gets SIGPIPE, as without us
                    waiting.discard(descriptor)
                    del ends.outputs[descriptor]
                    os.close(descriptor)


#: Seconds between two checks whether the child has exited while another process holds its streams open.
_PATIENCE_S = 0.5
#: Limits for the output of other processes after the child has exited, in seconds and bytes.
_LINGER_S = 2.0
_LINGER_BYTES = 16 << 20


class _Lingering:
    """Decide when to stop reading: the child has exited and its output was read. Its children may hold the streams."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._ended = False
        self._waited = 0.0
        self._unlooked = 0.0
        #: bytes read since it exited
        self.bytes = 0

    def is_over(self, readable: bool, waited: float) -> bool:
        """Return whether to stop, after a wait of so many seconds. Time in which our output blocked does not count."""
        self._unlooked += waited
        if not self._ended and (not readable or self._unlooked >= _PATIENCE_S or self.bytes >= _LINGER_BYTES):
            self._unlooked, self.bytes = 0.0, 0
            self._ended = _has_ended(self._process)
        elif self._ended:
            self._waited += waited
        return self._ended and (not readable or self._waited >= _LINGER_S or self.bytes >= _LINGER_BYTES)


def _has_ended(process: int) -> bool:
    """Return whether the child is a zombie. It stays one, so that its status can be read."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_all(process: int, number: int) -> None:
    """Send a signal to the process group of the command."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, number)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError as error:
        if error.errno == errno.EIO:  # no process has the other end of the pseudo-terminal open
            return b""
        raise


def _write(descriptor: int, data: bytes) -> OSError | None:
    """Write all data; return the error if that fails. A job continues after its terminal was closed."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError as error:
            return error
    return None


class _Resized:
    """Keep the size of the pseudo-terminal equal to that of the real one."""

    def __init__(self, ends: _Ends) -> None:
        self._ends = ends
        self._before: object = None

    def __enter__(self) -> None:
        terminal = self._ends.terminal
        if terminal is None:
            return
        shown = self._ends.outputs[terminal]
        self._before = signal.signal(signal.SIGWINCH, lambda *_: _copy_size(shown, terminal))

    def __exit__(self, *_: object) -> None:
        if self._ends.terminal is not None:
            signal.signal(signal.SIGWINCH, self._before)  # type: ignore[arg-type]


def _copy_size(source: int, target: int) -> None:
    import fcntl
    import termios

    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)


@contextlib.contextmanager
def _forwarding(process: int, ends: _Ends) -> Iterator[None]:
    """Forward signals to the child. A signal that we ignore (nohup) is also ignored by the child."""

    def forward(number: int, _: FrameType | None) -> None:
        # a terminal sends these to its whole foreground group, and the child's group is another
        if number == signal.SIGHUP or (number in (signal.SIGINT, signal.SIGQUIT) and not ends.is_raw):
            _signal_all(process, number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)

    def stop(number: int, _: FrameType | None) -> None:
        # its session has no shell that could continue it: it stops and continues with us
        _signal_all(process, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        _signal_all(process, signal.SIGCONT)

    with signal_handlers({**dict.fromkeys(_FORWARDED, forward), "SIGTSTP": stop}):
        yield


def _is_in_front() -> bool:
    """Return whether this process is in the foreground of its terminal."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _are_one(one: int, other: int) -> bool:
    """Return whether two descriptors refer to the same file."""
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _guard() -> Callable[[], None]:
    """Return a function that makes the child end when we are killed (Linux only); prepared before the fork."""
    parent = os.getpid()
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return lambda: None

    def end_with_the_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # the parent has already exited
            os.kill(os.getpid(), signal.SIGTERM)

    return end_with_the_parent


def _become(command: Sequence[str], ends: _Ends, report: int, guard: Callable[[], None]) -> None:
    """Set up the streams in the child and execute the command; never returns."""
    try:
        # in its own session, the command gets each key once, from us
        os.setsid()
        if ends.terminal is not None:
            _take_terminal(ends)
        for target, descriptor in enumerate(ends.child):
            if target != descriptor:
                os.dup2(descriptor, target)
        for name in _FORWARDED:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        guard()
        os.execvp(command[0], list(command))  # noqa: S606 - the user's command
    except OSError as error:
        os.write(report, f"{error.errno}:{error.strerror}".encode())
    finally:
        os._exit(NOT_RUNNABLE)


def _take_terminal(ends: _Ends) -> None:
    """Make the pseudo-terminal the controlling terminal of the command's session."""
    import fcntl
    import termios

    theirs = next(descriptor for descriptor in reversed(ends.child) if descriptor > 2 and os.isatty(descriptor))
    with contextlib.suppress(OSError):
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
