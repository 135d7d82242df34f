"""Bandwidth and latency over message size as curves and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distcheck.core.model import size_text
from distcheck.reporters import charts
from distcheck.reporters import measurements as measured

from .parts import text, wide


def bandwidth(plain: Mapping[str, Any]) -> Iterator[str]:
    """How fast each collective is."""
    rows = measured.results(plain)
    if not rows:
        return
    single = measured.world_size(plain) == 1
    yield '<section aria-labelledby="bandwidth"><h2 id="bandwidth">Bandwidth and latency</h2>'
    if single:
        yield "<p>One rank: bus bandwidth is not applicable.</p>"
    groups = measured.grouped(rows)
    names = measured.group_names(groups)
    figures = [
        figure
        for place, (key, group) in enumerate(groups.items())
        if (figure := _rates(place, names[key], group, rows))
    ]
    if figures:
        yield '<div class="grid-of-figures">'
        yield from figures
        yield "</div>"
    yield from _latency(groups, names)
    yield _results(plain, groups, names, single=single)
    yield from (f'<p class="soft">{text(line)}</p>' for line in measured.baseline_lines(plain))
    yield "</section>"


def _rates(place: int, name: str, group: Sequence[measured.Result], everyone: Sequence[measured.Result]) -> str | None:
    """Bus bandwidth over size of one collective; all figures of a page share their axes, so that they compare."""
    points = tuple(
        charts.Point(row.size_bytes, row.busbw_gbytes_per_s, *_spread(row), title=_tip(name, row))
        for row in group
        if row.busbw_gbytes_per_s is not None
        and charts.drawable(row.busbw_gbytes_per_s)
        and charts.drawable(row.size_bytes)
    )
    if not points:
        return None
    goals: dict[str, list[charts.Point]] = {}
    for row in group:
        for goal in row.expected:
            if charts.drawable(goal.busbw_gbytes_per_s):
                rate, size = measured.rate_text(goal.busbw_gbytes_per_s), size_text(row.size_bytes)
                tip = f"{goal.name} {rate} GB/s at {size}"
                goals.setdefault(goal.name, []).append(
                    charts.Point(row.size_bytes, goal.busbw_gbytes_per_s, title=f"{tip}; {goal.source}".rstrip("; "))
                )
    every = [row.busbw_gbytes_per_s for row in everyone if row.busbw_gbytes_per_s is not None]
    every += [value for row in everyone for value in _spread(row) if value is not None]
    every += [goal.busbw_gbytes_per_s for row in everyone for goal in row.expected]
    y = charts.log_axis([value for value in every if charts.drawable(value)], 8, measured.tick_rate)
    x = charts.size_axis([row.size_bytes for row in everyone], 7, size_text)
    last = points[-1]
    description = (
        f"Bus bandwidth of {name} over message size on logarithmic axes, {len(points)} sizes; at "
        f"{size_text(last.x)} it is {measured.rate_text(last.y)} GB/s."
    )
    expected = [charts.Series(_goal_label(kind, found), tuple(found), expected=True) for kind, found in goals.items()]
    picture = charts.curves_svg(
        [*expected, charts.Series(name, points)],
        x,
        y,
        charts.Caption(
            f"rate-{place}",
            f"{name}: bus bandwidth over size",
            description + "".join(f" Dashed: {item.name}." for item in expected),
            "message size",
            "bus bandwidth, GB/s",
        ),
        legend=False,
    )
    return f"<figure><figcaption>{text(name)}</figcaption>{picture}</figure>"


def _goal_label(kind: str, points: Sequence[charts.Point]) -> str:
    last = points[-1]
    return f"{kind} {measured.rate_text(last.y)} GB/s at {size_text(last.x)}"


def _spread(row: measured.Result) -> tuple[float | None, float | None]:
    """The bus bandwidth of the slowest and of the fastest iteration: it is the inverse of the time."""
    rate, median, low, high = row.busbw_gbytes_per_s, row.median_s, row.min_s, row.max_s
    if not rate or not median or not low or not high:
        return None, None
    return rate * median / high, rate * median / low


def _tip(name: str, row: measured.Result) -> str:
    tip = f"{name}, {size_text(row.size_bytes)}: {measured.time_text(row.median_s)}"
    if row.min_s is not None and row.max_s is not None:
        tip += f" ({measured.range_text(row.min_s, row.max_s)})"
    if row.busbw_gbytes_per_s is not None:
        tip += f", {measured.rate_text(row.busbw_gbytes_per_s)} GB/s bus bandwidth"
    return tip


def _latency(
    groups: Mapping[tuple[str, str], Sequence[measured.Result]], names: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    series = [
        charts.Series(
            names[key],
            tuple(
                charts.Point(row.size_bytes, row.median_s, title=_tip(names[key], row))
                for row in group
                if row.median_s is not None and charts.drawable(row.median_s) and charts.drawable(row.size_bytes)
            ),
        )
        for key, group in groups.items()
    ]
    series = [item for item in series if item.points]
    points = [point for item in series for point in item.points]
    if not points:
        return
    least_s = min(point.y for point in points)
    expected = [item for key, group in groups.items() for item in _expected_times(names[key], group, least_s)]
    # one label for all lines of a kind, at the lowest; each point has its own
    expected.sort(key=lambda item: item.points[0].y)
    for number, item in enumerate(expected):
        if item.name in [other.name for other in expected[:number]]:
            expected[number] = item._replace(name="")
    limits = [point.y for item in expected for point in item.points]
    y = charts.log_axis([*(point.y for point in points), *limits], 9, measured.tick_time)
    x = charts.size_axis([point.x for point in points], 11, size_text)
    smallest = min(points, key=lambda point: (point.x, point.y))
    description = (
        f"Median time of {', '.join(item.name for item in series)} over message size on logarithmic axes; the "
        f"shortest at {size_text(smallest.x)} is {measured.time_text(smallest.y)}."
    )
    description += "".join(f" Dashed: {item.name}." for item in expected if item.name)
    picture = charts.curves_svg(
        [*expected, *series],
        x,
        y,
        charts.Caption("latency", "Time over message size", description, "message size", "time of the slowest rank"),
        width=900,
        height=360,
    )
    yield f'<figure class="whole"><figcaption>Time over message size</figcaption>{picture}</figure>'


def _expected_times(name: str, group: Sequence[measured.Result], least_s: float) -> Iterator[charts.Series]:
    """Yield, for each kind of expected bandwidth, the times in which each size has it.

    :param least_s: the shortest measured time: below it, latency counts and not bandwidth
    """
    timed = [
        row
        for row in group
        if charts.drawable(row.median_s) and charts.drawable(row.busbw_gbytes_per_s) and charts.drawable(row.size_bytes)
    ]
    goals: dict[str, dict[int, float]] = {}
    for row in timed:
        for goal in row.expected:
            if charts.drawable(goal.busbw_gbytes_per_s):
                goals.setdefault(goal.name, {})[row.size_bytes] = goal.busbw_gbytes_per_s
    for kind, rates in goals.items():
        # one figure is the bandwidth of all sizes, as in the charts of bandwidth
        only = next(iter(rates.values())) if len(rates) == 1 else None
        points = []
        for row in timed:
            rate = only or rates.get(row.size_bytes)
            if rate is not None and row.median_s and row.busbw_gbytes_per_s:
                seconds = row.median_s * row.busbw_gbytes_per_s / rate
                if seconds < least_s:
                    continue
                tip = f"{kind} of {name}, {size_text(row.size_bytes)}: {measured.time_text(seconds)}"
                points.append(charts.Point(row.size_bytes, seconds, title=tip))
        if len(points) > 1:
            yield charts.Series(kind, tuple(points), expected=True, below=True)


def _results(
    plain: Mapping[str, Any],
    groups: Mapping[tuple[str, str], Sequence[measured.Result]],
    names: Mapping[tuple[str, str], str],
    *,
    single: bool,
) -> str:
    heads = ["collective", "size", "median", "min–max", "algbw GB/s"]
    heads += [] if single else ["busbw GB/s", "expected GB/s", "reached"]
    body = []
    for key, group in groups.items():
        for place, row in enumerate(group):
            cells = [*measured.cells_of(row)]
            if not single:
                goal = row.expected[0] if row.expected else None
                cells += [
                    measured.rate_text(row.busbw_gbytes_per_s),
                    measured.rate_text(goal.busbw_gbytes_per_s if goal else None),
                    measured.share_text(goal.share if goal else None),
                ]
            head = f'<th scope="rowgroup" rowspan="{len(group)}">{text(names[key])}</th>' if place == 0 else ""
            body.append(f"<tr>{head}{''.join(f'<td>{text(cell)}</td>' for cell in cells)}</tr>")
        body.append("</tbody><tbody>")
    dtypes = ", ".join(dict.fromkeys(dtype for _, dtype in groups if dtype))
    clock = str(measured.part(plain, "measured").get("clock") or "").replace("-", " ")
    caption = "; ".join(
        part for part in (dtypes, clock, "times are those of the slowest rank, GB/s are 1e9 bytes per second") if part
    )
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return wide(
        "Results",
        f"<table><caption>{text(caption)}</caption><thead><tr>{columns}</tr></thead>"
        f"<tbody>{''.join(body[:-1])}</tbody></table>",
    )
