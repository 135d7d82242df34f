"""Plug-ins found by their entry points: one that works, one that does not import."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distcheck import rules
from distcheck.core import registry

from .cli.test_cli import ROOT, environment


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder like site-packages, with the example plug-in as pip would lay it down."""
    folder = tmp_path / "site"
    shutil.copytree(ROOT / "tests" / "plugin" / "our_site", folder / "our_site")
    add_entry_point(folder, "our_site-1", "site = our_site.probes")
    return folder


def add_entry_point(folder: Path, name: str, line: str) -> None:
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(
        f"[console_scripts]\nx = y:z\n\n[distcheck.plugins]\n{line}\n\n[other]\na = b\n"
    )


def distcheck(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "distcheck", *arguments],
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=f"{ROOT}:{site}"),
        cwd=site,
        timeout=60,
    )


def test_a_plug_in_reports_like_the_others(site: Path) -> None:
    result = distcheck(site, "env", "--select", "SITE101", "--output-format", "json")
    plain = json.loads(result.stdout)
    assert [(item["code"], item["fix"]["by"]) for item in plain["findings"]] == [("SITE101", "admin")], result.stderr
    assert result.returncode == 1
    assert distcheck(site, "env", "--ignore", "SITE101").returncode == 0
    assert "SITE101" in distcheck(site, "rules", "--prefix", "SITE").stdout
    assert "scratch-not-mounted" in distcheck(site, "explain", "SITE101").stdout


def test_a_plug_in_for_logs_is_none_of_the_business_of_env(site: Path) -> None:
    add_entry_point(site, "our_logs-1", "logs = our_site.logs")
    facts = str(ROOT / "docs" / "example-facts.json")
    for options, expected in (([], ["SITE101"]), (["--facts", facts], [])):
        result = distcheck(site, "env", *options, "--output-format", "json")
        plain = json.loads(result.stdout)
        assert [item["code"] for item in plain["findings"] if item["code"].startswith(("SITE", "DC9"))] == expected
        assert not [item for item in plain["not_checked"] if "SITE102" in item["what"]]
        assert "Traceback" not in result.stderr


def test_a_broken_plug_in_is_a_finding_and_the_rest_runs(site: Path) -> None:
    (site / "broken.py").write_text("raise SystemExit('not today')\n")
    add_entry_point(site, "broken-1", "broken = broken")
    add_entry_point(site, "missing-1", "missing = no_such_module")
    result = distcheck(site, "env", "--ignore", "SITE101", "--output-format", "json")
    plain = json.loads(result.stdout)
    found = {item["where"]["object"]: item["message"] for item in plain["findings"] if item["code"] == "DC903"}
    assert set(found) == {"broken", "missing"}
    assert "not today" in found["broken"]
    assert any(probe["status"] == "ran" for probe in plain["probes"])
    assert result.returncode == 0


def test_a_plug_in_brings_a_text_of_logs_and_what_it_means(site: Path) -> None:
    add_entry_point(site, "our_logs-1", "logs = our_site.logs")
    (site / "train.log").write_text("[rank1]: scratchd: user alice is over quota (5.1 of 5.0 TB)\n")
    result = distcheck(site, "log", "train.log", "--output-format", "json")
    plain = json.loads(result.stdout)
    assert [(item["code"], item["where"]["rank"]) for item in plain["findings"]] == [("SITE102", 1)], result.stderr
    assert "alice" in plain["story"]["why"]
    assert result.returncode == 1


def test_plug_ins_are_noticed_before_they_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not registry.has_plug_ins([str(tmp_path)])
    add_entry_point(tmp_path, "mine-1", "mine = mine")
    assert registry.has_plug_ins([str(tmp_path)])
    monkeypatch.setitem(registry._registry.rules, "MINE1", rules.DC101)
    assert registry.has_plug_ins([])


def test_a_plug_in_that_raises_or_hangs_leaves_the_others_alone(site: Path) -> None:
    """Its readers have limits, and its probes are isolated; what ends a process at its import can't be held."""
    (site / "bad.py").write_text(
        "import time\n"
        "from typing import NamedTuple\n"
        "from distcheck import Rule, Severity, World, fact, probe, register_rule\n"
        "RULES = [register_rule(Rule(f'BAD10{n}', f'bad-{n}', Severity.ERROR, ('env',), 'It is bad', (Severity.ERROR,)))"
        " for n in range(5)]\n"
        "class Hangs(NamedTuple):\n    value: int\n"
        "class Raises(NamedTuple):\n    value: int\n"
        "@fact(limit_s=0.2)\ndef read_hangs(world: World) -> Hangs:\n    time.sleep(100)\n"
        "@fact(limit_s=1)\ndef read_raises(world: World) -> Raises:\n    raise SystemExit('reader')\n"
        "@probe(RULES[0])\ndef of_hangs(hangs: Hangs):\n    yield RULES[0].found('never')\n"
        "@probe(RULES[1])\ndef of_raises(raises: Raises):\n    yield RULES[1].found('never')\n"
        "@probe(RULES[2])\ndef deep(world: World):\n    return deep(world)\n"
        "@probe(RULES[4])\ndef endless(world: World):\n    while True:\n        time.sleep(1)\n"
        "@probe(RULES[3])\ndef wrong(world: World):\n    yield 'no finding'\n"
    )
    add_entry_point(site, "bad-1", "bad = bad")
    start = time.monotonic()
    result = distcheck(site, "env", "--output-format", "json")
    plain = json.loads(result.stdout)
    found = {item["code"] for item in plain["findings"]}
    assert found >= {"SITE101", "DC901", "DC902"}, result.stderr
    assert not {code for code in found if code.startswith("BAD")}
    unchecked = " ".join(item["what"] for item in plain["not_checked"])
    assert [code for code in ("BAD100", "BAD101", "BAD102", "BAD103", "BAD104") if code not in unchecked] == []
    late = {item["where"]["object"] for item in plain["findings"] if item["code"] == "DC902"}
    assert late == {"bad.read_hangs", "bad.endless"}
    assert "Traceback" not in result.stderr
    assert time.monotonic() - start < 40
