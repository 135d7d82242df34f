"""Texts and JSON that every reader takes: no control characters, no halves of characters, no infinities."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from distcheck.core.model import Finding

from . import escape


def visible(text: str) -> str:
    """A text of several lines with all else that is not printable made visible."""
    return "\n".join(map(escape, text.split("\n")))


def strict(value: Any) -> Any:
    """Plain values without what JSON can't hold: infinities become words, halves of characters are made visible."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {strict(str(name)): strict(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(part) for part in value]
    return value


def dump(value: Any) -> str:
    """Indented JSON in ASCII, ending with a line break."""
    return json.dumps(strict(value), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def advice(finding: Finding) -> str:
    """The fix of a finding in a few lines: what to do, where, what to type, and a note."""
    from .text_parts import BY, PLACES

    fix = finding.fix
    lines = [f"fix ({PLACES[fix.where]}{BY[fix.by]}): {fix.text}"]
    if fix.command:
        lines.append(fix.command)
    if fix.risk:
        lines.append(f"note: {fix.risk}")
    return visible("\n".join(lines))
