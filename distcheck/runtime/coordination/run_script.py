"""Runs the user's script, or module, in this process as Python itself would.

``__main__``, ``sys.argv``, ``sys.path``, the traceback and the exit status are the same. ``sys.orig_argv`` differs,
and a stack that the script prints has frames of ours below its own.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from distcheck.core.resources import PACKAGE

from .frames import stack_of_trace, this_is_own
from .model import Frame

#: Characters of a traceback that are kept: causes come first, and may be long.
_LONGEST_TRACEBACK = 65_536


class ScriptExit(NamedTuple):
    """How the script ended."""

    #: ``left`` or ``raised``
    state: str
    #: the exit status of the process
    status: int
    #: the exception's last line
    detail: str = ""
    #: where it was raised, innermost first
    stack: tuple[Frame, ...] = ()
    #: the traceback as Python prints it, at most its last part
    traceback: str = ""


class CannotRun(Exception):  # noqa: N818 - reported to the caller
    """There is nothing to run; the message is Python's own."""


def run(
    target: str, arguments: Sequence[str], *, module: bool = False, ended: Callable[[ScriptExit], None] = lambda _: None
) -> NoReturn:
    """Run it, and end this process as the script would: raise SystemExit or KeyboardInterrupt.

    Must be called from the outermost frame of the process, so that nothing holds the way out.

    :param module: ``target`` is the name of a module, as behind ``python -m``
    :param ended: called once when the script has ended, before threads are joined and exit handlers run
    """
    failed = _outcome(target, arguments, module)
    # outside any handler, as Python itself shows uncaught exceptions
    ended(how_it_ended(failed))
    if failed is None:
        raise SystemExit(0)
    if isinstance(failed, SystemExit):
        # the first one would keep the frames of the script alive
        raise SystemExit(failed.code)
    _show(failed)
    if isinstance(failed, KeyboardInterrupt):
        # Python then ends this process by SIGINT, as a shell expects; the exception was shown already
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt
    raise SystemExit(1)


def how_it_ended(failed: BaseException | None) -> ScriptExit:
    """Return what ended a script, or the work of a process.

    :param failed: what it raised; None: it came to its end
    """
    if failed is None:
        return ScriptExit("left", 0)
    if isinstance(failed, SystemExit):
        return ScriptExit("left", _status(failed.code), _exit_text(failed.code))
    status = -2 if isinstance(failed, KeyboardInterrupt) else 1
    return ScriptExit("raised", status, _last_line(failed), stack_of_trace(failed.__traceback__), _traceback(failed))


def _outcome(target: str, arguments: Sequence[str], module: bool) -> BaseException | None:
    try:
        if module:
            _run_module(target, arguments)
        else:
            _run_file(target, arguments)
    except CannotRun:
        raise
    except BaseException as error:  # noqa: BLE001 - the script may raise anything
        return error
    return None


def _run_file(path: str, arguments: Sequence[str]) -> None:
    import builtins
    from importlib.machinery import SourceFileLoader, SourcelessFileLoader

    sys.argv = [path, *arguments]
    if os.path.isdir(path) or _is_archive(path):
        _run_container(path)
        return
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        # the message of Python 3.11
        raise CannotRun(
            f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}"
        ) from None
    main: Any = types.ModuleType("__main__")
    # as Python 3.9 and later: absolute, and otherwise as given
    main.__file__ = os.path.join(os.getcwd(), path)
    main.__builtins__ = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__cached__ = None
    this_is_own(main.__file__)
    # Python puts the folder of the file here that a link points to
    if not getattr(sys.flags, "safe_path", False):
        _first_of_path(os.path.dirname(os.path.realpath(path)))
    sys.modules["__main__"] = main
    if path.endswith(".pyc"):
        main.__loader__ = SourcelessFileLoader("__main__", main.__file__)
        code = main.__loader__.get_code("__main__")
    else:
        main.__loader__ = SourceFileLoader("__main__", main.__file__)
        code = compile(content, main.__file__, "exec", dont_inherit=True)
    exec(code, main.__dict__)  # noqa: S102 - this is the requested code


def _run_container(path: str) -> None:
    """A folder or an archive with a ``__main__.py``: Python's own way is in runpy."""
    import runpy

    _first_of_path(path)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]


def _run_module(name: str, arguments: Sequence[str]) -> None:
    import runpy

    # the first entry is the working directory already; argv[0] becomes the file of the module
    sys.argv = ["-m", *arguments]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    try:
        _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
    except ImportError as error:
        if error.name is not None and not _is_about(error.name, name):
            raise
        raise CannotRun(f"{sys.executable}: {error}") from None
    except runpy._Error as error:  # type: ignore[attr-defined]
        raise CannotRun(f"{sys.executable}: {error}") from None
    sys.argv[0] = spec.origin
    this_is_own(spec.origin)
    runpy._run_code(code, main.__dict__, None, "__main__", spec)  # type: ignore[attr-defined]


def _is_about(missing: str, name: str) -> bool:
    return name == missing or name.startswith(f"{missing}.")


def _is_archive(path: str) -> bool:
    import zipfile

    return not path.endswith((".py", ".pyc")) and zipfile.is_zipfile(path)


def _first_of_path(folder: str) -> None:
    """Replace the working directory that ``-m distcheck.watch`` put there by the folder of the script."""
    if sys.path and not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)


def _status(code: object) -> int:
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _exit_text(code: object) -> str:
    return "" if code is None or isinstance(code, int) else str(code).splitlines()[-1][:200] if str(code) else ""


def _last_line(error: BaseException) -> str:
    import traceback

    try:
        lines = traceback.format_exception_only(type(error), error)
    except Exception:  # noqa: BLE001 - an exception whose own text raises
        return type(error).__name__
    text = [line for line in lines[-1].splitlines() if line.strip()] if lines else []
    if not text:
        return type(error).__name__
    # a message may be a page: its first line is enough, or its last one if it begins below (a traceback of a child)
    first = text[0].strip()
    return (f"{first} {text[-1].strip()}" if first.endswith(":") and len(text) > 1 else first)[:400]


def _traceback(error: BaseException) -> str:
    import traceback

    try:
        return "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
    except Exception:  # noqa: BLE001 - an exception whose own text raises
        return ""


def _show(error: BaseException) -> None:
    """Show an uncaught exception as Python does: with the script's hook and frames."""
    without_ours(error)
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit:
        raise
    except BaseException as second:  # noqa: BLE001 - Python shows both, with its own hook
        without_ours(second)
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(second), second, second.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


_OURS = PACKAGE + os.sep


def without_ours(error: BaseException) -> None:
    """Remove our frames, and runpy's, from the tracebacks of an exception and of those behind it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = _kept(current.__traceback__)
        todo += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]


def _kept(trace: types.TracebackType | None) -> types.TracebackType | None:
    entries = []
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith(_OURS):
            entries.append(trace)
        trace = trace.tb_next
    # the frames below the first one of the script are ours
    while len(entries) > 1 and _runs_us(entries[0].tb_frame.f_code.co_filename):
        del entries[0]
    for entry, following in zip(entries, [*entries[1:], None], strict=False):
        entry.tb_next = following
    return entries[0] if entries else None


def _runs_us(path: str) -> bool:
    return path in ("<frozen runpy>", "<frozen importlib._bootstrap>") or path.endswith(f"{os.sep}runpy.py")
