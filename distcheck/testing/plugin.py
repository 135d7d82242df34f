"""What the plug-in of pytest does once it is active: tests on ranks, and how their outcome is shown."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from . import rank as one_rank
from . import ranks
from .rank import RankReport
from .rank_report import RanksFailed

Value = TypeVar("Value")
#: The argument under which a test with a list of numbers of ranks gets its own.
_SIZE = "world_size"
_OPTIONS = ("timeout", "init")


class Distributed:
    """What the fixture ``distributed`` gives: call it with the number of ranks and a function."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(
        self,
        n: int,
        body: Callable[..., Value],
        /,
        *args: Any,
        timeout: float | None = None,
        init: bool = True,
        start: str | None = None,
        **kwargs: Any,
    ) -> list[Value]:
        """Run ``body(*args, **kwargs)`` on n gloo ranks, and give what each returned, by rank.

        :param timeout: seconds that the body may take; else ``--distcheck-timeout``, ``distcheck_timeout``, 60
        :param init: make the process group before the body; False leaves ``init_process_group()`` to it
        :param start: ``fork`` (where there is fork: the default) or ``spawn``, which can only run what pickle can send
        """
        __tracebackhide__ = True
        return _run(self._config, n, body, args, kwargs, timeout=timeout, init=init, start=start)


def _run(
    config: pytest.Config,
    n: int,
    body: Callable[..., Value],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    timeout: float | None,
    init: bool,
    start: str | None,
) -> list[Value]:
    __tracebackhide__ = True
    style = config.getoption("tbstyle", "auto")
    describe = functools.partial(
        describe_for_pytest,
        style={"auto": "long", "line": "short", "no": "short"}.get(style, style),
        showlocals=bool(config.getoption("showlocals", False)),
    )
    prepare = functools.partial(_rewrite_assertions, str(config.rootpath), _path(config.inipath), os.getcwd())
    try:
        return ranks.run(
            n, body, args, kwargs, timeout=_seconds(config) if timeout is None else timeout, init=init, start=start,
            describe=describe, prepare=prepare, root=str(config.rootpath),
        )  # fmt: skip
    except ranks.TorchMissing as missing:
        pytest.skip(f"ranks need torch: {missing}")
    except RanksFailed as failed:
        outcomes = {failure.outcome for failure in failed.failures.values()}
        if outcomes == {"xfailed"}:
            pytest.xfail(str(failed))
        raise


def _path(path: os.PathLike[str] | None) -> str | None:
    return None if path is None else str(path)


def _seconds(config: pytest.Config) -> float:
    given = config.getoption("distcheck_timeout")
    if given is None:
        text = str(config.getini("distcheck_timeout") or "") or str(ranks.TIMEOUT_S)
        try:
            given = float(text)
        except ValueError:
            pytest.fail(f"distcheck_timeout is {text!r} in {config.inipath}; expected seconds", pytrace=False)
    return float(given)


# the mark


def spread(metafunc: pytest.Metafunc, mark: pytest.Mark) -> None:
    """A test for each number of a list."""
    sizes = mark.args[0] if mark.args else None
    if isinstance(sizes, (list, tuple)):
        if _SIZE not in metafunc.fixturenames:
            metafunc.fixturenames.append(_SIZE)
        metafunc.parametrize(_SIZE, list(sizes), ids=[f"{size}ranks" for size in sizes])


def refuse(item: pytest.Item, mark: pytest.Mark) -> None:
    """Fail a test whose mark can't be carried out: it would run on no ranks, and pass."""
    unittest = sys.modules.get("unittest")
    owner = getattr(item, "cls", None)
    if unittest is not None and owner is not None and issubclass(owner, unittest.TestCase):
        pytest.fail(
            "the mark 'distributed' does not reach methods of a unittest.TestCase; call distcheck.testing.run_ranks(n, "
            "body) in the method",
            pytrace=False,
        )
    if not isinstance(item, pytest.Function):
        pytest.fail("the mark 'distributed' is for test functions and methods", pytrace=False)
    unknown = [name for name in mark.kwargs if name not in _OPTIONS]
    if len(mark.args) != 1 or unknown:
        given = ", ".join([*map(repr, mark.args), *(f"{name}={value!r}" for name, value in mark.kwargs.items())])
        pytest.fail(
            f"the mark is distributed({given}); expected distributed(n) or distributed([n, …]), and timeout= or "
            "init= where they are wanted",
            pytrace=False,
        )


def call_on_ranks(item: pytest.Function, mark: pytest.Mark) -> bool | None:
    """Call the test on each rank; None where this is one, so that pytest calls it."""
    __tracebackhide__ = True
    if one_rank.inside:
        return None
    n = mark.args[0]
    if isinstance(n, (list, tuple)):
        n = item.callspec.params[_SIZE]
    call = functools.partial(item.ihook.pytest_pyfunc_call, pyfuncitem=item)
    timeout, init = mark.kwargs.get("timeout"), mark.kwargs.get("init", True)
    _run(item.config, n, call, (), {}, timeout=timeout, init=init, start="fork")
    return True


# in a rank


def describe_for_pytest(error: BaseException, *, style: str, showlocals: bool) -> RankReport:
    """An exception as pytest shows it, from the body on."""
    outcome = "failed"
    if isinstance(error, pytest.skip.Exception) or type(error).__name__ == "SkipTest":
        outcome = "skipped"
    elif isinstance(error, pytest.xfail.Exception):
        outcome = "xfailed"
    shown: Any = style
    info = pytest.ExceptionInfo.from_exception(error)
    representation = info.getrepr(style=shown, showlocals=showlocals, tbfilter=_of_the_body)
    text = str(representation)
    if style == "long" and text[:1] not in (">", ""):
        text = f"    {text}"  # pytest strips the text of an exception, and with it the first line's indentation
    return RankReport(outcome, type(error).__name__, str(error), text)


def _of_the_body(info: pytest.ExceptionInfo[BaseException]) -> Any:
    own = one_rank.__file__
    paths = [str(entry.path) for entry in info.traceback]
    first = 1 + max((number for number, path in enumerate(paths) if path == own), default=-1)
    below = info.traceback[first:]
    kept = below.filter(lambda entry: not one_rank.is_pytest(str(entry.path)) and not entry.ishidden(info))
    return kept if len(kept) else below if len(below) else info.traceback


def _rewrite_assertions(root: str, ini: str | None, folder: str) -> None:
    """Let a spawned rank import test modules as pytest does: with assertions that show what they compared."""
    arguments = ["--rootdir", root, "-p", "no:cacheprovider", folder]
    pytest.Config.fromdictargs({}, arguments if ini is None else ["-c", ini, *arguments])


# how it is shown


def add_sections(item: pytest.Item, info: pytest.ExceptionInfo[BaseException], report: pytest.TestReport) -> None:
    """Show an exception of ours: its text, behind it the sections, and no line of this package."""
    if report.outcome != "failed":
        return
    if item.get_closest_marker("distributed") is not None and not one_rank.inside:
        # no line of the test has run here: only the ranks have any to show
        report.longrepr = info.getrepr(style="value")
    shown: Any = report.longrepr
    if (crash := getattr(shown, "reprcrash", None)) is not None:
        crash.message = str(info.value).partition("\n")[0]
    if hasattr(shown, "addsection"):
        for title, text in getattr(info.value, "sections", ()):
            shown.addsection(title, text)


def assert_picklable(obj: object, *, mode: str = "pickle", name: str = "obj", confirm: bool = False) -> None:
    """As :func:`distcheck.assert_picklable`; the failure shows the test's line, and none of ours."""
    __tracebackhide__ = True
    from distcheck.checks.pickles.api import find_unpicklable

    report = find_unpicklable(obj, mode=mode, name=name, confirm=confirm)
    if not report.ok:
        raise AssertionError(str(report))
