"""Both benchmarks about pickles: ``python benchmarks/pickle.py files …`` or ``… objects …``, with options of their own.

Python searches modules in the folder of the script that it runs, first of all. A script next to this one that imports
``pickle`` gets this file, which then makes way for the library's.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    import runpy

    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    part = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if part not in ("files", "objects"):
        sys.exit(__doc__)
    runpy.run_path(os.path.join(HERE, f"pickle_{part}.py"), run_name="__main__")
else:
    import importlib

    kept = sys.path[:]
    sys.path[:] = [folder for folder in kept if os.path.abspath(folder) != HERE]
    del sys.modules[__name__]
    try:
        sys.modules[__name__] = importlib.import_module(__name__)
    finally:
        sys.path[:] = kept
