"""A process that has imported torch once, and becomes any rank or any torchrun that it is asked for.

Importing torch takes two seconds of a core, so forty jobs of several ranks would cost the suite a quarter of an hour.
Whoever connects to the socket sends what to run, with the file descriptor that its output goes to; the answer is the
process's id, and, when it ended, its status. Only what was forked here is known here: torchrun's workers are programs
of their own, as they always are.

It is a program: ``python warm.py SOCKET``.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, NoReturn

_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS, linux/sched.h
_PRIVATE = 0x44000  # MS_REC | MS_PRIVATE, linux/mount.h
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG, linux/prctl.h
#: How often the ends of children are looked for, in seconds.
_TICK_S = 0.02
_LONGEST = 1 << 20


def main(path: str) -> None:
    """Serve until standard input is closed; in each child, do what was asked for."""
    _import_all()
    job = _serve(path)
    if job is not None:
        _become(job)


def _import_all() -> None:
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.distributed.elastic.multiprocessing.errors
    import torch.distributed.launch
    import torch.distributed.run
    import torch.multiprocessing
    import torch.utils.data

    # a pool of threads would not survive the fork
    torch.set_num_threads(1)


def _serve(path: str) -> dict[str, Any] | None:
    """Fork a child for each request; returns what to do in the child, None at the end."""
    children: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(path)
        door.listen(64)
        while True:
            ready, _, _ = select.select([door, sys.stdin], [], [], _TICK_S)
            if door in ready:
                guest, _ = door.accept()
                request, (output, *_), _, _ = socket.recv_fds(guest, _LONGEST, 1)
                child = os.fork()
                if child == 0:
                    for other in (*children.values(), guest):
                        other.close()
                    return {**json.loads(request), "output": output}
                os.close(output)
                children[child] = guest
                guest.send(json.dumps({"pid": child}).encode())
            _tell_ends(children)
            if sys.stdin in ready:
                for child in children:
                    _kill(child)
                return None


def _tell_ends(children: dict[int, socket.socket]) -> None:
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        guest = children.pop(child, None)
        if guest is not None:
            with guest:
                try:
                    guest.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())
                except OSError:
                    continue


def _kill(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except OSError:
        return


def _become(job: dict[str, Any]) -> None:
    """Be the process that was asked for: its output, its variables, its folder, its limits."""
    os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(job["output"], 1)
    os.dup2(job["output"], 2)
    os.close(job["output"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it stays open as long as the process lives
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(job["env"])
    tempfile.tempdir = None
    os.chdir(job["cwd"])
    for folder, size in job["mounts"].items():
        _mount(libc, folder, size)
    for name, most in job["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    if "TORCH_DISTRIBUTED_DEBUG" in os.environ:
        import torch.distributed

        torch.distributed.set_debug_level_from_env()
    _run(job["program"], job["arguments"])


def _mount(libc: ctypes.CDLL, folder: str, size: str) -> None:
    """A small file system of its own, which no other process sees."""
    done = libc.unshare(_NEW_MOUNTS) == 0 and libc.mount(None, b"/", None, _PRIVATE, None) == 0
    if not done or libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        raise OSError(ctypes.get_errno(), f"no file system can be mounted on {folder}")


def _run(program: str, arguments: list[str]) -> None:
    """Run a script as ``python -u SCRIPT`` does, or a launcher as its command does."""
    sys.excepthook = _without_this_file
    if program in ("torchrun", "launch"):
        import torch.distributed.launch
        import torch.distributed.run

        sys.argv = [program, *arguments]
        (torch.distributed.run if program == "torchrun" else torch.distributed.launch).main(arguments)
        _end_well()
    sys.argv = [program, *arguments]
    sys.path[0] = str(Path(program).parent)
    module = types.ModuleType("__main__")
    module.__file__ = program
    sys.modules["__main__"] = module
    exec(compile(Path(program).read_text("utf-8"), program, "exec"), module.__dict__)
    _end_well()


def _end_well() -> NoReturn:
    """End at once: what libraries do at the end of the interpreter counts on threads that a fork has not."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _without_this_file(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    """Show the traceback as the interpreter would: it begins in the script."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _leave(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        _leave("python warm.py SOCKET")
    main(sys.argv[1])
