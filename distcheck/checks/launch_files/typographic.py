"""Quotes of a word processor in launch files: for a shell and for Docker they are letters like any other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.core.variable_table import TRAINING_PREFIXES

from .context import shown, worst_per_location
from .model import FileSetting, LaunchFiles
from .variables import MASKS

#: Each with the character of the keyboard.
_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
_QUOTED = lazy("[\u201c\u201d\u201e\u2018\u2019].*|.*[\u201c\u201d\u2018\u2019]", re.DOTALL)


@probe(rules.DC112)
@worst_per_location
def quotes_are_those_of_the_shell(launch_files: LaunchFiles) -> Iterator[Finding]:
    """No value of a library's variable holds quotes that only a text has."""
    for file in launch_files.files:
        for setting in (*file.settings, *(one for site in file.sites for one in site.settings.values())):
            known = setting.name.startswith(TRAINING_PREFIXES) and setting.name not in MASKS
            if known and setting.span.path == file.path and has_typographic_quotes(setting):
                yield _quoted(setting)


def has_typographic_quotes(setting: FileSetting) -> bool:
    """Return whether a value begins or ends with a quote of a text."""
    return setting.value is not None and _QUOTED.fullmatch(setting.value.strip()) is not None


def _quoted(setting: FileSetting) -> Finding:
    value, span = setting.value or "", setting.value_span
    plain = setting.written.translate(_QUOTES)
    paired = plain[:1] in "\"'" and plain[:1] == plain[-1:] and len(plain) > 2
    edits: tuple[Edit, ...] = span.literal_edit(setting.written, plain) if span is not None and paired else ()
    return rules.DC112.found(
        f"{setting.name}={shown(value)} has the quotes of a text, which are a part of the value",
        severity=Severity.WARNING,
        where=(span or setting.span).where(variable=setting.name),
        evidence={"variable": setting.name, "value": shown(value)},
        fix=Fix('write the quotes of the keyboard: "', edits=edits, safe=bool(edits), where="job-script"),
    )
