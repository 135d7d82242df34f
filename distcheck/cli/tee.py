"""Another command, run as if we were not there: its output passed on unchanged while somebody else listens as well.

Each of its streams is a pseudo-terminal where ours is a terminal, and a pipe elsewhere; signals are forwarded; it ends
when we are killed. It knows nothing of what the command is, nor of what is made of its output.
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

#: What a scheduler or a person sends; SIGKILL and SIGSTOP can't be caught, and SIGCHLD is ours.
_FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
_PIECE = 1 << 16
#: A disk, a quota, or a file that is as long as it may be.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: What a shell says of a command that it can't find, and of one that it may not run (POSIX, exit status of commands).
NOT_FOUND, NOT_RUNNABLE = 127, 126
#: prctl(2): the signal that a child gets when its parent dies.
_PR_SET_PDEATHSIG = 1


class CommandExit(NamedTuple):
    """How a command ended."""

    #: what a shell would say: the status, or 128 and the number of the signal
    status: int
    #: the signal that ended it; None where it exited
    signal: int | None = None


class CannotStart(Exception):  # noqa: N818 - said to a user
    """The command can't be started; ``status`` is what a shell would end with."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def run(
    command: Sequence[str], listen: Callable[[bytes], None], full: Callable[[int, str], None] = lambda *_: None
) -> CommandExit:
    """Run a command to its end.

    :param listen: called with all that it writes, on either stream, after that was passed on
    :param full: called once for each stream of ours that has no room for what the command writes, with its number and
        why; the command is not told, and goes on
    :raises CannotStart: there is no such program, or it may not be run
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
        # a command may close its streams long before it ends: by now a key makes a signal again
        _, status = os.waitpid(process, 0)
    ends.close()
    code = os.waitstatus_to_exitcode(status)
    return CommandExit(code) if code >= 0 else CommandExit(128 - code, -code)


class _Ends:
    """Our ends and the child's ends of its streams."""

    def __init__(self) -> None:
        #: what we read → where it is passed on to
        self.outputs: dict[int, int] = {}
        #: the pseudo-terminal, and our terminal that it stands for
        self.terminal: int | None = None
        #: the child's descriptors of 0, 1 and 2
        self.child: list[int] = [0, 1, 2]
        self._theirs: set[int] = set()
        #: whether no key makes a signal at our own terminal
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
            # nobody types here; what the child writes is translated once, by the real terminal
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
        """Whether what is typed here goes to the child through the pseudo-terminal."""
        return self.terminal is not None and self.child[0] != 0

    @contextlib.contextmanager
    def raw(self) -> Iterator[None]:
        """Hand each key to the child as it is typed; the terminal is as it was when this ends."""
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

        # a terminal that hung up has no modes any more
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, self._modes)

    def type(self, process: int) -> bool:
        """Hand on what was typed; False where nothing more will be."""
        keys = _read(0)
        if self.terminal is not None and keys:
            _write(self.terminal, keys)
            if self._stops(process, keys):
                self._stop(process)
        return bool(keys)

    def _stops(self, process: int, keys: bytes) -> bool:
        """Whether these keys are to stop the command: its session has no shell that the kernel would do it for."""
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
        """Stop with the command, and go on with it when our shell says so."""
        import termios
        import tty

        self._restore()
        _signal_all(process, signal.SIGSTOP)
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # where no shell could wake us up again, the kernel leaves us running
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        with contextlib.suppress(termios.error):
            tty.setraw(0)
        _copy_size(self.outputs.get(self.terminal or -1, 0), self.terminal or -1)
        _signal_all(process, signal.SIGCONT)


def _pass_on(process: int, ends: _Ends, listen: Callable[[bytes], None], full: Callable[[int, str], None]) -> None:
    """Until the child's streams are closed; what its own children still hold open does not keep us for ever."""
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
                    # the command is told as it would be without us: SIGPIPE
                    waiting.discard(descriptor)
                    del ends.outputs[descriptor]
                    os.close(descriptor)


#: Seconds between two looks at whether the child has ended while something else holds its streams open.
_PATIENCE_S = 0.5
#: What others may still write after its end: seconds that we wait for it, and bytes.
_LINGER_S = 2.0
_LINGER_BYTES = 16 << 20


class _Lingering:
    """Whether to leave: the child has ended, and what it wrote was read; its own children may hold the streams."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._ended = False
        self._waited = 0.0
        self._unlooked = 0.0
        #: that were read since it ended
        self.bytes = 0

    def is_over(self, readable: bool, waited: float) -> bool:
        """Whether it is, after a wait of so many seconds. Time in which nobody took our output does not count."""
        self._unlooked += waited
        if not self._ended and (not readable or self._unlooked >= _PATIENCE_S or self.bytes >= _LINGER_BYTES):
            self._unlooked, self.bytes = 0.0, 0
            self._ended = _has_ended(self._process)
        elif self._ended:
            self._waited += waited
        return self._ended and (not readable or self._waited >= _LINGER_S or self.bytes >= _LINGER_BYTES)


def _has_ended(process: int) -> bool:
    """Whether the child is a zombie by now; it stays one, so that its status can be asked for."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_all(process: int, number: int) -> None:
    """Send it to the command and what it started in its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, number)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError as error:
        if error.errno == errno.EIO:  # the last one who held the other side of a pseudo-terminal has gone
            return b""
        raise


def _write(descriptor: int, data: bytes) -> OSError | None:
    """All of it, or what can be, and why not all. A job goes on behind a terminal that was closed."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError as error:
            return error
    return None


class _Resized:
    """Keeps the size of the pseudo-terminal that of the real one."""

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
    """Send the child what is sent to us. What we were told to ignore (nohup) it ignores as well."""

    def forward(number: int, _: FrameType | None) -> None:
        # a terminal sends these to all that it runs, and the child's group is not ours
        if number == signal.SIGHUP or (number in (signal.SIGINT, signal.SIGQUIT) and not ends.is_raw):
            _signal_all(process, number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)

    def stop(number: int, _: FrameType | None) -> None:
        # its session has no shell that could wake it up again: it stops and goes on with us
        _signal_all(process, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        _signal_all(process, signal.SIGCONT)

    with signal_handlers({**dict.fromkeys(_FORWARDED, forward), "SIGTSTP": stop}):
        yield


def _is_in_front() -> bool:
    """Whether our terminal takes what is typed to us (a job in the foreground)."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _are_one(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same file."""
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _guard() -> Callable[[], None]:
    """Has the child end when we are killed, where the kernel can (Linux); made ready before the fork."""
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
        if os.getppid() != parent:  # it died before this
            os.kill(os.getpid(), signal.SIGTERM)

    return end_with_the_parent


def _become(command: Sequence[str], ends: _Ends, report: int, guard: Callable[[], None]) -> None:
    """In the child: take the streams and become the command; never returns."""
    try:
        # a session of its own: a key on the terminal reaches the command once, and only through us
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
        os.execvp(command[0], list(command))  # noqa: S606 - this is what we were asked for
    except OSError as error:
        os.write(report, f"{error.errno}:{error.strerror}".encode())
    finally:
        os._exit(NOT_RUNNABLE)


def _take_terminal(ends: _Ends) -> None:
    """Make the pseudo-terminal the one that the command's session belongs to."""
    import fcntl
    import termios

    theirs = next(descriptor for descriptor in reversed(ends.child) if descriptor > 2 and os.isatty(descriptor))
    with contextlib.suppress(OSError):
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
