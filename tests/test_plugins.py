"""Plug-ins found by their entry points: one that works, one that does not import."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
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
