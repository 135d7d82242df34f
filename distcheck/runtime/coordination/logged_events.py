"""One thing that a rank did, as a plain value, and what takes such events: the log of a rehearsal, or that of watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from .locations import split_place

Record = TypeVar("Record")


class LoggedEvent(NamedTuple):
    """One thing that a rank did."""

    #: ``<topic>.<what>``: ``samples.pass``, ``files.write``, ``devices.set``
    kind: str
    #: global rank; None: a process that has not become one (a parent of ``mp.spawn``, a loader's worker)
    rank: int | None
    pid: int
    #: seconds since the log began
    at_s: float
    #: optimizer steps that this process had done
    step: int
    #: the innermost line of the user's own, relative to the working directory: ``train.py:88``; "" where there is none
    place: str = ""
    function: str = ""
    #: plain JSON values, by the topic's own names
    data: Mapping[str, Any] = {}

    @property
    def path_and_line(self) -> tuple[str | None, int | None]:
        return split_place(self.place)

    def fill(self, kind: Callable[..., Record], **values: Any) -> Record:
        """Return a named tuple with the fields of this event that it has; ``values`` count more."""
        own = {"rank": self.rank, "place": self.place, "function": self.function, "at_s": self.at_s, "step": self.step}
        return fill(kind, {**own, **self.data, **values})


def fill(kind: Callable[..., Record], data: Mapping[str, Any]) -> Record:
    """Return a named tuple with those values whose names are its fields; lists become tuples."""
    fields = getattr(kind, "_fields", ())
    return kind(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in fields}
    )


class EventSink(Protocol):
    """Takes the events of this process. No method may raise."""

    #: called once before this process ends
    at_end: list[Callable[[], object]]
    #: events that could not be logged, by their kind
    lost: dict[str, int]

    def note(self, kind: str, *, place: tuple[str, str] | None = None, **data: Any) -> None:
        """Log one event.

        :param place: the call site, ``(path:line, function)``; by default the innermost own line above the caller
        :param data: plain JSON values
        """

    def count_lost(self, kind: str) -> None:
        """Count an event that could not be logged."""
