"""Plans, gathering, isolation of what fails. The facts and probes here are the test's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from distcheck import rules
from distcheck.core import registry
from distcheck.core.checker import Checker, KnownFindings, PlanError
from distcheck.core.model import Finding, Fix, NotApplicable, Report, Severity, Unavailable
from distcheck.core.registry import RegistrationError, fact, probe
from distcheck.rules import Selection

FIX = Fix("fix it")


class Seed(NamedTuple):
    """Given to each run."""

    value: int = 1


class Doubled(NamedTuple):
    """Made from the seed."""

    value: int


class Lost(NamedTuple):
    """Never to be had."""

    value: int


class Slow(NamedTuple):
    """Takes longer than its limit."""

    value: int


class Broken(NamedTuple):
    """Its reader raises."""

    value: int


class Isolated(NamedTuple):
    """Read in another process."""

    pid: int


class FromLost(NamedTuple):
    """Needs what is lost."""

    value: int


class Orphaned(NamedTuple):
    """Nobody reads it."""

    value: int


class Chicken(NamedTuple):
    """Needs the egg."""

    value: int


class Egg(NamedTuple):
    """Needs the chicken."""

    value: int


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registry", registry._Registry())

    @fact()
    def read_doubled(seed: Seed) -> Doubled:
        return Doubled(seed.value * 2)

    @fact()
    def read_lost(seed: Seed) -> Lost:
        raise Unavailable("it is lost")

    @fact(limit_s=0.1)
    def read_slow(seed: Seed) -> Slow:
        time.sleep(30)
        return Slow(1)

    @fact()
    def read_broken(seed: Seed) -> Broken:
        raise ZeroDivisionError("by zero")

    @fact(isolated=True)
    def read_isolated(seed: Seed) -> Isolated:
        return Isolated(os.getpid())

    @fact()
    def read_from_lost(lost: Lost) -> FromLost:
        return FromLost(lost.value)

    @fact()
    def read_chicken(egg: Egg) -> Chicken:
        return Chicken(egg.value)

    @fact()
    def read_egg(chicken: Chicken) -> Egg:
        return Egg(chicken.value)


def run(
    *given: object, selection: Selection | None = None, closed: bool = False, budget_s: float | None = None
) -> Report:
    checker = Checker(selection, modules=(), plug_ins=False)
    return checker.plan(*map(type, given), closed=closed).run(*given, budget_s=budget_s)


def statuses(report: Report) -> dict[str, str]:
    return {item.name.rsplit(".", 1)[1]: item.status for item in report.probes}


def test_a_probe_gets_the_facts_that_it_names() -> None:
    @probe(rules.DC401)
    def doubled_is_small(doubled: Doubled, seed: Seed) -> Iterator[Finding]:
        yield rules.DC401.found(f"{seed.value} became {doubled.value}", fix=FIX)

    report = run(Seed(21))
    assert [item.message for item in report.findings] == ["21 became 42"]
    assert report.checked == {"DC401"}
    assert report.facts["Doubled"] == Doubled(42)


def test_only_what_is_asked_for_is_read() -> None:
    @probe(rules.DC401)
    def nothing(seed: Seed) -> Iterator[Finding]:
        return iter(())

    assert set(run(Seed()).facts) == {"Seed"}


def test_the_seconds_of_each_reader_are_in_the_report() -> None:
    @fact()
    def read_in_a_moment(seed: Seed) -> Orphaned:
        time.sleep(0.05)
        return Orphaned(1)

    @probe(rules.DC401)
    def needs_both(orphaned: Orphaned, lost: Lost) -> Iterator[Finding]:
        return iter(())

    seconds = {item.name.rsplit(".", 1)[1]: item.elapsed_s for item in run(Seed()).probes if item.status == "ran"}
    assert set(seconds) == {"read_in_a_moment", "read_lost"}
    assert 0.05 <= seconds["read_in_a_moment"] < 10


def test_the_seconds_are_those_of_each_reader_and_probe_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1.0
    clock = SimpleNamespace(monotonic=time.monotonic, perf_counter=lambda: now)
    monkeypatch.setattr("distcheck.core.checker.time", clock)

    @fact()
    def read_for_a_while(seed: Seed) -> Orphaned:
        nonlocal now
        now += 3.5
        return Orphaned(1)

    @probe(rules.DC401)
    def works(orphaned: Orphaned) -> Iterator[Finding]:
        nonlocal now
        now += 6.500001
        return iter(())

    @probe(rules.DC402)
    def breaks(orphaned: Orphaned) -> Iterator[Finding]:
        nonlocal now
        now += 0.25
        raise KeyError("missing")

    seconds = {item.name.rsplit(".", 1)[1]: item.elapsed_s for item in run(Seed()).probes}
    assert seconds == {"read_for_a_while": 3.5, "works": 6.500001, "breaks": 0.25}


def test_a_fact_that_cannot_be_had_is_not_checked() -> None:
    @probe(rules.DC401)
    def needs(lost: Lost) -> Iterator[Finding]:
        yield rules.DC401.found("found", fix=FIX)

    @probe(rules.DC402)
    def needs_what_needs(value: FromLost) -> Iterator[Finding]:
        yield rules.DC402.found("found", fix=FIX)

    @probe(rules.DC403)
    def judges_with_less(lost: Lost | Unavailable) -> Iterator[Finding]:
        assert isinstance(lost, Unavailable)
        yield rules.DC403.found(f"without: {lost.why}", fix=FIX)

    report = run(Seed())
    assert [item.code for item in report.findings] == ["DC403"]
    assert [tuple(item) for item in report.not_checked] == [("DC401, DC402", "it is lost")]
    assert report.checked == {"DC403"}


def test_nothing_to_look_at_is_not_listed() -> None:
    @fact()
    def read_nothing_there(seed: Seed) -> Lost:
        raise NotApplicable("there is no scheduler here")

    @probe(rules.DC401)
    def needs(lost: Lost) -> Iterator[Finding]:
        yield rules.DC401.found("found", fix=FIX)

    report = run(Seed())
    assert (report.findings, report.not_checked, report.checked) == ((), (), frozenset())
    assert statuses(report)["needs"] == "not-applicable"


def test_a_probe_that_raises_is_a_finding_and_the_others_run() -> None:
    @probe(rules.DC401)
    def breaks(seed: Seed) -> Iterator[Finding]:
        yield rules.DC401.found("before it broke", fix=FIX)
        raise KeyError("missing")

    @probe(rules.DC402)
    def works(seed: Seed) -> Iterator[Finding]:
        yield rules.DC402.found("still here", fix=FIX)

    report = run(Seed())
    assert {item.code for item in report.findings} == {"DC401", "DC402", "DC901"}
    assert statuses(report) == {"breaks": "failed", "works": "ran"}
    (failed,) = [item for item in report.probes if item.status == "failed"]
    assert failed.traceback is not None
    assert "KeyError" in failed.traceback
    assert report.checked == {"DC402"}
    assert [item.what for item in report.not_checked] == ["DC401"]


def test_a_reader_that_raises_is_a_finding() -> None:
    @probe(rules.DC401)
    def needs(broken: Broken) -> Iterator[Finding]:
        return iter(())

    report = run(Seed())
    (finding,) = report.findings
    assert finding.code == "DC901"
    assert "ZeroDivisionError" in finding.message
    assert report.not_checked[0].what == "DC401"


def test_a_reader_that_outlasts_its_limit_is_left() -> None:
    @probe(rules.DC401)
    def needs(slow: Slow) -> Iterator[Finding]:
        return iter(())

    @probe(rules.DC402)
    def other(doubled: Doubled) -> Iterator[Finding]:
        yield rules.DC402.found("read meanwhile", fix=FIX)

    start = time.monotonic()
    report = run(Seed())
    assert time.monotonic() - start < 5
    assert {item.code for item in report.findings} == {"DC402", "DC902"}
    assert not report.out_of_time


def test_the_callers_time_limit() -> None:
    @fact(limit_s=30)
    def read_slow_again(seed: Seed) -> Slow:
        time.sleep(30)
        return Slow(1)

    @probe(rules.DC401)
    def needs(slow: Slow) -> Iterator[Finding]:
        return iter(())

    start = time.monotonic()
    report = run(Seed(), budget_s=0.1)
    assert time.monotonic() - start < 10
    assert report.out_of_time
    assert report.not_checked[0].what == "DC401"
    assert report.findings == ()


def test_a_limit_grows_with_what_is_read() -> None:
    @fact(limit_s=lambda seed: 0.05 * seed.value)
    def read_slow(seed: Seed) -> Slow:
        time.sleep(0.3)
        return Slow(1)

    @probe(rules.DC401)
    def needs(slow: Slow) -> Iterator[Finding]:
        return iter(())

    (finding,) = run(Seed(1)).findings
    assert (finding.code, finding.evidence) == ("DC902", {"limit_s": 0.05})
    assert run(Seed(200)).findings == ()


def test_a_limit_holds_while_another_reader_takes_longer() -> None:
    """What answers after its own limit comes too late, though others may still take their time."""

    @fact(limit_s=0.1)
    def read_late(seed: Seed) -> Slow:
        time.sleep(0.6)
        return Slow(1)

    @fact(limit_s=30)
    def read_long(seed: Seed) -> Orphaned:
        time.sleep(1.2)
        return Orphaned(2)

    @probe(rules.DC401)
    def needs(slow: Slow) -> Iterator[Finding]:
        return iter(())

    @probe(rules.DC402)
    def other(orphaned: Orphaned) -> Iterator[Finding]:
        yield rules.DC402.found(str(orphaned.value), fix=FIX)

    report = run(Seed())
    assert sorted(item.code for item in report.findings) == ["DC402", "DC902"]
    assert [item.what for item in report.not_checked] == ["DC401"]


@pytest.fixture
def single_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier tests leave sleeping threads, because of which a fresh Python would be started."""
    monkeypatch.setattr("distcheck.core.isolation.may_fork", lambda: True)


@pytest.mark.usefixtures("single_thread")
def test_an_isolated_reader_runs_in_another_process() -> None:
    @probe(rules.DC401)
    def elsewhere(isolated: Isolated) -> Iterator[Finding]:
        yield rules.DC401.found("read", fix=FIX, evidence={"pid": isolated.pid})

    (finding,) = run(Seed()).findings
    assert finding.evidence["pid"] != os.getpid()


@pytest.mark.usefixtures("single_thread")
def test_an_isolated_reader_that_hangs_or_dies() -> None:
    @fact(isolated=True, limit_s=0.2)
    def read_slow_isolated(seed: Seed) -> Slow:
        time.sleep(30)
        return Slow(1)

    @fact(isolated=True)
    def read_dying(seed: Seed) -> Lost:
        os.kill(os.getpid(), 9)
        return Lost(1)

    @probe(rules.DC401, rules.DC402)
    def needs(slow: Slow, lost: Lost) -> Iterator[Finding]:
        return iter(())

    @probe(rules.DC403)
    def needs_dying(lost: Lost) -> Iterator[Finding]:
        return iter(())

    report = run(Seed())
    assert sorted((item.code, "ended by signal 9" in item.message) for item in report.findings) == [
        ("DC902", False),
        ("DC902", True),
    ]
    assert {item.what: item.why for item in report.not_checked}["DC403"] == "the process that read it ended by signal 9"


def test_a_closed_run_reads_nothing_from_outside() -> None:
    @probe(rules.DC401)
    def needs(doubled: Doubled) -> Iterator[Finding]:
        yield rules.DC401.found(str(doubled.value), fix=FIX)

    @probe(rules.DC402)
    def needs_a_process(isolated: Isolated) -> Iterator[Finding]:
        yield rules.DC402.found("found", fix=FIX)

    report = run(closed=True)
    assert report.findings == ()
    assert [tuple(item) for item in report.not_checked] == [("DC401, DC402", "it was not given")]
    assert [item.message for item in run(Doubled(4), closed=True).findings] == ["4"]


def test_a_closed_run_derives_what_it_can() -> None:
    @probe(rules.DC401)
    def needs(doubled: Doubled) -> Iterator[Finding]:
        yield rules.DC401.found(str(doubled.value), fix=FIX)

    assert [item.message for item in run(Seed(4), closed=True).findings] == ["8"]


def test_given_facts_are_not_read_again() -> None:
    @probe(rules.DC401)
    def needs(doubled: Doubled) -> Iterator[Finding]:
        yield rules.DC401.found(str(doubled.value), fix=FIX)

    assert run(Seed(1), Doubled(99)).findings[0].message == "99"


def test_options_are_given_by_name() -> None:
    assert Checker(selection=Selection(), modules=(), plug_ins=False).modules == ()
    with pytest.raises(TypeError, match="positional"):
        Checker(Selection(), ())  # type: ignore[misc]


def test_plans_that_cannot_work() -> None:
    @probe(rules.DC401)
    def orphaned(value: Orphaned) -> Iterator[Finding]:
        return iter(())

    with pytest.raises(PlanError, match="Orphaned"):
        run(Seed())
    assert run(Seed(), selection=Selection(select=("DC402",))).probes == ()


def test_every_fact_is_each_that_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registry", registry._Registry())

    @fact()
    def read_doubled(seed: Seed) -> Doubled:
        return Doubled(seed.value * 2)

    @fact()
    def read_slow(orphaned: Orphaned) -> Slow:
        return Slow(orphaned.value)

    plan = Checker(modules=(), plug_ins=False).plan(Seed, every_fact=True)
    assert set(plan.run(Seed(2)).facts) == {"Doubled", "Seed"}


def test_a_circle_is_named() -> None:
    @probe(rules.DC401)
    def circular(egg: Egg) -> Iterator[Finding]:
        return iter(())

    with pytest.raises(PlanError, match="Egg → Chicken → Egg"):
        run(Seed())


def test_declarations_that_cannot_work() -> None:
    with pytest.raises(RegistrationError, match="return"):

        @fact()
        def read_nothing(seed: Seed):  # type: ignore[no-untyped-def]
            return None

    with pytest.raises(RegistrationError, match="at least one rule"):
        probe()
    with pytest.raises(RegistrationError, match="'host' or per 'process'"):
        probe(rules.DC401, per="node")

    @probe(rules.DC401)
    def unannotated(seed) -> Iterator[Finding]:  # type: ignore[no-untyped-def]
        return iter(())

    with pytest.raises(RegistrationError, match="seed"):
        run(Seed())


def test_selection_of_probes_and_findings() -> None:
    @probe(rules.DC401, rules.DC402)
    def both(seed: Seed) -> Iterator[Finding]:
        yield rules.DC401.found("a", fix=FIX)
        yield rules.DC402.found("b", fix=FIX)

    assert [item.code for item in run(Seed(), selection=Selection(ignore=("DC402",))).findings] == ["DC401"]
    assert run(Seed(), selection=Selection(select=("DC5",))).findings == ()


def test_a_plan_can_run_again() -> None:
    @probe(rules.DC401)
    def doubled_value(doubled: Doubled) -> Iterator[Finding]:
        yield rules.DC401.found(str(doubled.value), fix=FIX)

    plan = Checker(modules=(), plug_ins=False).plan(Seed)
    assert [plan.run(Seed(value)).findings[0].message for value in (1, 2, 3)] == ["2", "4", "6"]


def test_a_probe_of_facts_that_are_the_same_need_not_run() -> None:
    ran: list[str] = []

    @probe(rules.DC401)
    def of_the_seed(seed: Seed) -> Iterator[Finding]:
        ran.append("seed")
        yield rules.DC401.found(str(seed.value), fix=FIX)

    @probe(rules.DC402)
    def of_both(seed: Seed, doubled: Doubled) -> Iterator[Finding]:
        ran.append("both")
        yield rules.DC402.found(str(doubled.value), fix=FIX)

    plan = Checker(modules=(), plug_ins=False).plan(Seed)
    known = KnownFindings(frozenset([Seed]), {})
    first = plan.run(Seed(1), known=known)
    again = plan.run(Seed(1), known=known)
    assert ran == ["seed", "both", "both"]
    assert len(known.by_probe) == 1
    assert (again.findings, again.checked) == (first.findings, first.checked)
    assert [run.name for run in again.probes] == [run.name for run in first.probes]


def test_the_rank_is_added_to_findings_of_processes_only() -> None:
    from distcheck.core.model import Where

    @probe(rules.DC203, per="process")
    def of_the_process(seed: Seed) -> Iterator[Finding]:
        yield rules.DC203.found("mine", fix=FIX)

    @probe(rules.DC204, per="process")
    def of_other_ranks(seed: Seed) -> Iterator[Finding]:
        yield rules.DC204.found("theirs", where=Where(ranks="0-3"), fix=FIX)

    @probe(rules.DC401)
    def of_the_host(seed: Seed) -> Iterator[Finding]:
        yield rules.DC401.found("ours", fix=FIX)

    report = Checker(modules=(), plug_ins=False).plan(Seed).run(Seed(), place=Where(rank=9, local_rank=1))
    assert {item.code: (item.where.rank, item.where.ranks) for item in report.findings} == {
        "DC203": (9, None),
        "DC204": (None, "0-3"),
        "DC401": (None, None),
    }
    assert report.worst is Severity.ERROR


def test_a_run_judges_per_host_or_per_process() -> None:
    @probe(rules.DC401)
    def of_the_host(seed: Seed) -> Iterator[Finding]:
        yield rules.DC401.found("ours", fix=FIX)

    @probe(rules.DC203, per="process")
    def of_the_process(seed: Seed) -> Iterator[Finding]:
        yield rules.DC203.found("mine", fix=FIX)

    checker = Checker(modules=(), plug_ins=False)
    for per, codes in (("host", {"DC401"}), ("process", {"DC203"}), (None, {"DC401", "DC203"})):
        assert checker.plan(Seed, per=per).run(Seed()).checked == codes


def test_what_a_probe_does_wrong_is_a_finding() -> None:
    @probe(rules.DC401)
    def yields_text(seed: Seed) -> Iterator[Finding]:
        yield "no finding"  # type: ignore[misc]

    @probe(rules.DC402)
    def exits(seed: Seed) -> Iterator[Finding]:
        raise SystemExit(5)

    report = run(Seed())
    assert sorted(item.code for item in report.findings) == ["DC901", "DC901"]
    assert sorted(item.evidence["error"] for item in report.findings) == [
        "SystemExit: 5",
        "TypeError: it yielded str, not a Finding",
    ]
    assert report.checked == frozenset()


def test_a_probe_that_cannot_look_says_so() -> None:
    @probe(rules.DC401, rules.DC402)
    def looks(seed: Seed) -> Iterator[Finding]:
        yield rules.DC401.found("seen before", fix=FIX)
        raise Unavailable("it has no rights")

    report = run(Seed(), selection=Selection(ignore=("DC402",)))
    assert [tuple(item) for item in report.not_checked] == [("DC401", "it has no rights")]
    assert [item.code for item in report.findings] == ["DC401"]
    assert (statuses(report), report.checked) == ({"looks": "not-checked"}, frozenset())


def test_each_reader_is_listed_once_with_its_status_and_seconds() -> None:
    @probe(rules.DC401)
    def needs(broken: Broken, slow: Slow, doubled: Doubled) -> Iterator[Finding]:
        return iter(())

    report = run(Seed())
    assert statuses(report) == {
        "read_broken": "failed",
        "read_slow": "timed-out",
        "read_doubled": "ran",
        "needs": "not-checked",
    }
    assert len(report.probes) == 4
    seconds = {item.name.rsplit(".", 1)[1]: item.elapsed_s for item in report.probes}
    assert seconds["read_slow"] == 0.1
    assert 0 <= seconds["read_doubled"] < 1
    assert {item.code: item.evidence for item in report.findings} == {
        "DC901": {"error": "ZeroDivisionError: by zero"},
        "DC902": {"limit_s": 0.1},
    }


def test_what_the_time_limit_of_a_run_ended_has_no_finding_of_its_own() -> None:
    @fact(limit_s=30)
    def read_slow_again(seed: Seed) -> Slow:
        time.sleep(30)
        return Slow(1)

    @probe(rules.DC401)
    def needs(slow: Slow) -> Iterator[Finding]:
        return iter(())

    report = run(Seed(), budget_s=0.2)
    (reader,) = [item for item in report.probes if item.status == "timed-out"]
    assert 0.2 <= reader.elapsed_s <= report.elapsed_s < 10
    assert "the time limit of the whole run was over" in report.not_checked[0].why
    assert not run(Seed(), budget_s=30, selection=Selection(select=("DC5",))).out_of_time


def test_a_reader_runs_without_a_thread_where_no_more_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    @probe(rules.DC401)
    def needs(doubled: Doubled) -> Iterator[Finding]:
        yield rules.DC401.found(str(doubled.value), fix=FIX)

    monkeypatch.setattr("threading.Thread.start", refuse)
    assert [item.message for item in run(Seed(2)).findings] == ["4"]


def test_an_isolated_reader_whose_fact_is_lacking_is_not_started() -> None:
    @fact(isolated=True)
    def read_in_isolation(lost: Lost) -> Isolated:
        return Isolated(1)

    @probe(rules.DC401)
    def needs(isolated: Isolated) -> Iterator[Finding]:
        return iter(())

    checker = Checker(modules=(), plug_ins=False)
    report = checker.plan(Lost).run(facts={Lost: Unavailable("it was lost before")})
    assert [tuple(item) for item in report.not_checked] == [("DC401", "it was lost before")]
    assert statuses(report) == {"needs": "not-checked"}


def test_also_reads_what_no_probe_asks_for() -> None:
    plan = Checker(modules=(), plug_ins=False).plan(Seed, also=(Doubled,), command="log")
    report = plan.run(Seed(3))
    assert (report.facts["Doubled"], report.command) == (Doubled(6), "log")


def test_every_fact_leaves_out_what_no_chain_of_readers_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registry", registry._Registry())

    @fact()
    def read_doubled(seed: Seed) -> Doubled:
        return Doubled(seed.value * 2)

    @fact()
    def read_lost(doubled: Doubled) -> Lost:
        return Lost(doubled.value)

    @fact()
    def read_slow(doubled: Doubled, orphaned: Orphaned) -> Slow:
        return Slow(1)

    @fact()
    def read_from_slow(slow: Slow) -> FromLost:
        return FromLost(1)

    plan = Checker(modules=(), plug_ins=False).plan(Seed, every_fact=True)
    assert set(plan.run(Seed()).facts) == {"Seed", "Doubled", "Lost"}


@pytest.mark.parametrize(
    ("given", "closed", "modules", "runs"),
    [
        ((Seed,), False, (), True),
        ((Seed,), True, (), True),
        ((), True, (), True),
        ((Seed,), True, ("distcheck.core.model",), True),
        ((), True, ("distcheck.core.model",), False),
        ((Orphaned,), True, ("distcheck.core.model",), False),
    ],
)
def test_a_plug_ins_probe_runs_where_its_facts_are(
    given: tuple[type, ...], closed: bool, modules: tuple[str, ...], runs: bool
) -> None:
    @probe(rules.DC401)
    def needs(seed: Seed) -> Iterator[Finding]:
        return iter(())

    plan = Checker(modules=modules, plug_ins=False).plan(*given, closed=closed)
    assert [step.item.name.rsplit(".", 1)[1] for step in plan.probes] == (["needs"] if runs else [])


@pytest.mark.parametrize(
    ("module", "runs"),
    [
        ("distcheck.core.model", True),
        ("distcheck.core.model.part", True),
        ("distcheck.modelling", False),
        ("distcheck.rules", False),
    ],
)
def test_probes_of_other_packages_of_ours_stay_out(module: str, runs: bool) -> None:
    def needs(seed: Seed) -> Iterator[Finding]:
        return iter(())

    needs.__module__ = module
    probe(rules.DC401)(needs)
    assert bool(Checker(modules=("distcheck.core.model",), plug_ins=False).plan(Seed).probes) is runs


def test_the_annotations_of_facts() -> None:
    def good(seed: Seed, *, lost: Lost | Unavailable, dotted: registry.Reader, plain=None) -> None:  # type: ignore[no-untyped-def]
        """Its last parameter has no annotation."""

    with pytest.raises(RegistrationError, match="'plain' has no annotation"):
        registry.parameters(good)
    good.__annotations__["plain"] = Lost | None
    with pytest.raises(RegistrationError, match="'plain' names no single fact"):
        registry.parameters(good)
    good.__annotations__["plain"] = "registry.Nothing"
    with pytest.raises(RegistrationError, match=r"'registry\.Nothing' is not known"):
        registry.parameters(good)
    good.__annotations__["plain"] = Unavailable | Slow
    assert [tuple(item) for item in registry.parameters(good)] == [
        ("seed", Seed, False),
        ("lost", Lost, True),
        ("dotted", registry.Reader, False),
        ("plain", Slow, True),
    ]


def test_plug_ins_are_found_by_their_entry_points(tmp_path: Path) -> None:
    def installed(folder: str, name: str, text: str | None) -> None:
        (tmp_path / folder / name).mkdir(parents=True)
        if text is not None:
            (tmp_path / folder / name / "entry_points.txt").write_text(text)

    group = "[distcheck.plugins]\n"
    installed(
        "a", "one-1.dist-info", f"[console_scripts]\nx = y\n{group}site = site_module:attribute\n[other]\nz = w\n"
    )
    installed("a", "two.egg-info", f"{group}two = module [extra]\nno equals sign\n\n# more {group}three=third\n")
    installed("a", "plain", f"{group}plain = not_installed\n")
    installed("a", "no-1.dist-info", None)
    installed("a", "others-1.dist-info", "[console_scripts]\nx = y\n")
    installed("b", "again-2.dist-info", f"{group}site = hidden\nfour = fourth\n")
    folders = [str(tmp_path / name) for name in ("missing", "a", "b", "a")]
    assert sorted(registry._find_plug_ins(folders)) == [
        ("four", "fourth"),
        ("site", "site_module"),
        ("three", "third"),
        ("two", "module"),
    ]


def test_a_plug_in_that_does_not_import_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x-1.dist-info").mkdir()
    text = "[distcheck.plugins]\nexits = exits_at_import\ngood = json\nlost = no_such_module_here\n"
    (tmp_path / "x-1.dist-info" / "entry_points.txt").write_text(text)
    (tmp_path / "exits_at_import.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr("sys.path", [str(tmp_path), ""])
    report = Checker(modules=()).plan(Seed).run(Seed())
    assert {item.where.object: item.evidence["error"] for item in report.findings if item.code == "DC903"} == {
        "exits": "SystemExit: 3",
        "lost": "ModuleNotFoundError: No module named 'no_such_module_here'",
    }
    assert {item.severity for item in report.findings} == {rules.DC903.severity}


def test_readers_that_answer_later_are_waited_for_after_one_is_overdue() -> None:
    @fact(limit_s=30)
    def read_late(seed: Seed) -> Lost:
        time.sleep(0.6)
        return Lost(7)

    @probe(rules.DC401)
    def needs(slow: Slow | Unavailable, lost: Lost) -> Iterator[Finding]:
        yield rules.DC401.found(f"{type(slow).__name__} {lost.value}", fix=FIX)

    assert [item.message for item in run(Seed()).findings if item.code == "DC401"] == ["Unavailable 7"]


def test_a_time_limit_that_is_over_at_once_is_not_checked() -> None:
    @probe(rules.DC401)
    def needs(slow: Slow) -> Iterator[Finding]:
        return iter(())

    report = run(Seed(), budget_s=-0.5)
    assert (report.out_of_time, report.checked, report.findings) == (True, frozenset(), ())
    assert [item.what for item in report.not_checked] == ["DC401"]


def test_a_reader_has_a_second_and_is_of_this_host_unless_it_says_otherwise() -> None:
    reader = registry.readers()[Doubled]
    assert (reader.limit_s, reader.isolated, reader.of_this_host, reader.of_launch) == (1.0, False, True, False)
