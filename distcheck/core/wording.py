"""Words of messages: numbers with their noun, lists, sizes."""

from __future__ import annotations

from collections.abc import Sequence, Sized

_MIB, _GIB = 1 << 20, 1 << 30


def counted(count: int, noun: str) -> str:
    """Return ``1 node`` or ``2 nodes``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def is_or_are(things: Sized) -> str:
    """Return the verb that follows a list of things."""
    return "is" if len(things) == 1 else "are"


def listed(names: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def size_text(size_bytes: int) -> str:
    """Return a size for people: whole MiB, or GiB with one digit from 1 GiB on."""
    return f"{size_bytes / _GIB:.1f} GiB" if size_bytes >= _GIB else f"{size_bytes / _MIB:.0f} MiB"
