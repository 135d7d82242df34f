"""No wait is longer than the time that is left, however seldom it looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from distcheck.runtime.coordination import store_client
from distcheck.runtime.coordination.store_client import TorchStoreClient
from distcheck.runtime.smoke_test import driver


class Clock:
    """A clock that goes on where somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(store_client, "time", clock)
    monkeypatch.setattr(driver, "time", clock)
    return clock


@pytest.mark.parametrize("clients", [1, 16384])
def test_a_key_that_never_comes(clock: Clock, monkeypatch: pytest.MonkeyPatch, clients: int) -> None:
    class TooLate(Exception):  # noqa: N818 - stands for torch's error
        pass

    class Store:
        def wait(self, _: list[str], limit: timedelta) -> None:
            clock.sleep(limit.total_seconds())
            raise TooLate

    torch = ModuleType("torch.distributed")
    torch.DistStoreError = TooLate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.distributed", torch)
    asked = TorchStoreClient(Store(), "test", clients=clients, set_limit=False)
    begun = clock.now
    assert asked.wait("key", 0.6) is None
    assert clock.now - begun == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize(("seconds", "waited"), [(None, 0.5), (0.2, 0.2)])
def test_a_phase_that_does_not_end(clock: Clock, seconds: float | None, waited: float) -> None:
    class Driver(driver.PhaseDriver):
        def __init__(self) -> None:
            self.phase, self.begun, self.limit, self.pause_s = "verify", clock.now, 0.5, 60.0

        def _tick(self, seconds: float) -> None:
            clock.sleep(seconds)

    begun = clock.now

    def never() -> Any:
        return None

    with pytest.raises(driver.PhaseFailure, match="verify did not end within"):
        Driver()._until(never, seconds)
    assert clock.now - begun == pytest.approx(waited, abs=0.001)
