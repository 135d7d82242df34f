"""Python stacks of other processes, read by py-spy without stopping them.

py-spy is a separate program, next to this Python or on the PATH. If it is missing, or if this user may not read the
memory of a process, stacks are *not checked*, and the reason states what would allow it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from distcheck.checks.logs.model import is_of_a_library
from distcheck.core.model import Unavailable
from distcheck.core.resources import PACKAGE
from distcheck.core.world import World
from distcheck.runtime.coordination.model import CollectiveCall, Frame
from distcheck.runtime.coordination.stack_report import WRAPPER

#: Seconds for one process: reading symbols of a big interpreter from a network file system takes a few.
LIMIT_S = 20.0
#: Seconds for a killed process to exit.
_KILLED_S = 1.0
#: A sample of a running process may be torn: it is repeated.
_TRIES = 3
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_INSTALL = "pip install py-spy"


class ThreadStack(NamedTuple):
    """One thread of a process."""

    name: str
    #: innermost first
    frames: tuple[Frame, ...] = ()
    main: bool = False


# reading


def find_py_spy(world: World) -> str:
    """Return the path of py-spy; raise Unavailable with the command that installs it."""
    own_folder = os.path.dirname(world.python_executable)
    for folder in dict.fromkeys((own_folder, *world.program_path)):
        path = os.path.join(folder, "py-spy")
        if folder and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise Unavailable(f"py-spy, which reads stacks, is neither next to this Python nor on the PATH; {_INSTALL}")


def read_stack(world: World, program: str, pid: int, folder: str = "") -> tuple[ThreadStack, ...]:
    """Return the threads of a process that have run Python, the main one first; nothing in it is stopped.

    :param folder: its working directory, against which paths are shown
    :raises Unavailable: why it can't be read
    """
    why = ""
    # a program from the user's own PATH, with a number as its argument
    command = [program, "dump", "--nonblocking", "--json", "--full-filenames", "--pid"]
    for _ in range(_TRIES):
        status, message, complaint = _run([*command, str(pid)], LIMIT_S)
        if status == 0:
            try:
                return parse(message, pid, folder)
            except ValueError as error:
                why = f"what py-spy wrote can't be read: {error}"
                continue
        why = why_not(complaint.decode("utf-8", "replace"), _yama(world), world.user_id)
        if _is_final(why):
            break
    raise Unavailable(why)


def _run(command: Sequence[str], limit_s: float) -> tuple[int, bytes, bytes]:
    """Return status, output and errors; raise Unavailable if it does not start or does not end.

    A reader of a process that is blocked in the kernel may block there too. It then does not even end when it is
    killed, and stays behind.
    """
    import subprocess

    try:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise Unavailable(f"{command[0]} can't be started: {error.strerror}") from error
    try:
        message, complaint = running.communicate(timeout=limit_s)
        return running.returncode, message, complaint
    except subprocess.TimeoutExpired:
        running.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(timeout=_KILLED_S)
        raise Unavailable(f"py-spy did not answer within {limit_s:g} s") from None
    finally:
        for pipe in (running.stdout, running.stderr):
            if pipe is not None:
                pipe.close()


def parse(text: str | bytes, pid: int, folder: str = "") -> tuple[ThreadStack, ...]:
    """Return the JSON of ``py-spy dump --json`` (py-spy 0.4.3); raise ValueError."""
    try:
        plain = json.loads(text)
        if not isinstance(plain, list):
            raise TypeError("expected a list of threads")
        threads = [
            ThreadStack(
                str(thread.get("thread_name") or ""),
                tuple(_frame(frame, folder) for frame in thread["frames"]),
                thread.get("os_thread_id") == pid,
            )
            for thread in plain
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    if threads and not any(thread.main for thread in threads):
        # a process in a container has another number there
        threads = [thread._replace(main=thread.name == "MainThread") for thread in threads]
    return tuple(sorted(threads, key=lambda thread: not thread.main))


def _frame(plain: Mapping[str, object], folder: str) -> Frame:
    path, line = str(plain["filename"]), plain["line"]
    if not isinstance(line, int):
        raise TypeError(f"a line is {line!r}")
    return Frame(shown_path(path, folder), line, str(plain["name"]), is_own(path))


_STANDARD_LIBRARY = re.compile(r"/lib(?:64)?/python3\.\d+/")
#: The folder of this package.
_OURS = PACKAGE + os.sep


def is_own(path: str) -> bool:
    """Return whether a file is the user's: neither Python's nor installed, nor ours."""
    return not is_of_a_library(path) and not path.startswith(_OURS)


def shown_path(path: str, folder: str) -> str:
    """Return a path below the working directory, from the package or module on, or whole."""
    if folder and path.startswith(folder.rstrip("/") + "/"):
        return path[len(folder.rstrip("/")) + 1 :]
    for part in ("/site-packages/", "/dist-packages/"):
        if part in path:
            return path.rpartition(part)[2]
    found = _STANDARD_LIBRARY.search(path)
    return path[found.end() :] if found is not None else path


def why_not(error: str, yama: int | None, user_id: int) -> str:
    """Return the message of py-spy as a reason, with a command that would allow it."""
    lower = error.lower()
    if "permission denied" in lower or "operation not permitted" in lower:
        if yama == 3:
            return "no process may read another process's memory on this host (kernel.yama.ptrace_scope is 3)"
        if yama and user_id != 0:
            return (
                f"this host lets only root read another process's memory (kernel.yama.ptrace_scope is {yama}); "
                "'sudo distcheck stuck' inspects your ranks"
            )
        return (
            "this process may not read another one's memory: a container needs the capability SYS_PTRACE, and the "
            "command must run inside of it or on its host"
        )
    if "python version" in lower or "python interpreter" in lower:
        return "py-spy does not know the Python of this process; a newer py-spy may"
    if "no such process" in lower or "no such file" in lower or "failed to open process" in lower:
        return "it has ended meanwhile"
    line = next((line.strip() for line in error.splitlines() if line.strip()), "it printed nothing")
    return f"py-spy: {line[:200]}"


def _is_final(why: str) -> bool:
    """Return whether another try would not help."""
    return "memory" in why or "meanwhile" in why


def _yama(world: World) -> int | None:
    try:
        return int(world.read_text(_YAMA))
    except (OSError, ValueError):
        return None


# reading of stacks

#: A file whose functions are collectives by name.
_COLLECTIVES = "torch/distributed/distributed_c10d.py"
#: Functions in which a thread waits for other processes or a GPU, by the end of their file.
_WAITS = (
    ("torch/distributed/", "", "{}"),
    ("torch/nn/parallel/distributed.py", "", "DistributedDataParallel.{}"),
    ("torch/autograd/graph.py", "_engine_run_backward", "backward"),
    ("torch/cuda/__init__.py", "synchronize", "cuda.synchronize"),
    ("torch/cuda/streams.py", "synchronize", "cuda.synchronize"),
)
#: Functions in which a process waits for children: for ranks, and for ranks or others.
_SPAWNS = (("torch/multiprocessing/spawn.py", "join"),)
_JOINS = (*_SPAWNS, ("multiprocessing/process.py", "join"))


def call_of(frames: Sequence[Frame]) -> CollectiveCall | None:
    """Return the collective or the wait of a thread: the innermost one below the user's own code."""
    inner: list[Frame] = []
    for frame in frames:
        if frame.own:
            break
        inner.append(frame)
    operation = _collective(inner) or _wait(inner)
    if not operation:
        return None
    own = next((frame for frame in frames if frame.own), None)
    return CollectiveCall(
        0, operation, place="" if own is None else own.place, function="" if own is None else own.function
    )


def _collective(inner: Sequence[Frame]) -> str:
    """Return the function that the user's code, or a library, called: ``all_gather_object`` calls ``all_gather``."""
    name = ""
    for frame in inner:
        if frame.path.endswith(_COLLECTIVES):
            name = _last(frame)
        elif not frame.path.endswith(WRAPPER) and name:
            break
    return name


def _wait(inner: Sequence[Frame]) -> str:
    frame = next((frame for frame in inner if not frame.path.endswith(WRAPPER)), None)
    if frame is None:
        return ""
    for path, function, shown in _WAITS:
        if path in frame.path and function in ("", _last(frame)):
            return shown.format(_last(frame))
    return ""


def waits_for_children(frames: Sequence[Frame], *, of_spawn: bool = False) -> bool:
    """Return whether the process started others and waits for their end.

    :param of_spawn: with ``mp.spawn``, so that they are its ranks; a loader's workers are waited for in another way
    """
    joins = _SPAWNS if of_spawn else _JOINS
    return any(frame.path.endswith(path) and _last(frame) == function for frame in frames for path, function in joins)


def _last(frame: Frame) -> str:
    """Return the function without its class: newer Pythons show both."""
    return frame.function.rpartition(".")[2]
