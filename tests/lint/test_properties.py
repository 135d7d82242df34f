"""What holds for every file: nothing crashes the engine, and a finding follows what the code does, not how it is spelled.

The cases of the rules are the raw material: they are damaged at random, their local variables get neutral names, and
their helpers move to a second file.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distcheck.checks.source import vocabulary
from distcheck.checks.source.engine import LARGEST, SourceFile, analyse
from distcheck.checks.source.program import Program
from distcheck.core.checker import Checker, Plan
from distcheck.core.model import Finding, Report, Severity
from distcheck.rules import Selection

from .cases import Case, all_cases

SINGLE = [case for case in all_cases() if case.place.is_file()]
TEXTS = [case.text(case.paths[0]) for case in SINGLE if not case.bad]

#: Two files: a helper that writes, and its caller, which decides who gets there.
HELPER = "import torch\n\n\ndef keep(model, path):\n    torch.save(model.state_dict(), path)\n"
CALLER = """import os
import torch
import torch.distributed as dist
from store import keep


def main(model):
    dist.init_process_group("gloo")
    {guard}
        keep(model, "last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(torch.nn.Linear(1, 1))
"""
#: One finding whatever the line ends are.
COMPARED = 'import os\n\nif os.environ["RANK"] == 0:\n\tprint("first")\n'


class Place(NamedTuple):
    """Where a finding stands, and which; what its message says may differ."""

    path: str
    line: int
    code: str
    severity: str


@functools.cache
def plan(code: str | None) -> Plan:
    """All rules that are on by default, and one more."""
    selection = Selection(extend_select=(code,)) if code else Selection()
    checker = Checker(selection, modules=("distcheck.checks.source",), plug_ins=False)
    return checker.plan(Program, command="lint", closed=True)


def look(files: dict[str, bytes | str], code: str | None = None) -> tuple[Program, Report]:
    """Analyse and judge texts under the names given; a probe that raises is an error here."""
    data = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    program = analyse([SourceFile(path, functools.partial(data.__getitem__, path)) for path in data])
    report = plan(code).run(program)
    assert not [run for run in report.probes if run.status == "failed"], [run.traceback for run in report.probes]
    return program, report


def places(findings: Sequence[Finding], least: Severity = Severity.WARNING) -> list[Place]:
    """The findings at or above a level, in order."""
    return sorted(
        Place(item.where.path or "", item.where.line or 0, item.code, item.severity.word)
        for item in findings
        if item.severity >= least
    )


# damage


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A good case with some of its lines left out, repeated, swapped, moved to the right, or cut off."""
    lines = draw(st.sampled_from(TEXTS)).splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 6))):
        if not lines:
            break
        one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        edit = draw(st.sampled_from(["leave out", "repeat", "swap", "indent", "dedent", "cut", "join"]))
        if edit == "leave out":
            del lines[one]
        elif edit == "repeat":
            lines.insert(other, lines[one])
        elif edit == "swap":
            lines[one], lines[other] = lines[other], lines[one]
        elif edit == "indent":
            lines[one] = "    " + lines[one]
        elif edit == "dedent":
            lines[one] = lines[one].removeprefix("    ")
        elif edit == "cut":
            lines[one] = lines[one][: draw(st.integers(0, len(lines[one])))] + "\n"
        else:
            lines[one] = lines[one].rstrip("\n")
    text = "".join(lines)
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@given(text=damaged())
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_random_edits_never_crash_it(text: str) -> None:
    program, _ = look({"train.py": text})
    try:
        ast.parse(text)
        parses = True
    except SyntaxError:
        parses = False
    assert parses == (program.files["train.py"].problem is None if "train.py" in program.files else parses)


@given(first=damaged(), second=damaged())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_files_that_import_each_other_never_crash_it(first: str, second: str) -> None:
    look({"one.py": "from other import *\n" + first, "other.py": "from one import *\nimport one\n" + second})


@given(data=st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_random_bytes_never_crash_it(data: bytes) -> None:
    look({"train.py": b"import torch.distributed\n" + data, "notebook.ipynb": b"torch.distributed" + data})


# names


def documented(name: str) -> bool:
    """Whether the name itself is evidence; see the tables of :mod:`distcheck.checks.source.vocabulary`."""
    plain = name.lower().lstrip("_")
    if not plain:
        return True  # "_" says that a value is dropped on purpose
    return (
        plain in vocabulary.NAMES
        or plain in vocabulary.TESTS
        or plain in vocabulary.DECORATORS
        or plain in vocabulary.MAIN_FIRST
    )


def locals_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that are only local variables of a function: no parameter, global, import, inner function or attribute."""
    stored, other = set(), set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.add(node.id)
        elif isinstance(node, ast.arg):
            other.add(node.arg)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            other.update(node.names)
        elif isinstance(node, ast.alias):
            other.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
            other.add(node.name or "")
        elif isinstance(node, (ast.JoinedStr, ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
            # in an f-string, older Pythons tell no places
            other.update(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
            other.add(getattr(node, "name", None) or "")
    return stored - other


def renamed(text: str) -> str:
    """The same program with neutral names for the local variables of its functions."""
    edits: dict[tuple[int, int], tuple[int, str]] = {}
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for number, name in enumerate(sorted(locals_of(function))):
            if documented(name):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and node.id == name:
                    place = (node.lineno, node.col_offset)
                    edits.setdefault(place, (len(name.encode()), f"thing_{function.lineno}_{number}"))
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for (line, column), (length, new) in sorted(edits.items(), reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[:column] + new.encode() + old[column + length :]
    return b"".join(lines).decode()


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case.name)
def test_names_of_local_variables_do_not_matter(case: Case) -> None:
    path = case.paths[0]
    text = case.text(path)
    other = renamed(text)
    ast.parse(other)
    _, before = look({path: text}, case.code)
    _, after = look({path: other}, case.code)
    missing = Counter(places(before.findings)) - Counter(places(after.findings))
    extra = Counter(places(after.findings)) - Counter(places(before.findings))
    assert not missing and not extra, f"{case.place}\nmissing {sorted(missing)}\nextra {sorted(extra)}\n{other}"


def test_renaming_renames() -> None:
    text = "def f(a):\n    b = a\n    rank = 0\n    c.b = b\n    return g(b=b), rank\n"
    expected = (
        text.replace("b = a", "thing_1_0 = a").replace("c.b = b", "c.b = thing_1_0").replace("b=b", "b=thing_1_0")
    )
    assert renamed(text) == expected


# helpers in another file


def split(text: str) -> tuple[str, str] | None:
    """The file without its helpers, and a module with them; None where nothing can move.

    A helper is a function of the module that another part of it uses, and that needs nothing of the module but imports,
    literals and other helpers. Where a name is defined several times, a move changes which definition it means.
    """
    tree = ast.parse(text)
    defined = [getattr(node, "name", "") for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    if len(defined) > len(set(defined)):
        return None
    functions = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    given_names = {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}
    literals = {
        target.id: node
        for node in tree.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(target := node.targets[0], ast.Name)
        if _is_literal(node.value)
    }
    own = {name for node in tree.body for name in _bound(node)}
    needs = {name: _used(node) & (own | given_names) for name, node in functions.items()}
    used_elsewhere = {
        name for name in functions if any(name in _used(node) for node in tree.body if node is not functions[name])
    }
    moves = set(used_elsewhere)
    while bad := {name for name in moves if needs[name] - given_names - set(literals) - moves}:
        moves -= bad
    changed = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if not moves or any(isinstance(node, ast.Global) for node in ast.walk(tree)) or moves & changed:
        return None
    lines = text.splitlines(keepends=True)
    copied = [*imports, *(node for node in literals.values())]
    moved = [functions[name] for name in functions if name in moves]
    helpers = "".join(_lines(lines, node) for node in copied) + "\n\n" + "\n\n".join(_lines(lines, n) for n in moved)
    gone = {number for node in moved for number in range(_first(node), (node.end_lineno or 0) + 1)}
    last = max((node.end_lineno or 0 for node in imports), default=0)
    kept = []
    for number, line in enumerate(lines, 1):
        if number not in gone:
            kept.append(line)
        if number == last:
            kept.append(f"from helper_functions import {', '.join(sorted(moves))}\n")
    rest = "".join(kept) if last else f"from helper_functions import {', '.join(sorted(moves))}\n" + "".join(kept)
    return rest, helpers


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _lines(lines: Sequence[str], node: ast.stmt) -> str:
    return "".join(lines[_first(node) - 1 : node.end_lineno])


def _used(node: ast.AST) -> set[str]:
    """Names that a statement reads and does not bind itself; builtins are left out."""
    read = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return {name for name in read if not hasattr(builtins, name)}


def _bound(node: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module binds there."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif isinstance(each, (ast.FunctionDef, ast.ClassDef)):
            yield each.name
        elif isinstance(each, ast.alias) and not isinstance(node, (ast.Import, ast.ImportFrom)):
            yield (each.asname or each.name).split(".")[0]


SPLIT = [(case, parts) for case in SINGLE if (parts := split(case.text(case.paths[0]))) is not None]
SPLIT_GOOD = [(case, parts) for case, parts in SPLIT if not case.bad]
#: Rules about one script as a whole (where it starts, ends, reads its environment) speak of another file after the split.
OF_A_SCRIPT = {"DC208", "DC743"}
SPLIT_BAD = [(case, parts) for case, parts in SPLIT if case.bad and case.code not in OF_A_SCRIPT]


def found_over_two_files(case: Case, parts: tuple[str, str], least: Severity) -> tuple[Counter[str], Counter[str], str]:
    """How often each rule speaks about a case, and about its two parts; and a text for whoever mends it."""
    rest, helpers = parts
    for text in parts:
        ast.parse(text)
    _, before = look({case.paths[0]: case.text(case.paths[0])}, case.code)
    _, after = look({case.paths[0]: rest, "helper_functions.py": helpers}, case.code)
    one, two = (places(report.findings, least) for report in (before, after))
    told = f"{case.place}\n{one}\n{two}\n--- {case.paths[0]}\n{rest}\n--- helper_functions.py\n{helpers}"
    return Counter(place.code for place in one), Counter(place.code for place in two), told


def test_enough_cases_can_be_split() -> None:
    assert len(SPLIT_GOOD) >= 100
    assert len(SPLIT_BAD) >= 100


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(("case", "parts"), SPLIT_GOOD, ids=[case.name for case, _ in SPLIT_GOOD])
def test_a_good_case_stays_silent_over_two_files(case: Case, parts: tuple[str, str]) -> None:
    before, after, told = found_over_two_files(case, parts, Severity.WARNING)
    assert not after - before, told


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(("case", "parts"), SPLIT_BAD, ids=[case.name for case, _ in SPLIT_BAD])
def test_a_bad_case_is_found_over_two_files(case: Case, parts: tuple[str, str]) -> None:
    least = min(case.rule.severity, Severity.WARNING)
    before, after, told = found_over_two_files(case, parts, least)
    assert after[case.code] == before[case.code], told


# what the cache may not hide


class CountingStore:
    """A cache in memory that counts what it did not know."""

    def __init__(self) -> None:
        self.known: dict[bytes, bytes] = {}
        self.made = 0

    def get(self, digest: bytes) -> bytes | None:
        return self.known.get(digest)

    def put(self, digest: bytes, data: bytes) -> None:
        self.made += 1
        self.known[digest] = data


def test_a_changed_caller_changes_what_is_found_in_the_callee_with_a_warm_cache() -> None:
    store = CountingStore()

    def found(guard: str) -> list[Place]:
        texts = {"store.py": HELPER.encode(), "train.py": CALLER.format(guard=guard).encode()}
        program = analyse([SourceFile(path, functools.partial(texts.__getitem__, path)) for path in texts], cache=store)
        return [place for place in places(plan(None).run(program).findings) if place.code == "DC720"]

    assert found('if int(os.environ["RANK"]) == 0:') == []
    first = store.made
    unguarded = found("if model is not None:")
    assert [(place.path, place.line) for place in unguarded] == [("store.py", 5)]
    # only the caller was read anew: what its callee does came from the cache
    assert store.made == first + 1
    assert found('if int(os.environ["RANK"]) == 0:') == []
    assert store.made == first + 1


# strange input

DEEP = {
    "brackets": "x = " + "(" * 5000 + "1" + ")" * 5000,
    "open brackets": "x = " + "[" * 150_000,
    "a sum": "x = " + "+".join(["rank"] * 20_000),
    "a chain of attributes": "x = rank" + ".a" * 20_000,
    "a chain of calls": "x = rank" + ".a()" * 5000,
    "a chain of subscripts": "x = rank" + "[0]" * 5000,
    "a condition": "x = " + " and ".join(["rank"] * 20_000),
    "comparisons": "x = " + " < ".join(["rank"] * 5000),
    "negations": "x = " + "not " * 5000 + "rank",
    "conditional expressions": "x = " + "1 if rank else " * 3000 + "2",
    "elif": "if rank == 0:\n    pass\n" + "elif rank == 1:\n    pass\n" * 3000,
    "blocks": "".join(" " * depth + "if rank:\n" for depth in range(99)) + " " * 99 + "pass\n",
    "functions": "".join(" " * depth + f"def f{depth}(rank):\n" for depth in range(90)) + " " * 90 + "pass\n",
    "lambdas": "x = " + "lambda rank: " * 1500 + "rank",
    "assignments": "rank = 0\n" + "rank = rank + 1\n" * 20_000,
    "one name after another": "".join(f"rank{n + 1} = rank{n}\n" for n in range(3000)),
    "branches": "rank = 0\n" + "if rank:\n    rank = rank + 1\nelse:\n    rank = f(rank)\n" * 3000,
    "loops": "".join(" " * depth + "while rank:\n" for depth in range(20)) + " " * 20 + "rank = rank.next\n",
    "a long list": "x = [" + "rank, " * 200_000 + "]\n",
    "a long string": "x = '" + "rank " * 200_000 + "'\n",
    "a long line of statements": "rank = 1; " * 50_000 + "\n",
    "an f-string in an f-string": "x = f\"{f'{rank}'}\"\n",
    "calls that call each other": "".join(f"def f{n}(rank):\n    return f{n + 1}(rank)\n" for n in range(2000)),
    "a function that calls itself": "def f(rank):\n    return f(f(rank - 1), f)(f)\n\n\nf(f)\n",
    "a class of its own base": "class A(A):\n    def rank(self):\n        return self.rank()\n",
    "classes in a circle": "class A(B):\n    x = 1\n\n\nclass B(A):\n    y = A.x\n",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.slow
def test_deep_and_long_files_do_not_crash_it(text: str) -> None:
    program, report = look({"deep.py": "import torch.distributed as dist\n" + text, "compared.py": COMPARED})
    assert Place("compared.py", 3, "DC209", "error") in places(report.findings)
    assert "deep.py" in program.files


BROKEN = {
    "null bytes": b"import torch.distributed\nx = 1\x00\n",
    "only null bytes": b"\x00" * 1000 + b"RANK",
    "no such coding": b"# -*- coding: klingon -*-\nimport torch.distributed\n",
    "wrong UTF-8": b'import torch.distributed\nx = "\xff\xfe\xe9"\n',
    "a syntax error": b"import torch.distributed\nif :\n",
    "another version": b"import torch.distributed\nprint 'RANK'\n",
    "an open string": b'import torch.distributed\nx = """RANK\n',
    "mixed indentation": b"import torch.distributed\nif 1:\n\tx = 1\n        y = 2\n",
    "too large": b"import torch.distributed\n" + b"x = 1\n" * (LARGEST // 6),
    "generated, 10 MB": b"RANK = [\n" + b"    1.25,\n" * 1_000_000 + b"]\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_file_that_can_not_be_read_is_told_and_the_others_are_looked_at(data: bytes) -> None:
    program, report = look({"broken.py": data, "compared.py": COMPARED})
    assert program.files["broken.py"].problem
    assert Place("compared.py", 3, "DC209", "error") in places(report.findings)


ODD = {
    "CRLF": COMPARED.replace("\n", "\r\n").encode(),
    "CR": COMPARED.replace("\n", "\r").encode(),
    "a byte order mark": b"\xef\xbb\xbf" + COMPARED.encode(),
    "Latin-1": b"# -*- coding: latin-1 -*- \xe9\n" + COMPARED.encode(),
    "no line end": COMPARED.rstrip("\n").encode(),
    "a form feed": b"\x0c" + COMPARED.encode(),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_line_ends_and_encodings_do_not_move_a_finding(data: bytes) -> None:
    program, report = look({"train.py": data})
    assert program.files["train.py"].problem is None
    expected = 4 if data.startswith(b"# -*-") else 3
    assert places(report.findings) == [Place("train.py", expected, "DC209", "error")]
