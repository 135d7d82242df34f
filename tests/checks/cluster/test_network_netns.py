"""Roll call and reach between hosts in namespaces, with real faults in between: the right host is named."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest

from distcheck.checks.cluster.closed_ports import ports_are_open_between_hosts
from distcheck.checks.cluster.connectivity import join_reach
from distcheck.checks.cluster.network import mtu_is_equal
from distcheck.checks.cluster.records import Cluster, HostInterface, HostRecord, Reach, from_json
from distcheck.core.model import Finding, Severity, Unavailable
from tests.lab import Lab, finish

pytestmark = pytest.mark.netns

#: One host: calls the roll, opens its doors, tells the others by the roll's payloads, tries theirs, tells how it went.
HOST = """
import json, sys
from distcheck.checks.cluster.connectivity import Doors, Listener, peers_of, try_hosts
from distcheck.checks.cluster.records import from_json, to_json
from distcheck.checks.cluster.membership_check import call_roll
from distcheck.checks.cluster.membership_protocol import MembershipError

rank, count, address, first, timeout_s, low, high = sys.argv[1:8]
rank, count = int(rank), int(count)

def call(port, payload):
    return call_roll(
        host_count=count, node_rank=rank, address=first, port=port, timeout_s=float(timeout_s),
        name=f"node{rank}", payload=payload, nproc=1, key="lab",
    )

with Listener(f"node{rank}", address, low=int(low), high=int(high)) as listener:
    answer = call(29511, to_json(listener.card))
    sent = {"complete": answer.complete, "problems": [list(item) for item in answer.problems]}
    sent["missing"] = None if answer.roll is None else list(answer.roll.missing)
    sent["waited_s"] = None if answer.roll is None else answer.roll.waited_s
    if answer.complete:
        cards = [from_json(Doors, caller.payload) for caller in answer.callers]
        tried = try_hosts(listener.card, [cards[number] for number in peers_of(rank, count)], hosts=count, limit_s=3.0)
        sent["reach"] = to_json(tried)
        sent["together"] = call(29512, "").complete
    print(json.dumps(sent))
"""


class Run:
    """What the hosts of a lab sent."""

    def __init__(self, lab: Lab, sent: list[dict[str, object]]) -> None:
        self.lab = lab
        self.sent = sent

    @property
    def reach(self) -> Reach:
        assert all(one["complete"] and one["together"] for one in self.sent), self.sent
        return join_reach([from_json(Reach, str(one["reach"])) for one in self.sent])

    @property
    def cluster(self) -> Cluster:
        """The records of these hosts, as far as the network goes."""
        hosts = []
        for number, name in enumerate(self.lab.names):
            mtu = int(self.lab.run(number, "cat", "/sys/class/net/eth0/mtu"))
            address = f"{self.lab.address(number)}/255.255.255.0"
            interface = HostInterface("eth0", (address,), "veth", True, mtu, gloo=True, default_route=True)
            hosts.append(HostRecord(name, boot_id="one", interfaces=(interface,)))
        return Cluster(tuple(hosts), "gloo")

    def findings(self) -> list[Finding]:
        reach, cluster = self.reach, self.cluster
        return [*ports_are_open_between_hosts(cluster, reach), *mtu_is_equal(cluster, reach)]


def start(
    lab: Lab, rank: int, *, timeout_s: float = 20.0, low: int = 33000, high: int = 60000, first: str = ""
) -> subprocess.Popen[str]:
    count = str(len(lab.names))
    where = first or lab.names[0]
    return lab.python(rank, HOST, str(rank), count, lab.address(rank), where, str(timeout_s), str(low), str(high))


def run(lab: Lab, *, timeout_s: float = 20.0, low: int = 33000, high: int = 60000) -> Run:
    hosts = range(len(lab.names))
    processes = [start(lab, rank, timeout_s=timeout_s, low=low, high=high) for rank in hosts]
    sent = []
    for process in processes:
        status, out, err = finish(process, 3 * timeout_s + 20.0)
        assert status == 0, (status, out, err)
        sent.append(json.loads(out))
    assert lab.left_over() == []
    return Run(lab, sent)


@pytest.fixture
def two() -> Iterator[Lab]:
    with Lab(2) as lab:
        _leave_the_doors_alone(lab)
        yield lab


@pytest.fixture
def four() -> Iterator[Lab]:
    with Lab(4) as lab:
        _leave_the_doors_alone(lab)
        yield lab


def _leave_the_doors_alone(lab: Lab) -> None:
    """The hosts' own connections come from other ports, so that a rule about the doors meets nothing else."""
    for host in range(len(lab.names)):
        lab.set_port_range(host, 10000, 19999)


# healthy


@pytest.mark.parametrize("hosts", [2, 4])
def test_good_healthy_hosts_are_silent(hosts: int) -> None:
    with Lab(hosts, network=3) as lab:
        found = run(lab)
        assert found.reach.failed == ()
        assert found.reach.tried == hosts * (hosts - 1) * 6
        assert found.findings() == []


def test_good_a_slow_host_is_no_closed_one(two: Lab) -> None:
    two.slow_down(1, "20mbit")
    assert run(two).findings() == []


def test_good_large_frames_on_all_hosts(two: Lab) -> None:
    for host in (0, 1):
        two.set_mtu(host, 9000)
    assert run(two).findings() == []


# ports


def test_bad_dc412_a_host_drops_a_part_of_the_range(four: Lab) -> None:
    four.drop(2, "40000-50000")
    (finding,) = run(four).findings()
    assert (finding.code, finding.severity, finding.where.host) == ("DC412", Severity.ERROR, "node2")
    # the doors are drawn: one of them, or several, lie in that part
    assert re.search(r"3 other hosts can't connect to node2 on (?:port|ports from) 4\d{4}", finding.message)
    assert 40000 <= finding.evidence["lowest_port"] <= finding.evidence["highest_port"] <= 50000
    assert set(finding.evidence["outcomes"]) == {"timeout"}


def test_bad_dc412_a_host_drops_everything_above_the_masters_port(two: Lab) -> None:
    two.drop(1, "30000-65534")
    (finding,) = run(two).findings()
    assert (finding.code, finding.where.host) == ("DC412", "node1")
    assert "on any port that was tried" in finding.message


def test_bad_dc412_a_hosts_own_kernel_refuses(four: Lab) -> None:
    four.prohibit(3, "33000-60000")
    (finding,) = run(four).findings()
    assert (finding.code, finding.where.host) == ("DC412", "node3")
    assert finding.message.startswith("node3 can't connect to 3 other hosts")
    assert set(finding.evidence["outcomes"]) == {"no-route"}


def test_bad_dc412_answers_to_a_host_are_dropped(four: Lab) -> None:
    four.drop(1, "33000-60000", outgoing=True)
    (finding,) = run(four).findings()
    assert (finding.code, finding.where.host) == ("DC412", "node1")
    assert finding.message.startswith("node1 can't connect to 3 other hosts")


def test_bad_dc412_one_pair_only(four: Lab) -> None:
    four.drop(2, "33000-60000", peer=3)
    (finding,) = run(four).findings()
    assert finding.where.host == "node[2-3]"
    assert "connections fail from node3 to node2" in finding.message
    assert finding.evidence["one_way_pairs"] == 1


# frames


def test_bad_dc410_a_host_with_another_mtu(four: Lab) -> None:
    for host in (0, 1, 3):
        four.set_mtu(host, 9000)
    (finding,) = run(four).findings()
    assert (finding.code, finding.where.host) == ("DC410", "node2")
    assert "is 1500 bytes on node2 and 9000 on the other 3" in finding.message


def test_bad_dc410_a_switch_that_loses_large_frames(four: Lab) -> None:
    for host in range(4):
        # frame by frame, as a real card sends them: the kernel would hand over many at once
        four.run(host, "ip", "link", "set", "eth0", "gso_max_segs", "1")
        four.set_mtu(host, 9000, both_ends=host != 1)
    (finding,) = run(four).findings()
    assert (finding.code, finding.where.host) == ("DC410", "node1")
    assert "small packets pass and large blocks do not" in finding.message


# the roll


def test_bad_dc501_a_host_that_never_comes(four: Lab) -> None:
    processes = [start(four, rank, timeout_s=3.0) for rank in (0, 1, 3)]
    sent = [json.loads(finish(process)[1]) for process in processes]
    assert [one["missing"] for one in sent] == [[2]] * 3
    assert all(one["waited_s"] < 3.0 + 5.0 for one in sent)


def test_bad_dc501_a_host_whose_cable_is_out(four: Lab) -> None:
    four.cut(2)
    processes = [start(four, rank, timeout_s=5.0) for rank in range(4)]
    sent = [json.loads(finish(process)[1]) for process in processes]
    assert [one["missing"] for one in (sent[0], sent[1], sent[3])] == [[2]] * 3
    assert sent[2]["missing"] is None
    # the first packet gets no answer, and then the kernel knows that there is nobody in its own network
    assert sent[2]["problems"][0][0] in ("timeout", "no-route")


FAULTS: list[tuple[str, Callable[[Lab], None]]] = [
    ("timeout", lambda lab: lab.drop(0, "29511")),
    ("no-route", lambda lab: lab.prohibit(1, "29511")),
    ("refused", lambda lab: None),
]


@pytest.mark.parametrize(("kind", "fault"), FAULTS, ids=[kind for kind, _ in FAULTS])
def test_bad_dc403_the_first_host_can_not_be_reached(kind: str, fault: Callable[[Lab], None], two: Lab) -> None:
    fault(two)
    processes = [start(two, 1, timeout_s=5.0)]
    if kind != "refused":
        processes.append(start(two, 0, timeout_s=5.0))
    sent = [json.loads(finish(process)[1]) for process in processes]
    ((found, address, port, *_),) = sent[0]["problems"]
    assert (found, address, port) == (kind, two.address(0), 29511)
    if len(sent) > 1:
        assert sent[1]["missing"] == [1]


def test_bad_dc501_a_name_that_leads_back_to_the_host_itself(two: Lab) -> None:
    two.set_hosts_file(1, {"node0": "127.0.1.1"})
    processes = [start(two, rank, timeout_s=3.0) for rank in (0, 1)]
    sent = [json.loads(finish(process)[1]) for process in processes]
    assert sent[0]["missing"] == [1]
    kind, address, _, _, own = sent[1]["problems"][0]
    assert (kind, address, own) == ("refused", "127.0.1.1", True)


def test_bad_dc502_two_hosts_that_take_themselves_for_the_first(two: Lab) -> None:
    program = HOST.replace("rank, count = int(rank), int(count)", "rank, count = 0, int(count)")
    processes = [
        two.python(rank, program, "0", "2", two.address(rank), two.names[0], "12", "33000", "60000") for rank in (0, 1)
    ]
    sent = [json.loads(finish(process)[1]) for process in processes]
    assert [one["missing"] for one in sent] == [[1], [1]]
    # both know it long before the limit
    assert all(one["waited_s"] < 12 for one in sent)


def test_bad_a_host_that_is_cut_off_while_it_waits(four: Lab) -> None:
    """No end of the connection is told: the server notices that nothing is confirmed any more."""
    processes = [start(four, rank, timeout_s=25.0) for rank in (0, 1, 2)]
    assert processes[2].poll() is None
    # all three have called as soon as the fourth could; then one cable goes
    ready = four.python(3, "import time; time.sleep(2)")
    finish(ready)
    four.cut(2)
    sent = [json.loads(finish(process, 60.0)[1]) for process in processes[:2]]
    assert [one["missing"] for one in sent] == [[2, 3], [2, 3]]
    finish(processes[2], 60.0)


def test_good_nothing_is_known_without_tries() -> None:
    with pytest.raises(Unavailable):
        list(ports_are_open_between_hosts(Cluster(()), Reach(0, 2)))
