"""The dashboard of Grafana and the alerts, as Prometheus' own ``promtool`` reads them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_prolog_check import GPUS

from .test_systemd import ALERTS, METRIC, ROOMY, metrics, samples

DASHBOARD = ALERTS.parent / "distcheck-dashboard.json"


def panels() -> dict[str, Any]:
    return {panel["title"]: panel for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]}


def expressions() -> dict[str, str]:
    """The query of each panel, with a value in place of the dashboard's variable."""
    return {title: panel["targets"][0]["expr"].replace("$instance", ".*") for title, panel in panels().items()}


def test_each_panel_queries_what_the_service_writes(tmp_path: Path) -> None:
    written = {sample.name for sample in samples(metrics(GPUS + ROOMY, tmp_path)[1])}
    for title, expression in expressions().items():
        names = {name for name, _ in METRIC.findall(expression)}
        assert names and names <= written, title


def test_each_panel_has_a_unit_a_description_and_a_place_of_its_own() -> None:
    taken: set[tuple[int, int]] = set()
    for title, panel in panels().items():
        assert panel["description"].endswith("."), title
        assert panel["fieldConfig"]["defaults"]["unit"], title
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, title
        taken |= cells
    assert len({panel["id"] for panel in panels().values()}) == len(panels())


@pytest.fixture(scope="module")
def promtool() -> str:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return tool


def run(tool: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool, *words], capture_output=True, text=True, timeout=60, check=False)


def test_promtool_reads_the_alerts_and_the_queries(promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(expressions().values())]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for file in (ALERTS, path):
        done = run(promtool, "check", "rules", str(file))
        assert done.returncode == 0, done.stderr
    path.write_text(path.read_text().replace("count(", "count(("))
    assert run(promtool, "check", "rules", str(path)).returncode != 0


def test_promtool_fires_the_alerts_when_they_should(promtool: str, tmp_path: Path) -> None:
    """Three nodes for two hours: a good one, one with a broken GPU, and one whose check stopped after ten minutes."""
    labels = 'command="env",code="DC309",name="gpu-hardware-error",severity="error"'
    series = [
        {"series": f'distcheck_findings{{instance="good",{labels}}}', "values": "0x120"},
        {"series": f'distcheck_findings{{instance="bad",{labels}}}', "values": "0x9 1x110"},
        *(
            {"series": f'distcheck_run_timestamp_seconds{{instance="{node}",command="env"}}', "values": values}
            for node, values in (("good", "0+60x120"), ("bad", "0+60x120"), ("stopped", "0+60x10 600x110"))
        ),
        *({"series": f'up{{instance="{node}",job="gpu-nodes"}}', "values": "1x120"} for node in ("good", "never")),
    ]

    def firing(alert: str, minute: int) -> list[str]:
        """The nodes for which an alert fires, found by expecting none."""
        test = {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []}
        path = tmp_path / "test.yml"
        path.write_text(
            yaml.safe_dump(
                {
                    "rule_files": [str(ALERTS)],
                    "evaluation_interval": "1m",
                    "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": [test]}],
                }
            )
        )
        done = run(promtool, "test", "rules", str(path))
        text = done.stdout + done.stderr
        return [node for node in ("good", "bad", "stopped", "never") if f'instance="{node}"' in text]

    # only after ten minutes, so that a passing fault wakes nobody
    assert firing("DistcheckNodeBroken", 15) == []
    assert firing("DistcheckNodeBroken", 25) == ["bad"]
    assert firing("DistcheckStale", 20) == []
    assert firing("DistcheckStale", 60) == ["stopped"]
    assert firing("DistcheckAbsent", 20) == []
    assert firing("DistcheckAbsent", 60) == ["never"]
