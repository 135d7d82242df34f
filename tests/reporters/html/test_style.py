"""Colours that can be read in both schemes, and a style for everything that is drawn."""

from __future__ import annotations

import re

import pytest

from distcheck.reporters import charts
from distcheck.reporters.html import style
from tests.reporters.pages import CASES, page

COLOR = re.compile(r"--([\w-]+):#([0-9a-f]{3,6})\b")


def contrast(one: str, other: str) -> float:
    lights = sorted(
        charts.luminance(*(int(color[at : at + 2], 16) for at in (0, 2, 4)))
        for color in ("".join(char * 2 for char in item) if len(item) == 3 else item for item in (one, other))
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("scheme", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_colours_can_be_read(scheme: str) -> None:
    """WCAG 2.2 AA: 4.5:1 for text, 3:1 for marks and lines that carry meaning."""
    colors = dict(COLOR.findall(scheme))
    for ink in ("ink", "soft", "accent"):
        for ground in ("page", "panel", "fix"):
            assert contrast(colors[ink], colors[ground]) >= 4.5, (ink, ground)
    for ground in ("mark", "gone", "new"):
        assert contrast(colors["ink"], colors[ground]) >= 4.5, ground
    for word in ("good", "warning"):
        assert contrast(colors[word], colors["fix"]) >= 4.5, word
    for caret in ("error", "warning", "info"):
        assert contrast(colors[caret], colors["panel"]) >= 4.5, caret
        assert contrast(colors[caret], colors["page"]) >= 4.5, caret
    for badge in ("error", "warning", "info", "good", "odd", "soft"):
        assert contrast(colors["on-badge"], colors[badge]) >= 4.5, badge
    for mark in ("loud", "bar", *(f"s{number}" for number in range(charts.COLORS))):
        assert contrast(colors[mark], colors["page"]) >= 3, mark


def test_both_schemes_have_the_same_colours_and_paper_is_light() -> None:
    light, dark = (set(dict(COLOR.findall(scheme))) for scheme in (style.LIGHT, style.DARK))
    assert light == dark
    assert set(re.findall(r"var\(--([\w-]+)\)", style.STYLE)) - light == {"c"}
    assert light == set(re.findall(r"var\(--([\w-]+)\)", style.STYLE)) - {"c"}
    assert style.STYLE.index(style.DARK) < style.STYLE.rindex(style.LIGHT)
    assert style.STYLE.index("@media print") < style.STYLE.rindex(style.LIGHT)


def test_classes_that_are_drawn_have_a_style() -> None:
    drawn = {
        name
        for report in CASES.values()
        for value in re.findall(r'class="([^"]*)"', page(report, verbose=2)[0])
        for name in value.split()
    }
    styled = set(re.findall(r"\.([a-z][\w-]*)", style.STYLE))
    assert drawn - styled <= {"series"}


def test_each_brace_of_the_style_is_closed() -> None:
    depth = 0
    for char in style.STYLE:
        depth += (char == "{") - (char == "}")
        assert depth >= 0
    assert depth == 0
