"""The report as one JSON object, in the shape of ``report.schema.json``."""

from __future__ import annotations

import json

from distcheck.core.model import Report

from . import Style


def render(report: Report, style: Style = Style()) -> str:
    """One indented JSON object; the facts with ``-v``."""
    return json.dumps(report.as_dict(with_facts=style.verbose > 0), indent=2, ensure_ascii=True) + "\n"
