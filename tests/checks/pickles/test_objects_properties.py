"""The truth is pickle itself: over generated object graphs, the walk finds something exactly where pickle fails."""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from distcheck.checks.pickles.kinds import type_name
from distcheck.checks.pickles.objects import find_unpicklable
from distcheck.checks.pickles.walk import MOST_ALIASES

from .graphs import LEAVES, graphs

RELAXED = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def failure_of(function: Any, *arguments: Any) -> str:
    try:
        function(*arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4, 5, "deepcopy"])
@pytest.mark.parametrize("number", range(len(LEAVES)))
def test_the_walk_agrees_about_each_leaf(number: int, mode: int | str) -> None:
    for value in (LEAVES[number](), [LEAVES[number]()], Holder(LEAVES[number]())):
        if mode == "deepcopy":
            report, truth = find_unpicklable(value, mode="deepcopy"), failure_of(copy.deepcopy, value)
        else:
            report, truth = find_unpicklable(value, protocol=int(mode)), failure_of(pickle.dumps, value, mode)
        assert report.complete
        assert report.ok == (not truth), (truth, str(report))


class Holder:
    def __init__(self, content: Any) -> None:
        self.content = content


@pytest.mark.parametrize("protocol", [pickle.DEFAULT_PROTOCOL, 2, 5])
@RELAXED
@given(graph=graphs())
def test_the_walk_agrees_with_pickle(protocol: int, graph: Any) -> None:
    report = find_unpicklable(graph, protocol=protocol)
    truth = failure_of(pickle.dumps, graph, protocol)
    assert report.complete
    assert report.ok == (not truth), (truth, str(report))


@RELAXED
@given(graph=graphs())
def test_the_walk_agrees_with_deepcopy(graph: Any) -> None:
    report = find_unpicklable(graph, mode="deepcopy")
    truth = failure_of(copy.deepcopy, graph)
    assert report.complete
    assert report.ok == (not truth), (truth, str(report))


@RELAXED
@given(graph=graphs())
def test_every_path_leads_to_what_it_names(graph: Any) -> None:
    for offender in find_unpicklable(graph, name="graph").offenders:
        for place in (offender.place, *offender.aliases):
            path, _, inside = place.partition(", in ")
            found = eval(path, {"graph": graph})
            if not inside:
                assert type_name(type(found)) == offender.type, path


@RELAXED
@given(graph=graphs(fixable=True))
def test_dropping_every_path_makes_it_picklable(graph: Any) -> None:
    # of what is reachable on many ways, a few are named: who drops them looks again
    for _ in range(4):
        report = find_unpicklable(graph, name="graph")
        for offender in report.offenders:
            exec(f"{offender.path} = None", {"graph": graph})
        for offender in report.offenders:
            for alias in offender.aliases if offender.inside else ():
                with contextlib.suppress(TypeError, AttributeError):  # it went with something above it
                    exec(f"{alias.partition(', in ')[0]} = None", {"graph": graph})
        if all(len(offender.aliases) < MOST_ALIASES for offender in report.offenders):
            break
    assert not failure_of(pickle.dumps, graph), str(report)
