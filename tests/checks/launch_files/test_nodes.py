"""The nodes that a facts file describes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.limits import Limits
from distcheck.checks.host.platform import Platform
from distcheck.checks.launch_files.model import Nodes
from distcheck.checks.launch_files.nodes import NodesError, nodes_of_facts, parse_nodes, read_nodes
from distcheck.core.facts_file import dump_facts
from distcheck.core.model import NotApplicable, Unavailable

H100 = "NVIDIA H100 80GB HBM3"
FACTS: dict[type, object] = {
    Gpus: Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", H100) for index in range(8))),
    Platform: Platform("linux", cpus=192),
    Limits: Limits(memory_total_bytes=2 << 40, affinity=(0, 1)),
    Interfaces: Interfaces(
        (
            Interface("lo", ("127.0.0.1/255.0.0.0",), running=True, loopback=True),
            Interface("eth0", ("10.0.0.5/255.255.255.0",), running=True),
            Interface("eth1", ("10.0.1.5/255.255.255.0",), running=False),
            Interface("eth2"),
        )
    ),
}


def saved(facts: dict[type, object]) -> str:
    return dump_facts(facts, tool_version="1", saved_at="2026-01-01T00:00:00+00:00")


def test_what_was_saved_on_a_node_describes_it(tmp_path: Path) -> None:
    path = tmp_path / "h100.json"
    path.write_text(saved(FACTS), encoding="utf-8")
    assert read_nodes(str(path)) == Nodes(str(path), 8, 192, 2 << 40, ("lo", "eth0"), H100)


def test_the_cpus_are_those_of_the_host_and_not_those_that_were_left_to_the_command() -> None:
    assert parse_nodes(saved(FACTS), "x").cpus == 192


@pytest.mark.parametrize("missing", [Unavailable("no driver"), NotApplicable("none")])
def test_gpus_that_could_not_be_looked_at_are_not_none(missing: Unavailable) -> None:
    nodes = parse_nodes(saved({**FACTS, Gpus: missing}), "x")
    assert (nodes.gpus, nodes.gpu_name) == (None, None)
    assert parse_nodes(saved({**FACTS, Gpus: Gpus("nvidia", ())}), "x").gpus == 0


def test_facts_at_hand_need_no_file() -> None:
    assert nodes_of_facts({Platform: Platform("linux", cpus=4)}, "here") == Nodes("here", cpus=4)
    assert nodes_of_facts({}, "here") == Nodes("here")


def test_what_is_no_such_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NodesError, match="can't be read: No such file"):
        read_nodes(str(tmp_path / "none.json"))
    with pytest.raises(NodesError, match="it is a folder"):
        read_nodes(str(tmp_path))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NodesError, match="it is not text"):
        read_nodes(str(tmp_path / "binary"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is no JSON"),
        ("{}", "no facts file"),
        (json.dumps({**json.loads(saved({})), "schema_version": 99}), "schema version is 99"),
        (saved({}), "has neither GPUs nor CPUs nor memory"),
        (saved({Gpus: Unavailable("no driver")}), "has neither GPUs nor CPUs nor memory"),
    ],
)
def test_a_text_that_says_nothing_about_nodes_is_refused(text: str, why: str) -> None:
    with pytest.raises(NodesError, match=why):
        parse_nodes(text, "x")
