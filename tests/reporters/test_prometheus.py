"""Prometheus' text format: read by the parser of Prometheus' own client, with series that stay the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from prometheus_client.parser import text_string_to_metric_families

from distcheck.core.model import NotChecked, Report
from distcheck.reporters import render

from .any_report import reports
from .invented import CLEAN, COLLECTIVE, ENV, LINT, LOG, MERGED, PICKLE, SAMPLES, UNDECIDED

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series_of(report: Report) -> Series:
    text = render(report, "prometheus")
    assert text.endswith("\n")
    read: Series = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in read  # the collector would drop the file
            read[key] = sample.value
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(read)
    return read


def value(series: Series, metric: str, /, **labels: str) -> float | None:
    found = [number for (one, given), number in series.items() if one == metric and set(labels.items()) <= given]
    return found[0] if len(found) == 1 else None


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_is_read_by_the_client(name: str) -> None:
    series = series_of(SAMPLES[name])
    assert value(series, "distcheck_info") == 1
    assert value(series, "distcheck_run_duration_seconds") == SAMPLES[name].elapsed_s
    assert (value(series, "distcheck_run_timestamp_seconds") or 0) > 1.7e9


def test_findings_are_counted_by_rule_and_severity() -> None:
    series = series_of(LINT)
    assert value(series, "distcheck_findings", code="DC720", severity="warning", name="unguarded-save") == 2
    assert value(series, "distcheck_findings", code="DC208", severity="info") == 1
    assert value(series_of(UNDECIDED), "distcheck_findings", code="undecided", severity="error") == 1


def test_a_series_goes_back_to_0_where_the_fault_is_fixed() -> None:
    broken, fixed = series_of(MERGED), series_of(MERGED._replace(findings=()))
    there = {key for key in broken if key[0] == "distcheck_findings"}
    assert there <= set(fixed)
    assert {fixed[key] for key in there} == {0}


def test_what_was_not_checked_has_no_0() -> None:
    series = series_of(ENV)
    assert value(series, "distcheck_findings", code="DC320") == 0
    # one probe looked for it, another could not
    assert "DC302" in ENV.checked
    assert value(series, "distcheck_findings", code="DC302") is None
    assert value(series, "distcheck_not_checked", code="DC302") == 1
    assert value(series, "distcheck_not_checked", code="other") == 1
    assert value(series_of(CLEAN), "distcheck_not_checked", code="other") == 0
    # no path, no host
    assert "models" not in render(PICKLE, "prometheus")
    assert "gpu" not in render(MERGED._replace(findings=()), "prometheus")


def test_what_broke_and_what_was_cut_off() -> None:
    assert value(series_of(ENV), "distcheck_probes_failed") == 1
    assert value(series_of(ENV), "distcheck_out_of_time") == 0
    assert value(series_of(ENV._replace(out_of_time=True)), "distcheck_out_of_time") == 1


def test_bandwidths_are_in_bytes_per_second() -> None:
    series = series_of(COLLECTIVE)
    labels = {"collective": "all_reduce", "size_bytes": "1073741824", "dtype": "float32"}
    assert value(series, "distcheck_collective_busbw_bytes_per_second", **labels) == 478e9
    # one that is bound by latency has none
    assert value(series, "distcheck_collective_busbw_bytes_per_second", size_bytes="1024") is None
    assert value(series, "distcheck_collective_duration_seconds", size_bytes="1024") == 2.8e-5
    assert "distcheck_collective" not in render(CLEAN, "prometheus")


def test_files_by_verdict() -> None:
    assert value(series_of(PICKLE), "distcheck_files", verdict="dangerous") == 1
    assert value(series_of(PICKLE), "distcheck_files", verdict="safe") == 0


@pytest.mark.parametrize("report", [ENV, LOG, MERGED])
def test_series_are_the_same_in_the_next_run(report: Report) -> None:
    later = report._replace(
        elapsed_s=9.0,
        findings=tuple(
            item._replace(message="other values", where=item.where._replace(host="other", rank=7))
            for item in report.findings
        ),
        not_checked=tuple(NotChecked(item.what, "another reason") for item in report.not_checked),
    )
    assert set(series_of(later)) == set(series_of(report))


@settings(max_examples=30)
@given(reports())
def test_no_text_breaks_it(report: Report) -> None:
    series = series_of(report)
    counted = sum(number for (name, _), number in series.items() if name == "distcheck_findings")
    assert counted == len(report.findings)
    names = {name for name, _ in series}
    assert all(re.fullmatch("distcheck_[a-z_]+", name) for name in names)
