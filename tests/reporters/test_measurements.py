"""What was measured, in the formats for people and machines; the values of a run that ended early may all be missing."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import Any, NamedTuple

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.core.model import NotChecked, Report, size_text, to_plain
from distcheck.reporters import FORMATS, Style, measurements, render
from distcheck.runtime.coordination.model import Failure, RankState
from distcheck.runtime.smoke_test import model

from . import synthetic

SCHEMA = json.loads(files("distcheck").joinpath("reporters/report.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SENTENCE = (
    "8 ranks on 1 host: all collectives correct; all_reduce 479 GB/s bus bandwidth at 1 GiB, 99 % of SYNTHETIC; "
    "on nccl, 8 × SYNTHETIC"
)


def small(ranks: int = 8) -> model.SmokeTest:
    """Two collectives at two sizes."""
    sizes = (1024, 1024**3)
    return synthetic.smoke_test(ranks, collectives=("all_reduce", "all_gather"), sizes=sizes)._replace(
        sentence=SENTENCE
    )


def full(test: model.SmokeTest, **style: Any) -> list[str]:
    return render(synthetic.report(test), "full", Style(**style)).splitlines()


def test_full_reads_as_promised() -> None:
    assert full(small()) == [
        "distcheck collective · stage rank · torchrun 8 processes · node1 · 8× SYNTHETIC",
        "  H200",
        "",
        "phases: env 420 ms · membership 30.0 ms · compare 11.0 ms · verify 2.31 s ·",
        "  measure 6.02 s · culprit 1.40 s",
        "correctness: 8 of 8 ranks, 9,984 results of 8 collectives × 2 dtypes: none wrong",
        "",
        "measured: 8 ranks, 1 host, nccl, cuda (SYNTHETIC H200); float32, 20 iterations,",
        "  cuda events",
        "  collective      size    median       min–max    algbw    busbw    baseline",
        "  all_reduce     1 KiB   28.0 µs  26.3–32.1 µs   0.0366   0.0640           -",
        "                 1 GiB   3.93 ms  3.69–4.39 ms      273      479        99 %",
        "  all_gather     1 KiB   28.0 µs  26.3–32.0 µs   0.0366   0.0320           -",
        "                 1 GiB   2.63 ms  2.47–2.94 ms      408      357        99 %",
        "  times are those of the slowest rank; algbw and busbw in GB/s",
        "  baseline: SYNTHETIC, 2026-01-01",
        "",
        "late at the collective: median 15.5 µs, at most 1.90 ms (rank 3)",
        "own time of an equal computation: median 1.82 ms, at most 1.84 ms (rank 4)",
        "pairs: 28 pairs in 7 rounds, 64 MiB: median 150 GB/s",
        "  slowest: ranks 2 ↔ 5: 12.3 GB/s, 8 % of the median, 8.40 µs; again: 12.3 GB/s",
        "",
        "not checked",
        "  DC413, DC414: no InfiniBand port here",
        "",
        "0 errors, 0 warnings, 0 info, 2 not checked · 10.31 s",
        "8 ranks on 1 host: all collectives correct; all_reduce 479 GB/s bus bandwidth at",
        "1 GiB, 99 % of SYNTHETIC;",
        "on nccl, 8 × SYNTHETIC",
    ]


def test_verbose_draws_the_curves_and_the_ranks() -> None:
    lines = full(small(), verbose=True)
    at = lines.index("curves: over the message size, both axes logarithmic; - - what is expected")
    assert lines[at + 2].split("  ")[0] == "all_reduce busbw, GB/s (- - 482)"
    assert lines[at + 2].endswith("all_reduce time")
    assert any("⡠" in line for line in lines[at:])
    assert "  rank 3   1.90 ms  ██████████████████████████████" in lines
    assert "  ranks 2 ↔ 5: 12.3 GB/s, 8 % of the median, 8.40 µs; again: 12.3 GB/s" in lines


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("ranks", [1, 2, 8, 64])
def test_the_text_keeps_its_width(width: int, ranks: int) -> None:
    test = synthetic.smoke_test(ranks, collectives=tuple(synthetic.FACTORS))
    lines = full(test, verbose=True, width=width)
    at = lines.index(next(line for line in lines if line.startswith("curves:")))
    assert max(map(len, lines[at : at + 12])) <= width
    # the tables need 80 columns, whatever the terminal has
    assert max(map(len, lines)) <= max(width, 80)


def test_where_only_ascii_can_be_shown_nothing_else_is() -> None:
    report = synthetic.report(synthetic.smoke_test())
    lines = list(measurements.lines(report, Style(verbose=True, unicode=False)))
    assert "".join(lines).isascii()
    assert "  ranks 2 <-> 5: 12.3 GB/s, 8 % of the median, 8.40 us; again: 12.3 GB/s" in lines
    assert any(".*" in line for line in lines)


def test_one_rank_has_no_bandwidth_at_all() -> None:
    text = "\n".join(full(synthetic.smoke_test(1), verbose=True))
    assert "bus bandwidth: not applicable with one rank" in text
    assert "ranks: not applicable: there is one rank" in text
    assert " busbw" not in text
    assert "baseline" not in text.replace("99 % of the SYNTHETIC baseline", "")


def test_a_bandwidth_that_has_no_meaning_is_a_dash_and_a_small_one_no_zero() -> None:
    assert [
        measurements.rate_text(value)
        for value in (None, 0.00002, 0.0, 0.00146, 0.0374, 0.09996, 0.25, 9.996, 99.96, 482.3, 21357.0)
    ] == [
        "-",
        "<0.0001",
        "0",
        "0.0015",
        "0.0374",
        "0.100",
        "0.250",
        "10.0",
        "100",
        "482",
        "21,357",
    ]


def test_without_a_baseline_nothing_is_said_to_be_good() -> None:
    text = "\n".join(full(synthetic.smoke_test(2, judged=False)))
    assert "no baseline: the bandwidth is measured, not judged" in text


def test_a_bound_is_no_baseline() -> None:
    test = small()
    bounds = tuple(item._replace(kind="bound", source="--min-busbw") for item in test.baselines)
    text = "\n".join(full(test._replace(baselines=bounds)))
    assert "busbw    bound" in text
    assert "--min-busbw" in text
    # the caller's own baseline comes before the shipped table, and that before a bound
    own = tuple(item._replace(kind="baseline", share=0.5, source="previous.json") for item in test.baselines)
    text = "\n".join(full(test._replace(baselines=(*bounds, *test.baselines, *own))))
    assert "50 %" in text
    assert "99 %" not in text.replace("99 % of SYNTHETIC", "")
    assert "your baseline: previous.json" in text


def test_several_dtypes_have_a_table_each() -> None:
    test = small()
    assert test.measured is not None
    rows = (*test.measured.bandwidth, *(row._replace(dtype="bfloat16") for row in test.measured.bandwidth))
    lines = full(test._replace(measured=test.measured._replace(bandwidth=rows)), verbose=True)
    assert len([line for line in lines if line.startswith("  collective")]) == 2
    assert any("all_reduce bfloat16 busbw, GB/s" in line for line in lines)


def test_a_failure_says_who_waits_for_whom() -> None:
    lines = full(synthetic.failed())
    at = lines.index("ended early: timed out in phase verify, at all_reduce float32 4 MiB, after 61.4")
    assert lines[at + 1 : at + 4] == [
        "  s (limit 60.0 s): rank 3; ranks 0-2 waited",
        "  rank 3 on node2, pid 4711: stopped (SIGSTOP), all_reduce float32 4 MiB, for",
        "    61.2 s",
    ]
    assert "      all_reduce(tensor)" in lines
    assert lines[-1].startswith("0 errors")
    assert not any(line.startswith("measured") for line in lines)


def test_wrong_results_and_what_was_left_out_are_said() -> None:
    wrong = synthetic.wrong()
    lines = full(wrong)
    assert "correctness: 8 of 8 ranks, 9,984 results of 8 collectives × 2 dtypes: wrong on rank 3" in " ".join(
        map(str.strip, lines)
    )
    assert "skipped: float16: gloo has none" in lines
    assert wrong.proof is not None
    named = wrong._replace(proof=wrong.proof._replace(wrong=(("all_reduce", "0-3,7"),)))
    assert "wrong: all_reduce on ranks 0-3,7" in " ".join(map(str.strip, full(named)))
    # what the list of what was not checked says already is not said twice
    report = synthetic.report(wrong, not_checked=(NotChecked("float16", "gloo has none"),))
    assert "skipped" not in render(report, "full")


def test_quiet_is_the_counts_and_the_sentence() -> None:
    text = render(synthetic.report(small()), "full", Style(quiet=True, width=140))
    assert text == f"0 errors, 0 warnings, 0 info, 2 not checked · 10.31 s\n{SENTENCE}\n"


def test_the_other_formats_carry_it_too() -> None:
    report = synthetic.report(small(), synthetic.finding())
    assert render(report, "concise").splitlines() == [
        "node1:rank 3:GPU 3: DC401 error: rank 3 (node1, GPU 3) came 1.90 ms late, the others 14 µs",
        SENTENCE,
    ]
    assert render(report, "github").splitlines()[-1] == (
        f"::notice title=distcheck collective::{SENTENCE.replace('%', '%25')}"
    )
    rows = [json.loads(line) for line in render(report, "json-lines").splitlines()]
    assert [row["type"] for row in rows] == ["finding", "not-checked", "summary", "measurements"]
    assert rows[-1]["measured"]["bandwidth"][0]["samples_s"]
    assert json.loads(render(report, "json"))["measurements"]["sentence"] == SENTENCE


@pytest.mark.parametrize(
    "test",
    [small(), small(1), synthetic.failed(), synthetic.wrong(), model.SmokeTest(1, 0, ())],
    ids=["healthy", "one-rank", "failed", "wrong", "nothing"],
)
def test_the_json_is_in_the_published_shape(test: model.SmokeTest) -> None:
    VALIDATOR.validate(json.loads(render(synthetic.report(test), "json")))


DEFINITIONS: dict[str, type[NamedTuple]] = {  # type: ignore[valid-type]
    "measurements": model.SmokeTest,
    "proof": model.Correctness,
    "mismatch": model.WrongResult,
    "measured": model.Measurements,
    "bandwidth": model.Bandwidth,
    "times": model.Times,
    "lateness": model.Lateness,
    "pairs": model.Pairs,
    "pair": model.Pair,
    "failure": Failure,
    "rank_state": RankState,
    "comparison": model.Comparison,
}


@pytest.mark.parametrize(("name", "value"), DEFINITIONS.items(), ids=DEFINITIONS)
def test_the_schema_names_exactly_the_fields_of_the_model(name: str, value: Any) -> None:
    definition = SCHEMA["$defs"][name]
    assert list(definition["properties"]) == list(value._fields)
    assert definition["additionalProperties"] is False
    assert set(definition["required"]) <= set(value._fields)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"surprise": 1},
        {"ranks": -1},
        {"phases": {"env": "fast"}},
        {"proof": {}},
        {"failure": {"kind": "boredom"}},
        {"hosts": "node1"},
    ],
    ids=str,
)
def test_the_schema_refuses_what_is_wrong(change: dict[str, Any]) -> None:
    plain = json.loads(render(synthetic.report(small()), "json"))
    assert VALIDATOR.is_valid(plain)
    plain["measurements"].update(change)
    assert not VALIDATOR.is_valid(plain)


@pytest.mark.parametrize("output_format", ["full", "html", "concise", "github"])
def test_the_output_does_not_grow_with_the_ranks(output_format: str) -> None:
    lengths = []
    for ranks in (1024, 8192):
        hosts = tuple(f"gpu{number:05}" for number in range(ranks // 8))
        test = synthetic.smoke_test(ranks, hosts=hosts)._replace(
            lateness=synthetic.lateness(ranks, dict.fromkeys(range(0, ranks, 16), 2e-3)),
            pairs=synthetic.pairs(ranks, {(2, 5): 12.3}, rounds=3),
        )
        lengths.append(len(render(synthetic.report(test), output_format, Style(verbose=True))))
    assert lengths[1] <= lengths[0] * 1.1


def test_outliers_are_those_far_from_the_middle() -> None:
    seen = measurements.outliers([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 9.0, 0.1])
    assert seen.above == ((6, 9.0),)
    assert seen.median == 1.0
    # half and half is no crowd with outliers, and equal values have none
    assert measurements.outliers([1.0, 2.0] * 8).above == ()
    assert measurements.outliers([3.0] * 8) == measurements.Outliers(3.0, 3.0, (), 0)
    # one that differs among many that are equal
    assert measurements.outliers([1.0] * 15 + [2.0]).above == ((15, 2.0),)
    many = measurements.outliers([1.0, 1.1, 0.9, 1.05, 0.95] * 20 + [5.0 + rank for rank in range(9)], shown=3)
    assert [rank for rank, _ in many.above] == [108, 107, 106]
    assert many.total == 9
    with pytest.raises(ValueError, match="no values"):
        measurements.outliers([])


def test_pairs_are_slowest_first_and_a_second_meeting_is_no_pair_of_its_own() -> None:
    rows = [
        model.Pair(5, 2, 0, 12.0, 9e-6),
        model.Pair(0, 1, 0, 150.0, 8e-6),
        model.Pair(2, 5, 3, 140.0, 8e-6, retest=True),
        model.Pair(3, 4, 0, None, 8e-6),
    ]
    plain = to_plain(synthetic.smoke_test()._replace(pairs=model.Pairs(tuple(rows))))
    found = measurements.measured_pairs(plain)
    assert [(pair.a, pair.b, pair.again_gbytes_per_s) for pair in found] == [
        (2, 5, (140.0,)),
        (0, 1, ()),
        (3, 4, ()),
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (-1.0, "-"),
        (0.0, "0 µs"),
        (5e-7, "0.500 µs"),
        (28.04e-6, "28.0 µs"),
        (999.4e-6, "999 µs"),
        (999.6e-6, "1.00 ms"),
        (0.9996, "1.00 s"),
        (61.4, "61.4 s"),
    ],
)
def test_times_have_three_digits_and_a_unit(seconds: float | None, text: str) -> None:
    assert measurements.time_text(seconds) == text


@given(st.floats(1e-7, 1e4))
def test_a_time_reads_as_it_is(seconds: float) -> None:
    number, unit = measurements.time_text(seconds).split()
    factor = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
    assert math.isclose(float(number.replace(",", "")) * factor, seconds, rel_tol=0.006)


@pytest.mark.parametrize(
    ("size", "text"), [(12, "12 B"), (1536, "1.5 KiB"), (1024**2, "1 MiB"), (1024**3, "1 GiB"), (2**42, "4096 GiB")]
)
def test_sizes_are_binary(size: int, text: str) -> None:
    assert size_text(size) == text


def test_ranks_are_cut_where_they_are_many() -> None:
    assert measurements.ranks_text([3]) == "rank 3"
    assert measurements.ranks_text([0, 1, 2, 5]) == "ranks 0-2,5"
    text = measurements.ranks_text(range(0, 16384, 2))
    assert len(text) < 100
    assert text.endswith(",… (8192 in all)")


def holes(value: Any) -> st.SearchStrategy[Any]:
    """The same values with any of the parts that may be missing gone or None."""
    if isinstance(value, dict):
        parts = {key: st.none() | holes(part) for key, part in value.items()}
        return st.fixed_dictionaries({}, optional=parts)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return holes(value[0]).map(lambda first: [first, *value[1:]])
    return st.just(value)


@given(holes(to_plain(small())), st.booleans(), st.sampled_from(sorted(FORMATS)))
def test_anything_may_be_missing(plain: dict[str, Any], verbose: bool, output_format: str) -> None:
    text = render(Report("collective", measurements=plain), output_format, Style(verbose=verbose))
    assert "None" not in text


@pytest.mark.parametrize("test", [synthetic.failed(), synthetic.wrong()], ids=["failed", "wrong"])
@given(data=st.data(), output_format=st.sampled_from(["full", "html"]))
def test_anything_of_what_went_wrong_may_be_missing(
    test: model.SmokeTest, data: st.DataObject, output_format: str
) -> None:
    plain = data.draw(holes({"failure": to_plain(test.failure), "proof": to_plain(test.proof)}))
    text = render(Report("collective", measurements=plain), output_format, Style(verbose=True))
    assert "None" not in text


@pytest.mark.parametrize("output_format", ["full", "concise", "github", "html"])
def test_values_do_not_steer_the_terminal(output_format: str) -> None:
    evil = "\x1b[2J\u202e"
    test = synthetic.failed()
    assert test.failure is not None
    state = test.failure.states[1]._replace(host=evil, stack=f"{evil}\n{evil}", recorder=(evil,), detail=evil)
    test = test._replace(
        hosts=(evil,),
        backend=evil,
        phases={evil: 1.0},
        sentence=evil,
        failure=test.failure._replace(states=(state,), error=f"{evil}\nlast {evil}", step=evil),
        measured=small().measured,
    )
    text = render(synthetic.report(test), output_format, Style(verbose=True))
    assert "\x1b" not in text
    assert "\u202e" not in text
