"""What replaces a function has its names, so that pickle and numba find it where the function was."""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from distcheck.runtime.coordination.patching import stand_in, wrap


def double(value: int) -> int:
    """Return twice the value."""
    return 2 * value


class Counter:
    def count(self, value: int) -> int:
        return value


def one_more(real: Callable[..., int], *args: Any) -> int:
    return real(*args) + 1


@pytest.fixture
def shop() -> Iterator[ModuleType]:
    """A module that has ``double`` from elsewhere, as ``torch`` has ``torch.load``."""
    module: Any = ModuleType("shop_of_a_test")
    module.double, module.length, module.Counter = double, len, Counter
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


@pytest.mark.parametrize("name", ["double", "length"])
def test_a_replacement_is_pickled_by_the_name_of_its_module(shop: Any, name: str) -> None:
    if name == "length":
        shop.len = shop.length
        name = "len"
    wrap(shop, name, one_more)
    replaced = getattr(shop, name)
    assert replaced(*([3] if name == "double" else ["abc"])) in (7, 4)
    assert pickle.loads(pickle.dumps(replaced)) is replaced
    assert getattr(sys.modules[replaced.__module__], replaced.__name__) is replaced
    assert pickle.loads(pickle.dumps(functools.partial(replaced, "abcd"))).func is replaced


def test_a_function_that_is_replaced_where_it_was_made_keeps_its_names(
    monkeypatch: pytest.MonkeyPatch, shop: Any
) -> None:
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "double", double)
    wrap((shop, here), "double", one_more)
    assert shop.double is here.double
    assert (shop.double.__module__, shop.double.__doc__) == (__name__, "Return twice the value.")
    assert pickle.loads(pickle.dumps(shop.double)) is shop.double


def test_a_method_keeps_its_names(monkeypatch: pytest.MonkeyPatch, shop: Any) -> None:
    monkeypatch.setattr(Counter, "count", Counter.count)
    wrap(shop, "Counter.count", one_more)
    assert Counter().count(3) == 4
    assert (Counter.count.__module__, Counter.count.__qualname__) == (__name__, "Counter.count")


def test_what_a_class_owns_gets_no_module(shop: Any) -> None:
    def made() -> None:
        """Do nothing."""

    assert stand_in(made, double, Counter).__module__ == __name__
    assert stand_in(made, double, shop).__module__ == "shop_of_a_test"
