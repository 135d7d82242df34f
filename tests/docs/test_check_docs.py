"""The tool that looks at the built documentation sees what is broken there, and leaves alone what is right."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from distcheck import rules

from .documents import ROOT


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_docs", ROOT / "tools" / "check_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = load_tool()


def faults(folder: Path, link: str) -> list[str]:
    (folder / "other").mkdir()
    (folder / "other" / "index.html").write_text('<h1 id="there">There</h1>')
    (folder / "index.html").write_text(f'<p id="here"><a href="{link}">a link</a>')
    found: list[str] = tool.broken_links(tool.read_pages(folder))
    return found


@pytest.mark.parametrize(
    "link",
    [
        "#here",
        "other/",
        "other/index.html#there",
        "other/#there",
        "https://example.org/a#b",
        "mailto:someone@example.org",
    ],
)
def test_good_links_are_left_alone(tmp_path: Path, link: str) -> None:
    assert faults(tmp_path, link) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("#gone", "no such anchor"),
        ("other/#gone", "no such anchor"),
        ("gone.html", "no such file"),
        ("http://example.org/", "no https"),
        ("https://example/", "no host"),
        ("https://", "no host"),
        ("https://example.org/a b", "a space"),
        ("//example.org/", "no https"),
    ],
)
def test_bad_links_are_named_with_their_page(tmp_path: Path, link: str, why: str) -> None:
    (fault,) = faults(tmp_path, link)
    assert fault.startswith(f"index.html: {link}: ")
    assert why in fault


def test_every_address_of_every_rule_is_asked_for(tmp_path: Path) -> None:
    rule = rules.find("DC401")
    assert len(tool.addresses(tmp_path)) == 3 * len(rules.ALL)
    for place in ("rules/DC401.html", "rules/DC401/index.html", "rules/master-port-in-use.html"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(rule.name)
    assert len(tool.addresses(tmp_path)) == 3 * len(rules.ALL) - 3


def test_a_folder_without_pages_is_a_misuse(tmp_path: Path) -> None:
    assert tool.main([str(tmp_path)]) == 2
