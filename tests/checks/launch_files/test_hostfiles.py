"""Hostfiles of DeepSpeed and of MPI."""

from __future__ import annotations

import pytest

from distcheck.checks.launch_files.hostfiles import read_hostfile


def test_hosts_with_their_slots_and_places() -> None:
    file = read_hostfile("conf/hostfile", "# nodes\nworker-1 slots=8\r\n\n  worker-2 slots=4 max_slots=8 # small\n")
    assert [(host.host, host.slots, host.span.line, host.span.column) for host in file.hosts] == [
        ("worker-1", 8, 2, 1),
        ("worker-2", 4, 4, 3),
    ]
    assert file.comments == ((1, "# nodes"), (4, "# small"))


@pytest.mark.parametrize(
    ("line", "host", "slots"),
    [
        ("10.0.0.1 slots=8", "10.0.0.1", 8),
        ("n1", "n1", None),
        ("n1:4", "n1", 4),
        ("n1 slots = 2", "n1", 2),
        ("[fe80::1] slots=2", "[fe80::1]", 2),
        ("n1 max_slots=8", "n1", None),
    ],
)
def test_spellings_of_a_line(line: str, host: str, slots: int | None) -> None:
    assert [(one.host, one.slots) for one in read_hostfile("hostfile", line).hosts] == [(host, slots)]


def test_a_line_of_a_million_characters_takes_no_time() -> None:
    assert read_hostfile("hostfile", "n1 " + "slots " * 200_000).hosts[0].slots is None
