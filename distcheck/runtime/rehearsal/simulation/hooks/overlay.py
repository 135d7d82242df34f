"""Leads what this process' Python writes into a folder of the rehearsal, where no overlay could be mounted.

What writes without Python's ``open`` and ``os`` is led where it is known (torch, safetensors, sqlite3); what else
writes by itself, and what is started, is told as it comes up.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.overlay import settings_of
from distcheck.runtime.rehearsal.simulation.path_redirection import Redirection
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.redirected_calls import RedirectedCalls

#: Modules whose compiled code opens files for writing by itself.
_BY_THEMSELVES = ("h5py", "pyarrow", "lmdb", "netCDF4", "tables", "cv2", "tensorstore")


def install(notebook: EventLog, plan: RehearsalPlan) -> Redirection | None:
    """Take the place of ``open`` and of what changes files in ``os``; nothing where overlays cover everything."""
    settings = settings_of(plan.private)
    if settings.how == "none" or (settings.how == "mount" and not settings.partial):
        return None
    try:
        led = RedirectedCalls(settings)
        led.patch()
    except Exception as error:  # noqa: BLE001 - told, and the end
        # files of the user's are at stake: the script must not run like this
        sys.stderr.write(f"distcheck: what the script writes can't be led away ({type(error).__name__}: {error})\n")
        raise SystemExit(2) from None
    _lead_compiled_code(led, notebook)
    if settings.how == "python":
        _tell_what_is_not_led(notebook)
    return led


def _lead_compiled_code(led: Redirection, notebook: EventLog) -> None:
    """What opens files by their name in C++ or Rust."""

    def when(name: str, then: Callable[[Any], None]) -> None:
        def harmlessly(module: Any) -> None:
            try:
                then(module)
            except Exception as error:  # noqa: BLE001 - an import of the script's is not to suffer
                why = f"{type(error).__name__}: {error}"
                notebook.note("overlay.unled", what=f"files that {name} writes are not led away ({why})")

        when_imported(name, harmlessly)

    def torch(module: Any) -> None:
        serialization = sys.modules.get("torch.serialization", module)
        writer = getattr(serialization, "_open_zipfile_writer_file", None)
        if writer is not None:
            begin = writer.__init__

            def __init__(self: Any, name: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - takes its place
                begin(self, led.for_writing(name, keep=False), *args, **kwargs)

            writer.__init__ = __init__
        _lead(serialization, "load", 0, led.for_reading)

    def torch_all(module: Any) -> None:
        for name, position, way in (("save", 1, writing), ("load", 0, led.for_reading)):
            _lead(module, name, position, way)
        _lead(module.RecursiveScriptModule, "save", 1, writing)

    def writing(path: Any) -> Any:
        return led.for_writing(path, keep=False)

    when("torch.serialization", torch)
    when("torch.jit", torch_all)
    for name in ("safetensors.torch", "safetensors.numpy"):
        when(name, lambda module: _lead_safetensors(module, led, writing))
    when("sqlite3", lambda module: _lead(module, "connect", 0, led.for_writing))


def _lead_safetensors(module: Any, led: Redirection, writing: Callable[[Any], Any]) -> None:
    for name, position, way in (
        ("save_file", 1, writing), ("save_model", 1, writing), ("load_file", 0, led.for_reading),
        ("load_model", 1, led.for_reading), ("safe_open", 0, led.for_reading),
    ):  # fmt: skip
        _lead(module, name, position, way)


def _lead(module: Any, name: str, position: int, way: Callable[[Any], Any]) -> None:
    """Let a function of a module have another path."""
    function = getattr(module, name, None)
    if function is None:
        return

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for keyword in ("f", "filename", "database"):
            if keyword in kwargs:
                kwargs[keyword] = way(kwargs[keyword])
                return function(*given, **kwargs)
        if len(given) > position and isinstance(given[position], (str, bytes, os.PathLike)):
            given[position] = way(given[position])
        return function(*given, **kwargs)

    setattr(module, name, called)


def _tell_what_is_not_led(notebook: EventLog) -> None:
    told: set[str] = set()

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            program = os.path.basename(str(args[0]))
            notebook.note("overlay.unled", what=f"what {program} writes is not led away: it is no Python of this rank")
        elif event == "import" and args and args[0] in _BY_THEMSELVES and args[0] not in told:
            told.add(args[0])
            notebook.note("overlay.unled", what=f"files that {args[0]} opens by itself are not led away")

    sys.addaudithook(audit)
