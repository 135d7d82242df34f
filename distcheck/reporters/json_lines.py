"""One JSON object a line: each finding, each thing that was not checked, the summary, and what was measured."""

from __future__ import annotations

import json

from distcheck.core.model import Report

from . import Style


def render(report: Report, style: Style = Style()) -> str:
    """Lines with a ``type`` of ``finding``, ``not-checked``, ``file``, ``summary``, ``measurements`` or ``story``."""
    plain = report.as_dict()
    rows = [{"type": "finding", **finding} for finding in plain["findings"]]
    rows.extend({"type": "not-checked", **item} for item in plain["not_checked"])
    head = {key: plain[key] for key in ("schema_version", "tool", "command", "stage", "subject", "summary")}
    if "verdicts" in head["subject"]:
        # a line for each file: thousands in one line are of no use to what reads lines
        rows.extend({"type": "file", **file} for file in head["subject"]["verdicts"])
        head["subject"] = {key: value for key, value in head["subject"].items() if key != "verdicts"}
    rows.append({"type": "summary", **head})
    if "measurements" in plain:
        rows.append({"type": "measurements", **plain["measurements"]})
    if "story" in plain:
        rows.append({"type": "story", **plain["story"]})
    return "".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows)
