"""Plain data out of a pickle, without making anything that it names."""

from __future__ import annotations

import pickle

import pytest

from distcheck.checks.pickles.literals import Instance, UnreadableError, read_value
from distcheck.checks.pickles.source_bytes import BytesSource
from distcheck.checks.pickles.trace import Global


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value",
    [5, -1, 2**70, True, None, "key", ("a", 1, (2,)), ["0", "1"], {"shape": (3, 4)}, {"a": {"b": []}}],
    ids=repr,
)
def test_values_as_they_were(value: object, protocol: int) -> None:
    content = pickle.dumps(value, protocol)
    assert read_value(BytesSource(b"xx" + content + b"rest"), 2) == (value, 2 + len(content))


@pytest.mark.parametrize("protocol", range(6))
def test_names_are_not_looked_up(protocol: int) -> None:
    value, _ = read_value(BytesSource(pickle.dumps(complex(1, 2), protocol)))
    assert isinstance(value, Instance)
    assert isinstance(value.function, Global)
    assert value.function.name == "complex"


def test_long_strings_and_lists_are_not_kept() -> None:
    value, _ = read_value(BytesSource(pickle.dumps(["x" * 10_000, *range(500)])))
    assert len(value) == 100
    assert not isinstance(value[0], str)
    assert len(read_value(BytesSource(pickle.dumps(list(range(500)))), items=1000)[0]) == 500


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b".", b"0.", b"\x86.", b"t.", b"h\x05.", b"]a.", b"}s.", b"\xff", b"X\xff\xff\xff\x7fa.", b"Iword\n.",
                b"R.", b"\x81.", b"b.", b"\x93.", b"(o.", b"I1", b"\x82\x01.", b"(" * 50]
)  # fmt: skip
def test_what_is_no_plain_data_is_an_error_of_ours(content: bytes) -> None:
    with pytest.raises(UnreadableError):
        read_value(BytesSource(content))


def test_it_ends() -> None:
    with pytest.raises(UnreadableError, match="too long"):
        read_value(BytesSource(b"N0" * 1000 + b"N."), opcodes=100)
