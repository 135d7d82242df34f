"""distcheck says why a PyTorch distributed job will fail, hang or crawl, and what to type to mend it.

The public API; each name is imported when it is first used, so that ``import distcheck`` costs nothing.

>>> import distcheck
>>> report = distcheck.check_environment(nproc_per_node=2, backend="gloo")
>>> report.worst is None or report.worst <= distcheck.Severity.ERROR
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import PreflightError as PreflightError
    from .api import check_environment as check_environment
    from .api import preflight as preflight
    from .checker import Checker as Checker
    from .checker import Plan as Plan
    from .diagnosis import diagnose_log as diagnose_log
    from .logs.model import Event as Event
    from .logs.model import Timeline as Timeline
    from .logs.model import found as found_in_log  # noqa: F401 - its name outside of its room
    from .model import Edit as Edit
    from .model import Finding as Finding
    from .model import Fix as Fix
    from .model import NotApplicable as NotApplicable
    from .model import NotChecked as NotChecked
    from .model import Report as Report
    from .model import Rule as Rule
    from .model import Severity as Severity
    from .model import Unavailable as Unavailable
    from .model import Where as Where
    from .pickles.picklability import PickleReport as PickleReport
    from .pickles.picklability import UnpicklableError as UnpicklableError
    from .pickling_api import FileReport as FileReport
    from .pickling_api import assert_picklable as assert_picklable
    from .pickling_api import find_unpicklable as find_unpicklable
    from .pickling_api import scan_pickle as scan_pickle
    from .registry import Probe as Probe
    from .registry import fact as fact
    from .registry import probe as probe
    from .registry import register_rule as register_rule
    from .registry import register_signature as register_signature
    from .rules import Selection as Selection
    from .rules.signatures.model import Kind as Kind
    from .rules.signatures.model import Signature as Signature
    from .world import World as World

__version__ = "0.1.0"

_HOMES = {
    "Checker": "checker",
    "Plan": "checker",
    "diagnose_log": "diagnosis",
    "Event": "logs.model",
    "Timeline": "logs.model",
    "found_in_log": "logs.model",
    "Edit": "model",
    "Finding": "model",
    "Fix": "model",
    "NotApplicable": "model",
    "NotChecked": "model",
    "Report": "model",
    "Rule": "model",
    "Severity": "model",
    "Unavailable": "model",
    "Where": "model",
    "PreflightError": "api",
    "check_environment": "api",
    "preflight": "api",
    "PickleReport": "pickles.picklability",
    "UnpicklableError": "pickles.picklability",
    "FileReport": "pickling_api",
    "assert_picklable": "pickling_api",
    "find_unpicklable": "pickling_api",
    "scan_pickle": "pickling_api",
    "Probe": "registry",
    "fact": "registry",
    "probe": "registry",
    "register_rule": "registry",
    "register_signature": "registry",
    "Selection": "rules",
    "Kind": "rules.signatures.model",
    "Signature": "rules.signatures.model",
    "World": "world",
}

#: Names that say less in their own room.
_NAMES = {"found_in_log": "found"}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'distcheck' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"distcheck.{_HOMES[name]}"), _NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
