"""What the hooks share: a function put around another, and work of ours that must not fail inside of the script."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from distcheck.core.resources import PACKAGE
from distcheck.runtime.coordination.frames import is_own
from distcheck.runtime.coordination.import_hook import when_imported
from distcheck.runtime.rehearsal.simulation.event_log import EventLog

_OURS = PACKAGE + os.sep


def wrap(owners: Any, name: str, around: Callable[..., Any]) -> None:
    """Put ``around(real, *args, **kwargs)`` in the place of a function, in one owner or in several that share it.

    :param owners: module or class, or a tuple of those; one that lacks the name is passed over
    """
    put: dict[int, Any] = {}
    for owner in owners if isinstance(owners, tuple) else (owners,):
        real = getattr(owner, name, None)
        if real is not None:
            # torch compares functions by identity (P2POp)
            setattr(owner, name, put.setdefault(id(real), _around(real, around)))


def _around(real: Any, around: Callable[..., Any]) -> Any:
    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        return around(real, *args, **kwargs)

    return call


@contextmanager
def harmless(notebook: EventLog, kind: str) -> Iterator[None]:
    """What fails in here is a note that was lost, and nothing to the script; each kind says once what failed."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the script is not to suffer
        if kind not in notebook.lost:
            notebook.note("stage.hook_failed", hook=kind, why=f"{type(error).__name__}: {error}")
        notebook.lost[kind] = notebook.lost.get(kind, 0) + 1


def called_by_script(frame: FrameType | None) -> bool:
    """Whether the script's own code made a call, and not a library that it uses.

    :param frame: the innermost frame to look at; those of ours are passed over
    """
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame is not None and is_own(frame.f_code.co_filename)


def attach_to(module: str, notebook: EventLog, kind: str, attach: Callable[[Any], object]) -> None:
    """Call ``attach`` with a module when the script has imported it; where that fails, the topic is said to be lost."""

    def attach_or_say(imported: Any) -> None:
        try:
            attach(imported)
        except Exception as error:  # noqa: BLE001 - the import is the script's, and must not fail for it
            notebook.note("stage.hook_failed", place=("", ""), hook=kind, why=f"{type(error).__name__}: {error}")

    when_imported(module, attach_or_say)
