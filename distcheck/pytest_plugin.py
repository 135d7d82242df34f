"""The plug-in of pytest: ``--distcheck``, the mark ``distributed``, and the fixtures for tests of distributed code.

pytest imports this in every run of everybody who has distcheck installed: it imports nothing but pytest, and each hook
returns at once where it is not needed. The work is done in :mod:`distcheck.testing`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .testing.plugin import Distributed

_MARK = "distributed"
_MARK_HELP = (
    "distributed(n, *, timeout=None, init=True): run the test on n gloo ranks, each a process; n may be a list "
    "of numbers (distcheck)"
)
_LINT_MARK_HELP = "distcheck: what --distcheck adds to the tests (distcheck)"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("distcheck", "distributed training (distcheck)")
    group.addoption(
        "--distcheck", action="store_true", help="Lint the project as 'distcheck lint' does; findings fail as tests."
    )
    for name, text in (
        ("select", "With --distcheck: only these rules (DC701), prefixes (DC2), names, or ALL."),
        ("extend-select", "With --distcheck: rules to add to those that are on by default."),
        ("ignore", "With --distcheck: rules that keep silent."),
    ):
        group.addoption(f"--distcheck-{name}", action="append", default=[], metavar="CODES", help=text)
    group.addoption(
        "--distcheck-fail-on",
        choices=["error", "warning", "info"],
        help="With --distcheck: fail at findings of this severity or worse (else as configured, or at "
        "errors); milder ones are warnings of pytest.",
    )
    group.addoption(
        "--distcheck-timeout",
        type=float,
        metavar="SECONDS",
        help="Seconds that the ranks of a distributed test have (default: 60).",
    )
    parser.addini("distcheck_timeout", "Seconds that the ranks of a distributed test have (default: 60).")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK_HELP)
    config.addinivalue_line("markers", _LINT_MARK_HELP)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A mark with a list of numbers makes a test of each."""
    mark = metafunc.definition.get_closest_marker(_MARK)
    if mark is not None:
        from .testing.plugin import spread

        spread(metafunc, mark)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """What ``--distcheck`` finds stands in front of the tests, and is selected as they are (-k, -m)."""
    if config.getoption("distcheck"):
        from .testing.linting import checks

        items[:0] = checks(session, config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    mark = item.get_closest_marker(_MARK)
    if mark is not None:
        from .testing.plugin import refuse

        refuse(item, mark)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test with the mark is called on each rank instead of here."""
    mark = pyfuncitem.get_closest_marker(_MARK)
    if mark is None:
        return None
    from .testing.plugin import call_on_ranks

    return call_on_ranks(pyfuncitem, mark)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    outcome = yield
    if call.excinfo is not None and type(call.excinfo.value).__module__.startswith("distcheck.testing"):
        from .testing.plugin import add_sections

        add_sections(item, call.excinfo, outcome.get_result())


@pytest.fixture
def distributed(request: pytest.FixtureRequest) -> Distributed:
    """``distributed(n, body, *args, **kwargs)`` runs a function on n gloo ranks, and gives what each returned, by rank.

    A rank that fails, dies or hangs fails the test, with its traceback or stack. Options: ``timeout=`` (seconds),
    ``init=False`` (the body makes the process group itself), ``start="spawn"``. Skips without torch.
    """
    from .testing.plugin import Distributed

    return Distributed(request.config)


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that no other process gets by chance until the test is over; a server that sets SO_REUSEADDR can take it.

    More of them, and some for other servers: ``distcheck.testing.reserve_port()``.
    """
    from .testing.ports import reserve_port

    with reserve_port() as port:
        yield port.number


@pytest.fixture
def assert_picklable() -> Callable[..., None]:
    """``assert_picklable(obj, mode="pickle")`` fails with the path of every member that can't be pickled, and its cure.

    Modes: ``pickle``, ``torch.save``, ``deepcopy``, ``spawn``, ``collective``.
    """
    from .testing.plugin import assert_picklable

    return assert_picklable
