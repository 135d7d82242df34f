"""Readers that a fresh Python can import by name."""

from __future__ import annotations

import os
import time

from distcheck.core.model import Unavailable


def read_pid(offset: int) -> int:
    return os.getpid() + offset


def read_nothing(offset: int) -> int:
    raise Unavailable("nothing to read")


def read_badly(offset: int) -> int:
    raise ZeroDivisionError("by zero")


def read_for_ever(offset: int) -> int:
    time.sleep(60)
    return offset


def measure(text: str) -> int:
    return len(text)
