"""What tests need of a machine, and skip with a reason where it is not there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess

import hypothesis
import pytest

# how long an example takes says more of the machine than of what is tested; benchmarks/ measure
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip by mark, with the reason; in CI the run with torch must not be skipped."""
    reasons = {
        "torch": _no_torch(),
        "netns": _no_namespaces(items),
        "root": None if hasattr(os, "geteuid") and os.geteuid() == 0 else "needs root",
        "gpu": _no_gpu(),
    }
    for item in items:
        for mark, reason in reasons.items():
            if reason is not None and item.get_closest_marker(mark) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


def _no_torch() -> str | None:
    if importlib.util.find_spec("torch") is not None:
        return None
    if os.environ.get("TOX_ENV_NAME") == "torch":
        raise pytest.UsageError("this run must have torch, and torch is not installed")
    return "torch is not installed for this Python (its CPU build is for CPython 3.11)"


def _no_namespaces(items: list[pytest.Item]) -> str | None:
    if not any(item.get_closest_marker("netns") for item in items):
        return None
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    program = shutil.which("ip")
    if program is None:
        return "network namespaces need iproute2"
    name = f"distcheck-probe-{os.getpid()}"
    made = subprocess.run([program, "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made here: {made.stderr.strip()}"
    subprocess.run([program, "netns", "del", name], capture_output=True, check=False)
    return None


def _no_gpu() -> str | None:
    return None if os.path.exists("/dev/nvidiactl") else "no NVIDIA GPU here"
