"""Reports that earlier distchecks wrote: they validate with the schema of their version, as it is today."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from distcheck.core.model import SCHEMA_VERSION

#: ``VERSION/COMMIT-COMMAND.json``, as the distcheck of that commit wrote it.
KEPT = Path(__file__).parent / "kept"
REPORTS = sorted(KEPT.glob("*/*.json"))
VERSIONS = range(1, SCHEMA_VERSION + 1)


def schema_of(version: int) -> dict[str, Any]:
    """The schema of a version; that of the present one has no number in its name."""
    name = "report.schema.json" if version == SCHEMA_VERSION else f"report-{version}.schema.json"
    schema: dict[str, Any] = json.loads(files("distcheck").joinpath("reporters", name).read_text(encoding="utf-8"))
    return schema


def read(path: Path) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return plain


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_its_schema_and_reports_of_several_commands(version: int) -> None:
    schema = schema_of(version)
    assert schema["properties"]["schema_version"] == {"const": version}
    assert schema["$id"].endswith(f"/report-{version}.json")
    kept = [read(path) for path in REPORTS if path.parent.name == str(version)]
    assert {plain["schema_version"] for plain in kept} == {version}
    assert {"env", "lint", "log", "pickle", "collective", "rehearse"} <= {plain["command"] for plain in kept}
    assert len({path.name.partition("-")[0] for path in REPORTS}) > 1


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_report_of_an_earlier_distcheck_validates_today(path: Path) -> None:
    jsonschema.Draft202012Validator(schema_of(int(path.parent.name))).validate(read(path))


@pytest.mark.parametrize("path", list(KEPT.glob("*/*-lint.json")), ids=lambda path: path.stem)
def test_a_field_that_goes_away_is_noticed(path: Path) -> None:
    """What the test above is for: a schema that no longer has a field of an earlier report refuses it."""
    schema = schema_of(int(path.parent.name))
    del schema["$defs"]["finding"]["properties"]["evidence"]
    assert not jsonschema.Draft202012Validator(schema).is_valid(read(path))
