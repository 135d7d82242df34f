"""Calls a function when a module has been imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def when_imported(name: str, then: Callable[[Any], object]) -> None:
    """Call ``then`` with a module as soon as it is imported, before the importing code continues."""
    import importlib.abc
    import importlib.util

    if name in sys.modules:
        then(sys.modules[name])
        return

    class ImportHook(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
            if fullname != name:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(fullname)
            if spec is None or spec.loader is None:
                return spec
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, ImportHook())
