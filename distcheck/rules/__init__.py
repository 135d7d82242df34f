"""The rules: ``rules.DC401`` and its siblings, found by code or name, and selected."""

from __future__ import annotations

from distcheck.core import registry
from distcheck.core.registry import rules as known
from distcheck.core.selection import Selection, UnknownRule, find, look_up

from .catalogue import *  # noqa: F403 - the catalogue is the contents of this package
from .catalogue import ALL

__all__ = ["ALL", "Selection", "UnknownRule", "find", "known", "look_up"]

for _rule in ALL:
    registry.register_rule(_rule)
