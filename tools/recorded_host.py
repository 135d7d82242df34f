"""``distcheck env`` on a machine of ``tests/hosts``: what it prints there, printed here.

    python tools/recorded_host.py hgx-h100-infiniband env -- torchrun --standalone --nproc-per-node=8 train.py

The command is the real one; only its door to the outside is that machine's recorded answers. So an example in the
documents shows the same on every machine that makes it. The check before ``distcheck run`` is there as well; all
other commands run as they are. ``NAME/CASE`` is the machine as a case of its ``cases.json`` finds it, by the beginning
of the case's name.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def stand_on(name: str, folder: Path) -> None:
    """Make ``distcheck env`` and ``distcheck run`` check that machine, whose file tree is written to the folder."""
    from distcheck.checks.host import examine
    from distcheck.cli import env, run
    from distcheck.core.facts_file import load_facts
    from tests.recorded import HOSTS, load_world

    name, _, case = name.partition("/")
    world = load_world(name, folder)
    if case:
        changes = changes_of(HOSTS / name / "cases.json", case)
        world.record = {**world.record, **changes.get("world", {})}
        world.environ = {**world.environ, **changes.get("environ", {})}
    path = HOSTS / name / "facts.json"
    plain = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    saved = json.dumps({"kind": "distcheck facts", "schema_version": 1, "facts": plain})
    recorded = load_facts(saved, env.known_facts())

    def examine_there(launch: Any, seen: Any = None, **given: Any) -> Any:
        # what is in no file (GPUs) was recorded as a fact; the command's own facts stay
        if seen is not None:
            given["facts"] = {**recorded, **given["facts"]}
        return examine.examine(launch, seen, **given)

    for command in (env, run):
        vars(command).update(World=lambda: world, examine=examine_there)


def changes_of(path: Path, beginning: str) -> dict[str, Any]:
    """What a case changes of its machine.

    :raises ValueError: no such case, or one that changes more than answers and variables
    """
    for case in json.loads(path.read_text(encoding="utf-8")):
        if case["name"].startswith(beginning):
            if unknown := set(case) - {"name", "command", "options", "launched", "expect", "info", "world", "environ"}:
                raise ValueError(f"{case['name']}: it changes {', '.join(sorted(unknown))}")
            return dict(case)
    raise ValueError(f"{path}: no case begins with {beginning!r}")


def main() -> None:
    """Run the command there."""
    from distcheck.cli.main import main as run

    name, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        stand_on(name, Path(folder))
        sys.argv = ["distcheck", *arguments]
        run()


if __name__ == "__main__":
    main()
