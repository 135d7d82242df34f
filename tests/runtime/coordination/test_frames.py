"""Frames as a reader of a report sees them."""

from __future__ import annotations

import sys
from typing import Any

from distcheck.runtime.coordination.frames import stack_of


def test_what_is_installed_is_shown_from_its_package_on() -> None:
    space: dict[str, Any] = {"sys": sys}
    exec(compile("def wait():\n    return sys._getframe()", "/opt/venv/lib/site-packages/torch/work.py", "exec"), space)
    frames = stack_of(space["wait"]())
    assert (frames[0].path, frames[0].line, frames[0].function, frames[0].own) == ("torch/work.py", 2, "wait", False)


def test_the_users_own_is_relative_to_the_working_directory() -> None:
    found = next(frame for frame in stack_of(sys._getframe()) if frame.function.startswith("test_the_users_own"))
    assert found.own
    assert found.path.endswith("test_frames.py")
