"""What the documents show is what happens."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_readme_shows_real_output() -> None:
    result = subprocess.run(
        [sys.executable, "tools/make_example.py", "--check", "README.md"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("tool", [["make_rules.py"], ["make_variables.py", "tools/envvars.json"]])
def test_what_is_generated_is_current(tool: list[str]) -> None:
    command = [sys.executable, f"tools/{tool[0]}", *tool[1:], "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_readmes_commands_are_those_of_ci() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pip install . && distcheck env" in readme
    assert "pip install tox && tox run-parallel\n" in readme
    assert re.search(r"pip\" install .*tox", ci)
    assert re.search(r"bin/tox\"? run-parallel ", ci)


def test_the_plug_ins_of_the_docs_are_those_of_the_tests() -> None:
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for program, name in zip(programs, ("probes.py", "logs.py"), strict=True):
        assert program.strip() in (ROOT / "tests" / "plugin" / "our_site" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "click", "pathspec", "tabulate", "netifaces-plus", "psutil", "nvidia-ml-py", "tree-sitter", "tree-sitter-bash",
        "PyYAML", "google-re2",
    ],
)  # fmt: skip
def test_requirements_are_declared(name: str) -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert name in setup["options"]["install_requires"]
    assert "torch" not in setup["options"]["install_requires"]


def test_no_path_of_a_machine_is_in_the_project() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("no git checkout")
    for name in listed.stdout.split():
        path = ROOT / name
        if path.is_file() and path.suffix in (".py", ".md", ".cfg", ".ini", ".json", ".jsonl", ".toml", ""):
            assert not re.search(r"/(work|farm)/", path.read_text(encoding="utf-8", errors="replace")), name
