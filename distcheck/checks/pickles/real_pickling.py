"""Run the real pickler once without keeping its output, to compare the walk with it."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from typing import Any

from .modes import Mode, describe_error
from .time_limit import TimeLimit, TimeLimitExceeded


class _DiscardFile(io.RawIOBase):
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


def outcome(value: Any, mode: Mode, watch: TimeLimit) -> str:
    """What the real pickler raises, type and text; empty where it succeeds. Storages of tensors are omitted."""
    try:
        watch.run(_run, value, mode)
    except TimeLimitExceeded:
        return f"TimeoutError: it did not come back within {watch.limit_s:g} s"
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - whatever it is, it is the answer
        return describe_error(error)
    return ""


def _run(value: Any, mode: Mode) -> None:
    if mode.copying:
        copy.deepcopy(value)
        return
    torch = sys.modules.get("torch")
    if torch is None and mode.name != "spawn":
        pickle.Pickler(_DiscardFile(), mode.protocol).dump(value)
        return
    _pickler(mode)(_DiscardFile(), mode.protocol).dump(value)


def _pickler(mode: Mode) -> type[pickle.Pickler]:
    fresh = Mode(mode.name, mode.protocol if mode.name == "pickle" else None)
    storages, tensors = fresh.storages, fresh.tensors if mode.name == "spawn" else ()
    base: Any = pickle.Pickler
    if mode.name == "spawn":
        from multiprocessing.reduction import ForkingPickler as base  # noqa: N813 - one of two bases

    class Confirming(base):  # type: ignore[misc]
        def persistent_id(self, part: Any) -> Any:
            kind = type(part)
            if storages and issubclass(kind, storages):
                fresh.expand(part, kind, fresh.plan(kind))
                return "storage"
            if kind in tensors and (part.is_leaf or not part.requires_grad):
                return "tensor"  # its own reducer would move its bytes into shared memory
            return None

    return Confirming
