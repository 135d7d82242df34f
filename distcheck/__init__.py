"""distcheck explains why a PyTorch distributed job will fail, hang or run slowly, and prints the fix.

This is the public API. Each name is imported when it is first used, so that ``import distcheck`` costs nothing.

>>> import distcheck
>>> report = distcheck.check_environment(nproc_per_node=2, backend="gloo")
>>> report.worst is None or report.worst <= distcheck.Severity.ERROR
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .api import PreflightError as PreflightError
    from .api import check_environment as check_environment
    from .api import preflight as preflight
    from .checks.logs.diagnose import diagnose_log as diagnose_log
    from .checks.logs.model import Event as Event
    from .checks.logs.model import Timeline as Timeline
    from .checks.logs.model import found as found_in_log  # noqa: F401 - its public name
    from .checks.pickles.api import FileReport as FileReport
    from .checks.pickles.api import assert_picklable as assert_picklable
    from .checks.pickles.api import find_unpicklable as find_unpicklable
    from .checks.pickles.api import scan_pickle as scan_pickle
    from .checks.pickles.picklability import PickleReport as PickleReport
    from .checks.pickles.picklability import UnpicklableError as UnpicklableError
    from .core.checker import Checker as Checker
    from .core.checker import Plan as Plan
    from .core.model import Edit as Edit
    from .core.model import Finding as Finding
    from .core.model import Fix as Fix
    from .core.model import NotApplicable as NotApplicable
    from .core.model import NotChecked as NotChecked
    from .core.model import Report as Report
    from .core.model import Rule as Rule
    from .core.model import Severity as Severity
    from .core.model import Unavailable as Unavailable
    from .core.model import Where as Where
    from .core.registry import Probe as Probe
    from .core.registry import fact as fact
    from .core.registry import probe as probe
    from .core.registry import register_rule as register_rule
    from .core.registry import register_signature as register_signature
    from .core.signature import Kind as Kind
    from .core.signature import Signature as Signature
    from .core.world import World as World
    from .rules import Selection as Selection


#: module → its public names
_PUBLIC = {
    "_version": ("__version__",),
    "api": ("PreflightError", "check_environment", "preflight"),
    "checks.logs.diagnose": ("diagnose_log",),
    "checks.logs.model": ("Event", "Timeline", "found_in_log"),
    "checks.pickles.api": ("FileReport", "assert_picklable", "find_unpicklable", "scan_pickle"),
    "checks.pickles.picklability": ("PickleReport", "UnpicklableError"),
    "core.checker": ("Checker", "Plan"),
    "core.model": (
        "Edit", "Finding", "Fix", "NotApplicable", "NotChecked", "Report", "Rule", "Severity", "Unavailable", "Where",
    ),
    "core.registry": ("Probe", "fact", "probe", "register_rule", "register_signature"),
    "core.signature": ("Kind", "Signature"),
    "core.world": ("World",),
    "rules": ("Selection",),
}  # fmt: skip
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names}
#: Public names that differ from the name in their module.
_NAMES = {"found_in_log": "found"}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'distcheck' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"distcheck.{_MODULES[name]}"), _NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
