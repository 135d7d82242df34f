"""Ranks and pairs of ranks: bars or a distribution, a map, and tables of those that stand out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distcheck.reporters import charts
from distcheck.reporters import measurements as measured

from .parts import table, text

#: Up to this many ranks each has a bar, and a row and a column of the heat map; beyond it a distribution and outliers.
EACH_RANK = 64
#: Rows of the tables of outliers and worst pairs.
ROWS = 10


def ranks(plain: Mapping[str, Any]) -> Iterator[str]:
    """Who comes late, and how fast each is alone."""
    lateness = measured.part(plain, "lateness")
    if not lateness:
        return
    yield '<section aria-labelledby="ranks"><h2 id="ranks">Ranks</h2>'
    if lateness.get("not_applicable"):
        yield f"<p>Not applicable: {text(lateness['not_applicable'])}.</p></section>"
        return
    repetitions = lateness.get("repetitions")
    often = f"; medians of {text(repetitions)} repetitions" if repetitions else ""
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
    median = charts.Point(seen.median, seen.median, title=f"median {measured.time_text(seen.median)}")
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
            charts.Caption(identifier, title, description, "rank", "time"),
            loud=loud,
            labels={worst: measured.time_text(highest)} if highest > 0 else {},
            baseline=median,
        )
    else:
        picture = charts.histogram_svg(
            values,
            axis,
            charts.Caption(identifier, title, description, "time", "ranks (root scale)"),
            tip=lambda low, high, count: (
                f"{count:,} rank{'s' * (count != 1)} between {measured.time_text(low)} and {measured.time_text(high)}"
            ),
            baseline=median,
        )
    return f"<figure><figcaption>{text(title)}</figcaption>{picture}</figure>"


def _outlier_table(title: str, values: Sequence[float], plain: Mapping[str, Any]) -> Iterator[str]:
    seen = measured.outliers(values, ROWS)
    if not seen.above:
        yield f'<p class="soft">{text(title)}: no rank stands out.</p>'
        return
    more = f", {len(seen.above)} of {seen.total} shown" if seen.total > len(seen.above) else ""
    yield from table(
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


def pairs(plain: Mapping[str, Any]) -> Iterator[str]:
    """How fast ranks are two by two."""
    if not measured.part(plain, "pairs"):
        return
    pairs = measured.measured_pairs(plain)
    yield '<section aria-labelledby="pairs"><h2 id="pairs">Pairs of ranks</h2>'
    yield f"<p>{text(measured.pairs_text(plain, pairs))}</p>"
    size = max([measured.world_size(plain), *(pair.b + 1 for pair in pairs)], default=0)
    yield '<div class="columns">'
    if 2 < size <= EACH_RANK and pairs:
        yield _heat_map(pairs, size, plain)
    if pairs:
        again = any(pair.again_gbytes_per_s for pair in pairs[:ROWS])
        median = measured.pairs_median(pairs)
        yield from table(
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
        title = f"{measured.pair_text(pair, plain)}: {', '.join(item for item in known if item)}"
        label = measured.rate_text(value) if by_rate else measured.time_text(value)
        cells.append(charts.Cell(pair.a, pair.b, value, title, label))
    if not cells:
        return ""
    caption = "Bandwidth of each pair" if by_rate else "Latency of each pair"
    description = f"{len(cells)} of {size * (size - 1) // 2} pairs of {size} ranks; the slowest is {cells[0].title}."
    picture = charts.heat_map_svg(
        cells,
        size,
        max(cell.value for cell in cells),
        charts.Caption("pairs-map", f"{caption} of ranks", description, "rank", "rank"),
        scale_name="bandwidth, GB/s" if by_rate else "latency",
        scale_label=measured.rate_text if by_rate else measured.time_text,
        low_is_bright=not by_rate,
    )
    return f"<figure><figcaption>{caption}</figcaption>{picture}</figure>"
