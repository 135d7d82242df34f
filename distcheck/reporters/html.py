"""One page that stands alone: findings, what was measured as tables and curves, what was not checked.

It needs no script, no network and no second file, so that it can be mailed and archived; a policy in its head holds
browsers to that. It follows the reader's colour scheme and can be printed. All values are escaped. It judges nothing:
what is marked as standing out stands out among its peers, verdicts are the findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape as escape_html
from typing import Any

from ..model import Finding, Fix, Report, Severity, page_url, to_plain
from . import Style, charts, counts, escape, sentence
from . import measurements as measured
from .full import BY, PLACES, brief, first_line, place_text

#: Up to this many ranks each has a bar, and a row and a column of the heat map; beyond it a distribution and outliers.
EACH_RANK = 64
#: Rows of the tables of outliers, worst pairs and wrong results.
ROWS = 10
#: Longest value of one fact that the page shows, in characters; JSON has all of it.
_LONGEST = 2000

# Contrast of text is at least 4.5:1, of lines and marks at least 3:1 against the background (WCAG 2.2, AA), in both
# schemes. The series are Okabe and Ito's colours, made darker for a light background where they are too pale for that.
_LIGHT = """--page:#fff;--ink:#1a1c20;--soft:#596170;--line:#d5d9e0;--panel:#f5f6f8;--accent:#0b5cad;
--error:#b3191f;--warning:#8a5200;--info:#0b5cad;--on-badge:#fff;--loud:#c2410c;--bar:#4a6fa5;
--s0:#0072b2;--s1:#c04b00;--s2:#00805c;--s3:#a8487f;--s4:#8a6d00;--s5:#2a7fb0;--s6:#5b5b5b;--s7:#7a4fbf"""
_DARK = """--page:#14161a;--ink:#e8eaee;--soft:#a3abb9;--line:#363b45;--panel:#1d2026;--accent:#7db8f5;
--error:#ff8d85;--warning:#f0b65a;--info:#7db8f5;--on-badge:#14161a;--loud:#ff9a5c;--bar:#7c9fd3;
--s0:#56a8e0;--s1:#f08a3c;--s2:#2bbd92;--s3:#e08dbb;--s4:#e6c84f;--s5:#8fd0f5;--s6:#b5b5b5;--s7:#b79bf0"""
_STYLE = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif}}
main{{max-width:1040px;margin:0 auto;padding:28px 24px 56px}}
h1{{font-size:1.55rem;line-height:1.3;margin:.3rem 0 .6rem;overflow-wrap:anywhere}}
h2{{font-size:1.2rem;margin:2.4rem 0 .8rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}}
h3{{font-size:1rem;margin:0 0 .35rem;overflow-wrap:anywhere}}
p{{margin:.35rem 0;overflow-wrap:anywhere}}
a{{color:var(--accent)}}
.soft,caption,figcaption,dt{{color:var(--soft)}}
.soft,figcaption{{font-size:.9rem}}
.badge{{display:inline-block;padding:0 .5em;border-radius:4px;font-size:.8rem;font-weight:600;color:var(--on-badge);
background:var(--soft);vertical-align:.08em}}
.badge.error{{background:var(--error)}}.badge.warning{{background:var(--warning)}}.badge.info{{background:var(--info)}}
.finding{{border:1px solid var(--line);border-left:5px solid var(--info);border-radius:6px;padding:.8rem 1rem;
margin:.8rem 0}}
.finding.error{{border-left-color:var(--error)}}.finding.warning{{border-left-color:var(--warning)}}
.finding.info{{padding:.45rem 1rem}}
.place{{font-weight:400;color:var(--soft)}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.5rem 0;font-size:.9rem}}
dd{{margin:0;overflow-wrap:anywhere}}
pre{{margin:.5rem 0 0;padding:.6rem .8rem;background:var(--panel);border:1px solid var(--line);border-radius:5px;
overflow-x:auto;font:.86rem/1.45 ui-monospace,"DejaVu Sans Mono",Consolas,monospace;white-space:pre-wrap;
overflow-wrap:anywhere}}
.wide{{overflow-x:auto}}
table{{border-collapse:collapse;min-width:min(100%,22rem);font-size:.9rem;
font-variant-numeric:tabular-nums;margin:.6rem 0}}
caption{{text-align:left;padding-bottom:.35rem}}
th,td{{padding:.22rem .8rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}}
th{{font-weight:600}}
th:first-child,td.text,th.text{{text-align:left}}
td.text{{white-space:normal;overflow-wrap:anywhere}}
tbody th{{vertical-align:top}}
.grid-of-figures{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,430px),1fr));gap:1rem}}
figure{{margin:0;padding:.8rem;border:1px solid var(--line);border-radius:6px;min-width:0}}
figure.whole{{margin-top:1rem;overflow-x:auto}}
.beside{{display:flex;flex-wrap:wrap;gap:0 1.5rem;align-items:flex-start}}
.beside>*{{flex:0 1 auto;min-width:0}}
.beside th,.beside td{{padding:.22rem .5rem}}
figcaption{{margin-bottom:.3rem;color:var(--ink);font-weight:600}}
svg{{display:block;max-width:100%;height:auto;font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif}}
figure.whole svg{{width:100%;min-width:600px}}
svg text{{fill:var(--ink)}}
svg .end{{text-anchor:end}}svg .middle{{text-anchor:middle}}svg .name{{fill:var(--soft)}}
svg .value{{font-size:11px}}
svg .halo{{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}}
svg .grid{{stroke:var(--line);fill:none}}svg .thin{{stroke-opacity:.45}}svg .axis{{stroke:var(--soft);fill:none}}
svg .curve{{stroke:var(--c);stroke-width:2;fill:none}}svg .whisker{{stroke:var(--c);stroke-width:1.3}}
svg .mark{{fill:var(--c);stroke:var(--page);stroke-width:1}}
svg .hollow{{fill:var(--page);stroke:var(--c);stroke-width:2}}
svg .expected path{{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:6 4;fill:none}}
svg .expected .goal{{stroke-dasharray:none;fill:var(--page)}}
svg .bar{{fill:var(--bar)}}svg .loud{{fill:var(--loud)}}
svg .empty{{fill:var(--panel);stroke:var(--line)}}svg .diagonal{{fill:var(--line)}}
{"".join(f".s{number}{{--c:var(--s{number})}}" for number in range(charts.COLORS))}
details{{margin:.6rem 0}}
section>details{{margin-top:2rem}}
summary{{cursor:pointer;overflow-wrap:anywhere}}
summary h2,summary h3{{display:inline;border:0}}
li{{overflow-wrap:anywhere}}
footer{{margin-top:3rem;color:var(--soft);font-size:.85rem}}
@media print{{
:root{{color-scheme:light;{_LIGHT}}}
@page{{margin:14mm}}
body{{font-size:10.5pt;print-color-adjust:exact;-webkit-print-color-adjust:exact}}
main{{max-width:none;padding:0}}
h2,h3,caption{{break-after:avoid}}
.finding,figure,tr,li{{break-inside:avoid}}
section>p{{break-after:avoid}}
.grid-of-figures{{grid-template-columns:1fr 1fr}}
.wide,pre{{overflow:visible}}
th,td{{padding:.15rem .55rem}}
details::details-content{{content-visibility:visible;display:block;height:auto}}
summary{{list-style:none}}
.finding a::after{{content:" " attr(href);font-size:.8em;font-weight:400;color:var(--soft)}}
}}
"""


def render(report: Report, style: Style = Style()) -> str:
    """The report as one HTML page; facts and probes folded in it with ``-v``."""
    headline = sentence(report) or measured.failure_text(report.measurements) or counts(report)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="color-scheme" content="light dark">',
        f"<title>{_text(f'distcheck {report.command}: {headline}')}</title>",
        f"<style>{_STYLE}</style></head><body><main>",
        *_header(report, headline),
        *_findings(report),
        *(_measurements(report) if report.measurements else ()),
        *_not_checked(report),
        *(_verbose(report) if style.verbose else ()),
        *_footer(report),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _text(value: object) -> str:
    """A value as text of the page: nothing in it is markup, and control characters are visible."""
    return escape_html(escape(str(value)))


def _lines(text: str) -> str:
    """A text of several lines, for ``pre``."""
    return "\n".join(_text(line) for line in text.splitlines())


def _header(report: Report, headline: str) -> Iterator[str]:
    unseen = sum(len(item.what.split(", ")) for item in report.not_checked)
    yield f'<header><p class="soft">{_text(first_line(report))}</p>'
    yield f"<h1>{_text(headline)}</h1>"
    badges = [
        f'<span class="badge {severity.word}">{report.count(severity)} {severity.word}</span>'
        for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)
        if report.count(severity)
    ]
    tail = f"{unseen} not checked · {report.elapsed_s:.2f} s"
    if not badges and headline != counts(report):
        tail = f"{counts(report)}, {tail}"
    yield f'<p>{" ".join([*badges, ""])}<span class="soft">{_text(tail)}</span></p></header>'


# --- findings --------------------------------------------------------------------------------------------------------


def _findings(report: Report) -> Iterator[str]:
    yield '<section aria-labelledby="findings"><h2 id="findings">Findings</h2>'
    if not report.findings:
        yield "<p>Nothing was found in what was looked at.</p>"
    for finding in report.findings:
        yield _finding(finding)
    yield "</section>"


def _finding(finding: Finding) -> str:
    word = finding.severity.word
    place = place_text(finding)
    head = (
        f'<span class="badge {word}">{word}</span> <a href="{_text(page_url(finding.code))}">{_text(finding.code)}</a> '
        f"{_text(finding.name)}" + (f' <span class="place">{_text(place)}</span>' if place else "")
    )
    body = [f"<p>{_text(finding.message)}</p>", *_evidence(finding.evidence), *_fix(finding.fix)]
    if finding.severity is Severity.INFO:
        # worth knowing: one line until it is asked for
        summary = f"<summary>{head}: {_text(finding.message)}</summary>"
        return f'<details class="finding info">{summary}{"".join(body[1:])}</details>'
    return f'<article class="finding {word}"><h3>{head}</h3>{"".join(body)}</article>'


def _evidence(evidence: Mapping[str, Any]) -> Iterator[str]:
    shown = [(name, value) for name, value in to_plain(evidence).items() if value not in (None, "", [], {})]
    if shown:
        rows = "".join(f"<dt>{_text(name)}</dt><dd>{_text(brief(value))}</dd>" for name, value in shown)
        yield f"<dl>{rows}</dl>"


def _fix(fix: Fix) -> Iterator[str]:
    yield f"<p><strong>Fix</strong> ({PLACES[fix.where]}{BY[fix.by]}): {_text(fix.text)}</p>"
    if fix.command:
        yield f"<pre><code>{_lines(fix.command)}</code></pre>"
    if fix.risk:
        yield f"<p><strong>Mind</strong>: {_text(fix.risk)}</p>"


# --- what was measured -----------------------------------------------------------------------------------------------


def _measurements(report: Report) -> Iterator[str]:
    plain = report.measurements
    facts = [
        ("looked at", measured.subject_text(plain)),
        ("phases", measured.phases_text(plain)),
        ("proof", measured.proof_text(plain)),
    ]
    yield '<section aria-labelledby="run"><h2 id="run">The run</h2>'
    rows = "".join(f"<dt>{name}</dt><dd>{_text(text)}</dd>" for name, text in facts if text)
    yield f"<dl>{rows}</dl>" if rows else ""
    yield from _failure(plain)
    yield from _wrong(plain)
    skipped = measured.left_out(report)
    if skipped:
        yield "<p>Left out:</p><ul>"
        yield from (f"<li>{_text(what)}: {_text(why)}</li>" for what, why in skipped)
        yield "</ul>"
    yield "</section>"
    yield from _bandwidth(plain)
    yield from _ranks(plain)
    yield from _pairs(plain)


def _failure(plain: Mapping[str, Any]) -> Iterator[str]:
    failure = measured.part(plain, "failure")
    if not failure:
        return
    yield f'<article class="finding error"><h3>Ended early</h3><p>{_text(measured.failure_text(plain))}</p>'
    if failure.get("error"):
        yield f"<pre>{_lines(str(failure['error']))}</pre>"
    for state in measured.items(failure, "states")[:ROWS]:
        yield f"<p>{_text(measured.state_text(state))}</p>"
        inside = [
            (name, text)
            for name, text in (
                ("Python stack, innermost last", str(state.get("stack") or "")),
                (
                    "last entries of the flight recorder",
                    "\n".join(str(entry) for entry in measured.items(state, "recorder")),
                ),
            )
            if text
        ]
        for name, text in inside:
            yield f"<details><summary>{name}</summary><pre>{_lines(text)}</pre></details>"
    yield "</article>"


def _wrong(plain: Mapping[str, Any]) -> Iterator[str]:
    rows = measured.items(measured.part(plain, "proof"), "mismatches")
    if not rows:
        return
    more = f" (the first {ROWS} of {len(rows):,})" if len(rows) > ROWS else ""
    yield from _table(
        f"Wrong results{more}",
        ("rank", "collective", "dtype", "size", "wrong elements", "first at", "expected", "seen"),
        [
            (
                row.get("rank"),
                row.get("collective"),
                row.get("dtype"),
                measured.size_text(row.get("size_bytes") or 0),
                f"{row.get('wrong') or 0:,} of {row.get('elements') or 0:,}",
                row.get("first_index"),
                row.get("expected"),
                row.get("seen"),
            )
            for row in rows[:ROWS]
        ],
    )


def _bandwidth(plain: Mapping[str, Any]) -> Iterator[str]:
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
    yield from (f'<p class="soft">{_text(line)}</p>' for line in measured.baseline_lines(plain))
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
                rate, size = measured.rate_text(goal.busbw_gbytes_per_s), measured.size_text(row.size_bytes)
                tip = f"{goal.name} {rate} GB/s at {size}"
                goals.setdefault(goal.name, []).append(
                    charts.Point(row.size_bytes, goal.busbw_gbytes_per_s, title=f"{tip}; {goal.source}".rstrip("; "))
                )
    every = [row.busbw_gbytes_per_s for row in everyone if row.busbw_gbytes_per_s is not None]
    every += [value for row in everyone for value in _spread(row) if value is not None]
    every += [goal.busbw_gbytes_per_s for row in everyone for goal in row.expected]
    y = charts.log_axis([value for value in every if charts.drawable(value)], 8, measured.tick_rate)
    x = charts.size_axis([row.size_bytes for row in everyone], 7, measured.size_text)
    last = points[-1]
    description = (
        f"Bus bandwidth of {name} over message size on logarithmic axes, {len(points)} sizes; at "
        f"{measured.size_text(last.x)} it is {measured.rate_text(last.y)} GB/s."
    )
    expected = [charts.Series(_goal_label(kind, found), tuple(found), expected=True) for kind, found in goals.items()]
    picture = charts.curves_svg(
        [*expected, charts.Series(name, points)],
        x,
        y,
        identifier=f"rate-{place}",
        title=f"{name}: bus bandwidth over size",
        description=description + "".join(f" Dashed: {item.name}." for item in expected),
        x_name="message size",
        y_name="bus bandwidth, GB/s",
        legend=False,
    )
    return f"<figure><figcaption>{_text(name)}</figcaption>{picture}</figure>"


def _goal_label(kind: str, points: Sequence[charts.Point]) -> str:
    last = points[-1]
    return f"{kind} {measured.rate_text(last.y)} GB/s at {measured.size_text(last.x)}"


def _spread(row: measured.Result) -> tuple[float | None, float | None]:
    """The bus bandwidth of the slowest and of the fastest iteration: it is the inverse of the time."""
    rate, median, low, high = row.busbw_gbytes_per_s, row.median_s, row.min_s, row.max_s
    if not rate or not median or not low or not high:
        return None, None
    return rate * median / high, rate * median / low


def _tip(name: str, row: measured.Result) -> str:
    text = f"{name}, {measured.size_text(row.size_bytes)}: {measured.time_text(row.median_s)}"
    if row.min_s is not None and row.max_s is not None:
        text += f" ({measured.range_text(row.min_s, row.max_s)})"
    if row.busbw_gbytes_per_s is not None:
        text += f", {measured.rate_text(row.busbw_gbytes_per_s)} GB/s bus bandwidth"
    return text


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
    y = charts.log_axis([point.y for point in points], 9, measured.tick_time)
    x = charts.size_axis([point.x for point in points], 11, measured.size_text)
    smallest = min(points, key=lambda point: (point.x, point.y))
    picture = charts.curves_svg(
        series,
        x,
        y,
        identifier="latency",
        title="Time over message size",
        description=(
            f"Median time of {', '.join(item.name for item in series)} over message size on logarithmic axes; the "
            f"shortest at {measured.size_text(smallest.x)} is {measured.time_text(smallest.y)}."
        ),
        x_name="message size",
        y_name="time of the slowest rank",
        width=900,
        height=360,
    )
    yield f'<figure class="whole"><figcaption>Time over message size</figcaption>{picture}</figure>'


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
            cells = [
                measured.size_text(row.size_bytes),
                measured.time_text(row.median_s),
                measured.range_text(row.min_s, row.max_s),
                measured.rate_text(row.algbw_gbytes_per_s),
            ]
            if not single:
                goal = row.expected[0] if row.expected else None
                cells += [
                    measured.rate_text(row.busbw_gbytes_per_s),
                    measured.rate_text(goal.busbw_gbytes_per_s if goal else None),
                    measured.share_text(goal.share if goal else None),
                ]
            head = f'<th scope="rowgroup" rowspan="{len(group)}">{_text(names[key])}</th>' if place == 0 else ""
            body.append(f"<tr>{head}{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>")
        body.append("</tbody><tbody>")
    dtypes = ", ".join(dict.fromkeys(dtype for _, dtype in groups if dtype))
    clock = str(measured.part(plain, "measured").get("clock") or "").replace("-", " ")
    caption = "; ".join(
        text for text in (dtypes, clock, "times are those of the slowest rank, GB/s are 1e9 bytes per second") if text
    )
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return _wide(
        "Results",
        f"<table><caption>{_text(caption)}</caption><thead><tr>{columns}</tr></thead>"
        f"<tbody>{''.join(body[:-1])}</tbody></table>",
    )


def _ranks(plain: Mapping[str, Any]) -> Iterator[str]:
    lateness = measured.part(plain, "lateness")
    if not lateness:
        return
    yield '<section aria-labelledby="ranks"><h2 id="ranks">Ranks</h2>'
    if lateness.get("not_applicable"):
        yield f"<p>Not applicable: {_text(lateness['not_applicable'])}.</p></section>"
        return
    repetitions = lateness.get("repetitions")
    often = f"; medians of {_text(repetitions)} repetitions" if repetitions else ""
    yield (
        '<p class="soft">In a ring all ranks take the same time: who comes late is measured before the collective, '
        f"and how fast a rank is by an equal computation of its own{often}.</p>"
    )
    yield '<div class="grid-of-figures">'
    tables: list[str] = []
    for name, title in (("lateness_s", "Late at the collective"), ("own_time_s", "Own time of an equal computation")):
        values = measured.ranks_values(plain, name)
        if len(values) > 1:
            yield _rank_figure(name, title, values, plain)
            tables.extend(_outlier_table(title, values, plain) if len(values) > EACH_RANK else ())
    yield "</div>"
    yield from tables
    yield "</section>"


def _rank_figure(name: str, title: str, values: Sequence[float], plain: Mapping[str, Any]) -> str:
    seen = measured.outliers(values, ROWS)
    highest = max(values)
    worst = values.index(highest)
    identifier = name.replace("_", "-")
    description = (
        f"{len(values)} ranks: median {measured.time_text(seen.median)}, highest {measured.time_text(highest)} at rank "
        f"{worst}, {seen.total} of them far above the others."
    )
    axis = charts.linear_axis(highest, 5, measured.time_ticks(highest))
    if len(values) <= EACH_RANK:
        tips = []
        for rank, value in enumerate(values):
            host = measured.host_of(plain, rank)
            tips.append(f"rank {rank}" + (f" on {host}" if host else "") + f": {measured.time_text(value)}")
        loud = [rank for rank, _ in seen.above]
        picture = charts.bars_svg(
            values,
            tips,
            axis,
            identifier=identifier,
            title=title,
            description=description,
            x_name="rank",
            y_name="time",
            loud=loud,
            labels={worst: measured.time_text(highest)} if highest > 0 else {},
        )
    else:
        picture = charts.histogram_svg(
            values,
            axis,
            identifier=identifier,
            title=title,
            description=description,
            x_name="time",
            y_name="ranks (root scale)",
            tip=lambda low, high, count: (
                f"{count:,} rank{'s' * (count != 1)} between {measured.time_text(low)} and {measured.time_text(high)}"
            ),
        )
    return f"<figure><figcaption>{_text(title)}</figcaption>{picture}</figure>"


def _outlier_table(title: str, values: Sequence[float], plain: Mapping[str, Any]) -> Iterator[str]:
    seen = measured.outliers(values, ROWS)
    if not seen.above:
        yield f'<p class="soft">{_text(title)}: no rank stands out.</p>'
        return
    more = f", {len(seen.above)} of {seen.total} shown" if seen.total > len(seen.above) else ""
    yield from _table(
        f"{title}: ranks that stand out (median {measured.time_text(seen.median)}, 95 % below "
        f"{measured.time_text(seen.p95)}{more})",
        ("rank", "host", "time", "times the median"),
        [
            (
                rank,
                measured.host_of(plain, rank) or "-",
                measured.time_text(value),
                f"{value / seen.median:.1f}" if seen.median > 0 else "-",
            )
            for rank, value in seen.above
        ],
    )


def _pairs(plain: Mapping[str, Any]) -> Iterator[str]:
    if not measured.part(plain, "pairs"):
        return
    pairs = measured.measured_pairs(plain)
    yield '<section aria-labelledby="pairs"><h2 id="pairs">Pairs of ranks</h2>'
    yield f"<p>{_text(measured.pairs_text(plain, pairs))}</p>"
    size = max([measured.world_size(plain), *(pair.b + 1 for pair in pairs)], default=0)
    yield '<div class="beside">'
    if 2 < size <= EACH_RANK and pairs:
        yield _heat_map(pairs, size, plain)
    if pairs:
        again = any(pair.again_gbytes_per_s for pair in pairs[:ROWS])
        median = measured.pairs_median(pairs)
        yield from _table(
            f"The slowest {min(ROWS, len(pairs))} of {len(pairs):,} pairs" if len(pairs) > 1 else "The pair",
            ("ranks", "GB/s", "of median", "latency", *(["again, GB/s"] if again else [])),
            [
                (
                    measured.pair_text(pair, plain).removeprefix("ranks "),
                    measured.rate_text(pair.busbw_gbytes_per_s),
                    measured.share_text(
                        pair.busbw_gbytes_per_s / median if pair.busbw_gbytes_per_s and median else None
                    ),
                    measured.time_text(pair.latency_s),
                    *([", ".join(map(measured.rate_text, pair.again_gbytes_per_s[:3])) or "-"] if again else []),
                )
                for pair in pairs[:ROWS]
            ],
        )
    yield "</div></section>"


def _heat_map(pairs: Sequence[measured.MeasuredPair], size: int, plain: Mapping[str, Any]) -> str:
    by_rate = any(pair.busbw_gbytes_per_s is not None for pair in pairs)
    cells = []
    for pair in pairs:
        value = pair.busbw_gbytes_per_s if by_rate else pair.latency_s
        if value is None:
            continue
        known = [
            f"{measured.rate_text(pair.busbw_gbytes_per_s)} GB/s" if pair.busbw_gbytes_per_s is not None else "",
            measured.time_text(pair.latency_s) if pair.latency_s is not None else "",
            "".join(f"again {measured.rate_text(again)} GB/s" for again in pair.again_gbytes_per_s[:1]),
        ]
        title = f"{measured.pair_text(pair, plain)}: {', '.join(text for text in known if text)}"
        label = measured.rate_text(value) if by_rate else measured.time_text(value)
        cells.append(charts.Cell(pair.a, pair.b, value, title, label))
    if not cells:
        return ""
    worst = cells[0]
    picture = charts.heat_map_svg(
        cells,
        size,
        max(cell.value for cell in cells),
        identifier="pairs-map",
        title="Bandwidth of each pair of ranks" if by_rate else "Latency of each pair of ranks",
        description=f"{len(cells)} of {size * (size - 1) // 2} pairs of {size} ranks; the slowest is {worst.title}.",
        name="rank",
        scale_name="bandwidth, GB/s" if by_rate else "latency",
        scale_label=measured.rate_text if by_rate else measured.time_text,
        low_is_bright=not by_rate,
    )
    caption = "Bandwidth of each pair" if by_rate else "Latency of each pair"
    return f"<figure><figcaption>{caption}</figcaption>{picture}</figure>"


# --- the rest --------------------------------------------------------------------------------------------------------


def _not_checked(report: Report) -> Iterator[str]:
    if not report.not_checked:
        return
    unseen = sum(len(item.what.split(", ")) for item in report.not_checked)
    yield f'<section><details><summary><h2 id="not-checked">Not checked ({unseen})</h2></summary><ul>'
    yield from (f"<li>{_text(item.what)}: {_text(item.why)}</li>" for item in report.not_checked)
    yield "</ul></details></section>"


def _verbose(report: Report) -> Iterator[str]:
    if report.facts:
        yield '<section><details><summary><h2 id="facts">Facts</h2></summary>'
        for name, value in report.facts.items():
            rows = [(key, part) for key, part in _members(to_plain(value)) if part not in (None, "", [], {})]
            yield f"<h3>{_text(name)}</h3>"
            body = "".join(f"<dt>{_text(key)}</dt><dd>{_text(_cut(brief(part)))}</dd>" for key, part in rows)
            yield f"<dl>{body}</dl>" if body else '<p class="soft">nothing to show</p>'
        yield "</details></section>"
    if report.probes:
        yield '<section><details><summary><h2 id="probes">Probes and readers</h2></summary>'
        yield from _table(
            "",
            ("name", "status", "time"),
            [(probe.name, probe.status, measured.time_text(probe.elapsed_s)) for probe in report.probes],
        )
        yield "</details></section>"


def _members(plain: object) -> list[tuple[str, Any]]:
    return list(plain.items()) if isinstance(plain, Mapping) else [("", plain)]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _footer(report: Report) -> Iterator[str]:
    from .. import __version__

    yield f"<footer>distcheck {_text(__version__)}, {_text(report.command)}</footer>"


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table whose first column names its rows; cells that are no numbers are set flush left."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in heads)
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td>{_text('-' if cell is None else cell)}</td>" for cell in rest)
        body.append(f'<tr><th scope="row">{_text("-" if first is None else first)}</th>{cells}</tr>')
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    yield _wide(
        caption or heads[0], f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def _wide(name: str, table: str) -> str:
    """A table that scrolls by itself where it is wider than the page, also by keyboard."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{_text(name)}">{table}</div>'
