"""What is worked out once for a program, and kept as long as it lives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Owner = TypeVar("Owner", bound="Noted")
Thing = TypeVar("Thing")
Rest = ParamSpec("Rest")


class Noted(Protocol):
    """What keeps the answers of functions about it."""

    notes: dict[Any, Any]


def cached(
    function: Callable[Concatenate[Owner, Rest], Thing],
) -> Callable[Concatenate[Owner, Rest], Thing]:
    """Keep what a function of a program returns for the same arguments, as long as the program lives."""

    @functools.wraps(function)
    def known(program: Owner, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Thing:
        key = (function, args, *kwargs.items()) if kwargs else (function, args)
        notes = program.notes
        if key in notes:
            found: Thing = notes[key]
        else:
            found = notes[key] = function(program, *args, **kwargs)
        return found

    return known
