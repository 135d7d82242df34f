"""The jobs of this package, each run once a session, several side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from .bench import Bench, Recording
from .hosts import Hosts, Scenario, two_hosts
from .jobs import BY_NAME, Job

#: Most of a job's time is waiting, or the import of torch; more at once make each slower than its own limits allow.
_AT_ONCE = 2 * (os.cpu_count() or 1)


class Recordings:
    """Runs jobs, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bench: Bench | None = None
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._futures: dict[str, Future[Recording]] = {}
        self._lock = threading.Lock()
        #: one after the other: they share two hosts, and each breaks the network in its own way
        self._one = ThreadPoolExecutor(1)
        self._stack = ExitStack()
        self._hosts: Hosts | None = None

    def begin(self, name: str) -> Future[Recording]:
        """Run a job in the background."""
        with self._lock:
            if self._bench is None:
                self._bench = Bench()
            if name not in self._futures:
                self._futures[name] = self._pool.submit(BY_NAME[name].make, [self._bench], self._folder / name)
            return self._futures[name]

    def get(self, name: str) -> Recording:
        """What a job printed."""
        return self.begin(name).result()

    def begin_on_hosts(self, scenario: Scenario) -> Future[Recording]:
        """Run a job on two hosts in the background."""
        with self._lock:
            if scenario.name not in self._futures:
                self._futures[scenario.name] = self._one.submit(self._run_on_hosts, scenario)
            return self._futures[scenario.name]

    def on_hosts(self, scenario: Scenario) -> Recording:
        """What a job on two hosts printed."""
        return self.begin_on_hosts(scenario).result()

    def _run_on_hosts(self, scenario: Scenario) -> Recording:
        if self._hosts is None:
            self._hosts = self._stack.enter_context(two_hosts())
        return scenario.make(self._hosts, self._folder / scenario.name)

    def close(self) -> None:
        """End what still runs."""
        for future in self._futures.values():
            future.cancel()
        self._pool.shutdown()
        self._one.shutdown()
        self._stack.close()
        if self._bench is not None:
            self._bench.close()


@pytest.fixture(scope="session")
def recordings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recordings]:
    """The output of the jobs; those that the selected tests need are begun at once, in the order of the tests."""
    made = Recordings(tmp_path_factory.mktemp("jobs"))
    for item in request.session.items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or item.get_closest_marker("skip") is not None:
            continue
        if isinstance(job := callspec.params.get("job"), Job):
            made.begin(job.name)
        if isinstance(scenario := callspec.params.get("scenario"), Scenario):
            made.begin_on_hosts(scenario)
    yield made
    made.close()
