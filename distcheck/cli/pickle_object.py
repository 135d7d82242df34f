"""``distcheck pickle --object``: import the object that the user named, walk it, report.

Only this module of the command runs code of other packages. It runs what the option names, and prints that first.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import FunctionType
from typing import Any

import click

from distcheck.checks.pickles.api import find_unpicklable, report_of
from distcheck.core.model import NotChecked, Report
from distcheck.reporters import escape

from . import output
from .pickle_scan import ScanOptions

#: Characters of a foreign exception that are shown.
_LONGEST = 300


def run(requested: ScanOptions) -> int:
    """Import the object, walk it, write the report, return the exit status. Raises click.UsageError without it."""
    given = requested.given
    module, name = _parts(given["object_name"])
    found, shown = _import(module, name), name
    if given["call"]:
        found, shown = _call(found, given["object_name"]), f"{name}()"
    began = time.monotonic()
    # what a __getstate__ or __reduce__ prints must not stand in the report
    with _aside():
        seen = find_unpicklable(found, mode=given["mode"] or "pickle", name=shown, confirm=given["confirm"])
    report = report_of(seen, selection=requested.selection, elapsed_s=time.monotonic() - began)
    if seen.confirmation:
        report = report._replace(
            not_checked=(*report.not_checked, NotChecked(shown, f"the real pickler disagrees: {seen.confirmation}"))
        )
    elsewhere = "" if seen.offenders else _where_it_is(found, given["object_name"], called=given["call"])
    if elsewhere:
        report = report._replace(not_checked=(*report.not_checked, NotChecked(shown, elsewhere)))
    report = _with_lines(report, given, seen)
    status = output.finish(
        report, given, requested.configuration, fail_on=requested.fail_on, must_check=requested.must_check,
        output_format="full" if given["quiet"] and given["output_format"] == "concise" else None,
    )  # fmt: skip
    why = "the real pickler disagrees: not known to be fine" if seen.confirmation else None
    if elsewhere:
        why = f"no object was checked: {escape(shown)} is {_kind_of(found)}"
    return output.or_not_checked(
        status, given, why if seen.complete else f"not all of {escape(shown)} could be checked"
    )


def _where_it_is(found: Any, text: str, *, called: bool) -> str:
    """Return why a name stands for no object with members, and how to reach the object; empty if it is one."""
    name = text.rpartition(":")[2] if found is None and not called else "obj"
    there = f"'import distcheck; print(distcheck.find_unpicklable({name}))' before the line that spawns or saves it"
    if found is None and called:
        return f"the call returned None; name a function that returns the object, or write {there}"
    if found is None:
        return f"it is None after the import: the program makes the object later; write {there}"
    if isinstance(found, type):
        return (
            "it is a class, which pickle writes as its name: none of its objects was checked; "
            f"--object {text} --call makes one without arguments, or write {there}"
        )
    if _takes_nothing(found):
        return (
            "it is a function, which pickle writes as its name: what it returns was not checked; "
            f"--object {text} --call checks that"
        )
    return ""


def _kind_of(found: Any) -> str:
    return "None" if found is None else "a class" if isinstance(found, type) else "a function"


def _takes_nothing(found: Any) -> bool:
    """Return whether an object is a function that can be called without arguments; others are started by `mp.spawn`."""
    if not isinstance(found, FunctionType):
        return False
    from inspect import signature

    parameters = signature(found).parameters.values()
    return all(one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


@contextmanager
def _aside() -> Iterator[None]:
    """Code of others runs here, as if its program had been started without arguments.

    What it writes to standard output goes to standard error: that of C code and of child processes too.
    """
    with suppress(OSError, ValueError):  # closed already
        sys.stdout.flush()
    arguments, sys.argv = sys.argv, sys.argv[:1]  # a module that parses them must not be given ours
    kept = -1
    with suppress(OSError):
        kept = os.dup(1)
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv = arguments
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)


def _parts(text: str) -> tuple[str, str]:
    module, colon, name = text.partition(":")
    if colon and module.endswith(".py"):
        there = module[:-3].removeprefix("./").replace("/", ".").replace("\\", ".")
        hint = f": --object {escape(there)}:{escape(name)}" if all(map(str.isidentifier, there.split("."))) else ""
        raise click.UsageError(f"--object {escape(text)}: {escape(module)} is a file; name it as import does{hint}")
    dotted = [*module.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in dotted):
        hint = "; for what an index leads to, write a function that returns it, and add --call" if "[" in name else ""
        raise click.UsageError(
            f"--object {escape(text)}: expected module:name, as in --object package.train:trainer{hint}"
        )
    return module, name


def _import(module: str, name: str) -> Any:
    output.say(f"distcheck: importing {module}, as --object requires")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)  # as `python train.py` has it, and `python -m`
    from importlib import import_module

    with _aside():
        try:
            found: Any = import_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: whatever it raises, it is reported
            raise click.UsageError(f"--object {module}:{name}: {module} does not import: {_text(error)}") from None
        where = module
        for part in name.split("."):
            try:
                found = getattr(found, part)
            except AttributeError:
                import difflib

                near = difflib.get_close_matches(part, [one for one in dir(found) if not one.startswith("__")], n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise click.UsageError(f"--object {module}:{name}: {where} has no attribute {part!r}{hint}") from None
            except Exception as error:  # noqa: BLE001 - a property of foreign code
                raise click.UsageError(f"--object {module}:{name}: {where}.{part} raises {_text(error)}") from None
            where = f"{where}.{part}"
    return found


def _call(found: Any, text: str) -> Any:
    if not callable(found):
        raise click.UsageError(f"--object {text}: a {type(found).__name__} can't be called; omit --call")
    with _aside():
        try:
            return found()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: whatever it raises, it is reported
            raise click.UsageError(f"--object {text}: calling it raised {_text(error)}") from None


def _text(error: BaseException) -> str:
    """The last line of a traceback, cut and printable."""
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - even its text can be broken
        text = ""
    last = text.splitlines()[-1] if text else ""
    shown = f"{type(error).__name__}: {last}" if last else type(error).__name__
    return escape(shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…")


def _with_lines(report: Report, given: Any, seen: Any) -> Report:
    """The report with the methods that ``--show-fix`` requests as its last lines."""
    subject = dict(report.subject)
    subject["line"] = [*subject["line"], *(["the real pickler agrees"] if seen.confirmation == "" else [])]
    if given["show_fix"]:
        from distcheck.checks.pickles.state_methods import state_methods

        subject["closing"] = [*state_methods(seen).splitlines(), ""]
    return report._replace(subject=subject)
