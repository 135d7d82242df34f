"""The tables of lint name each collective that the installed torch has, with its arguments where torch has them."""

import inspect
import re

import pytest

from distcheck.checks.source import collective_signatures as signatures
from distcheck.checks.source.collective_sequences import operation
from distcheck.checks.source.deprecated import TABLE
from distcheck.checks.source.vocabulary import COLLECTIVES, D

pytestmark = pytest.mark.torch


def _collectives():
    """Yield (name, names of its parameters) of each function of torch.distributed that can be asynchronous."""
    import torch.distributed as dist

    for name, function in sorted(vars(dist).items()):
        if inspect.isfunction(function) and not name.startswith("_"):
            parameters = list(inspect.signature(function).parameters)
            if "async_op" in parameters and "group" in parameters:
                yield name, parameters


def test_each_collective_of_torch_is_known_with_its_arguments():
    found = dict(_collectives())
    assert len(found) >= 12, sorted(found)
    # the operands of these are lists of lists or flattened first: no rule reads them by position
    coalesced = {"all_gather_coalesced", "all_reduce_coalesced"}
    for name, parameters in found.items():
        assert D + name in COLLECTIVES, name
        if name in coalesced:
            continue
        assert signatures.ASYNC[D + name] == parameters.index("async_op"), name
        assert signatures.GROUPS[D + name] == parameters.index("group"), name
        if "op" in parameters:
            assert signatures.OPERATIONS[D + name] == parameters.index("op"), name


def test_the_group_stands_where_torch_has_it():
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional_collectives
    import torch.distributed.nn.functional as functional

    compared = 0
    for dotted, position in signatures.GROUPS.items():
        package, _, name = dotted.removeprefix(D).rpartition(".")
        module = {
            "": dist, "nn": functional, "nn.functional": functional, "_functional_collectives": functional_collectives,
        }[package]  # fmt: skip
        function = getattr(module, name, None)
        if function is not None:
            compared += 1
            assert list(inspect.signature(function).parameters).index("group") == position, dotted
    assert compared >= 35, compared


def test_an_operation_of_two_names_is_one():
    import torch.distributed as dist

    for new, old in (
        ("all_gather_single", "all_gather_into_tensor"),
        ("reduce_scatter_single", "reduce_scatter_tensor"),
    ):
        if hasattr(dist, new):
            assert operation(D + new) == operation(D + old)


def test_what_torch_calls_deprecated_is_answered_with_the_name_that_torch_gives():
    import torch.distributed.nn.functional as functional

    advice = {row.name: row.instead for row in TABLE}
    # the calls that warn: the name that is deprecated, and the one to take instead
    said = re.findall(
        r"_deprecated\(\s*\"(\w+)\",\s*\"torch\.distributed\._functional_collectives\.(\w+)\"",
        inspect.getsource(functional),
    )
    assert len(said) >= 5, said
    for name, instead in said:
        assert f"_functional_collectives.{instead}()" in advice[f"{D}nn.functional.{name}"], name
