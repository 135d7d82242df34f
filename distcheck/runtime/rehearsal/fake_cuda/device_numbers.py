"""Devices that a script names by a bare number: ``model.to(1)``, ``torch.device(1)``.

torch's compiled part queries its one accelerator there, and has none. So the class ``torch.device`` is one that knows
what a number means, and makes torch's own devices. For code that compares or pickles it, it is the same class.
"""

from __future__ import annotations

from typing import Any

import torch

_Device: Any = torch.device


class _Named(type):
    """The class of a class that stands for torch's."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _Device(*_named(args), **kwargs) if args else _Device(**kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Device)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, _Device)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is _Device

    def __hash__(cls) -> int:
        return hash(_Device)

    def __repr__(cls) -> str:
        return repr(_Device)

    def __getattr__(cls, name: str) -> Any:
        return getattr(_Device, name)


def install() -> None:
    """Let numbers be GPUs wherever torch reads a device."""
    parse = torch._C._nn._parse_to

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        if _is_number(kwargs.get("device")):
            kwargs["device"] = _Device("cuda", kwargs["device"])
        parsed = parse(*_named(args), **kwargs)
        like = kwargs.get("tensor", args[0] if args else None)
        # its own device, which the compiled part does not know
        return (like.device, *parsed[1:]) if isinstance(like, torch.Tensor) else parsed

    torch._C._nn._parse_to = parse_to
    torch.device = _Named("device", (), {"__module__": "torch", "__doc__": _Device.__doc__})


def _named(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (_Device("cuda", args[0]), *args[1:]) if args and _is_number(args[0]) else args


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
