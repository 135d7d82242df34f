"""Wraps a function of torch in place: it stays the same object for all code that holds it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any


def put_around(function: types.FunctionType, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Replace a function by ``wrap(function)`` in place; return False if that is impossible."""
    code = function.__code__
    if code.co_freevars == ("func",) and function.__closure__ is not None:
        # torch's decorator: the wrapped function is in a cell
        cell = function.__closure__[0]
        inner = cell.cell_contents
        cell.cell_contents = wrap(inner)
        return True
    if code.co_freevars:
        return False
    original = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    original.__annotations__ = function.__annotations__
    name = f"_distcheck_{function.__name__}"
    function.__globals__[name] = wrap(original)
    space: dict[str, Any] = {}
    exec(f"def {function.__name__}(*args, **kwargs):\n    return {name}(*args, **kwargs)\n", space)  # noqa: S102 - two constant lines
    template = space[function.__name__].__code__
    # inspect.signature() and help() read this one
    function.__wrapped__ = original  # type: ignore[attr-defined]
    function.__code__ = template.replace(co_filename=__file__, co_name=code.co_name)
    function.__defaults__ = None
    function.__kwdefaults__ = None
    return True
