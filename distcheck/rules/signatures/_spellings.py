"""The short form in which the modules of this package write their signatures."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature


def spellings(name: str, kind: Kind, codes: tuple[str, ...], *texts: tuple[str, ...]) -> tuple[Signature, ...]:
    """Return one signature for each spelling of a message.

    :param name: the name that the signatures share
    :param kind: what such a line shows
    :param codes: the rules that it may lead to
    :param texts: one tuple for each spelling: the pattern, then lines that it matches
    """
    return tuple(Signature(name, kind, pattern, tuple(examples), codes) for pattern, *examples in texts)
