"""The network as all hosts see it: interfaces, MTUs, ports and RDMA side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations

import pytest

from distcheck.checks.cluster.closed_ports import ports_are_open_between_hosts
from distcheck.checks.cluster.connectivity import DOORS, peers_of
from distcheck.checks.cluster.network import containers_share_a_network, interfaces_lead_to_each_other, mtu_is_equal
from distcheck.checks.cluster.rdma import plugins_are_alike, rdma_ports_are_alike
from distcheck.checks.cluster.records import Cluster, ConnectionAttempt, HostInterface, HostRdmaPort, HostRecord, Reach
from distcheck.core.model import Finding, Severity, Unavailable

from .synthetic import cluster, loud, report

PORTS = (32768, 39000, 44000, 49000, 53000, 60999)
NO_REACH = Unavailable("no connections were tried")


def reach(hosts: int, failed: Iterable[ConnectionAttempt] = ()) -> Reach:
    """Every host tried all doors of the hosts that it has to try."""
    complete = hosts <= 32
    doors = DOORS if complete else 2
    return Reach(hosts * len(peers_of(0, hosts)) * doors, hosts, tuple(failed), complete, doors, PORTS[0], PORTS[-1])


def block(
    *pairs: tuple[int, int], outcome: str = "timeout", ports: Iterable[int] = PORTS, error: str | None = None
) -> list[ConnectionAttempt]:
    """Connections of hosts by number that failed."""
    return [
        ConnectionAttempt(f"gpu{a + 1:02}", f"gpu{b + 1:02}", f"10.0.0.{b}", port, outcome, error)
        for a, b in pairs
        for port in ports
    ]


def to(host: int, hosts: int) -> list[tuple[int, int]]:
    return [(other, host) for other in range(hosts) if other != host]


def away(host: int, hosts: int) -> list[tuple[int, int]]:
    return [(host, other) for other in range(hosts) if other != host]


def on(*interfaces: HostInterface, **changes: object) -> Callable[[HostRecord], HostRecord]:
    return lambda record: record._replace(interfaces=interfaces, **changes)  # type: ignore[arg-type]


def carrier(
    name: str, address: str, mtu: int | None = 9000, kind: str = "ethernet", carries: bool = True
) -> HostInterface:
    return HostInterface(name, (address,), kind, True, mtu, nccl=carries, gloo=carries)


def only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    return finding


# healthy sets


@pytest.mark.parametrize("hosts", [1, 2, 4, 40])
@pytest.mark.parametrize("backend", ["nccl", "gloo", None])
def test_good_equal_hosts_are_silent(hosts: int, backend: str | None) -> None:
    found = report(cluster(hosts, backend=backend), reach=reach(hosts) if hosts > 1 else None)
    assert [item for item in found.findings if item.code.startswith(("DC334", "DC4"))] == []
    assert not [item for item in found.probes if item.status == "failed"]


def test_good_hosts_without_gpus_and_rdma_are_silent() -> None:
    plain = cluster(3, backend="gloo", spoil={n: lambda host: host._replace(gpus=(), rdma_ports=()) for n in range(3)})
    assert loud(report(plain, reach=reach(3))) == []


def test_good_interface_names_may_differ() -> None:
    given = cluster(3, spoil={n: on(carrier(f"ens{n}f0", f"10.0.0.{n}/8")) for n in range(3)})
    for one in (reach(3), NO_REACH):
        assert not list(interfaces_lead_to_each_other(given, one))
        assert not list(mtu_is_equal(given, one))


def test_good_ipv6_alone() -> None:
    given = cluster(3, spoil={n: on(carrier("eth0", f"fd00::{n + 1}/64")) for n in range(3)})
    for one in (reach(3), NO_REACH):
        assert not list(interfaces_lead_to_each_other(given, one))
        assert not list(mtu_is_equal(given, one))


def test_good_routed_subnets_that_reach_each_other() -> None:
    given = cluster(3, spoil={n: on(carrier("eth0", f"10.{n}.0.5/255.255.255.0")) for n in range(3)})
    for one in (reach(3), NO_REACH):
        assert not list(interfaces_lead_to_each_other(given, one))


def test_good_containers_with_the_hosts_network() -> None:
    given = cluster(3, spoil={n: lambda host: host._replace(container="docker") for n in range(3)})
    assert loud(report(given, reach=reach(3))) == []


def test_good_pods_reach_each_other_over_veth() -> None:
    spoil = {n: on(carrier("eth0", f"10.244.{n}.7/24", 1450, "veth"), container="kubernetes") for n in range(3)}
    given = cluster(3, spoil=spoil)
    for one in (reach(3), NO_REACH):
        assert not list(containers_share_a_network(given, one))
        assert not list(interfaces_lead_to_each_other(given, one))


# DC406


def test_bad_dc406_one_host_listens_in_another_network() -> None:
    wrong = on(carrier("eth1", "192.168.5.7/24"), carrier("eth0", "10.0.0.3/8", carries=False))
    given = cluster(4, spoil={3: wrong})
    tried = reach(4, block(*to(3, 4), *away(3, 4)))
    finding = only(interfaces_lead_to_each_other(given, tried))
    assert (finding.code, finding.severity, finding.where.host) == ("DC406", Severity.ERROR, "gpu04")
    assert finding.message.startswith(
        "NCCL takes eth1 (192.168.5.7) on gpu04, which does not reach the others; eth0 lies"
    )
    assert finding.fix.command == "export NCCL_SOCKET_IFNAME==eth0"
    # one trouble, one finding
    assert not list(ports_are_open_between_hosts(given, tried))


def test_bad_dc406_gloo_of_two_hosts() -> None:
    wrong = on(carrier("docker0", "172.17.0.1/16", kind="bridge"), carrier("eth0", "10.0.0.1/8", carries=False))
    given = cluster(2, backend="gloo", spoil={1: wrong})
    tried = reach(2, block((0, 1), (1, 0)))
    finding = only(interfaces_lead_to_each_other(given, tried))
    assert (finding.where.host, finding.where.variable) == ("gpu02", "GLOO_SOCKET_IFNAME")
    assert finding.fix.command == "export GLOO_SOCKET_IFNAME=eth0"
    assert not list(ports_are_open_between_hosts(given, tried))


def test_bad_dc406_gloo_where_names_differ_has_no_command() -> None:
    wrong = on(carrier("eth1", "192.168.5.7/24"), carrier("ens3", "10.0.0.3/8", carries=False))
    given = cluster(4, backend="gloo", spoil={3: wrong})
    finding = only(interfaces_lead_to_each_other(given, reach(4, block(*to(3, 4)))))
    assert finding.fix.command is None
    assert "on each host its own" in finding.fix.text


def test_bad_dc406_ipv4_and_ipv6() -> None:
    both = carrier("eth0", "fd00::9/64")._replace(addresses=("fd00::9/64", "10.0.0.9/8"))
    given = cluster(3, spoil={2: on(both)})
    finding = only(interfaces_lead_to_each_other(given, NO_REACH))
    assert (finding.severity, finding.where.host) == (Severity.WARNING, "gpu03")
    assert finding.fix.command == "export NCCL_SOCKET_FAMILY=AF_INET"
    tried = reach(3, block(*to(2, 3), outcome="no-route", error="Network is unreachable"))
    assert only(interfaces_lead_to_each_other(given, tried)).severity is Severity.ERROR
    assert not list(ports_are_open_between_hosts(given, tried))


def test_bad_dc406_no_address_of_the_usual_family() -> None:
    finding = only(interfaces_lead_to_each_other(cluster(3, spoil={2: on(carrier("eth0", "fd00::9/64"))}), NO_REACH))
    assert (finding.fix.by, finding.fix.command) == ("admin", None)


def test_bad_dc406_one_address_on_two_machines() -> None:
    """The network that a board's own controller offers over USB is the same on all machines."""
    given = cluster(3, spoil={n: on(carrier("usb0", "169.254.3.1/24", 1500)) for n in range(3)})
    finding = only(interfaces_lead_to_each_other(given, NO_REACH))
    assert (finding.severity, finding.where.host) == (Severity.WARNING, "gpu[01-03]")
    assert "169.254.3.1 stands there on 3 machines" in finding.message
    tried = reach(3, block(*permutations(range(3), 2), outcome="failed", error="another program answers there"))
    assert only(interfaces_lead_to_each_other(given, tried)).severity is Severity.ERROR
    assert not list(ports_are_open_between_hosts(given, tried))


def test_good_dc406_one_address_in_two_containers_of_one_machine() -> None:
    same = on(carrier("eth0", "10.1.1.1/24"), boot_id="b00t")
    assert not list(interfaces_lead_to_each_other(cluster(2, spoil={0: same, 1: same}), NO_REACH))


def test_good_dc406_what_a_host_has_said_itself_is_not_said_again() -> None:
    wrong = on(carrier("docker0", "172.17.0.1/16", kind="bridge"), carrier("eth0", "10.0.0.3/8", carries=False))
    given = cluster(4, spoil={3: wrong})
    tried = reach(4, block(*to(3, 4), *away(3, 4)))
    assert not list(interfaces_lead_to_each_other(given, tried))
    assert not list(ports_are_open_between_hosts(given, tried))


def test_good_dc406_without_a_launch() -> None:
    given = cluster(3, spoil={2: on(carrier("eth0", "fd00::9/64"))}, launched=False)
    assert not list(interfaces_lead_to_each_other(given, NO_REACH))


# DC411


def contained(*numbers: int, name: str = "172.17.0.{}") -> dict[int, Callable[[HostRecord], HostRecord]]:
    return {n: on(carrier("eth0", name.format(n + 2) + "/16", 1500, "veth"), container="docker") for n in numbers}


def test_bad_dc411_containers_in_dockers_own_network() -> None:
    given = cluster(2, spoil=contained(0, 1))
    for one in (NO_REACH, reach(2, block((0, 1), (1, 0), outcome="refused"))):
        finding = only(containers_share_a_network(given, one))
        assert (finding.code, finding.severity, finding.where.host) == ("DC411", Severity.WARNING, "gpu[01-02]")
        assert "--network=host" in finding.fix.text
        if isinstance(one, Reach):
            assert not list(ports_are_open_between_hosts(given, one))


def test_bad_dc411_any_network_of_a_container_that_is_cut_off() -> None:
    given = cluster(4, spoil=contained(3, name="172.21.0.{}"))
    finding = only(containers_share_a_network(given, reach(4, block(*to(3, 4)))))
    assert finding.where.host == "gpu04"
    assert not list(containers_share_a_network(given, NO_REACH)), "an overlay between machines looks alike"


def test_good_dc411_an_overlay_that_works() -> None:
    given = cluster(3, spoil=contained(0, 1, 2))
    assert not list(containers_share_a_network(given, reach(3)))


def test_good_dc411_containers_of_one_machine() -> None:
    spoil = {
        n: lambda host, change=change: change(host)._replace(boot_id="b00t") for n, change in contained(0, 1).items()
    }
    assert not list(containers_share_a_network(cluster(2, spoil=spoil), NO_REACH))


def test_good_dc411_without_a_launch() -> None:
    assert not list(containers_share_a_network(cluster(2, spoil=contained(0, 1), launched=False), NO_REACH))


# DC410


def test_bad_dc410_one_host_has_another_mtu() -> None:
    given = cluster(4, spoil={2: on(carrier("eth0", "10.0.0.2/8", 1500))})
    for one in (NO_REACH, reach(4)):
        finding = only(mtu_is_equal(given, one))
        assert (finding.code, finding.severity, finding.where.host) == ("DC410", Severity.WARNING, "gpu03")
        assert "is 1500 bytes on gpu03 and 9000 on the other 3" in finding.message
        assert finding.evidence["hosts_by_mtu_bytes"] == {"9000": 3, "1500": 1}


def test_bad_dc410_two_hosts_are_both_named() -> None:
    finding = only(mtu_is_equal(cluster(2, spoil={1: on(carrier("eth0", "10.0.0.1/8", 1500))}), NO_REACH))
    assert finding.where.host == "gpu[01-02]"
    assert "1500 bytes on gpu02, 9000 bytes on gpu01" in finding.message


def test_bad_dc410_large_blocks_stall() -> None:
    stalled = block(*away(1, 4), outcome="stalled", ports=(PORTS[0],))
    finding = only(mtu_is_equal(cluster(4), reach(4, stalled)))
    assert finding.where.host == "gpu02"
    assert "small packets pass and large blocks do not: from gpu02 to gpu01" in finding.message
    assert not list(ports_are_open_between_hosts(cluster(4), reach(4, stalled))), "no port is closed"
    differ = cluster(4, spoil={1: on(carrier("eth0", "10.0.0.1/8", 1500))})
    assert "don't pass" in only(mtu_is_equal(differ, reach(4, stalled))).message


def test_good_dc410_networks_that_a_router_joins() -> None:
    given = cluster(4, spoil={2: on(carrier("eth0", "192.168.0.2/24", 1500))})
    assert only(mtu_is_equal(given, reach(4))).severity is Severity.INFO


def test_good_dc410_only_what_carries_traffic_counts() -> None:
    given = cluster(
        3,
        spoil={
            2: on(carrier("eth0", "10.0.0.2/8"), carrier("docker0", "172.17.0.1/16", 1500, "bridge", carries=False))
        },
    )
    assert not list(mtu_is_equal(given, reach(3)))


def test_good_dc410_not_known_is_not_checked() -> None:
    given = cluster(2, spoil={n: on(carrier("eth0", f"10.0.0.{n}/8", None)) for n in range(2)})
    with pytest.raises(Unavailable, match="no host knows the MTU"):
        list(mtu_is_equal(given, reach(2)))


# DC412


def blocked(hosts: int, failed: list[ConnectionAttempt], given: Cluster | None = None) -> list[Finding]:
    return list(ports_are_open_between_hosts(given or cluster(hosts), reach(hosts, failed)))


@pytest.mark.parametrize("hosts", [3, 4, 32])
def test_bad_dc412_a_host_that_nobody_reaches(hosts: int) -> None:
    finding = only(blocked(hosts, block(*to(1, hosts))))
    assert (finding.code, finding.severity, finding.where.host) == ("DC412", Severity.ERROR, "gpu02")
    assert finding.message.startswith(f"{hosts - 1} other hosts can't connect to gpu02 on any port that was tried")
    assert "incoming TCP on it" in finding.fix.text
    assert finding.evidence["one_way_pairs"] == hosts - 1


def test_bad_dc412_a_part_of_the_ports() -> None:
    finding = only(blocked(4, block(*to(1, 4), ports=PORTS[2:4])))
    assert "on ports from 44000 to 49000, while others of 32768-60999 are open" in finding.message
    assert (finding.evidence["lowest_port"], finding.evidence["highest_port"]) == (44000, 49000)


def test_bad_dc412_a_host_that_reaches_nobody() -> None:
    finding = only(blocked(4, block(*away(2, 4), outcome="no-route", error="Permission denied")))
    assert finding.where.host == "gpu03"
    assert finding.message.startswith("gpu03 can't connect to 3 other hosts")
    assert finding.message.endswith("Permission denied")
    assert "on gpu03 which way it takes" in finding.fix.text


def test_bad_dc412_a_host_that_is_cut_off() -> None:
    finding = only(blocked(4, block(*to(3, 4), *away(3, 4))))
    assert finding.where.host == "gpu04"
    assert "in either direction" in finding.message


def test_bad_dc412_several_hosts_behind_a_firewall() -> None:
    failed = block(*(pair for host in (1, 4) for pair in to(host, 8)))
    finding = only(blocked(8, failed))
    assert finding.where.host == "gpu[02,05]"


def test_bad_dc412_two_hosts() -> None:
    finding = only(blocked(2, block((0, 1))))
    assert finding.where.host == "gpu02"
    assert "1 other host can't connect to gpu02" in finding.message
    finding = only(blocked(2, block((0, 1), outcome="no-route", error="Permission denied")))
    assert finding.where.host == "gpu01"


def test_bad_dc412_one_pair() -> None:
    finding = only(blocked(5, block((1, 3))))
    assert finding.where.host == "gpu[02,04]"
    assert "connections fail from gpu02 to gpu04" in finding.message


def test_bad_dc412_all_hosts_are_closed() -> None:
    failed = block(*permutations(range(6), 2), ports=PORTS[3:])
    finding = only(blocked(6, failed))
    assert finding.message.startswith("no host can connect to another (6 hosts) on ports from 49000 to 60999")
    assert finding.where.host == "gpu[01-06]"


def test_bad_dc412_two_groups() -> None:
    failed = block(*((a, b) for a, b in permutations(range(6), 2) if (a < 3) != (b < 3)))
    finding = only(blocked(6, failed))
    assert "fall into groups that don't reach each other: gpu[01-03] | gpu[04-06]" in finding.message


def test_bad_dc412_one_of_thousands() -> None:
    hosts = 1024
    triers = [(number, 700) for number in range(hosts) if 700 in peers_of(number, hosts)]
    finding = only(blocked(hosts, block(*triers, ports=PORTS[:2]), cluster(1)))
    assert finding.where.host == "gpu701"
    assert len(finding.message) < 200


def test_bad_dc412_every_second_host_of_thousands_stays_short() -> None:
    hosts = 2048
    failed = block(
        *((number, peer) for number in range(hosts) for peer in peers_of(number, hosts) if peer % 2), ports=PORTS[:2]
    )
    findings = blocked(hosts, failed, cluster(1))
    assert 0 < len(findings) < 4
    assert all(len(str(finding.evidence)) < 2000 and len(finding.message) < 300 for finding in findings)


def test_good_dc412_a_busy_host_is_no_closed_one() -> None:
    """A connection that is made and not answered in time, one of many."""
    assert blocked(4, block((0, 1), outcome="failed", ports=PORTS[:1], error="connected, and no answer came")) == []


def test_bad_dc412_connections_that_are_made_and_never_answered_at_all() -> None:
    assert blocked(4, block(*to(1, 4), outcome="failed", error="connected, and no answer came"))


def test_good_dc412_nobody_could_be_tried_is_not_checked() -> None:
    with pytest.raises(Unavailable, match="no host had an address"):
        list(ports_are_open_between_hosts(cluster(2), Reach(0, 2)))


def test_good_dc412_without_records() -> None:
    assert not list(ports_are_open_between_hosts(Unavailable("no records"), reach(4)))
    assert list(ports_are_open_between_hosts(Unavailable("no records"), reach(4, block(*to(1, 4)))))


# DC413 and DC414


def with_ports(*ports: HostRdmaPort, **changes: object) -> Callable[[HostRecord], HostRecord]:
    return lambda record: record._replace(rdma_ports=ports, **changes)  # type: ignore[arg-type]


def cards(count: int = 8, state: str = "ACTIVE", rate: float = 400.0, **changes: object) -> tuple[HostRdmaPort, ...]:
    return tuple(
        HostRdmaPort(f"mlx5_{i}", 1, state, "InfiniBand", rate)._replace(**changes)  # type: ignore[arg-type]
        for i in range(count)
    )


def test_bad_dc413_a_host_without_rdma() -> None:
    finding = only(rdma_ports_are_alike(cluster(4, spoil={1: with_ports()})))
    assert (finding.code, finding.severity, finding.where.host) == ("DC413", Severity.WARNING, "gpu02")
    assert "gpu02 has no RDMA ports, and 3 hosts with the same GPUs have 8" in finding.message


def test_bad_dc413_a_host_that_lost_a_card() -> None:
    finding = only(rdma_ports_are_alike(cluster(4, spoil={1: with_ports(*cards(7))})))
    assert "gpu02 has 7 RDMA ports" in finding.message


def test_bad_dc413_of_two_hosts() -> None:
    assert only(rdma_ports_are_alike(cluster(2, spoil={1: with_ports()}))).where.host == "gpu02"


def test_bad_dc414_a_port_that_most_have_up() -> None:
    """A host whose only port is down can't tell that it should not be."""
    given = cluster(4, spoil={n: with_ports(*cards(1)) for n in range(4)})
    given = given._replace(hosts=(*given.hosts[:3], given.hosts[3]._replace(rdma_ports=cards(1, "DOWN"), settings={})))
    given = given._replace(hosts=tuple(host._replace(settings={}) for host in given.hosts))
    finding = only(rdma_ports_are_alike(given))
    assert (finding.code, finding.severity, finding.where.host) == ("DC414", Severity.WARNING, "gpu04")
    assert finding.message.startswith("mlx5_0:1 is DOWN on gpu04 and ACTIVE on most of 4 hosts")


def test_bad_dc414_a_port_at_half_the_rate() -> None:
    slow = with_ports(*cards(7), HostRdmaPort("mlx5_7", 1, "ACTIVE", "InfiniBand", 200.0))
    finding = only(rdma_ports_are_alike(cluster(4, spoil={2: slow})))
    assert finding.message == (
        "mlx5_7:1 runs at 200 Gbit/s on gpu03 and at 400 Gbit/s on most of 4 hosts with the same GPUs"
    )


def test_good_dc414_what_a_host_has_said_itself_is_not_said_again() -> None:
    # seven of eight are up: the host has wondered about the eighth by itself
    down = with_ports(*cards(7), HostRdmaPort("mlx5_7", 1, "DOWN", "InfiniBand", 400.0))
    assert not list(rdma_ports_are_alike(cluster(4, spoil={2: down})))
    # NCCL_IB_HCA=mlx5 names it
    named = with_ports(*cards(1, "DOWN"))
    given = cluster(4, spoil={n: with_ports(*cards(1)) for n in range(3)} | {3: named})
    assert not list(rdma_ports_are_alike(given))


def test_good_dc413_other_gpus_may_have_other_networks() -> None:
    def workstation(record: HostRecord) -> HostRecord:
        return record._replace(gpus=tuple(gpu._replace(name="RTX 4090") for gpu in record.gpus), rdma_ports=())

    assert not list(rdma_ports_are_alike(cluster(4, spoil={0: workstation, 1: workstation})))


def test_good_dc413_hosts_without_gpus_carry_no_gpu_traffic() -> None:
    assert not list(rdma_ports_are_alike(cluster(4, spoil={0: with_ports(gpus=())})))


def test_good_dc413_efa_storage_ports_and_gloo() -> None:
    assert not list(rdma_ports_are_alike(cluster(4, spoil={1: with_ports(*cards(7))}, backend="gloo")))
    assert not list(rdma_ports_are_alike(cluster(4, spoil={1: with_ports(*cards(7))}, launched=False)))
    storage = HostRdmaPort("mlx5_8", 1, "DOWN", "Ethernet", 100.0, selected=False)
    assert not list(rdma_ports_are_alike(cluster(4, spoil={1: with_ports(*cards(), storage)})))
    efa = {n: with_ports(*cards(4 + n, efa=True)) for n in range(4)}
    assert not list(rdma_ports_are_alike(cluster(4, spoil=efa)))


def test_good_dc413_what_could_not_be_read_is_not_missing() -> None:
    unread = with_ports(unavailable={"rdma_ports": "/sys is not mounted"})
    assert not list(rdma_ports_are_alike(cluster(4, spoil={1: unread})))


# DC334


def plugged(*names: str, **changes: object) -> Callable[[HostRecord], HostRecord]:
    return lambda record: record._replace(plugins=names, **changes)  # type: ignore[arg-type]


def test_bad_dc334_a_plugin_on_some_hosts() -> None:
    spoil = {n: plugged("libnccl-net.so") for n in range(4)}
    finding = only(plugins_are_alike(cluster(6, spoil={**spoil, 4: plugged("libnccl-net.so")})))
    assert (finding.code, finding.severity, finding.where.host) == ("DC334", Severity.WARNING, "gpu06")
    assert "libnccl-net.so is not found on gpu06, of 6 hosts" in finding.message
    finding = only(plugins_are_alike(cluster(6, spoil={1: plugged("libnccl-net.so")})))
    assert "is found only on gpu02, of 6 hosts" in finding.message


def test_bad_dc334_without_a_launch_it_is_worth_knowing() -> None:
    found = only(plugins_are_alike(cluster(6, spoil={1: plugged("libnccl-net.so")}, launched=False, backend="nccl")))
    assert found.severity is Severity.INFO


def test_good_dc334_everywhere_nowhere_or_not_wanted() -> None:
    assert not list(plugins_are_alike(cluster(3, spoil={n: plugged("libnccl-net.so") for n in range(3)})))
    assert not list(plugins_are_alike(cluster(3)))
    assert not list(plugins_are_alike(cluster(3, spoil={1: plugged("libnccl-net.so")}, backend="gloo")))
    unread = plugged(unavailable={"rdma_ports": "no /sys"})
    spoil = {0: plugged("libnccl-net.so"), 1: plugged("libnccl-net.so"), 2: unread}
    assert not list(plugins_are_alike(cluster(3, spoil=spoil)))


def test_good_dc334_a_host_that_said_so_itself() -> None:
    named = plugged(settings={"NCCL_NET_PLUGIN": "ofi"})
    spoil = {0: plugged("libnccl-net-ofi.so"), 1: plugged("libnccl-net-ofi.so"), 2: named}
    assert not list(plugins_are_alike(cluster(3, spoil=spoil)))
