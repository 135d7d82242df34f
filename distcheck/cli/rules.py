"""``distcheck rules``: the catalogue as a table or as JSON."""

from __future__ import annotations

import json

import click

from distcheck.core.checker import load_plug_ins
from distcheck.core.model import Rule, Severity, page_url
from distcheck.rules import known

from . import output

WAYS = ("env", "ranks", "live", "lint", "launch", "pickle", "log", "rehearse", "watch", "stuck")


@click.command()
@click.option("--prefix", metavar="DC4", default="", help="Only codes that begin so.")
@click.option(
    "--severity", type=click.Choice(["error", "warning", "info"]), help="Only rules whose default severity is this."
)
@click.option("--way", type=click.Choice(WAYS), help="Only rules that can be seen this way.")
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
def command(prefix: str, severity: str | None, way: str | None, output_format: str) -> int:
    """List the rules: code, name, severity, ways to be seen, and what each is about.

    Ways: env one process and host; ranks the same facts of all ranks; live a process group; lint source;
    launch launch files; pickle objects and files; log the text of a dead job; rehearse, watch the script run;
    stuck a job that runs.
    """
    load_plug_ins()
    chosen = [
        rule
        for rule in known().values()
        if rule.code.startswith(prefix.upper())
        and (severity is None or rule.severity is Severity.parse(severity))
        and (way is None or way in rule.ways)
    ]
    if not chosen:
        raise click.UsageError("no rule fits; 'distcheck rules' lists all")
    output.to_stdout(_json(chosen) if output_format == "json" else _table(chosen))
    return output.CLEAN


def _json(chosen: list[Rule]) -> str:
    rows = [
        {
            "code": rule.code,
            "name": rule.name,
            "severity": rule.severity.word,
            "severities": [level.word for level in rule.severities],
            "ways": list(rule.ways),
            "on_by_default": rule.on_by_default,
            "summary": rule.summary,
            "url": page_url(rule.code),
        }
        for rule in chosen
    ]
    return json.dumps(rows, indent=2) + "\n"


def _table(chosen: list[Rule]) -> str:
    from tabulate import tabulate

    rows = [
        (
            rule.code,
            f"{rule.name}\n{rule.summary}",
            rule.severity.word,
            " ".join(rule.ways) if len(rule.ways) < len(WAYS) else "all",
        )
        for rule in chosen
    ]
    return (
        tabulate(
            rows, headers=("code", "rule", "severity", "seen by"), tablefmt="plain", maxcolwidths=(None, 42, None, 13)
        )
        + "\n"
    )
