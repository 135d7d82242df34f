"""Prometheus' text format, for the textfile collector of the node exporter: gauges whose series stay the same.

A rule that was checked without a finding is 0, so that a series returns to 0 when a fault is fixed. A rule that could
not be checked completely has no 0. Labels hold nothing that changes from run to run: no message, path, host or process.
Base units are seconds and bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Report

from . import Style, escape, measurements
from .locations import shown

#: What stands for the code where something else than a rule was not checked.
_OTHER = "other"
#: GB/s to bytes per second.
_GIGA = 1e9


class _Metric(NamedTuple):
    """A gauge with its series."""

    name: str
    help: str
    series: Iterable[tuple[Mapping[str, str], float]]


def render(report: Report, style: Style = Style()) -> str:
    """Return all metrics of a run; those without a series are dropped."""
    return "".join(line + "\n" for metric in _metrics(report) for line in _lines(metric))


def _metrics(report: Report) -> Iterator[_Metric]:
    from distcheck._version import __version__

    command = {"command": report.command}
    yield _Metric("distcheck_info", "The distcheck that ran.", [({**command, "version": __version__}, 1)])
    yield _Metric(
        "distcheck_findings",
        "Findings of the last run by rule and severity; 0 if a rule was checked without a finding.",
        _findings(report),
    )
    yield _Metric(
        "distcheck_not_checked",
        "Rules that the last run could not check, each 1; the code 'other' counts other things.",
        _not_checked(report),
    )
    failed = sum(probe.status in ("failed", "timed-out") for probe in report.probes)
    yield _Metric("distcheck_probes_failed", "Probes and readers that raised or did not end.", [(command, failed)])
    yield _Metric(
        "distcheck_out_of_time",
        "1 if the time limit ended before everything was checked.",
        [(command, report.out_of_time)],
    )
    yield from _measured(report, command)
    yield from _files(report, command)
    yield _Metric("distcheck_run_duration_seconds", "How long the last run took.", [(command, report.elapsed_s)])
    yield _Metric("distcheck_run_timestamp_seconds", "When the last run ended, in Unix time.", [(command, time.time())])


def _findings(report: Report) -> Iterator[tuple[Mapping[str, str], float]]:
    known = rules.known()
    counted: dict[tuple[str, str, str], int] = {}
    for code in report.checked - set(_codes(report)):
        if code in known:
            counted[code, known[code].name, known[code].severity.word] = 0
    for finding in shown(report):
        key = finding.code, finding.name, finding.severity.word
        counted[key] = counted.get(key, 0) + 1
    for (code, name, severity), number in sorted(counted.items()):
        yield {"command": report.command, "code": code, "name": name, "severity": severity}, number


def _not_checked(report: Report) -> Iterator[tuple[Mapping[str, str], float]]:
    codes = _codes(report)
    known = rules.known()
    for code in sorted(filter(None, codes)):
        yield {"command": report.command, "code": code, "name": known[code].name}, 1
    # paths and hosts are not for labels
    yield {"command": report.command, "code": _OTHER, "name": _OTHER}, codes.get("", 0)


def _codes(report: Report) -> Mapping[str, int]:
    """How often each rule was not checked; under an empty code what is no rule."""
    found: dict[str, int] = {}
    for what in (what for item in report.not_checked for what in item.what.split(", ")):
        rule = rules.look_up(what)
        code = "" if rule is None else rule.code
        found[code] = found.get(code, 0) + 1
    return found


def _measured(report: Report, command: Mapping[str, str]) -> Iterator[_Metric]:
    """The bandwidths of the smoke test."""
    rows = measurements.results(report.measurements)

    def labels(row: measurements.Result) -> Mapping[str, str]:
        return {**command, "collective": row.collective, "dtype": row.dtype, "size_bytes": str(row.size_bytes)}

    yield _Metric(
        "distcheck_collective_busbw_bytes_per_second",
        "Bus bandwidth of a collective at a message size, by the formulas of nccl-tests.",
        [(labels(row), row.busbw_gbytes_per_s * _GIGA) for row in rows if row.busbw_gbytes_per_s is not None],
    )
    yield _Metric(
        "distcheck_collective_duration_seconds",
        "Median time of a collective at a message size, of its slowest rank.",
        [(labels(row), row.median_s) for row in rows if row.median_s is not None],
    )


def _files(report: Report, command: Mapping[str, str]) -> Iterator[_Metric]:
    """The verdicts of checkpoints and pickles."""
    verdicts = report.subject.get("verdict_counts")
    if isinstance(verdicts, Mapping):
        series = [({**command, "verdict": str(name)}, float(number)) for name, number in sorted(verdicts.items())]
        yield _Metric("distcheck_files", "Checkpoints and pickles by what loading them would do.", series)


def _lines(metric: _Metric) -> Iterator[str]:
    series = list(metric.series)
    if not series:
        return
    yield f"# HELP {metric.name} {_escaped(metric.help, quotes=False)}"
    yield f"# TYPE {metric.name} gauge"
    texts = [",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) for labels, _ in series]
    # of two equal series the collector would drop the whole file
    for named, value in dict(zip(texts, (value for _, value in series), strict=True)).items():
        yield f"{metric.name}{{{named}}} {_number(value)}"


def _escaped(text: str, *, quotes: bool = True) -> str:
    """Escape backslashes and quotes, as the format requires; there is nothing that is not printable."""
    escaped = escape(text).replace("\\", "\\\\")
    return escaped.replace('"', '\\"') if quotes else escaped


def _number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1 << 53 else repr(float(value))
