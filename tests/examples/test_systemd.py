"""The units of ``examples/systemd`` and the alerts of ``examples/prometheus``, with the metrics that they are about."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from distcheck.cli.prolog_check import DRAINING, RULES
from distcheck.rules import known
from tests.cli.test_cli import environment
from tests.cli.test_prolog_check import GPUS, LOST

from .test_slurm import script

ROOT = Path(__file__).parent.parent.parent
SYSTEMD = ROOT / "examples" / "systemd"
ALERTS = ROOT / "examples" / "prometheus" / "distcheck-rules.yml"
FOLDER = "/var/lib/node_exporter/textfile_collector"
METRIC = re.compile(r"(distcheck_\w+)(?:\{([^}]*)\})?")


def unit(name: str) -> dict[str, list[str]]:
    """The settings of a unit, each with all its values, without the sections."""
    text = (SYSTEMD / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(" ".join(value.split()))
    return found


def words() -> list[str]:
    """The command of the service."""
    (line,) = unit("distcheck-node.service")["ExecStart"]
    return line.split()


@pytest.fixture(scope="module")
def verifier() -> str:
    """systemd's own check of units."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    return tool


@pytest.mark.parametrize("name", ["distcheck-node.service", "distcheck-node.timer"])
def test_systemd_can_read_it(name: str, tmp_path: Path, verifier: str) -> None:
    program = script(tmp_path / "distcheck", "#!/bin/sh\n")
    for path in SYSTEMD.iterdir():
        text = path.read_text(encoding="utf-8").replace("/opt/distcheck/bin/distcheck", str(program))
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    result = subprocess.run(
        [verifier, "verify", "--man=no", str(tmp_path / name)], capture_output=True, text=True, timeout=60
    )
    own = [line for line in result.stderr.splitlines() if "distcheck" in line]
    assert (result.returncode, own) == (0, [])


def test_the_verifier_would_complain(tmp_path: Path, verifier: str) -> None:
    broken = tmp_path / "distcheck-node.service"
    broken.write_text("[Service]\nType=oneshoot\nExecStart=/bin/true\n", encoding="utf-8")
    result = subprocess.run([verifier, "verify", "--man=no", str(broken)], capture_output=True, text=True, timeout=60)
    assert "oneshoot" in result.stderr


def test_the_service_asks_the_rules_of_the_profile() -> None:
    command = words()
    assert set(command[command.index("--select") + 1].split(",")) == set(RULES)
    assert command[command.index("-o") + 1] == f"{FOLDER}/distcheck.prom"
    settings = unit("distcheck-node.service")
    assert settings["ConditionPathIsDirectory"] == [FOLDER]
    assert settings["SuccessExitStatus"] == ["1 3"]
    # else it would not see the /tmp and the GPUs that jobs get
    assert settings["ProtectSystem"] == ["full"]
    assert not {"PrivateTmp", "PrivateDevices"} & set(settings)
    assert float(command[command.index("--timeout") + 1]) < float(settings["TimeoutStartSec"][0])


def metrics(before: str, folder: Path) -> tuple[int, Path]:
    """The service's command, run for a machine that ``before`` makes; its status and the file."""
    command = [word.replace(FOLDER, str(folder)) for word in words()[1:]]
    start = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{before}\nsys.argv = ['distcheck', *{command!r}]\n"
    result = subprocess.run(
        [sys.executable, "-c", start + "from distcheck.cli.fast_path import main\nmain()\n"],
        env=environment(),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        umask=0o022,
    )
    assert (result.stdout, "Traceback" in result.stderr) == ("", False)
    (path,) = folder.iterdir()
    return result.returncode, path


def samples(path: Path) -> list[Any]:
    """All samples of the file, as Prometheus' own library reads them."""
    parser = pytest.importorskip("prometheus_client.parser")
    families = parser.text_string_to_metric_families(path.read_text(encoding="utf-8"))
    return [sample for family in families for sample in family.samples]


#: The disks of the machine that runs the tests are as they are.
ROOMY = "distcheck.core.world.World.space = lambda self, path: distcheck.core.world.Space(1 << 40, 1 << 39)\n"


def test_good_node_leaves_a_file_that_all_may_read(tmp_path: Path) -> None:
    status, path = metrics(GPUS + ROOMY, tmp_path)
    assert status == 0
    assert path.name == "distcheck.prom"
    assert path.stat().st_mode & 0o777 == 0o644
    found = {sample.labels["code"]: sample.value for sample in samples(path) if sample.name == "distcheck_findings"}
    assert {code: found[code] for code in DRAINING} == dict.fromkeys(DRAINING, 0)


def test_bad_node_is_a_number(tmp_path: Path) -> None:
    status, path = metrics(LOST + ROOMY, tmp_path)
    assert status == 1
    found = {sample.labels["code"]: sample for sample in samples(path) if sample.name == "distcheck_findings"}
    assert (found["DC309"].value, found["DC309"].labels["severity"]) == (1, "error")


# alerts


def alerts() -> Iterator[tuple[str, str]]:
    """The name and the expression of each alert."""
    plain = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    for group in plain["groups"]:
        assert set(group) == {"name", "rules"}
        for rule in group["rules"]:
            assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
            assert re.fullmatch(r"\d+[mh]", rule["for"])
            yield rule["alert"], rule["expr"]


def selected(expression: str, found: list[Any]) -> list[Any]:
    """The samples that the first selector of an expression takes."""
    name, matchers = METRIC.search(expression).groups()  # type: ignore[union-attr]
    chosen = [sample for sample in found if sample.name == name]
    for label, operator, value in re.findall(r'(\w+)(=~|!~|=|!=)"([^"]*)"', matchers or ""):
        exact = operator in ("=", "!=")
        chosen = [
            sample
            for sample in chosen
            if (
                sample.labels.get(label, "") == value
                if exact
                else bool(re.fullmatch(value, sample.labels.get(label, "")))
            )
            != operator.startswith("!")
        ]
    return chosen


def test_alerts_fire_on_what_the_service_writes(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "silent").mkdir()
    good = samples(metrics(GPUS + ROOMY, tmp_path / "good")[1])
    bad = samples(metrics(LOST + ROOMY.replace("1 << 39", "1 << 20"), tmp_path / "bad")[1])
    silent = (
        "import distcheck.core.world\nfrom distcheck.core.model import Unavailable\n"
        "def nvml(self): raise Unavailable('no')\ndistcheck.core.world.World.nvml = nvml\n"
    )
    status, path = metrics(silent + ROOMY, tmp_path / "silent")
    assert status == 0
    unseen = samples(path)
    expressions = dict(alerts())
    for name, broken in (
        ("DistcheckNodeBroken", bad),
        ("DistcheckNodeImpaired", bad),
        ("DistcheckGpusNotChecked", unseen),
    ):
        expression = expressions[name]
        assert expression.endswith(" > 0")
        assert any(sample.value > 0 for sample in selected(expression, broken)), name
        assert not any(sample.value > 0 for sample in selected(expression, good)), name
    for name in ("DistcheckStale", "DistcheckAbsent"):
        assert len(selected(expressions[name], good)) == 1, name
    # the other way round, a series that goes back to 0 is there for the first to resolve
    assert selected(expressions["DistcheckNodeBroken"], good)


def test_alerts_name_the_rules_of_the_profile() -> None:
    text = ALERTS.read_text(encoding="utf-8")
    lists = re.findall(r'code[=!]~"([^"]*)"', text)
    assert lists == ["|".join(DRAINING)] * 2
    assert set(re.findall(r"DC\d{3}", text)) <= set(known())
    assert set(re.findall(r"\bdistcheck_\w+", text)) <= {
        "distcheck_findings",
        "distcheck_not_checked",
        "distcheck_run_timestamp_seconds",
    }
