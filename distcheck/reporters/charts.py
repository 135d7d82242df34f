"""Draw charts: SVG for the page, text for the terminal, and the axes of both.

These are pure functions without a dependency. matplotlib would add tens of megabytes and seconds of import to the
environment under test, for four kinds of charts. Its SVG supports neither color schemes nor screen readers. Colors and
fonts are set by the page's style sheet, so that one picture fits light and dark screens and paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape as escape_html
from itertools import pairwise
from typing import NamedTuple

from . import escape

#: More series than this share colors; their marks still differ for twice as many.
COLORS = 8
#: Width of a character of the axis labels, in units of the picture: 12 px of a sans-serif font, rounded up.
CHARACTER = 7.0
#: Least distance between two labels above each other.
_LINE = 13.0
#: Colors of cividis, from low to high. They are similar with and without color-vision deficiency:
#: Nuñez, Anderton, Renslow, PLOS ONE 13(7) e0199239, 2018.
_CIVIDIS = (
    (0x00, 0x22, 0x4E),
    (0x12, 0x35, 0x70),
    (0x3B, 0x49, 0x6C),
    (0x57, 0x5D, 0x6D),
    (0x70, 0x71, 0x73),
    (0x8A, 0x87, 0x79),
    (0xA5, 0x9C, 0x74),
    (0xC3, 0xB3, 0x69),
    (0xFE, 0xE8, 0x38),
)
#: Up to this many rows and columns a cell of a heat map has room for its number.
_NUMBERED = 12
#: Dots of a braille character: its columns by its rows, and the bit of each (Unicode 15, block U+2800).
_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_EIGHTHS = " ▏▎▍▌▋▊▉█"
#: Width and height of bars and histograms, and width of heat maps, in units of the picture.
_SMALL = (460, 240)
_HEAT_MAP_WIDTH = 500
#: Bars of a histogram.
_BINS = 32


class Tick(NamedTuple):
    """A tick of an axis, in the unit of the axis; a tick without a label is a thin line."""

    value: float
    label: str = ""


class Axis(NamedTuple):
    """From ``low`` to ``high``, logarithmic or linear."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    log: bool = True

    def share(self, value: float) -> float:
        """Return the position of a value on the axis: 0 at ``low``, 1 at ``high``, clipped to these."""
        if self.log:
            value, low, high = math.log(max(value, self.low)), math.log(self.low), math.log(self.high)
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low), 0.0), 1.0)


class Point(NamedTuple):
    """A measured value, its spread if known, and its tooltip."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""


class Series(NamedTuple):
    """Points of one curve. An ``expected`` one is dashed, and has its label at its start."""

    name: str
    points: tuple[Point, ...]
    expected: bool = False
    #: the label is below the start, as measured values are above it
    below: bool = False


class Cell(NamedTuple):
    """One cell of a heat map, and its mirror image."""

    row: int
    column: int
    value: float
    title: str
    label: str = ""


def drawable(value: object) -> bool:
    """Return whether a value fits on a logarithmic axis: a finite number above zero."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def size_axis(values: Iterable[float], room: int, label: Callable[[int], str]) -> Axis:
    """Return a logarithmic axis of message sizes, with at most ``room`` labels at powers of two.

    :raises ValueError: without a value above zero
    """
    low, high = _span(values)
    first, last = math.floor(math.log2(low) + 1e-9), math.ceil(math.log2(high) - 1e-9)
    if first == last:
        first, last = first - 1, last + 1
    # steps under which 1 KiB, 1 MiB and 1 GiB (or their quarters) keep their labels
    for step in (1, 2, 4, 5, 10, 20, 40):
        # if possible, both ends have labels: they are measured sizes
        start = first if (last - first) % step == 0 else first + -first % step
        exponents = list(range(start, last + 1, step))
        if len(exponents) <= max(room, 1):
            break
    if not exponents:
        exponents = [first]
    return Axis(float(2.0**first), float(2.0**last), tuple(Tick(2.0**item, label(2**item)) for item in exponents))


def log_axis(values: Iterable[float], room: int, label: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis with labels at 1, 2, 5 of each power of ten, or fewer if there is no room.

    :raises ValueError: without a value above zero
    """
    low, high = _span(values)
    steps = _one_two_five(low, high)
    bottom, top = steps[0], steps[-1]
    first, last = math.floor(math.log10(bottom) + 1e-9), math.ceil(math.log10(top) - 1e-9)
    choices = [steps]
    for every in range(1, max(last - first, 1) + 1):
        choices.append([_power(exponent) for exponent in range(first, last + 1) if (exponent - first) % every == 0])
    for chosen in choices:
        inside = [value for value in chosen if bottom * 0.999 <= value <= top * 1.001]
        if len(inside) <= max(room, 2):
            break
    if len(inside) < 2:
        inside = [bottom, top]
    labelled = {f"{value:.3e}" for value in inside}
    thin = [value for value in steps if f"{value:.3e}" not in labelled]
    ticks = [*(Tick(value, label(value)) for value in inside), *(Tick(value) for value in thin)]
    return Axis(bottom, top, tuple(sorted(ticks)))


def linear_axis(high: float, room: int, label: Callable[[float], str]) -> Axis:
    """Return an axis from zero to at least ``high``, in steps of 1, 2 or 5 times a power of ten."""
    high = high if drawable(high) else 1.0
    power = 10.0 ** math.floor(math.log10(high / max(room, 1)))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if high / (factor * power) <= max(room, 1))
    count = math.ceil(high / step - 1e-9)
    return Axis(0.0, step * count, tuple(Tick(step * item, label(step * item)) for item in range(count + 1)), log=False)


def _span(values: Iterable[float]) -> tuple[float, float]:
    usable = [value for value in values if drawable(value)]
    if not usable:
        raise ValueError("an axis needs a value above zero")
    return min(usable), max(usable)


def _power(exponent: int) -> float:
    """Return ten to this power, as exact as a literal."""
    return float(f"1e{exponent}")


def _one_two_five(low: float, high: float) -> list[float]:
    """Return the values 1, 2, 5 of each power of ten that enclose a span; at least two of them."""
    first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
    every = [float(f"{factor}e{exponent}") for exponent in range(first, last + 1) for factor in (1, 2, 5)]
    bottom = max(value for value in every if value <= low * (1 + 1e-9))
    top = min(value for value in every if value >= high * (1 - 1e-9))
    if bottom == top:
        bottom, top = every[every.index(bottom) - 1], every[every.index(top) + 1]
    return every[every.index(bottom) : every.index(top) + 1]


# --- SVG -------------------------------------------------------------------------------------------------------------


class Caption(NamedTuple):
    """The texts of a picture: its identifier on the page, title, description, and the names of its axes."""

    identifier: str
    title: str
    description: str
    x_name: str
    y_name: str


class PlotArea(NamedTuple):
    """The rectangle of the plot in its picture."""

    left: float
    top: float
    right: float
    bottom: float

    def x(self, share: float) -> float:
        """Return the coordinate of a share of the horizontal axis."""
        return self.left + share * (self.right - self.left)

    def y(self, share: float) -> float:
        """Return the coordinate of a share of the vertical axis, which points upwards."""
        return self.bottom - share * (self.bottom - self.top)


def curves_svg(
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    caption: Caption,
    *,
    width: int = 460,
    height: int = 300,
    legend: bool = True,
) -> str:
    """Return curves with their points and whiskers, and a legend below. The tooltip of a point shows its value."""
    measured = [item for item in series if not item.expected]
    columns = max(1, int((width - 20) // (max((len(item.name) for item in measured), default=1) * CHARACTER + 40)))
    rows = math.ceil(len(measured) / columns) if legend else 0
    frame = _frame(width, height, y)
    whole = height + rows * 20
    parts = [*_axes(frame, x, y, caption)]
    for item in (item for item in series if item.expected):
        parts.extend(_expected(item, frame, x, y))
    for number, item in enumerate(measured):
        parts.extend(_curve(item, number, frame, x, y))
    for number, item in enumerate(measured if legend else ()):
        column, row = number % columns, number // columns
        at_x, at_y = 16 + column * (width - 20) / columns, height + row * 20 + 8
        color = number % COLORS
        parts.append(
            f'<g class="series s{color}"><path class="curve" d="M{_n(at_x)} {_n(at_y)}h24"/>'
            f"{_mark(number, at_x + 12, at_y)}</g>{_label(at_x + 30, at_y + 4, item.name)}"
        )
    return _svg(parts, width, whole, caption)


def bars_svg(
    values: Sequence[float],
    titles: Sequence[str],
    y: Axis,
    caption: Caption,
    *,
    labels: Mapping[int, str] = {},
    loud: Iterable[int] = (),
    baseline: Point | None = None,
) -> str:
    """Return one bar for each value, in order. Bars in ``loud`` are highlighted. ``labels`` are above their bars.

    :param baseline: ``y`` is the height of a dashed line, named by ``title``
    """
    frame = _frame(*_SMALL, y)
    step = (frame.right - frame.left) / max(len(values), 1)
    thickness = max(min(step * 0.8, 36.0), 1.0)
    every = next(
        (item for item in (1, 2, 4, 8, 16, 32) if step * item >= CHARACTER * len(str(len(values))) + 4), len(values)
    )
    parts = [*_y_axis(frame, y, caption.y_name), _x_name(frame, caption.x_name)]
    marked = set(loud)
    for place, (value, tip) in enumerate(zip(values, titles, strict=True)):
        middle = frame.left + (place + 0.5) * step
        top = frame.y(y.share(value))
        # a bar of zero needs some height, for its tooltip
        top = min(top, frame.bottom - 0.8)
        css = "bar loud" if place in marked else "bar"
        parts.append(_bar(css, middle - thickness / 2, top, thickness, frame.bottom, tip))
        if place % every == 0:
            parts.append(_label(middle, frame.bottom + 18, str(place), "middle"))
        if place in labels:
            half = len(labels[place]) * CHARACTER / 2
            at = min(max(middle, frame.left + half), frame.right - half)
            parts.append(_label(at, top - 5, labels[place], "middle halo"))
    if baseline is not None:
        at = frame.y(y.share(baseline.y))
        parts.append(_baseline(f"M{_n(frame.left)} {_n(at)}H{_n(frame.right)}", frame.left + 4, at - 6, baseline.title))
    return _svg(parts, *_SMALL, caption)


def histogram_svg(
    values: Sequence[float],
    x: Axis,
    caption: Caption,
    tip: Callable[[float, float, int], str],
    baseline: Point | None = None,
) -> str:
    """Return a histogram of values. ``tip(low, high, count)`` returns the tooltip of a bar.

    The counts have a square-root scale, so that a single value is visible next to ten thousand.

    :param baseline: ``x`` is the value of a dashed line, named by ``title``
    """
    counts = [0] * _BINS
    for value in values:
        counts[min(int(x.share(value) * _BINS), _BINS - 1)] += 1
    highest = max(counts)
    marks = [mark for mark in (1, 10, 100, 1000, 10_000, 100_000) if mark <= highest]
    # a root scale is a linear axis over the roots
    y = Axis(0.0, math.sqrt(highest), tuple(Tick(math.sqrt(mark), f"{mark:,}") for mark in marks), log=False)
    frame = _frame(*_SMALL, y)
    parts = [*_axes(frame, x, y, caption)]
    step = (frame.right - frame.left) / _BINS
    for place, count in enumerate(counts):
        if not count:
            continue
        top = frame.y(y.share(math.sqrt(count)))
        low, high = (x.low + (x.high - x.low) * (place + side) / _BINS for side in (0, 1))
        left = frame.left + place * step + 0.5
        parts.append(_bar("bar", left, top, step - 1, frame.bottom, tip(low, high, count)))
    if baseline is not None:
        at = frame.x(x.share(baseline.x))
        start = min(at + 4, frame.right - len(baseline.title) * CHARACTER)
        parts.append(_baseline(f"M{_n(at)} {_n(frame.top)}V{_n(frame.bottom)}", start, frame.top + 10, baseline.title))
    return _svg(parts, *_SMALL, caption)


def heat_map_svg(
    cells: Sequence[Cell],
    size: int,
    highest: float,
    caption: Caption,
    *,
    scale_name: str,
    scale_label: Callable[[float], str],
    low_is_bright: bool = False,
) -> str:
    """Return a square of ``size`` by ``size``. Each cell and its mirror image is colored between zero and ``highest``.

    The scale begins at zero, so that a spread of a few per cent seems as small as it is. ``low_is_bright`` reverses
    the colors, for quantities where less is better. Cells without a measurement are empty.
    """
    digits = len(str(size - 1)) * CHARACTER
    left, top = digits + 34.0, 26.0
    side = min((_HEAT_MAP_WIDTH - left - 10) / size, 56.0)
    across = left + side * size
    every = next((item for item in (1, 2, 4, 8, 16) if side * item >= max(digits + 5, 14)), 16)
    gap = 1.0 if side > 8 else 0.4
    parts = [f'<rect class="empty" x="{_n(left)}" y="{_n(top)}" width="{_n(side * size)}" height="{_n(side * size)}"/>']
    for place in range(size):
        at = top + place * side
        parts.append(
            f'<path class="diagonal" d="M{_n(left + place * side)} {_n(at)}h{_n(side)}v{_n(side)}h{_n(-side)}z"/>'
        )
        if place % every == 0:
            parts.append(_label(left - 5, at + side / 2 + 4, str(place), "end"))
            parts.append(_label(left + (place + 0.5) * side, top - 6, str(place), "middle"))
    for cell in cells:
        share = min(max(cell.value / highest, 0.0), 1.0) if highest > 0 else 0.0
        color, ink = heat(1 - share if low_is_bright else share)
        inner = side - gap
        both = dict.fromkeys(((cell.row, cell.column), (cell.column, cell.row)))
        shape = "".join(
            f"M{_n(left + column * side + gap / 2)} {_n(top + row * side + gap / 2)}"
            f"h{_n(inner)}v{_n(inner)}h{_n(-inner)}z"
            for row, column in both
        )
        texts = ""
        if cell.label and size <= _NUMBERED and len(cell.label) * CHARACTER + 4 <= side:
            texts = "".join(
                f'<text class="middle value" style="fill:{ink}" x="{_n(left + (column + 0.5) * side)}" '
                f'y="{_n(top + (row + 0.5) * side + 4)}">{_text(cell.label)}</text>'
                for row, column in both
            )
        parts.append(f'<g><title>{_text(cell.title)}</title><path fill="{color}" d="{shape}"/>{texts}</g>')
    parts.append(_y_name(top + side * size / 2, caption.y_name))
    bottom = top + side * size
    parts.extend(_scale(left, bottom + 24, max(side * size, 220.0), highest, scale_name, scale_label, low_is_bright))
    return _svg(parts, int(max(across, left + 220) + 14), int(bottom + 72), caption)


def heat(share: float) -> tuple[str, str]:
    """Return the color of a share between 0 and 1, and a text color that is readable on it."""
    place = min(max(share, 0.0), 1.0) * (len(_CIVIDIS) - 1)
    index = min(int(place), len(_CIVIDIS) - 2)
    low, high = _CIVIDIS[index], _CIVIDIS[index + 1]
    mixed = [round(a + (b - a) * (place - index)) for a, b in zip(low, high, strict=True)]
    red, green, blue = mixed
    # at a luminance of 0.179, black and white have the same contrast (WCAG 2.2)
    ink = "#000" if luminance(red, green, blue) > 0.179 else "#fff"
    return f"#{red:02x}{green:02x}{blue:02x}", ink


def luminance(red: int, green: int, blue: int) -> float:
    """Return the relative luminance of a color, 0 to 1 (WCAG 2.2)."""
    parts = [part / 255 for part in (red, green, blue)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _scale(
    left: float,
    top: float,
    width: float,
    highest: float,
    name: str,
    label: Callable[[float], str],
    low_is_bright: bool,
) -> list[str]:
    """Return the color scale below a heat map."""
    steps = 40
    parts = []
    for step in range(steps):
        share = (step + 0.5) / steps
        color, _ = heat(1 - share if low_is_bright else share)
        parts.append(
            f'<rect fill="{color}" x="{_n(left + step * width / steps)}" y="{_n(top)}" '
            f'width="{_n(width / steps + 0.3)}" height="12"/>'
        )
    for share, css in ((0.0, ""), (0.5, "middle"), (1.0, "end")):
        parts.append(_label(left + share * width, top + 27, label(share * highest), css))
    parts.append(_label(left + width / 2, top + 43, name, "middle name"))
    return parts


def _frame(width: int, height: int, y: Axis) -> PlotArea:
    """Return the plot area, with room for the widest label on the left and for the names of the axes."""
    widest = max((len(tick.label) for tick in y.ticks), default=1) * CHARACTER
    return PlotArea(32 + widest, 14, width - 16, height - 46)


def _axes(frame: PlotArea, x: Axis, y: Axis, caption: Caption) -> list[str]:
    parts = _y_axis(frame, y, caption.y_name)
    placed = -math.inf
    for tick in x.ticks:
        at = frame.x(x.share(tick.value))
        parts.append(f'<path class="grid" d="M{_n(at)} {_n(frame.top)}V{_n(frame.bottom)}"/>')
        half = len(tick.label) * CHARACTER / 2
        # a label that would touch its neighbor is dropped; the line stays
        if tick.label and at - half > placed:
            # the last label must not hang over the edge
            shown = min(at, frame.right + 14 - half)
            parts.append(_label(shown, frame.bottom + 18, tick.label, "middle"))
            placed = at + half + 4
    parts.append(_x_name(frame, caption.x_name))
    return parts


def _x_name(frame: PlotArea, name: str) -> str:
    middle = (frame.left + frame.right) / 2
    return (
        f'<path class="axis" d="M{_n(frame.left)} {_n(frame.bottom)}H{_n(frame.right)}"/>'
        f"{_label(middle, frame.bottom + 37, name, 'middle name')}"
    )


def _y_name(middle: float, name: str) -> str:
    return (
        f'<text class="middle name" transform="rotate(-90 12 {_n(middle)})" x="12" y="{_n(middle + 4)}">'
        f"{_text(name)}</text>"
    )


def _y_axis(frame: PlotArea, y: Axis, name: str) -> list[str]:
    parts = []
    placed = math.inf
    for tick in y.ticks:
        at = frame.y(y.share(tick.value))
        css = "grid" if tick.label else "grid thin"
        parts.append(f'<path class="{css}" d="M{_n(frame.left)} {_n(at)}H{_n(frame.right)}"/>')
        if tick.label and placed - at >= _LINE:
            parts.append(_label(frame.left - 6, at + 4, tick.label, "end"))
            placed = at
    return [*parts, _y_name((frame.top + frame.bottom) / 2, name)]


def _curve(item: Series, number: int, frame: PlotArea, x: Axis, y: Axis) -> list[str]:
    places = [(frame.x(x.share(point.x)), frame.y(y.share(point.y)), point) for point in item.points]
    line = "L".join(f"{_n(at_x)} {_n(at_y)}" for at_x, at_y, _ in places)
    parts = [f'<g class="series s{number % COLORS}">']
    if len(places) > 1:
        parts.append(f'<path class="curve" d="M{line}"/>')
    for at_x, at_y, point in places:
        if point.low is not None and point.high is not None and drawable(point.low) and drawable(point.high):
            from_y, to_y = frame.y(y.share(point.low)), frame.y(y.share(point.high))
            # a whisker shorter than the mark would only thicken it
            if from_y - to_y > 8:
                parts.append(f'<path class="whisker" d="M{_n(at_x)} {_n(from_y)}V{_n(to_y)}"/>')
        parts.append(_mark(number, at_x, at_y, point.title))
    parts.append("</g>")
    return parts


def _mark(number: int, x: float, y: float, title: str = "") -> str:
    """Return the mark of a series. Marks differ, so that color is not the only difference."""
    r = 4.0
    shapes = (
        f"M{_n(x - r)} {_n(y)}a{_n(r)} {_n(r)} 0 1 0 {_n(2 * r)} 0a{_n(r)} {_n(r)} 0 1 0 {_n(-2 * r)} 0z",
        f"M{_n(x - r)} {_n(y - r)}h{_n(2 * r)}v{_n(2 * r)}h{_n(-2 * r)}z",
        f"M{_n(x)} {_n(y - r - 1)}l{_n(r + 1)} {_n(2 * r)}h{_n(-2 * r - 2)}z",
        f"M{_n(x)} {_n(y - r - 1)}l{_n(r + 1)} {_n(r + 1)}l{_n(-r - 1)} {_n(r + 1)}l{_n(-r - 1)} {_n(-r - 1)}z",
        f"M{_n(x)} {_n(y + r + 1)}l{_n(-r - 1)} {_n(-2 * r)}h{_n(2 * r + 2)}z",
    )
    hollow = number // len(shapes) % 2
    css = "mark hollow" if hollow else "mark"
    tip = f"<title>{_text(title)}</title>" if title else ""
    return f'<path class="{css}" d="{shapes[number % len(shapes)]}">{tip}</path>'


def _expected(item: Series, frame: PlotArea, x: Axis, y: Axis) -> list[str]:
    """Return the dashed curve of expected values. Its name, if any, is above its start, where measured ones are low."""
    places = [(frame.x(x.share(point.x)), frame.y(y.share(point.y))) for point in item.points]
    if len(places) == 1:
        height = places[0][1]
        line = f"M{_n(frame.left)} {_n(height)}H{_n(frame.right)}"
        at_x, at_y = frame.left, height
    else:
        line = "M" + "L".join(f"{_n(at_x)} {_n(at_y)}" for at_x, at_y in places)
        at_x, at_y = min(places)
    at_x = min(at_x, frame.right - len(item.name) * CHARACTER)
    fits = at_y + 18 < frame.bottom if item.below else at_y - 18 <= frame.top - 8
    label_y = at_y + 15 if fits else at_y - 6
    return [
        f'<g class="expected"><path d="{line}"><title>{_text(item.name or item.points[0].title)}</title></path>',
        *(
            f'<path class="goal" d="M{_n(px - 3)} {_n(py)}l3 -3l3 3l-3 3z"><title>{_text(point.title)}</title></path>'
            for (px, py), point in zip(places, item.points, strict=True)
        ),
        f"{_label(max(at_x, frame.left) + 4, label_y, item.name, 'halo') if item.name else ''}</g>",
    ]


def _baseline(line: str, x: float, y: float, name: str) -> str:
    """Return a dashed line with its name."""
    return f'<g class="expected"><path d="{line}"/>{_label(x, y, name, "halo")}</g>'


def _svg(parts: Iterable[str], width: int, height: int, caption: Caption) -> str:
    identifier = caption.identifier
    return (
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'aria-labelledby="{identifier}-title {identifier}-desc">'
        f'<title id="{identifier}-title">{_text(caption.title)}</title>'
        f'<desc id="{identifier}-desc">{_text(caption.description)}</desc>{"".join(parts)}</svg>'
    )


def _bar(css: str, left: float, top: float, width: float, bottom: float, tip: str) -> str:
    return (
        f'<rect class="{css}" x="{_n(left)}" y="{_n(top)}" width="{_n(width)}" height="{_n(bottom - top)}">'
        f"<title>{_text(tip)}</title></rect>"
    )


def _label(x: float, y: float, text: str, css: str = "") -> str:
    kind = f' class="{css}"' if css else ""
    return f'<text{kind} x="{_n(x)}" y="{_n(y)}">{_text(text)}</text>'


def _text(value: str) -> str:
    """Return a value as escaped text of a picture, with control characters visible."""
    return escape_html(escape(value))


def _n(value: float) -> str:
    """Return a coordinate with one decimal: finer than a screen shows."""
    return f"{value:.1f}".removesuffix(".0")


# --- text ------------------------------------------------------------------------------------------------------------


def curve_text(
    measured: Sequence[tuple[float, float]],
    x: Axis,
    y: Axis,
    *,
    name: str,
    expected: Sequence[tuple[float, float]] = (),
    width: int = 38,
    height: int = 8,
    unicode: bool = True,
) -> list[str]:
    """Return one curve as lines of at most ``width`` characters: braille dots, or ``*`` and ``-`` without Unicode.

    Expected values are a broken line.
    """
    margin = max((len(tick.label) for tick in y.ticks), default=1)
    columns = max(width - margin - 2, 8)
    across, down = (columns * 2, height * 4) if unicode else (columns, height)
    dots: dict[tuple[int, int], str] = {}

    def place(point: tuple[float, float]) -> tuple[int, int]:
        return round(x.share(point[0]) * (across - 1)), round((1 - y.share(point[1])) * (down - 1))

    goals = [place(point) for point in expected]
    if len(goals) == 1:
        goals = [(0, goals[0][1]), (across - 1, goals[0][1])]
    for one, other in pairwise(goals):
        for column, row in _line(one, other):
            if not unicode or column % 4 < 2:
                dots[column, row] = "-"
    places = [place(point) for point in measured]
    for one, other in pairwise(places):
        for dot in _line(one, other):
            dots[dot] = "."
    for column, row in places:
        dots[column, row] = "*"
    rows = _braille_rows(dots, columns, height) if unicode else _plain_rows(dots, columns, height)
    labels = dict.fromkeys(range(height), "")
    for tick in sorted(y.ticks, key=lambda tick: y.share(tick.value) not in (0.0, 1.0)):
        at = round((1 - y.share(tick.value)) * (height - 1))
        labels[at] = labels[at] or tick.label
    edge, corner, flat = ("┤", "└", "─") if unicode else ("|", "+", "-")
    bare = "│" if unicode else "|"
    lines = [name[:width]]
    for row in range(height):
        lines.append(f"{labels[row]:>{margin}} {edge if labels[row] else bare}{rows[row]}".rstrip())
    lines.append(" " * (margin + 1) + corner + flat * columns)
    lines.append(_labels_below(x, margin + 2, columns))
    return lines


def side_by_side(left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
    """Return two blocks of lines next to each other, the second from column ``width`` on."""
    rows = max(len(left), len(right))
    padded = [*left, *[""] * (rows - len(left))]
    others = [*right, *[""] * (rows - len(right))]
    return [f"{one:<{width}}{other}".rstrip() for one, other in zip(padded, others, strict=True)]


def bar_text(share: float, width: int, *, unicode: bool = True) -> str:
    """Return a bar of at most ``width`` characters; a share above zero has at least the thinnest mark."""
    share = min(max(share, 0.0), 1.0)
    if not unicode:
        return "#" * max(round(share * width), 1 if share > 0 else 0)
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _line(one: tuple[int, int], other: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the dots between two dots, including both."""
    steps = max(abs(other[0] - one[0]), abs(other[1] - one[1]), 1)
    return [
        (round(one[0] + (other[0] - one[0]) * step / steps), round(one[1] + (other[1] - one[1]) * step / steps))
        for step in range(steps + 1)
    ]


def _braille_rows(dots: Iterable[tuple[int, int]], columns: int, height: int) -> list[str]:
    cells: dict[tuple[int, int], int] = {}
    for column, row in dots:
        cell = (row // 4, column // 2)
        cells[cell] = cells.get(cell, 0) | _BRAILLE[column % 2][row % 4]
    return [
        "".join(chr(0x2800 + cells[row, column]) if (row, column) in cells else " " for column in range(columns))
        for row in range(height)
    ]


def _plain_rows(dots: Mapping[tuple[int, int], str], columns: int, height: int) -> list[str]:
    return ["".join(dots.get((column, row), " ") for column in range(columns)) for row in range(height)]


def _labels_below(x: Axis, offset: int, columns: int) -> str:
    """Return the labels of the horizontal axis, each centered below its tick, none touching another."""
    line = [" "] * (offset + columns)
    free = 0
    for tick in x.ticks:
        start = offset + round(x.share(tick.value) * (columns - 1)) - len(tick.label) // 2
        start = min(max(start, 0), offset + columns - len(tick.label))
        if tick.label and start >= free:
            line[start : start + len(tick.label)] = tick.label
            free = start + len(tick.label) + 1
    return "".join(line).rstrip()
