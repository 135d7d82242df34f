"""What ``--fix`` would do to every bad case: it compiles, the finding is gone for good, no other rule speaks, no comment is lost."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from functools import cache

import pytest

from distcheck.core.checker import Checker
from distcheck.core.fixes import apply_fixes, why_it_does_not_compile
from distcheck.core.model import Finding, Severity
from distcheck.rules import Selection

from .cases import Case, all_cases

#: More rounds than a case has findings: whoever needs more undoes what another has done.
_MOST_ROUNDS = 10


def findings(files: dict[str, bytes], code: str) -> list[Finding]:
    """What is found in files that stand in memory."""
    from distcheck.checks.source.engine import SourceFile, analyse

    program = analyse([SourceFile(path, lambda data=data: data) for path, data in files.items()])
    checker = Checker(Selection(extend_select=(code,)), modules=("distcheck.checks.source",), plug_ins=False)
    report = checker.plan(type(program), command="lint", closed=True).run(program)
    assert not [run for run in report.probes if run.status == "failed"], [run.traceback for run in report.probes]
    return list(report.findings)


@cache
def fixable(code: str) -> frozenset[str]:
    """The cases of a rule whose findings bring edits, by name."""
    found = set()
    for case in all_cases(code):
        files = {path: case.text(path).encode() for path in case.paths}
        if any(item.fix.edits for item in findings(files, case.code)):
            found.add(case.name)
    return frozenset(found)


def comments(data: bytes) -> Counter[str]:
    return Counter(
        token.string for token in tokenize.tokenize(io.BytesIO(data).readline) if token.type == tokenize.COMMENT
    )


def loud(found: list[Finding]) -> Counter[str]:
    return Counter(item.code for item in found if item.severity > Severity.INFO)


@pytest.mark.parametrize("case", [case for case in all_cases() if case.bad], ids=lambda case: case.name)
def test_a_fix_mends_and_breaks_nothing(case: Case) -> None:
    before = {path: case.text(path).encode() for path in case.paths}
    found = first = findings(before, case.code)
    files = dict(before)
    mended: Counter[str] = Counter()
    for _ in range(_MOST_ROUNDS):
        fixes = [item.fix for item in found if item.fix.edits]
        if not fixes:
            break
        for fix in fixes:
            assert fix.where == "code"
            assert fix.safe or fix.risk, f"a fix that is not safe says what the risk is: {fix.text}"
            assert {edit.path for edit in fix.edits} <= set(files)
        edited = apply_fixes(fixes, files)
        assert edited.refused == ()
        assert edited.done, "no fix could be carried out"
        mended.update(item.code for item in found if item.fix in edited.done)
        files.update(edited.files)
        found = findings(files, case.code)
    assert not [item for item in found if item.fix.edits], "the fixes never come to an end"
    for path, data in files.items():
        assert why_it_does_not_compile(data) is None
        assert not comments(before[path]) - comments(data), "a comment is lost"
    assert not loud(found) - loud(first), "a fix made another rule speak"
    left = Counter(item.code for item in found)
    for code, number in mended.items():
        assert left[code] <= sum(item.code == code for item in first) - number, f"{code} is still found"


def test_some_cases_of_each_kind_can_be_mended() -> None:
    """The fixes that users are promised; a rule that loses its edits would pass the test above unseen."""
    promised = ("DC201", "DC207", "DC209", "DC210", "DC712", "DC722", "DC723", "DC730", "DC801")
    assert {code: bool(fixable(code)) for code in promised} == dict.fromkeys(promised, True)


def test_a_fix_names_tensors_as_their_line_does() -> None:
    case = next(case for case in all_cases("DC712") if case.name.endswith("bad_filled_in_a_loop"))
    found = findings({path: case.text(path).encode() for path in case.paths}, case.code)
    texts = [item.fix.text for item in found if item.code == "DC712"]
    assert texts == ["make one tensor for each rank: [torch.zeros_like(own) for _ in range(dist.get_world_size())]"]


HEAD = "import torch, torch.distributed as dist\n"
_MAIN = "def main():\n    dist.init_process_group('nccl')\n    {}\n\n\nmain()\n"


def advice(source: str, code: str) -> str:
    """The fix of the only finding of a rule in a file."""
    (found,) = [item for item in findings({"train.py": source.encode()}, code) if item.code == code]
    return found.fix.text


@pytest.mark.parametrize(
    ("imports", "expression", "ends"),
    [
        ("", "dist.get_rank()", '`int(os.environ["LOCAL_RANK"])`, after `import os`'),
        ("import os\n", "dist.get_rank()", '`int(os.environ["LOCAL_RANK"])`'),
        ("import os\n", "int(os.environ['SLURM_PROCID'])", '`int(os.environ["SLURM_LOCALID"])`'),
        ("from os import environ\n", "int(environ['RANK'])", '`int(os.environ["LOCAL_RANK"])`, after `import os`'),
    ],
)
def test_dc201_names_the_import_that_its_fix_needs(imports: str, expression: str, ends: str) -> None:
    text = advice(imports + HEAD + _MAIN.format(f"torch.cuda.set_device({expression})"), "DC201")
    assert text == f"use the local rank: {ends}"


@pytest.mark.parametrize(
    ("use", "replaced"),
    [
        ("torch.cuda.set_device(rank)", 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'),
        ("model.to(rank); torch.cuda.set_device(rank)", 'model.to(int(os.environ["LOCAL_RANK"])); torch.cuda'),
        ("torch.device(f'cuda:{rank}')", None),
        ("torch.cuda.set_device(rank + 0)", None),
    ],
)
def test_dc201_replaces_a_rank_that_is_a_whole_argument(use: str, replaced: str | None) -> None:
    body = f"rank = dist.get_rank(); model = torch.nn.Linear(1, 1); {use}; model.cuda()"
    source = (HEAD + _MAIN.format(body)).encode()
    fixes = [item.fix for item in findings({"train.py": source}, "DC201") if item.code == "DC201"]
    assert not any(fix.safe for fix in fixes)
    done = apply_fixes([fix for fix in fixes if fix.edits], {"train.py": source})
    assert done.refused == ()
    new = done.files.get("train.py", source).decode()
    assert (new == source.decode()) if replaced is None else (new.startswith("import os\n") and replaced in new)


@pytest.mark.parametrize(
    ("source", "test", "outer"),
    [
        # the function that saves creates the group, or calls a collective: all ranks enter it
        (_MAIN.format("torch.save({}, 'a.pt')"), "dist.get_rank()", ""),
        (_MAIN.format("torch.save({}, 'a.pt'); dist.barrier()"), "dist.get_rank()", ""),
        ("def save():\n    torch.save({}, 'a.pt')\n\n\n" + _MAIN.format("save()"), "dist.get_rank()", "save()"),
        ("def save():\n    dist.barrier()\n    torch.save({}, 'a.pt')\n\n\n" + _MAIN.format("save()"), "dist.get_rank()", ""),
        # the group does not exist yet
        ("def main():\n    torch.save({}, 'a.pt')\n    dist.init_process_group('nccl')\n\n\nmain()\n", "os.environ", ""),
        ("torch.save({}, 'a.pt')\n" + _MAIN.format("pass"), "os.environ", ""),
        ("def save():\n    torch.save({}, 'a.pt')\n\n\nsave()\n" + _MAIN.format("pass"), "os.environ", "save()"),
        (_MAIN.format("pass") + "torch.save({}, 'a.pt')\n", "dist.get_rank()", ""),
    ],
)  # fmt: skip
def test_dc720_guards_only_what_one_rank_may_do_alone(source: str, test: str, outer: str) -> None:
    text = advice(HEAD + source, "DC720")
    assert f"`if {test}" in text
    assert ("around the call of " + outer in text) if outer else "around the call" not in text
