"""Host lists: the reverse of launch/schedulers.expand_hostlist."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.cluster.hostlist import compress_hosts, place_ranks, shorten_hosts
from distcheck.launch.schedulers import expand_hostlist


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["gpu07"], "gpu07"),
        (["gpu31", "gpu07"], "gpu[07,31]"),
        ([*(f"gpu{index:02}" for index in range(1, 41)), "login1"], "gpu[01-40],login1"),
        (["gpu8", "gpu9", "gpu10", "gpu11"], "gpu[8-11]"),
        (["gpu08", "gpu09", "gpu10"], "gpu[08-10]"),
        (["gpu98", "gpu99", "gpu100"], "gpu[98-100]"),
        (["n1.example.org", "n2.example.org"], "n[1-2].example.org"),
        (["n1", "n1", "n1"], "n1"),
        (["n1", "n01"], "n[1,01]"),
        (["alpha", "beta"], "alpha,beta"),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], "10.0.0.[1-3]"),
        ([f"rack{a}-gpu{b:02}" for a in (0, 1) for b in range(1, 9)], "rack[0-1]-gpu[01-08]"),
        (["ip-10-0-1-17", "ip-10-0-1-18", "ip-10-0-2-9"], "ip-10-0-1-[17-18],ip-10-0-2-9"),
        (["node-" + "9" * 30], "node-" + "9" * 30),
    ],
)
def test_names_become_a_list(names: list[str], text: str) -> None:
    assert compress_hosts(names) == text


NAMES = st.from_regex(r"[a-z]{0,3}[0-9]{0,3}(-[a-z0-9]{1,4})?(\.[a-z0-9]{1,3})?", fullmatch=True).filter(bool)


@given(st.lists(NAMES, max_size=40))
def test_a_list_gives_its_names_back(names: list[str]) -> None:
    assert sorted(expand_hostlist(compress_hosts(names))) == sorted(set(names))


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=200), st.integers(1, 5))
def test_numbers_keep_their_zeros(numbers: list[int], width: int) -> None:
    names = {f"gpu{number:0{width}}" for number in numbers}
    assert set(expand_hostlist(compress_hosts(names))) == names


@given(st.lists(NAMES, min_size=1, max_size=60), st.integers(5, 80))
def test_a_short_list_names_some_and_counts_the_rest(names: list[str], most: int) -> None:
    shown, _, more = shorten_hosts(names, most).partition(" and ")
    named = expand_hostlist(shown)
    assert named
    assert set(named) <= set(names)
    assert len(named) + int(more.removesuffix(" more") or 0) == len(set(names))


def test_a_list_that_fits_is_not_cut() -> None:
    assert shorten_hosts([f"gpu{index:02}" for index in range(1, 41)]) == "gpu[01-40]"
    assert shorten_hosts([]) == ""


def test_a_list_that_does_not_fit_is_cut_at_a_range() -> None:
    odd = [f"gpu{index:04}" for index in range(1, 2000, 2)]
    assert shorten_hosts(odd, 30) == "gpu[0001,0003,0005,0007,0009] and 995 more"
    assert len(shorten_hosts(odd)) < 80


def test_sixteen_thousand_names_take_no_time_to_speak_of() -> None:
    names = [f"rack{index // 64:03}-gpu{index % 64:02}.example" for index in range(16384)]
    start = time.perf_counter()
    assert compress_hosts(names) == "rack[000-255]-gpu[00-63].example"
    assert shorten_hosts(names[::3])
    assert time.perf_counter() - start < 10


def test_a_location_names_all_ranks_of_a_small_job_and_some_of_a_large_one() -> None:
    assert place_ranks([]) is None
    assert place_ranks(iter([3, 1, 2])) == "1-3"
    assert place_ranks(range(1, 64, 2)) == ",".join(map(str, range(1, 64, 2)))
    assert place_ranks(range(1, 66, 2)) == "1,3,5,7,9,11,13,15"
