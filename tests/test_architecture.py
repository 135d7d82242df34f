"""Nothing heavy is imported at the start. Which package may import which is checked by import-linter (setup.cfg)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "distcheck"

#: Modules that cost too much to import where start-up counts; readers import them where they need them.
HEAVY = {
    "subprocess",
    "urllib",
    "asyncio",
    "difflib",
    "pathspec",
    "importlib.metadata",
    "psutil",
    "inspect",
    "dataclasses",
    "pynvml",
    "tree_sitter",
    "tree_sitter_bash",
    "yaml",
    "re2",
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    """Absolute names of what a module imports; with ``top_level`` only what runs when it is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    relative = path.relative_to(PACKAGE.parent)
    package = list(relative.with_suffix("").parts[:-1])
    found: set[str] = set()
    nodes = tree.body if top_level else list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *filter(None, [node.module])])
            found.update(f"{name}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_heavy_is_imported_at_the_start(path: Path) -> None:
    heavy = {name for name in imports(path, top_level=True) if name in HEAVY or name.rsplit(".", 1)[0] in HEAVY}
    assert not heavy


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("command", ["", "torchrun --nproc-per-node=2 train.py"])
def test_torch_is_never_imported_by_env(command: str) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from distcheck.checks.host.examine import examine\n"
        "from distcheck.launch.command import parse_command\n"
        "from distcheck.launch.reader import make_launch\n"
        "from distcheck.core.world import World\n"
        f"words = {command.split()!r}\n"
        "launch = make_launch({}, command=parse_command(words) if words else None)\n"
        "report = examine(launch, World(), every_fact=True)\n"
        "assert not [item for item in report.findings if item.code.startswith('DC9')], report.findings\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PACKAGE.parent, timeout=60)
