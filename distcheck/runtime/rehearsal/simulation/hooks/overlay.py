"""Redirect what the Python of this process writes into a folder of the rehearsal, where no overlay can be mounted.

Python's ``open`` and ``os`` are redirected, and the compiled functions of torch, safetensors and sqlite3.
Other compiled code that writes, and programs that the script starts, are reported as not redirected.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.coordination.patching import wrap
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.overlay import settings_of
from distcheck.runtime.rehearsal.simulation.path_redirection import Redirection
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.redirected_calls import RedirectedCalls

_SAFETENSORS = (
    ("save_file", 1, "w"), ("save_model", 1, "w"), ("load_file", 0, "r"), ("load_model", 1, "r"), ("safe_open", 0, "r"),
)  # fmt: skip
#: Module → functions of it with the position of a path, and whether they read, write, or do both.
_COMPILED: dict[str, tuple[tuple[str, int, str], ...]] = {
    "torch.serialization": (("load", 0, "r"), ("_open_zipfile_writer_file.__init__", 1, "w")),
    "torch.jit": (("save", 1, "w"), ("load", 0, "r"), ("RecursiveScriptModule.save", 1, "w")),
    "safetensors.torch": _SAFETENSORS,
    "safetensors.numpy": _SAFETENSORS,
    "sqlite3": (("connect", 0, "rw"),),
}
#: Modules whose compiled code opens files, which nothing redirects.
_BY_THEMSELVES = ("h5py", "pyarrow", "lmdb", "netCDF4", "tables", "cv2", "tensorstore")


def install(event_log: EventLog, plan: RehearsalPlan) -> Redirection | None:
    """Take the place of ``open`` and of what changes files in ``os``; nothing where overlays cover everything."""
    settings = settings_of(plan.private)
    if settings.how == "none" or (settings.how == "mount" and not settings.partial):
        return None
    try:
        redirected = RedirectedCalls(settings)
        redirected.patch()
    except Exception as error:  # noqa: BLE001 - reported, and the end
        # files of the user's are at stake: the script must not run like this
        sys.stderr.write(f"distcheck: what the script writes can't be redirected ({type(error).__name__}: {error})\n")
        raise SystemExit(2) from None
    _redirect_compiled_code(redirected, event_log)
    if settings.how == "python":
        _report_what_is_not_redirected(event_log)
    return redirected


def _redirect_compiled_code(redirection: Redirection, event_log: EventLog) -> None:
    """Redirect functions that open files by name in C++ or Rust."""
    for name, functions in _COMPILED.items():

        def attach(module: Any, name: str = name, functions: tuple[tuple[str, int, str], ...] = functions) -> None:
            try:
                for function, position, mode in functions:
                    wrap(module, function, partial(_redirect, redirection, position, mode))
            except Exception as error:  # noqa: BLE001 - the script's import must not fail
                why = f"{type(error).__name__}: {error}"
                event_log.note("overlay.unled", what=f"files that {name} writes are not redirected ({why})")

        when_imported(name, attach)


def _redirect(redirection: Redirection, position: int, mode: str, real: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function with another path."""

    def other(path: Any) -> Any:
        return redirection.for_reading(path) if mode == "r" else redirection.for_writing(path, keep=mode != "w")

    for keyword in ("f", "filename", "database"):
        if keyword in kwargs:
            return real(*args, **{**kwargs, keyword: other(kwargs[keyword])})
    if len(args) > position and isinstance(args[position], (str, bytes, os.PathLike)):
        args = (*args[:position], other(args[position]), *args[position + 1 :])
    return real(*args, **kwargs)


def _report_what_is_not_redirected(event_log: EventLog) -> None:
    reported: set[str] = set()

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            program = os.path.basename(str(args[0]))
            event_log.note(
                "overlay.unled", what=f"what {program} writes is not redirected: it is no Python of this rank"
            )
        elif event == "import" and args and args[0] in _BY_THEMSELVES and args[0] not in reported:
            reported.add(args[0])
            event_log.note("overlay.unled", what=f"files that {args[0]} opens by itself are not redirected")

    sys.addaudithook(audit)
