"""Every format of every command: it can be read by what it is for, and changes neither verdict nor exit status."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from distcheck.cli.main import COMMANDS, group
from distcheck.reporters import FORMATS
from tests import warm

from .test_cli import ROOT, environment

TRAIN = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
if os.environ["RANK"] == 0:
    torch.save({}, "model.pt")
"""
LOG = (
    "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
)
#: A pickle that calls posix.system.
EVIL = b"cposix\nsystem\n(Vecho\ntR."

READERS: dict[str, Callable[[str], Any]] = {
    "full": str.splitlines,
    "concise": str.splitlines,
    "json": json.loads,
    "json-lines": lambda text: [json.loads(line) for line in text.splitlines()],
    "github": str.splitlines,
    "gitlab": json.loads,
    "sarif": json.loads,
    "junit": ElementTree.fromstring,
    "rdjson": json.loads,
    "html": str.splitlines,
    "markdown": lambda text: MarkdownIt("commonmark").enable("table").parse(text),
    "prometheus": lambda text: list(text_string_to_metric_families(text)),
}
#: A call of each command that finds something, and what it finds.
CALLS = {
    "lint": (["lint", "--isolated", "--no-cache", "train.py"], "DC209"),
    "env": (["env", "--isolated", "--facts", "facts.json", "--nproc-per-node", "64"], "DC301"),
    "merge": (["env", "--isolated", "--facts", "hosts", "--nproc-per-node", "64"], "DC301"),
    "log": (["log", "--isolated", "train.log"], "DC401"),
    "pickle": (["pickle", "--isolated", "evil.pkl"], "DC610"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    facts = (ROOT / "docs" / "example-facts.json").read_text(encoding="utf-8")
    (tmp_path / "facts.json").write_text(facts)
    (tmp_path / "hosts").mkdir()
    for name in ("gpu01", "gpu02"):
        (tmp_path / "hosts" / f"{name}.json").write_text(facts)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "evil.pkl").write_bytes(EVIL)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_takes_every_format() -> None:
    takers = []
    for name, (module, _) in COMMANDS.items():
        command = import_module(f"distcheck.cli.{module}").command
        for option in command.params:
            # explain, rules and diff make no report
            if option.name == "output_format" and "github" in option.type.choices:
                assert list(option.type.choices) == list(FORMATS), name
                takers.append(name)
    assert {"env", "collective", "lint", "pickle", "log", "run"} <= set(takers)
    assert set(READERS) == set(FORMATS)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("call", CALLS)
def test_it_can_be_read_and_the_status_stays(call: str, output_format: str) -> None:
    arguments, code = CALLS[call]
    result = CliRunner().invoke(group, [*arguments, "--output-format", output_format], standalone_mode=False)
    assert result.exception is None, result.exception
    assert result.return_value == 1, result.output
    assert code in result.stdout
    assert READERS[output_format](result.stdout)


@pytest.mark.usefixtures("folder")
# concise and github print nothing if there are no findings
@pytest.mark.parametrize("output_format", sorted(set(FORMATS) - {"concise", "github"}))
def test_where_nothing_is_found_it_can_be_read_as_well(output_format: str) -> None:
    Path("train.py").write_text("import torch.distributed as dist\n")
    arguments = ["lint", "--isolated", "--no-cache", "train.py", "--output-format", output_format]
    result = CliRunner().invoke(group, arguments, standalone_mode=False)
    assert result.exception is None
    assert result.return_value == 0
    READERS[output_format](result.stdout)


@pytest.mark.parametrize("output_format", ["sarif", "gitlab", "github", "junit"])
def test_from_a_folder_below_paths_are_those_of_the_repository(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output_format: str
) -> None:
    (folder / "jobs").mkdir()
    (folder / "train.py").rename(folder / "jobs" / "train.py")
    monkeypatch.chdir(folder / "jobs")
    arguments = ["lint", "--isolated", "--no-cache", "train.py", "--output-format", output_format]
    result = CliRunner().invoke(group, arguments, standalone_mode=False)
    assert "jobs/train.py" in result.stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("call", ["lint", "log"])
def test_standard_input_is_no_file_of_the_repository(call: str) -> None:
    text = {"lint": TRAIN, "log": LOG}[call]

    def written(output_format: str) -> str:
        command = [call, "--isolated", "-", "--output-format", output_format]
        result = warm.run(command, environ=environment(), given=text)
        assert result.returncode == 1, result.stderr
        return result.stdout

    (run_of,) = json.loads(written("sarif"))["runs"]
    uris = [item["uri"] for item in _all_of(run_of["results"], "artifactLocation")]
    assert uris and set(uris) == {f"distcheck-{call}"}
    assert {issue["location"]["path"] for issue in json.loads(written("gitlab"))} == {f"distcheck-{call}"}
    assert {one["location"]["path"] for one in json.loads(written("rdjson"))["diagnostics"]} == {f"distcheck-{call}"}
    assert "file=" not in written("junit")
    annotation = written("github").splitlines()[0]
    assert annotation.startswith("::error title=DC")
    assert re.search(r"\((rank 0, )?line \d+\)%0Afix: ", annotation)


def _all_of(value: Any, name: str) -> list[Any]:
    """What has this name, however deep."""
    if isinstance(value, list):
        return [found for part in value for found in _all_of(part, name)]
    if not isinstance(value, dict):
        return []
    own = [value[name]] if name in value else []
    return own + [found for part in value.values() for found in _all_of(part, name)]


def test_a_file_that_the_collector_may_not_read_half_is_written_whole(folder: Path) -> None:
    arguments = ["log", "--isolated", "train.log", "--output-format", "prometheus", "-o", "distcheck.prom"]
    result = CliRunner().invoke(group, arguments, standalone_mode=False)
    assert (result.return_value, result.stdout) == (1, "")
    assert list(text_string_to_metric_families((folder / "distcheck.prom").read_text()))
    assert [path.name for path in folder.iterdir() if "prom" in path.name] == ["distcheck.prom"]


def test_an_unknown_format_is_a_usage_error_that_lists_all() -> None:
    with pytest.raises(click.BadParameter, match="'sarif'") as error:
        CliRunner().invoke(group, ["lint", "--output-format", "sarfi"], standalone_mode=False, catch_exceptions=False)
    assert error.value.exit_code == 2


def test_a_format_costs_nothing_where_it_is_not_asked_for() -> None:
    program = (
        "import sys\n"
        "import distcheck.cli.env, distcheck.reporters.full\n"
        "loaded = [name for name in sys.modules if name.startswith('distcheck.reporters.')]\n"
        "print(*loaded)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60, env=environment()
    )
    assert result.returncode == 0, result.stderr
    loaded = {name.rpartition(".")[2] for name in result.stdout.split()}
    assert not loaded & {"sarif", "junit", "gitlab", "rdjson", "prometheus", "markdown", "locations", "plain"}


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("output_format", ["junit", "prometheus"])
def test_a_smoke_test_in_a_format_for_programs(tmp_path: Path, output_format: str) -> None:
    command = [sys.executable, "-m", "distcheck", "collective", "--nproc", "2", "--backend", "gloo", "--quick"]
    result = subprocess.run(
        [*command, "--output-format", output_format],
        capture_output=True, text=True, cwd=tmp_path, timeout=180, env=environment(),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert READERS[output_format](result.stdout)
