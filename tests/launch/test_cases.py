"""Every launch rule on its cases, and whole jobs: what they mark is found there, and nothing else."""

from __future__ import annotations

from collections import Counter

import pytest

from distcheck import rules
from distcheck.checks.launch_files import engine
from distcheck.core.fixes import apply_fixes
from distcheck.core.model import Finding, Rule, Severity

from .cases import FOLDER, JOBS, Case, all_cases, compared, expectations, explain, judge_case

RULE_CASES = all_cases()
CASES = [*RULE_CASES, *all_cases(JOBS)]
LAUNCH_RULES = [rule for rule in rules.ALL if "launch" in rule.ways and not rule.code.startswith("DC9")]
#: How many cases each rule has at least; the good ones are its traps.
FEWEST_BAD, FEWEST_GOOD = 2, 3
#: More rounds than a case has findings: whoever needs more undoes what another has done.
MOST_ROUNDS = 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_gives_what_it_marks(case: Case) -> None:
    expected = case.expected()
    judged = judge_case(case)
    found = compared(judged.findings, case, expected)
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    assert not missing and not extra, explain(case, judged, sorted(missing), sorted(extra))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_read_without_problems(case: Case) -> None:
    judged = judge_case(case)
    read = {file.path for file in judged.files}
    marked = {item.path for item in case.expected() if not item.path.endswith(".py")}
    assert not {file.path: file.problems for file in judged.files if file.problems}
    assert marked <= read, "a file in which something is expected is no launch file"
    assert read, "nothing of the case is a launch file"


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.name)
def test_a_case_is_well_made(case: Case) -> None:
    rule = case.rule
    assert rule is not None
    expected = case.expected()
    own = [item for item in expected if item.code == case.code]
    if case.bad:
        assert own, f"a bad case marks at least one line with '# expect: {case.code}'"
    else:
        assert expected == [], "a good case marks nothing"
    for item in expected:
        levels = ["info", *(level.word for level in rules.find(item.code).severities)]
        assert item.severity in levels, f"{item.code} is never {item.severity}"


@pytest.mark.parametrize("rule", LAUNCH_RULES, ids=lambda rule: rule.code)
def test_a_rule_has_bad_and_good_cases(rule: Rule) -> None:
    cases = all_cases(rule.code)
    assert sum(case.bad for case in cases) >= FEWEST_BAD, f"{rule.code} has too few bad cases"
    assert sum(not case.bad for case in cases) >= FEWEST_GOOD, f"{rule.code} has too few good cases"


def test_no_folder_is_named_like_no_rule() -> None:
    assert {case.code for case in RULE_CASES} <= {rule.code for rule in LAUNCH_RULES}


def loud(found: tuple[Finding, ...]) -> Counter[str]:
    return Counter(item.code for item in found if item.severity > Severity.INFO)


@pytest.mark.parametrize("case", [case for case in CASES if case.expected()], ids=lambda case: case.name)
@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
def test_fixes_fix_and_break_nothing(case: Case, unsafe: bool) -> None:
    """Carried out until none is left: what was fixed is gone, no other rule speaks, the file is read as before."""
    files = case.files()
    first = judged = judge_case(case)
    look_up = engine.look_up_below(str(FOLDER / "nowhere"), files)
    before = {file.path: file for file in judged.files}
    fixed: Counter[str] = Counter()
    for _ in range(MOST_ROUNDS):
        edited_ones = [item for item in judged.findings if item.fix.edits]
        riskless = [f"{item.code}: {item.fix.text}" for item in edited_ones if not (item.fix.safe or item.fix.risk)]
        assert not riskless, "a fix that is not safe says what the risk is"
        assert {edit.path for item in edited_ones for edit in item.fix.edits} <= set(files)
        fixes = [item.fix for item in judged.findings if item.fix.edits and (item.fix.safe or unsafe)]
        if not fixes:
            break
        others = {
            path: lambda path, data: engine.why_it_reads_worse(path, before[path], data, look_up) for path in before
        }
        edited = apply_fixes(fixes, files, others=others)
        assert edited.refused == ()
        assert edited.done, "no fix could be carried out"
        fixed.update(item.code for item in judged.findings if item.fix in edited.done)
        files.update(edited.files)
        judged = judge_case(case, files)
    else:
        pytest.fail("the fixes never come to an end")
    assert not loud(judged.findings) - loud(first.findings), "a fix made another rule speak"
    left = Counter(item.code for item in judged.findings)
    for code, count in fixed.items():
        there = sum(item.code == code for item in first.findings)
        assert left[code] <= there - count, f"{code} was fixed and is found again"


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("case", [case for case in CASES if case.expected()], ids=lambda case: case.name)
def test_lines_may_end_as_on_windows(case: Case) -> None:
    """The same findings in the same places, with carriage returns at the ends of lines.

    What a shell would make of them is another matter: such a file is often fixed by git on its way.
    """
    plain = judge_case(case)
    files = {
        path: data if path.endswith(".py") else data.replace(b"\n", b"\r\n") for path, data in case.files().items()
    }
    windows = judge_case(case, files)

    def places(findings: tuple[Finding, ...]) -> list[tuple[str, int, str]]:
        return sorted((item.where.path or "", item.where.line or 0, item.code) for item in findings)

    assert places(windows.findings) == places(plain.findings)


def test_expectations_are_read_from_comments() -> None:
    text = 'export A=1 # expect: DC110 DC112=error\n# expect-at 7: DC804\n<!-- # expect-at 9: DC801 -->\n"expected"\n'
    assert [tuple(item) for item in expectations("x.sh", text)] == [
        ("x.sh", 1, "DC110", "warning"),
        ("x.sh", 1, "DC112", "error"),
        ("x.sh", 7, "DC804", "error"),
        ("x.sh", 9, "DC801", "warning"),
    ]
    for wrong in ("a # expect: nothing", "a # expect DC110", "# expect-at: DC110", "a # expect: DC110, DC112"):
        with pytest.raises(ValueError, match="names no CODE"):
            expectations("x.sh", wrong)
    with pytest.raises(ValueError, match="is no CODE"):
        expectations("x.sh", "a # expect: DC110=loud")
