"""Python runs this at the start of each process that a rehearsed script starts: it believes in the same GPUs.

Another file of this name, which Python would have run, is run as well.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.abspath(os.path.join(_HERE, *[os.pardir] * 5))


def _believe() -> None:
    sys.path.append(_ROOT)
    try:
        from distcheck.runtime.rehearsal.fake_cuda import from_environment

        from_environment()
    except Exception as error:  # noqa: BLE001 - the script's own process goes on, without GPUs
        sys.stderr.write(f"distcheck: this process does not see the rehearsal's GPUs: {error}\n")
    finally:
        sys.path.remove(_ROOT)


def _run_the_other() -> None:
    others = [path for path in sys.path if os.path.abspath(path) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_believe()
_run_the_other()
