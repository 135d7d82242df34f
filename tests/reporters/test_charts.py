"""Axes that make sense, SVG that is XML, pictures that fit their terminal."""

from __future__ import annotations

import itertools
import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from distcheck.core.model import size_text
from distcheck.reporters import charts
from distcheck.reporters.charts import Axis, Cell, Point, Series, Tick
from distcheck.reporters.measurements import tick_rate, tick_time, time_ticks

POSITIVE = st.floats(min_value=1e-9, max_value=1e9, allow_nan=False)


def labels(axis: Axis) -> list[str]:
    return [tick.label for tick in axis.ticks if tick.label]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


@pytest.mark.parametrize(
    ("low", "high", "room", "expected"),
    [
        (1024, 1024**3, 7, ["1 KiB", "16 KiB", "256 KiB", "4 MiB", "64 MiB", "1 GiB"]),
        (1024, 1024**3, 3, ["1 KiB", "1 MiB", "1 GiB"]),
        (1024, 16 * 1024, 7, ["1 KiB", "2 KiB", "4 KiB", "8 KiB", "16 KiB"]),
        (1024, 1024, 7, ["512 B", "1 KiB", "2 KiB"]),
        (1000, 3000, 7, ["512 B", "1 KiB", "2 KiB", "4 KiB"]),
    ],
)
def test_sizes_are_labelled_at_powers_of_two(low: int, high: int, room: int, expected: list[str]) -> None:
    assert labels(charts.size_axis([low, high], room, size_text)) == expected


@pytest.mark.parametrize(
    ("low", "high", "room", "expected"),
    [
        (0.037, 482.0, 8, ["0.1", "1", "10", "100"]),
        (0.037, 482.0, 20, ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50", "100", "200", "500"]),
        (120.0, 130.0, 8, ["100", "200"]),
        (100.0, 100.0, 8, ["50", "100", "200"]),
        (1.0, 1000.0, 8, ["1", "10", "100", "1,000"]),
    ],
)
def test_rates_are_labelled_at_one_two_five(low: float, high: float, room: int, expected: list[str]) -> None:
    assert labels(charts.log_axis([low, high], room, tick_rate)) == expected


def test_times_have_their_units() -> None:
    axis = charts.log_axis([28e-6, 3.9e-3], 9, tick_time)
    assert labels(axis) == ["20 µs", "50 µs", "100 µs", "200 µs", "500 µs", "1 ms", "2 ms", "5 ms"]
    assert labels(charts.linear_axis(1.9e-3, 5, time_ticks(1.9e-3))) == ["0", "0.5 ms", "1 ms", "1.5 ms", "2 ms"]
    assert labels(charts.linear_axis(0.0, 5, time_ticks(0.0)))[0] == "0"


@given(st.lists(POSITIVE, min_size=1, max_size=5), st.integers(2, 12))
def test_a_logarithmic_axis_holds_its_values_and_rises(values: list[float], room: int) -> None:
    axis = charts.log_axis(values, room, tick_rate)
    assert axis.low <= min(values) * (1 + 1e-6)
    assert axis.high >= max(values) * (1 - 1e-6)
    places = [axis.share(tick.value) for tick in axis.ticks]
    assert places == sorted(set(places))
    assert 2 <= len(labels(axis)) <= max(room, 3)
    assert len(set(labels(axis))) == len(labels(axis))
    # the axis ends at the next of 1, 2, 5 on either side: nothing is wasted
    assert axis.low >= min(values) / 5.001
    assert axis.high <= max(values) * 5.001


@given(st.lists(st.integers(1, 2**50), min_size=1, max_size=5), st.integers(1, 12))
def test_an_axis_of_sizes_holds_its_values(values: list[int], room: int) -> None:
    axis = charts.size_axis(values, room, size_text)
    assert axis.low <= min(values) * (1 + 1e-6)
    assert axis.high >= max(values) * (1 - 1e-6)
    assert 1 <= len(labels(axis)) <= max(room, 2)
    assert all(math.log2(tick.value) == int(math.log2(tick.value)) for tick in axis.ticks)


@given(POSITIVE, st.integers(1, 10))
def test_a_linear_axis_begins_at_zero_and_holds_its_value(high: float, room: int) -> None:
    axis = charts.linear_axis(high, room, tick_rate)
    assert axis.low == 0
    assert high * (1 - 1e-6) <= axis.high <= high * 21
    assert 2 <= len(axis.ticks) <= room + 1


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [math.nan, math.inf]])
def test_nothing_to_draw_is_said(values: list[float]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        charts.log_axis(values, 5, tick_rate)


def test_share_keeps_within_the_picture() -> None:
    axis = charts.log_axis([1.0, 100.0], 5, tick_rate)
    assert (axis.share(1e-9), axis.share(10.0), axis.share(1e9)) == (0.0, pytest.approx(0.5), 1.0)


def curves(series: list[Series], **more: object) -> str:
    points = [point for item in series for point in item.points]
    return charts.curves_svg(
        series,
        charts.size_axis([point.x for point in points], 7, size_text),
        charts.log_axis([point.y for point in points], 8, tick_rate),
        charts.Caption("c", "a <title>", "what it & shows", "size", "GB/s"),
        **more,  # type: ignore[arg-type]
    )


def test_curves_are_xml_with_titles_legend_and_a_dashed_goal() -> None:
    measured = Series("all_reduce", tuple(Point(2.0**power, power + 1, title=f"{power} <b>") for power in range(10)))
    svg = curves([Series("baseline 9 GB/s", (Point(512.0, 9.0),), expected=True), measured, measured])
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "c-title c-desc"
    assert [root[0].text, root[1].text] == ["a <title>", "what it & shows"]
    marks = [element for element in root.iter("path") if element.get("class") == "mark" and len(element)]
    assert [mark[0].text for mark in marks[:2]] == ["0 <b>", "1 <b>"]
    assert len(marks) == 20
    assert texts(svg).count("all_reduce") == 2
    assert "baseline 9 GB/s" in texts(svg)
    assert len([element for element in root.iter("g") if element.get("class") == "expected"]) == 1


def test_series_differ_by_more_than_their_colour() -> None:
    marks = {charts._mark(number, 0, 0) for number in range(10)}
    assert len(marks) == 10


def coordinates(svg: str) -> list[tuple[float, float]]:
    found = []
    for element in ElementTree.fromstring(svg).iter():
        if element.get("x") is not None and element.get("y") is not None:
            found.append((float(element.attrib["x"]), float(element.attrib["y"])))
        found.extend((float(x), float(y)) for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)", element.get("d") or ""))
    return found


@given(st.lists(st.tuples(st.integers(0, 40), POSITIVE), min_size=1, max_size=12, unique_by=lambda pair: pair[0]))
def test_nothing_is_drawn_outside_of_the_picture(values: list[tuple[int, float]]) -> None:
    svg = curves([Series("name", tuple(Point(2.0**power, value) for power, value in sorted(values)))])
    _, _, width, height = map(float, ElementTree.fromstring(svg).attrib["viewBox"].split())
    for x, y in coordinates(svg):
        assert -6 <= x <= width
        assert -6 <= y <= height


def test_labels_of_an_axis_do_not_touch() -> None:
    axis = Axis(1.0, 100.0, tuple(Tick(float(value), "1000000 units") for value in range(1, 101)))
    svg = charts.curves_svg([Series("s", (Point(1.0, 1.0),))], axis, axis, charts.Caption("i", "t", "d", "", ""))
    shown = [element for element in ElementTree.fromstring(svg).iter("text") if element.text == "1000000 units"]
    across = sorted(float(element.attrib["x"]) for element in shown if element.get("class") == "middle")
    down = sorted(float(element.attrib["y"]) for element in shown if element.get("class") == "end")
    assert len(across) > 1
    assert len(down) > 1
    assert min(b - a for a, b in itertools.pairwise(across)) >= 13 * charts.CHARACTER
    assert min(b - a for a, b in itertools.pairwise(down)) >= 13


def test_bars_mark_the_loud_ones_and_label_them() -> None:
    svg = charts.bars_svg(
        [0.0, 1.0, 5.0],
        ["rank 0", "rank 1", "rank <2>"],
        charts.linear_axis(5.0, 5, tick_rate),
        charts.Caption("b", "t", "d", "rank", "time"),
        loud=[2],
        labels={2: "five"},
    )
    bars = list(ElementTree.fromstring(svg).iter("rect"))
    assert [bar.attrib["class"] for bar in bars] == ["bar", "bar", "bar loud"]
    assert [bar[0].text for bar in bars] == ["rank 0", "rank 1", "rank <2>"]
    heights = [float(bar.attrib["height"]) for bar in bars]
    assert 0 < heights[0] < heights[1]
    assert heights[2] == pytest.approx(5 * heights[1], abs=0.5)
    assert "five" in texts(svg)


def test_a_histogram_counts_everything_once() -> None:
    values = [0.1] * 1000 + [9.9]
    svg = charts.histogram_svg(
        values,
        charts.linear_axis(10.0, 5, tick_rate),
        charts.Caption("h", "t", "d", "x", "y"),
        tip=lambda low, high, count: f"{count}",
    )
    bars = list(ElementTree.fromstring(svg).iter("rect"))
    assert [bar[0].text for bar in bars] == ["1000", "1"]
    # one among a thousand is still seen
    assert float(bars[1].attrib["height"]) > 3


def test_a_baseline_is_a_dashed_line_at_its_value_with_its_name() -> None:
    axis = charts.linear_axis(10.0, 5, tick_rate)
    median = charts.Point(5.0, 5.0, title="median 5")
    caption = charts.Caption("b", "t", "d", "x", "y")
    bars = ElementTree.fromstring(charts.bars_svg([5.0, 10.0], ["a", "b"], axis, caption, baseline=median))
    (line,) = (group[0].attrib["d"] for group in bars.iter("g") if group.attrib.get("class") == "expected")
    # as high as the bar of the same value
    assert f"{line.partition(' ')[2].partition('H')[0]}" == next(bars.iter("rect")).attrib["y"]
    histogram = charts.histogram_svg([1.0, 9.0], axis, caption, lambda low, high, count: "", baseline=median)
    drawn = ElementTree.fromstring(histogram)
    (line,) = (group[0].attrib["d"] for group in drawn.iter("g") if group.attrib.get("class") == "expected")
    first, last = (float(bar.attrib["x"]) for bar in drawn.iter("rect"))
    assert first < float(line[1:].partition(" ")[0]) < last
    for root in (bars, drawn):
        assert "median 5" in [text.text for text in root.iter("text")]
    assert "expected" not in charts.bars_svg([5.0], ["a"], axis, caption)


@pytest.mark.parametrize(("size", "numbered"), [(4, True), (64, False)])
def test_a_heat_map_shows_each_pair_twice_and_says_its_value(size: int, numbered: bool) -> None:
    cells = [Cell(0, 1, 150.0, "0 and 1: 150 GB/s", "150"), Cell(2, 3, 12.0, "slow", "12.0")]
    svg = charts.heat_map_svg(
        cells,
        size,
        150.0,
        charts.Caption("m", "t", "d", "rank", "rank"),
        scale_name="GB/s",
        scale_label=tick_rate,
    )
    groups = list(ElementTree.fromstring(svg).iter("g"))
    assert [group[0].text for group in groups] == ["0 and 1: 150 GB/s", "slow"]
    assert [group[1].attrib["d"].count("M") for group in groups] == [2, 2]
    assert groups[0][1].attrib["fill"] != groups[1][1].attrib["fill"]
    assert ("150" in [element.text for element in groups[0].iter("text")]) is numbered


def test_heat_is_ordered_by_lightness_and_readable() -> None:
    """Lightness alone orders the colours, so that no kind of colour vision is needed; ink contrasts by 4.5 to 1."""
    shares = [step / 50 for step in range(51)]
    lights = []
    for share in shares:
        color, ink = charts.heat(share)
        light = charts.luminance(*(int(color[at : at + 2], 16) for at in (1, 3, 5)))
        lights.append(light)
        contrast = (light + 0.05) / 0.05 if ink == "#000" else 1.05 / (light + 0.05)
        assert contrast >= 4.5
    assert lights == sorted(lights)


@given(
    st.lists(st.tuples(st.integers(0, 30), POSITIVE), min_size=1, max_size=12, unique_by=lambda pair: pair[0]),
    st.integers(24, 100),
    st.booleans(),
)
def test_a_curve_in_text_keeps_its_width(values: list[tuple[int, float]], width: int, unicode: bool) -> None:
    points = [(2.0**power, value) for power, value in sorted(values)]
    x = charts.size_axis([point[0] for point in points], 3, size_text)
    y = charts.log_axis([point[1] for point in points], 4, lambda value: f"{value:.0e}")
    lines = charts.curve_text(points, x, y, name="n" * 200, width=width, height=8, unicode=unicode)
    assert len(lines) == 11
    assert max(map(len, lines)) <= width
    assert "".join(lines).isascii() is not unicode


def test_a_curve_in_text_reads_as_drawn() -> None:
    points = [(2.0**power, 2.0**power) for power in range(0, 21, 2)]
    x = charts.size_axis([1, 2.0**20], 3, size_text)
    y = charts.log_axis([1.0, 2.0**20], 4, tick_rate)

    def drawn(unicode: bool) -> list[str]:
        return charts.curve_text(
            points, x, y, name="plain", expected=[(2.0**20, 5e5)], width=40, height=6, unicode=unicode
        )

    assert drawn(False) == [
        "plain",
        "1,000,000 |---------------------------.*",
        "          |                      *..*.",
        "   10,000 |                .*..*.",
        "      100 |          .*..*.",
        "          |     .*.*.",
        "        1 |*..*.",
        "          +-----------------------------",
        "          1 B          1 KiB       1 MiB",
    ]
    assert drawn(True) == [
        "plain",
        "1,000,000 ┤⠤ ⠤ ⠤ ⠤ ⠤ ⠤ ⠤ ⠤ ⠤ ⠤ ⠤ ⠤ ⠤⣀⡤⠤⠶",
        "          │                     ⡠⠤⠒⠉",
        "   10,000 ┤               ⣀⡠⠤⠒⠊⠉",
        "      100 ┤         ⢀⣀⠤⠔⠊⠉",
        "          │     ⣀⠤⠔⠉⠁",
        "        1 ┤⣀⠤⠔⠒⠉",
        "          └─────────────────────────────",
        "          1 B          1 KiB       1 MiB",
    ]


@given(st.floats(0, 1), st.integers(1, 40), st.booleans())
def test_a_bar_in_text_keeps_its_width_and_never_hides_a_value(share: float, width: int, unicode: bool) -> None:
    assume(share == 0 or share > 1e-6)
    bar = charts.bar_text(share, width, unicode=unicode)
    assert len(bar) <= width
    assert bool(bar) is (share > 0)
    assert bar.isascii() or unicode
