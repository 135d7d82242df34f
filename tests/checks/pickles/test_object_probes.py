"""What is found in a live object becomes findings: one for a place, one for many of a kind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from distcheck import rules
from distcheck.checks.pickles import kinds, object_probes
from distcheck.checks.pickles.objects import find_unpicklable
from distcheck.checks.pickles.picklability import Caution, Offender, PickleReport
from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Report, Severity


def offender(path: str, type_: str = "_thread.lock", kind: str = "unpicklable", **more: Any) -> Offender:
    return Offender(
        path, type_, "a lock belongs to this process", "remove it", error="TypeError: no", kind=kind, **more
    )


def report(*offenders: Offender, warnings: tuple[Caution, ...] = (), mode: str = "pickle", **more: Any) -> PickleReport:
    return PickleReport("obj", mode, offenders, warnings, **more)


def judge(fact: PickleReport) -> Report:
    checker = Checker(modules=(object_probes.__name__,), plug_ins=False)
    return checker.plan(PickleReport, command="pickle", closed=True).run(fact)


def findings(fact: PickleReport) -> list[Finding]:
    return list(judge(fact).findings)


def only(fact: PickleReport) -> Finding:
    (finding,) = findings(fact)
    return finding


def test_bad_dc601_says_where_what_why_and_how_to_fix_it() -> None:
    finding = only(report(offender("obj.a['x'].lock", aliases=("obj.b.lock",))))
    assert (finding.code, finding.severity) == ("DC601", Severity.ERROR)
    assert finding.where.object == "obj.a['x'].lock"
    assert finding.message == "obj.a['x'].lock (_thread.lock) can't be pickled: a lock belongs to this process"
    assert finding.fix.text == "remove it"
    assert finding.fix.where == "code"
    assert finding.evidence["also_at"] == ["obj.b.lock"]
    assert finding.evidence["error"] == "TypeError: no"


@pytest.mark.parametrize("mode", sorted(kinds.REFUSALS))
def test_bad_dc601_names_what_refuses(mode: str) -> None:
    assert kinds.REFUSALS[mode] in only(report(offender("obj.x"), mode=mode)).message


def test_bad_dc602_is_about_process_groups() -> None:
    finding = only(report(offender("obj.group", "torch._C._distributed_c10d.ProcessGroup", "process-group")))
    assert (finding.code, finding.severity) == ("DC602", Severity.ERROR)
    assert finding.where.object == "obj.group"


def test_bad_dc601_depth_is_one_of_its_kinds() -> None:
    assert only(report(offender("obj[0][0]", "list", "too-deep"))).code == "DC601"


def test_bad_dc601_a_few_are_named_each_and_many_counted() -> None:
    few = findings(report(*(offender(f"obj[{index}].lock") for index in range(3))))
    assert [finding.where.object for finding in few] == ["obj[0].lock", "obj[1].lock", "obj[2].lock"]
    many = only(report(*(offender(f"obj.fns[{index}]", "function") for index in range(10_000))))
    assert many.where.object == "obj.fns[*]"
    assert many.message.startswith("10000 members obj.fns[*] (function) can't be pickled")
    assert many.evidence["count"] == 10_000
    assert many.evidence["first"][:2] == ["obj.fns[0]", "obj.fns[1]"]


def test_bad_dc601_many_different_places_are_counted_by_type() -> None:
    """At most some fifty findings, and nothing is lost."""
    found = findings(report(*(offender(f"obj.a{index}") for index in range(400)), offender("obj.z", "queue.Queue")))
    assert len(found) <= 53
    assert sum(finding.evidence.get("count", 1) for finding in found) == 401
    assert any("queue.Queue" in finding.message for finding in found)


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("obj.a[3].b", "obj.a[*].b"),
        ("obj['x']['y z']", "obj[*][*]"),
        ("obj['a]b'][0]", "obj[*][*]"),
        ('obj["it\'s"]', "obj[*]"),
        (r"obj['it\'s']", "obj[*]"),
        ("obj.plain", "obj.plain"),
    ],
)
def test_the_pattern_of_a_path(path: str, pattern: str) -> None:
    assert kinds.pattern(path) == pattern


def test_bad_dc603_breaks_and_notes() -> None:
    broken = Caution("obj.model", "DDP", "it needs a group", "save the module")
    note = Caution("obj.log", "logging.Logger", "its name only", "drop it", "note")
    found = {finding.where.object: finding for finding in findings(report(warnings=(broken, note)))}
    assert {finding.code for finding in found.values()} == {"DC603"}
    assert found["obj.model"].severity is Severity.WARNING
    assert found["obj.log"].severity is Severity.INFO
    assert found["obj.model"].fix.text == "save the module"


def test_bad_dc603_the_same_at_many_places_is_said_once() -> None:
    shards = tuple(Caution(f"obj.model.p{index}", "DTensor", "a shard", "use DCP") for index in range(200))
    finding = only(report(warnings=shards))
    assert finding.evidence["count"] == 200
    assert finding.message.startswith("obj.model.p0 and 199 more")


def test_bad_dc604_side_effects() -> None:
    finding = only(
        report(warnings=(Caution("obj.x", "app.X", "its __getstate__ clears the cache", "copy it", "side-effect"),))
    )
    assert (finding.code, finding.severity) == ("DC604", Severity.WARNING)


def test_bad_dc601_a_pickler_that_disagrees_is_never_hidden() -> None:
    finding = only(report(confirmation="it says TypeError: no"))
    assert finding.code == "DC601"
    assert "TypeError: no" in finding.message


def test_good_a_clean_object_has_no_finding() -> None:
    """members_can_be_pickled, no_process_group_inside, what_is_pickled_works_elsewhere and pickling_only_pickles ran."""
    fact = report(confirmation="")
    outcome = judge(fact)
    assert outcome.findings == ()
    assert {rules.DC601.code, rules.DC602.code, rules.DC603.code, rules.DC604.code} <= outcome.checked
    assert {run.name for run in outcome.probes} >= {
        f"pickles.object_probes.{probe.__name__}"
        for probe in (
            object_probes.members_can_be_pickled,
            object_probes.no_process_group_inside,
            object_probes.what_is_pickled_works_elsewhere,
            object_probes.pickling_only_pickles,
        )
    }


def test_good_dc603_and_dc604_of_an_ordinary_object() -> None:
    fact = find_unpicklable({"step": 3, "config": {"lr": 0.1}, "names": ["a", "b"]})
    assert findings(fact) == []


class Callback:
    def __init__(self, function: Any) -> None:
        self.function = function


class Trainer:
    def __init__(self) -> None:
        self.callbacks = [Callback(lambda: None) for _ in range(1000)]
        self.lock = threading.Lock()


def test_bad_dc601_of_a_real_object() -> None:
    """A thousand callbacks with a lambda are one finding, the lock another."""
    found = findings(find_unpicklable(Trainer(), name="trainer"))
    assert {finding.where.object for finding in found} == {"trainer.callbacks[*].function", "trainer.lock"}


class Changes:
    """Its state is another after each time that it is asked."""

    def __init__(self) -> None:
        self.requested = 0

    def __getstate__(self) -> dict[str, Any]:
        self.requested += 1
        return dict(vars(self))


def test_bad_dc604_of_a_real_object() -> None:
    codes = {finding.code for finding in findings(find_unpicklable(Changes()))}
    assert "DC604" in codes


def numbers() -> Iterator[int]:
    yield 1


def test_ten_thousand_offenders_are_quick() -> None:
    fact = report(*(offender(f"obj.fns[{index}]['a']") for index in range(10_000)))
    began = time.perf_counter()
    findings(fact)
    assert time.perf_counter() - began < 2
