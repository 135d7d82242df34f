"""Reports with any text anywhere, for properties of the formats: halves of characters, markup, control characters."""

from __future__ import annotations

from hypothesis import strategies as st

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, NotChecked, ProbeRun, Report, Severity, Where

#: What has a meaning in one of the formats, or in none that is allowed.
SPECIAL = [
    "<details>", "</testcase>", "]]>", "&amp;", "&", '"', "'", "|", "\\|", "`", "``", "```", "\n", "\r\n", "\t",
    "\x00", "\x0b", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202e", "\ufffe", "\udc80", "\ud800", "*", "_a_", "**b**",
    "[x](y)", "![i](j)", "$a$", "#", "- ", "1. ", "> ", "~~", "{}", "{0}", "::error::", "%0A", "http://e.org", "@who",
    "é", "漢", "🔥", "a b", "  ", "\\", "%", "\\n",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(SPECIAL) | st.text(st.characters(), max_size=6), min_size=1, max_size=6).map("".join)
SAID = TEXTS.filter(lambda text: bool(text.strip()))
COUNTS = st.integers(1, 60)


@st.composite
def wheres(draw: st.DrawFn) -> Where:
    """Any place: of a file, of something else, of both, of nothing."""
    line = draw(st.none() | COUNTS)
    end = None if line is None else draw(st.none() | st.integers(line, line + 3))
    return Where(
        path=draw(st.none() | st.just("-") | st.just("train.py") | TEXTS),
        line=line,
        column=None if line is None else draw(st.none() | COUNTS),
        end_line=end,
        end_column=None if end is None else draw(st.none() | COUNTS),
        cell=draw(st.none() | COUNTS),
        variable=draw(st.none() | TEXTS),
        host=draw(st.none() | TEXTS),
        rank=draw(st.none() | st.integers(0, 9)),
        ranks=draw(st.none() | st.just("0-3,7")),
        gpu=draw(st.none() | TEXTS),
        object=draw(st.none() | TEXTS),
        offset=draw(st.none() | st.integers(0, 1 << 40)),
    )


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    line, column = draw(COUNTS), draw(COUNTS)
    return Edit("train.py", line, column, line, column + draw(st.integers(0, 3)), draw(TEXTS))


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    """A finding of one of a few rules, so that keys meet."""
    rule = draw(st.sampled_from([rules.DC401, rules.DC201, rules.DC610, rules.DC901]))
    flow = draw(st.none() | st.lists(TEXTS | TEXTS.map(lambda text: f"train.py:3: {text}"), max_size=3))
    evidence = {"source": draw(TEXTS), "flow": flow, "value": draw(st.none() | st.floats() | TEXTS)}
    return rule.found(
        draw(SAID),
        severity=draw(st.sampled_from([rule.severity, Severity.INFO])),
        where=draw(wheres()),
        evidence={name: value for name, value in evidence.items() if value is not None},
        fix=Fix(
            draw(SAID),
            command=draw(st.none() | TEXTS),
            edits=tuple(draw(st.lists(edits(), max_size=2))),
            risk=draw(st.none() | SAID),
        ),
    )


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """A report of any command with any texts."""
    return Report(
        draw(st.sampled_from(["env", "lint", "pickle", "collective"])),
        subject={"host": draw(TEXTS), "line": [draw(TEXTS)], "closing": [draw(TEXTS)]},
        findings=tuple(draw(st.lists(findings(), max_size=4))),
        not_checked=tuple(
            NotChecked(what, why)
            for what, why in draw(st.lists(st.tuples(st.just("DC301, DC302") | SAID, SAID), max_size=2))
        ),
        probes=(ProbeRun("a.probe", "failed", 0.1, draw(st.none() | TEXTS)),) if draw(st.booleans()) else (),
        checked=draw(st.sampled_from([frozenset(), frozenset({"DC401", "DC320"})])),
        elapsed_s=draw(st.floats(0, 1e6)),
    )
