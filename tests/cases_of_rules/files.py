"""Files: training scripts, launch files, logs and pickles. The case folders of ``tests/`` hold all but the pickles."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from distcheck.core.model import Severity
from tests.checks.logs import cases as log_cases
from tests.checks.pickles.assembly import build, call, checkpoint, mapping, name, new, plain, tensor, text, whole
from tests.launch import cases as launch_cases
from tests.lint import cases as lint_cases

from . import Case, Cases, Said, run


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Paths are relative to this folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def linted(case: lint_cases.Case | launch_cases.Case, folder: Path) -> Said:
    """``distcheck lint`` on a copy of the case."""
    copy = folder / "project"
    copy.mkdir()
    case.copy_to(copy)
    with inside(copy):
        return run(
            folder,
            "lint",
            "--isolated",
            "--no-cache",
            "-j",
            "1",
            "--include-markdown",
            "--extend-select",
            case.code,
            ".",
        )


def of_scripts(code: str) -> Cases:
    """The training scripts of a rule."""
    return _linted(lint_cases.all_cases(code))


def of_launch_files(code: str) -> Cases:
    """The launch files of a rule."""
    return _linted([case for case in launch_cases.all_cases(code) if case.nodes() is None])


def _linted(cases: Sequence[lint_cases.Case | launch_cases.Case]) -> Cases:
    bad = sorted((case for case in cases if case.bad), key=lambda case: -worst(case))
    good = sorted((case for case in cases if not case.bad), key=worst)
    return Cases(*([Case(case.name, partial(linted, case)) for case in group] for group in (bad, good)))


def worst(case: lint_cases.Case | launch_cases.Case) -> int:
    """The severity that a case expects of its own rule, 0 for none."""
    own = (Severity.parse(item.severity) for item in case.expected() if item.code == case.code)
    return max(own, default=0)


def diagnosed(case: log_cases.Case, folder: Path) -> Said:
    """``distcheck log`` on the texts of the case."""
    _, texts = log_cases.read_case(case)
    return run(folder, "log", "-j", "1", *log_cases.write_texts(texts, folder / "log"))


def of_logs(code: str) -> Cases:
    """The logs of a rule, and those that look alike; where it is worth knowing in all of these, a log of another rule."""
    everywhere = log_cases.every_case()
    cases = [case for case in everywhere if case.code == code]
    bad = sorted((case for case in cases if case.is_bad), key=lambda case: log_cases.read_case(case)[0].cause != code)
    good = [case for case in cases if not case.is_bad]
    good.append(next(case for case in everywhere if case.code != code and case.is_bad))
    return Cases(*([Case(case.name, partial(diagnosed, case)) for case in group] for group in (bad, good)))


# pickles

STORAGES = {"0": bytes(24)}
STATE = checkpoint({"layer.weight": tensor(), "layer.bias": tensor()}, STORAGES)
NAMESPACE = build(new(name("argparse", "Namespace")), mapping({"lr": plain(0.1)}))
#: Bad files. The good one is STATE.
PICKLES = {
    "DC610": whole(mapping({"a": call(name("os", "system"), text("true"))})),
    "DC611": checkpoint({"layer.weight": tensor(), "args": NAMESPACE}, STORAGES),
    "DC612": STATE[: len(STATE) // 2],
    "DC613": checkpoint({"layer.weight": tensor(location="cuda:7")}, STORAGES),
    "DC614": checkpoint({"module.layer.weight": tensor(), "module.layer.bias": tensor()}, STORAGES),
    "DC615": checkpoint({"net": build(new(name("torch.nn.modules.linear", "Linear")), mapping({}))}, STORAGES),
}
MODULE = """\
import random
import threading


class Plain:
    value = 1


class ProcessGroup:
    def __reduce__(self):
        raise TypeError("cannot pickle 'ProcessGroup' object")


class Group(ProcessGroup):
    pass


# known by the name of the class; torch itself is not imported
ProcessGroup.__module__ = "torch.distributed.distributed_c10d"


class Changes:
    count = 0

    def __getstate__(self):
        self.count += 1
        return {}


DC601, DC602, DC603, DC604, good = threading.Lock(), Group(), random.Random(1), Changes(), Plain()
"""
OBJECTS = ("DC601", "DC602", "DC603", "DC604")


def scanned(data: bytes, folder: Path) -> Said:
    """``distcheck pickle FILE``."""
    (folder / "model.pt").write_bytes(data)
    return run(folder, "pickle", "--isolated", "-j", "1", str(folder / "model.pt"))


def inspected(member: str, folder: Path) -> Said:
    """``distcheck pickle --object module:name``."""
    (folder / "of_a_rule.py").write_text(MODULE, encoding="utf-8")
    sys.modules.pop("of_a_rule", None)
    sys.path.insert(0, str(folder))
    try:
        return run(folder, "pickle", "--isolated", "--object", f"of_a_rule:{member}")
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("of_a_rule", None)


def of_pickles(code: str) -> Cases:
    """A file, or a member of a live object."""
    if code in OBJECTS:
        return Cases([Case(code, partial(inspected, code))], [Case("good", partial(inspected, "good"))])
    return Cases([Case(code, partial(scanned, PICKLES[code]))], [Case("a plain checkpoint", partial(scanned, STATE))])
