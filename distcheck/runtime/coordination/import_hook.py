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
        searching = False

        def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
            if fullname != name or self.searching:
                return None
            self.searching = True
            try:
                spec = importlib.util.find_spec(fullname)
            finally:
                self.searching = False
            if spec is None or spec.loader is None:
                return spec
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                # not in find_spec: packages also call that to test whether the module is installed
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, ImportHook())
