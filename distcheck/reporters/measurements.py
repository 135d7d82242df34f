"""The measurements of the smoke test, read from plain values, for tables, curves and the page.

Nothing is judged here: verdicts are findings. A run that ended early has only some of the values. A missing value is
dropped or shown as a dash, never as zero.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import Report, grouped_pairs, rank_ranges, size_text

from . import Style, charts, escape
from .plain import visible
from .text_parts import shortened, wrapped

#: Up to this many ranks, each has its own line in the terminal.
EACH_RANK = 16
#: Outliers, worst pairs and wrong results that are shown; the JSON has all of them.
SHOWN = 5
#: Modified z-score above which a value is an outlier (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
OUTLIER_SCORE = 3.5
#: The order of comparisons if a size has several.
_KINDS = ("baseline", "shipped", "bound")
#: ASCII replacements for terminals without Unicode.
_PLAIN = str.maketrans({"–": "-", "µ": "u", "·": "-", "↔": "<->", "×": "x", "…": "..."})
#: Innermost lines of a stack that are shown without ``-v``.
_STACK_LINES = 4
#: The least columns for two pictures next to each other.
_TWO_COLUMNS = 76


class Expected(NamedTuple):
    """An expected bus bandwidth, its source, and the share that was reached."""

    busbw_gbytes_per_s: float
    share: float | None
    kind: str
    source: str

    @property
    def name(self) -> str:
        """Return ``baseline``, ``your baseline`` or ``--min-busbw``."""
        return {"baseline": "your baseline", "bound": "--min-busbw"}.get(self.kind, "baseline")


class Result(NamedTuple):
    """One collective at one size. Times are over all iterations, each that of its slowest rank."""

    collective: str
    dtype: str
    size_bytes: int
    median_s: float | None
    min_s: float | None
    max_s: float | None
    algbw_gbytes_per_s: float | None
    busbw_gbytes_per_s: float | None
    iterations: int
    expected: tuple[Expected, ...]


class Outliers(NamedTuple):
    """The median of many values, and those far above it: index and value, worst first."""

    median: float
    p95: float
    above: tuple[tuple[int, float], ...]
    #: the number of outliers, shown or not
    total: int


class MeasuredPair(NamedTuple):
    """Two ranks: their first measurement, and the repeated ones."""

    a: int
    b: int
    busbw_gbytes_per_s: float | None
    latency_s: float | None
    again_gbytes_per_s: tuple[float, ...]


# --- reading ---------------------------------------------------------------------------------------------------------


def part(plain: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a member that is an object; empty if it is missing or None."""
    value = plain.get(name)
    return value if isinstance(value, Mapping) else {}


def items(plain: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return a member that is a list; empty if it is missing or None."""
    value = plain.get(name)
    return value if isinstance(value, (list, tuple)) else ()


def number(value: object) -> float | None:
    """Return a finite number, or None for any other value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def results(measurements: Mapping[str, Any]) -> list[Result]:
    """Return the measured bandwidths, in their order."""
    goals: dict[tuple[str, int], list[Expected]] = {}
    for row in items(measurements, "baselines"):
        value = number(row.get("expected_gbytes_per_s"))
        if value is not None:
            goal = Expected(value, number(row.get("share")), str(row.get("kind") or ""), str(row.get("source") or ""))
            goals.setdefault((str(row.get("collective")), int(row.get("size_bytes") or 0)), []).append(goal)
    found = []
    for row in items(part(measurements, "measured"), "bandwidth"):
        time = part(row, "time")
        name, size = str(row.get("collective") or ""), int(row.get("size_bytes") or 0)
        known = sorted(goals.get((name, size), ()), key=lambda goal: _order(goal.kind))
        found.append(
            Result(
                name,
                str(row.get("dtype") or ""),
                size,
                number(time.get("median_s")),
                number(time.get("min_s")),
                number(time.get("max_s")),
                number(row.get("algbw_gbytes_per_s")),
                number(row.get("busbw_gbytes_per_s")),
                int(row.get("iterations") or 0),
                tuple(known),
            )
        )
    return found


def _order(kind: str) -> int:
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def grouped(rows: Iterable[Result]) -> dict[tuple[str, str], list[Result]]:
    """Return the results by collective and dtype, in the order of measurement, each sorted by size."""
    groups = grouped_pairs(((row.collective, row.dtype), row) for row in rows)
    return {name: sorted(group, key=lambda row: row.size_bytes) for name, group in groups.items()}


def group_names(groups: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return ``all_reduce``, or ``all_reduce bfloat16`` if there is more than one dtype."""
    keys = list(groups)
    several = len({dtype for _, dtype in keys}) > 1
    return {key: f"{key[0]} {key[1]}" if several else key[0] for key in keys}


def world_size(measurements: Mapping[str, Any]) -> int:
    """Return the number of ranks that measured, else of all ranks; 0 if unknown."""
    for holder in (part(measurements, "measured"), measurements):
        value = holder.get("ranks")
        if isinstance(value, int):
            return value
    return 0


def host_of(measurements: Mapping[str, Any], rank: int) -> str:
    """Return the host of a rank if it is known: there is one host, or one for each rank."""
    hosts = items(measurements, "hosts")
    if len(hosts) == 1:
        return str(hosts[0])
    return str(hosts[rank]) if len(hosts) == measurements.get("ranks") and 0 <= rank < len(hosts) else ""


def ranks_values(measurements: Mapping[str, Any], name: str) -> list[float]:
    """Return ``lateness_s`` or ``own_time_s`` of each rank; empty if a value is missing."""
    values = [number(value) for value in items(part(measurements, "lateness"), name)]
    return [] if None in values else [value for value in values if value is not None]


def outliers(values: Sequence[float], shown: int = SHOWN) -> Outliers:
    """Return the values far above the others, by the modified z-score; raises ValueError without values."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    median = statistics.median(ordered)
    deviations = [abs(value - median) for value in ordered]
    # 1.4826 and 1.2533 make either deviation an estimate of sigma (Iglewicz and Hoaglin)
    sigma = 1.4826 * statistics.median(deviations) or 1.2533 * sum(deviations) / len(deviations)
    above = [(value, place) for place, value in enumerate(values) if sigma and (value - median) / sigma > OUTLIER_SCORE]
    above.sort(key=lambda entry: (-entry[0], entry[1]))
    p95 = ordered[min(math.ceil(0.95 * len(ordered)), len(ordered)) - 1]
    return Outliers(median, p95, tuple((place, value) for value, place in above[:shown]), len(above))


def measured_pairs(measurements: Mapping[str, Any]) -> list[MeasuredPair]:
    """Return each pair once, slowest first; pairs without a bandwidth are sorted by latency."""
    firsts: dict[tuple[int, int], Mapping[str, Any]] = {}
    again: dict[tuple[int, int], list[float]] = {}
    for row in items(part(measurements, "pairs"), "pairs"):
        a, b = row.get("a"), row.get("b")
        if not isinstance(a, int) or not isinstance(b, int):
            continue
        key = (min(a, b), max(a, b))
        value = number(row.get("busbw_gbytes_per_s"))
        if key in firsts:
            again.setdefault(key, []).extend([] if value is None else [value])
        else:
            firsts[key] = row
    found = [
        MeasuredPair(
            *key, number(row.get("busbw_gbytes_per_s")), number(row.get("latency_s")), tuple(again.get(key, ()))
        )
        for key, row in firsts.items()
    ]
    return sorted(
        found,
        key=lambda pair: (
            math.inf if pair.busbw_gbytes_per_s is None else pair.busbw_gbytes_per_s,
            -(pair.latency_s or 0.0),
            pair.a,
            pair.b,
        ),
    )


def skipped_parts(report: Report) -> list[tuple[str, str]]:
    """Return what the correctness check and the measurement skipped and why, without entries of *not checked*."""
    known = {item.why for item in report.not_checked}
    found: dict[tuple[str, str], None] = {}
    for name in ("proof", "measured"):
        for row in items(part(report.measurements, name), "skipped"):
            what, why = str(row[0]), str(row[1])
            if why not in known:
                found[what, why] = None
    return list(found)


# --- words -----------------------------------------------------------------------------------------------------------


def time_text(seconds: float | None) -> str:
    """Return three digits in µs, ms or s; a dash for None."""
    if seconds is None or seconds < 0:
        return "-"
    factor, unit = _time_unit(seconds)
    return f"{_digits(seconds * factor)} {unit}"


def range_text(low: float | None, high: float | None) -> str:
    """Return ``36.1–41.0 µs``, both in the unit of the higher one."""
    if low is None or high is None or low < 0 or high < 0:
        return "-"
    factor, unit = _time_unit(high)
    return f"{_digits(low * factor)}–{_digits(high * factor)} {unit}"


def rate_text(gbytes_per_s: float | None) -> str:
    """Return GB/s with three digits; a dash for None, and never zero for a small value."""
    if gbytes_per_s is None:
        return "-"
    if 0 < gbytes_per_s < 0.0001:
        return "<0.0001"
    return f"{gbytes_per_s:.4f}" if 0 < gbytes_per_s < 0.09995 else _digits(gbytes_per_s)


def share_text(share: float | None) -> str:
    """Return ``98 %``; a dash for None."""
    return "-" if share is None else f"{share * 100:.0f} %"


def ranks_text(ranks: Iterable[int], longest: int = 60) -> str:
    """Return ``ranks 0-2,5``, shortened if it is long."""
    numbers = sorted(set(ranks))
    text = rank_ranges(numbers)
    short = shortened(text, longest)
    return f"rank{'s' * (len(numbers) != 1)} {short}" + (f" ({len(numbers)} in all)" if short != text else "")


def _time_unit(seconds: float) -> tuple[float, str]:
    # a value that would be rounded to 1000 has the next unit
    if seconds < 0.9995e-3:
        return 1e6, "µs"
    return (1e3, "ms") if seconds < 0.9995 else (1.0, "s")


def _digits(value: float) -> str:
    if value >= 999.5:
        return f"{value:,.0f}"
    for limit, decimals in ((99.95, 0), (9.995, 1), (0.9995, 2)):
        if value >= limit:
            return f"{value:.{decimals}f}"
    return f"{value:.3f}" if value else "0"


def tick_time(seconds: float) -> str:
    """Return a label on an axis: ``20 µs``."""
    factor, unit = _time_unit(seconds)
    return f"{float(f'{seconds * factor:.6g}'):g} {unit}"


def time_ticks(highest_s: float) -> Callable[[float], str]:
    """Return the function for labels of a linear axis up to this time, all in one unit."""
    factor, unit = _time_unit(highest_s)
    return lambda seconds: f"{float(f'{seconds * factor:.6g}'):g} {unit}" if seconds else "0"


def tick_rate(gbytes_per_s: float) -> str:
    """Return a label on an axis: ``0.01``, ``200``, ``1,000``."""
    value = float(f"{gbytes_per_s:.6g}")
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.12f}".rstrip("0").rstrip(".") if value < 1e-4 else f"{value:g}"


def subject_text(measurements: Mapping[str, Any]) -> str:
    """Return ``8 ranks, 1 host, nccl, cuda (NVIDIA H200)``, as far as known."""
    measured = part(measurements, "measured")
    ranks, hosts = world_size(measurements), len(set(items(measurements, "hosts"))) or measured.get("hosts") or 0
    device = str(measurements.get("device") or measured.get("device") or "")
    name = str(measured.get("device_name") or "")
    parts = [
        f"{ranks:,} rank{'s' * (ranks != 1)}" if ranks else "",
        f"{hosts:,} host{'s' * (hosts != 1)}" if hosts else "",
        str(measurements.get("backend") or measured.get("backend") or ""),
        f"{device} ({name})" if device and name else device or name,
    ]
    return ", ".join(part for part in parts if part)


def phases_text(measurements: Mapping[str, Any]) -> str:
    """Return ``membership 0.51 s · verify 2.1 s``; empty without phases."""
    return " · ".join(f"{name} {time_text(number(seconds))}" for name, seconds in part(measurements, "phases").items())


def correctness_text(measurements: Mapping[str, Any]) -> str:
    """Return the result of the correctness check in one line; empty if there was none."""
    correctness = part(measurements, "proof")
    if not correctness:
        return ""
    checks, wrong = int(correctness.get("checks") or 0), items(correctness, "wrong_ranks")
    word = f"{checks:,} result{'s' * (checks != 1)}"
    ranks, size = correctness.get("ranks"), correctness.get("world_size")
    if ranks is not None and size is not None:
        word = f"{ranks:,} of {size:,} rank{'s' * (size != 1)}, {word}"
    names, dtypes = items(correctness, "collectives"), items(correctness, "dtypes")
    if names and dtypes:
        word += f" of {len(names)} collective{'s' * (len(names) != 1)} × {len(dtypes)} dtype{'s' * (len(dtypes) != 1)}"
    failures = len(items(correctness, "failures"))
    ends = []
    named = [f"{row[0]} on ranks {shortened(str(row[1]))}" for row in items(correctness, "wrong")]
    if named:
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        ends.append(f"wrong: {', '.join(named[:SHOWN])}{more}")
    elif wrong:
        ends.append(f"wrong on {ranks_text(wrong)}")
    if failures:
        ends.append(f"{failures} raised")
    if not ends:
        ends.append("none wrong" if checks else "nothing was compared")
    return f"{word}: {', '.join(ends)}"


def failure_text(measurements: Mapping[str, Any]) -> str:
    """Return where the run ended early, and which ranks waited; empty if it finished."""
    failure = part(measurements, "failure")
    if not failure:
        return ""
    step = str(failure.get("step") or "")
    phase = str(failure.get("phase") or "")
    kind = {
        "timeout": "timed out",
        "died": "a rank died",
        "raised": "a rank raised",
        "stopped": "a rank was stopped",
        "lost": "a rank is unresponsive",
        "ended": "ended by a signal",
    }.get(str(failure.get("kind")), str(failure.get("kind") or "ended early"))
    text = kind + (f" in phase {phase}" if phase else "") + (f", at {step}" if step and step != phase else "")
    elapsed, limit = number(failure.get("elapsed_s")), number(failure.get("limit_s"))
    if elapsed:
        text += f", after {time_text(elapsed)}" + (f" (limit {time_text(limit)})" if limit else "")
    failed, waiting = items(failure, "culprits"), items(failure, "waiting")
    if failed:
        text += f": {ranks_text(failed)}"
    if waiting:
        text += f"; {ranks_text(waiting)} waited"
    return text


def state_text(state: Mapping[str, Any]) -> str:
    """Return the state of a rank: ``rank 3 on node1, pid 123: stopped in all_reduce float32 4 MiB for 34.2 s``."""
    place = "a rank" if state.get("rank") is None else f"rank {state['rank']}"
    if state.get("host"):
        place += f" on {state['host']}"
    if state.get("pid"):
        place += f", pid {state['pid']}"
    text = f"{place}: {state.get('state') or 'state unknown'}"
    if state.get("detail"):
        text += f" ({state['detail']})"
    step = state.get("step") or state.get("phase")
    if step:
        text += f", {step}"
    seconds = number(state.get("seconds_in_step"))
    return text + (f", for {time_text(seconds)}" if seconds else "")


def baseline_lines(measurements: Mapping[str, Any]) -> list[str]:
    """Return the sources of the expected values, each once, or that there is no baseline."""
    found: dict[str, None] = {}
    for row in results(measurements):
        for goal in row.expected:
            found[f"{goal.name}: {goal.source}" if goal.source else goal.name] = None
    if not found and any(row.busbw_gbytes_per_s is not None for row in results(measurements)):
        return ["no baseline: the bandwidth is measured, not judged"]
    return list(found)


def pair_text(pair: MeasuredPair, measurements: Mapping[str, Any]) -> str:
    """Return ``ranks 3 ↔ 7 (node1, node2)``."""
    hosts = list(dict.fromkeys(filter(None, (host_of(measurements, pair.a), host_of(measurements, pair.b)))))
    return f"ranks {pair.a} ↔ {pair.b}" + (f" ({', '.join(hosts)})" if len(hosts) > 1 else "")


def pairs_text(measurements: Mapping[str, Any], found: Sequence[MeasuredPair]) -> str:
    """Return how many pairs were measured, how, and their median bandwidth."""
    plain = part(measurements, "pairs")
    if plain.get("not_applicable"):
        return f"not applicable: {plain['not_applicable']}"
    text = f"{len(found):,} pair{'s' * (len(found) != 1)}"
    rounds, size = int(plain.get("rounds") or 0), int(plain.get("size_bytes") or 0)
    if rounds:
        text += f" in {rounds:,} round{'s' * (rounds != 1)}"
    if size:
        text += f", {size_text(size)}"
    if not plain.get("complete"):
        text += ", each rank with some partners only"
    median = pairs_median(found)
    return text if median is None else f"{text}: median {rate_text(median)} GB/s"


def pairs_median(found: Sequence[MeasuredPair]) -> float | None:
    """Return the median bandwidth; None for fewer than three pairs."""
    rates = [pair.busbw_gbytes_per_s for pair in found if pair.busbw_gbytes_per_s is not None]
    return statistics.median(rates) if len(rates) > 2 else None


# --- text for the terminal -------------------------------------------------------------------------------------------


def lines(report: Report, style: Style) -> Iterator[str]:
    """Yield the measurements as text, in blocks separated by empty lines."""
    for block in _blocks(report, style):
        text = [line if style.unicode else line.translate(_PLAIN) for line in block]
        if text:
            yield ""
            yield from text


def _blocks(report: Report, style: Style) -> Iterator[list[str]]:
    measurements = report.measurements
    yield [
        *_failure(measurements, style),
        *_labelled("phases", phases_text(measurements), style),
        *_labelled("correctness", correctness_text(measurements), style),
    ]
    yield from _tables(measurements, style)
    if style.verbose:
        yield from _curves(measurements, style)
    yield [*_lateness(measurements, style), *_pairs(measurements, style)]
    yield [line for what, why in skipped_parts(report) for line in _labelled("skipped", f"{what}: {why}", style)]


def _labelled(name: str, text: str, style: Style) -> list[str]:
    return wrapped(f"{name}: {text}", style.width, "", "  ") if text else []


def _failure(measurements: Mapping[str, Any], style: Style) -> list[str]:
    failure = part(measurements, "failure")
    found = _labelled("ended early", failure_text(measurements), style)
    error = str(failure.get("error") or "").strip()
    if error:
        found.extend(f"  {escape(line)}" for line in error.splitlines()[-1:])
    for state in items(failure, "states")[:SHOWN]:
        found.extend(wrapped(state_text(state), style.width, "  ", "    "))
        stack = str(state.get("stack") or "").splitlines()
        found.extend(f"      {escape(line.strip())}" for line in stack[0 if style.verbose else -_STACK_LINES :])
        if style.verbose:
            found.extend(f"      {escape(str(entry))}" for entry in items(state, "recorder"))
    return found


def _tables(measurements: Mapping[str, Any], style: Style) -> Iterator[list[str]]:
    from tabulate import tabulate

    rows = results(measurements)
    measured = part(measurements, "measured")
    if not rows:
        return
    single = world_size(measurements) == 1
    blocks: list[list[str]] = []
    for dtype in dict.fromkeys(row.dtype for row in rows):
        groups = [group for key, group in grouped(rows).items() if key[1] == dtype]
        cells = [
            (row.collective if place == 0 else "", *_row(row, single=single))
            for group in groups
            for place, row in enumerate(group)
        ]
        headers = ["collective", "size", "median", "min–max", "algbw"]
        if not single:
            bounds = {row.expected[0].kind for row in rows if row.expected} == {"bound"}
            headers += ["busbw", "bound" if bounds else "baseline"]
        table = tabulate(
            cells, headers, tablefmt="plain", disable_numparse=True, colalign=("left", *["right"] * (len(headers) - 1))
        )
        clock = f", {str(measured['clock']).replace('-', ' ')}" if measured.get("clock") else ""
        iterations = max(row.iterations for row in rows)
        times = f", {iterations} iterations" if iterations > 1 else ""
        block = _labelled("measured", f"{subject_text(measurements)}; {dtype}{times}{clock}", style)
        block.extend(f"  {line}".rstrip() for line in visible(table).split("\n"))
        blocks.append(block)
    notes = ["times are those of the slowest rank; " + ("algbw" if single else "algbw and busbw") + " in GB/s"]
    if single:
        notes.append("bus bandwidth: not applicable with one rank")
    blocks[-1].extend(
        line for note in (*notes, *baseline_lines(measurements)) for line in wrapped(note, style.width, "  ", "    ")
    )
    yield from blocks


def cells_of(row: Result) -> tuple[str, ...]:
    """Return size, median, range and algorithm bandwidth of a result, for a table."""
    times = time_text(row.median_s), range_text(row.min_s, row.max_s)
    return size_text(row.size_bytes), *times, rate_text(row.algbw_gbytes_per_s)


def _row(row: Result, *, single: bool) -> tuple[str, ...]:
    if single:
        return cells_of(row)
    reached = share_text(row.expected[0].share if row.expected else None)
    return *cells_of(row), rate_text(row.busbw_gbytes_per_s), reached


def _curves(measurements: Mapping[str, Any], style: Style) -> Iterator[list[str]]:
    """Yield bus bandwidth and time over size, next to each other if there is room."""
    groups = grouped(results(measurements))
    names = group_names(groups)
    width = min(max(style.width, 40), 120)
    both = width >= _TWO_COLUMNS
    each = (width - 2) // 2 if both else width
    if any(len(group) > 1 for group in groups.values()):
        judged = any(row.expected for row in results(measurements))
        tail = "; - - what is expected" if judged else ""
        yield _labelled("curves", f"over the message size, both axes logarithmic{tail}", style)
    pictures: list[list[str]] = []
    for key, group in groups.items():
        name = escape(names[key])
        rates = [(row.size_bytes, row.busbw_gbytes_per_s) for row in group if charts.drawable(row.busbw_gbytes_per_s)]
        goals = [(row.size_bytes, row.expected[0].busbw_gbytes_per_s) for row in group if row.expected]
        if len(rates) > 1:
            title = f"{name} busbw, GB/s"
            goal = f" (- - {rate_text(goals[-1][1])})" if goals else ""
            title += goal if len(title) + len(goal) <= each else ""
            pictures.append(_picture(title, rates, goals, tick_rate, each, style))
        times = [(row.size_bytes, row.median_s) for row in group if charts.drawable(row.median_s)]
        if len(times) > 1:
            pictures.append(_picture(f"{name} time", times, [], tick_time, each, style))
    if both:
        for place in range(0, len(pictures), 2):
            yield charts.side_by_side(pictures[place], [*pictures, []][place + 1], each + 2)
    else:
        yield from pictures


def _picture(
    name: str,
    points: Sequence[tuple[int, float | None]],
    goals: Sequence[tuple[int, float]],
    label: Callable[[float], str],
    width: int,
    style: Style,
) -> list[str]:
    usable = [(float(size), value) for size, value in points if value is not None and charts.drawable(size)]
    y = charts.log_axis([value for _, value in (*usable, *goals)], 4, label)
    x = charts.size_axis([size for size, _ in usable], max(width // 11, 2), size_text)
    return charts.curve_text(
        usable,
        x,
        y,
        name=name,
        expected=[(float(size), value) for size, value in goals],
        width=width,
        unicode=style.unicode,
    )


def _lateness(measurements: Mapping[str, Any], style: Style) -> list[str]:
    plain = part(measurements, "lateness")
    if not plain:
        return []
    if plain.get("not_applicable"):
        return _labelled("ranks", f"not applicable: {plain['not_applicable']}", style)
    found: list[str] = []
    for name, title in (("lateness_s", "late at the collective"), ("own_time_s", "own time of an equal computation")):
        values = ranks_values(measurements, name)
        if len(values) > 1:
            found.extend(_rank_values(title, values, measurements, style))
    return found


def _rank_values(title: str, values: Sequence[float], measurements: Mapping[str, Any], style: Style) -> list[str]:
    seen = outliers(values)
    worst = max(range(len(values)), key=values.__getitem__)
    summary = f"median {time_text(seen.median)}, at most {time_text(values[worst])} (rank {worst})"
    found = _labelled(title, summary, style)
    if not style.verbose:
        return found
    if len(values) <= EACH_RANK:
        shown = list(enumerate(values))
    else:
        shown = list(seen.above)
        if not shown:
            return [*found, "  no rank stands out"]
        more = seen.total - len(shown)
        found.append(f"  {seen.total} of {len(values):,} ranks stand out" + (f", {more} not shown" if more else ""))
    highest = max(value for _, value in shown)
    digits = len(str(max(rank for rank, _ in shown)))
    for rank, value in shown:
        bar = charts.bar_text(value / highest if highest else 0.0, 30, unicode=style.unicode)
        host = host_of(measurements, rank) if len(items(measurements, "hosts")) > 1 else ""
        found.append(escape(f"  rank {rank:>{digits}}  {time_text(value):>8}  {bar:<30}  {host}".rstrip()))
    return found


def _pairs(measurements: Mapping[str, Any], style: Style) -> list[str]:
    if not part(measurements, "pairs"):
        return []
    pairs = measured_pairs(measurements)
    found = _labelled("pairs", pairs_text(measurements, pairs), style)
    median = pairs_median(pairs)
    for pair in pairs[: SHOWN if style.verbose else 1]:
        text = f"  {pair_text(pair, measurements)}: "
        if pair.busbw_gbytes_per_s is not None:
            text += f"{rate_text(pair.busbw_gbytes_per_s)} GB/s"
            if median:
                text += f", {share_text(pair.busbw_gbytes_per_s / median)} of the median"
            if pair.latency_s is not None:
                text += ", "
        if pair.latency_s is not None:
            text += time_text(pair.latency_s)
        if pair.again_gbytes_per_s:
            text += f"; again: {', '.join(rate_text(value) for value in pair.again_gbytes_per_s[:SHOWN])} GB/s"
        found.append(escape(text if style.verbose else f"  slowest: {text.strip()}"))
    return found
