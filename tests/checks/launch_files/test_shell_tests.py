"""Whether a loop's variable names the host to which its body goes."""

from __future__ import annotations

import time

import pytest

from distcheck.checks.launch_files.shell_tests import names_a_host


@pytest.mark.parametrize(
    ("variable", "body"),
    [
        ("h", "ssh $h date"),
        ("h", 'ssh -p 22 -i key me@${h} "date"'),
        ("i", "ssh ${HOSTS[$i]} date"),
        ("i", 'H=${HOSTS[i]}\nssh "$H" date'),
        ("i", "ssh node$i date"),
        ("h", 'ssh "${SSH_OPTS[@]}" "${USER}@${h}" date'),
        ("h", "ip=$(getent hosts $h)\nssh $ip date"),
        ("h", "pdsh -w $h date"),
        ("h", "ssh \\\n  -t $h date"),
    ],
)
def test_it_does(variable: str, body: str) -> None:
    assert names_a_host(variable, body)


@pytest.mark.parametrize(
    "body",
    [
        'ssh node1 "train --seed $s"',
        "ssh node1 train --seed $s",
        "ssh -t node1 train $s",
        'ssh -o A=b $HEAD "train $s"',
        "echo $s; ssh node1 date",
        "ssh-keygen $s",
        "",
    ],
)
def test_it_does_not(body: str) -> None:
    assert not names_a_host("s", body)
    assert not names_a_host("", body)


@pytest.mark.parametrize("part", ["ssh -a b ", 'ssh "', 'X="${', "\nssh -o ", "\nssh" + " -a $OPT" * 9, "x"])
def test_a_long_body_is_read_in_time(part: str) -> None:
    begun = time.monotonic()
    names_a_host("s", part * (200_000 // len(part)))
    assert time.monotonic() - begun < 20
