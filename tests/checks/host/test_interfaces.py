"""The interfaces of this host, and those that NCCL and gloo would take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.interface_checks import gloo_interface_can_be_used, nccl_interfaces_lead_to_the_nodes
from distcheck.checks.host.interfaces import Interface, Interfaces, read_interfaces
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.launch.settings import COMMAND, Setting, Settings
from tests.recorded import recorded_world

NO_GPU = Unavailable("no driver")
GPUS = Gpus("nvidia", tuple(Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3") for index in range(8)))
SHELL = Launch()
ONE_NODE = Launch("planned", nnodes=1, nproc=8)
TWO_NODES = Launch("planned", nnodes=2, nproc=8)

LO = Interface("lo", ("127.0.0.1/255.0.0.0", "::1/128"), up=True, running=True, loopback=True, kind="loopback")
ETH0 = Interface("eth0", ("10.0.0.5/255.255.255.0", "fe80::5%eth0/64"), up=True, running=True, kind="ethernet")
ETH1 = Interface("eth1", ("10.1.0.5/255.255.255.0",), up=True, running=True, kind="ethernet")
POD_ETH0 = ETH0._replace(kind="veth")
DOWN = Interface("eth2", ("10.2.0.5/255.255.255.0",), up=False, running=False, kind="ethernet")
NO_CARRIER = DOWN._replace(name="eth3", up=True)
BARE = Interface("ens35", (), up=True, running=True, kind="ethernet")
IB0 = Interface("ib0", ("192.168.0.5/255.255.255.0",), up=True, running=True, kind="infiniband")
DOCKER0 = Interface("docker0", ("172.17.0.1/255.255.0.0",), up=True, running=True, kind="bridge")
BRIDGE = Interface("br-1f3a", ("172.18.0.1/255.255.0.0",), up=True, running=True, kind="bridge")
CALI = Interface("cali12", ("fe80::ecee:eeff:feee:eeee%cali12/64",), up=True, running=True, kind="veth")
TUN0 = Interface("tun0", ("10.8.0.2/255.255.255.0",), up=True, running=True, kind="tunnel")
UTUN = TUN0._replace(name="cscotun0")
LINK_LOCAL = Interface("eth5", ("fe80::5%eth5/64",), up=True, running=True, kind="ethernet")
BOND0 = Interface("bond0", ("10.0.0.5/255.255.255.0",), up=True, running=True, kind="bond")
VLAN = Interface("bond0.2093", ("10.93.0.5/255.255.255.0",), up=True, running=True, kind="ethernet")
WLAN0 = Interface("wlan0", ("192.168.1.5/255.255.255.0",), up=True, running=True, kind="ethernet")


def settings(**variables: str) -> Settings:
    return Settings(tuple(Setting(name, value) for name, value in sorted(variables.items())))


def nccl(
    launch: Launch, *items: Interface, gpus: Gpus | Unavailable = GPUS, default: str | None = "eth0", **variables: str
) -> list[Finding]:
    here = Interfaces(items, default)
    return list(nccl_interfaces_lead_to_the_nodes(launch, settings(**variables), here, gpus))


def gloo(launch: Launch, *items: Interface, default: str | None = "eth0", **variables: str) -> list[Finding]:
    return list(gloo_interface_can_be_used(launch, settings(**variables), Interfaces(items, default)))


# DC406


@pytest.mark.parametrize(
    ("value", "launch", "severity", "words"),
    [
        pytest.param("eth9", TWO_NODES, Severity.ERROR, "'eth9' is not there", id="absent"),
        pytest.param("=eth", TWO_NODES, Severity.ERROR, "'eth' is not there", id="exact, and no such name"),
        pytest.param("eth9", ONE_NODE, Severity.ERROR, "'eth9' is not there", id="one node fails as well"),
        pytest.param("eth2", TWO_NODES, Severity.ERROR, "eth2 is down", id="down"),
        pytest.param("eth3", TWO_NODES, Severity.ERROR, "eth3 has no carrier", id="no carrier"),
        pytest.param("ens35", TWO_NODES, Severity.ERROR, "ens35 has no address", id="no address"),
        pytest.param(" eth0", TWO_NODES, Severity.ERROR, "NCCL keeps the blank", id="blank"),
        pytest.param("^eth,lo", TWO_NODES, Severity.ERROR, "excludes every running interface", id="all excluded"),
        pytest.param("eth9", SHELL, Severity.INFO, "'eth9' is not there", id="no launch yet"),
    ],
)
def test_bad_nccl_interface_is_missing(value: str, launch: Launch, severity: Severity, words: str) -> None:
    (finding,) = nccl(launch, LO, ETH0, DOWN, NO_CARRIER, BARE, NCCL_SOCKET_IFNAME=value)
    assert (finding.code, finding.severity, finding.where.variable) == ("DC406", severity, "NCCL_SOCKET_IFNAME")
    assert words in finding.message
    assert finding.fix.command == "export NCCL_SOCKET_IFNAME==eth0"
    assert finding.fix.where == "job-script"


@pytest.mark.parametrize(
    ("items", "variables", "words"),
    [
        pytest.param((LO, DOCKER0, DOWN), {}, "docker0 (172.17.0.1)", id="only docker0 runs"),
        pytest.param((LO, BRIDGE, ETH0), {}, "br-1f3a", id="a bridge comes first"),
        pytest.param((LO, DOWN), {}, "loopback", id="only loopback runs"),
        pytest.param((LO, ETH0), {"NCCL_SOCKET_IFNAME": "lo"}, "NCCL_SOCKET_IFNAME=lo", id="loopback is named"),
        pytest.param((LO, ETH0, DOCKER0), {"NCCL_SOCKET_IFNAME": "docker0"}, "docker0", id="docker0 is named"),
        pytest.param((LO, TUN0, ETH0), {}, "VPN", id="a VPN comes first"),
        pytest.param((LO, UTUN, ETH0), {}, "VPN", id="a VPN with a name of its own"),
        pytest.param((LO, TUN0, ETH0), {"NCCL_SOCKET_IFNAME": "^lo,docker"}, "VPN", id="a VPN is not left out"),
        pytest.param((LO, LINK_LOCAL), {}, "link-local", id="IPv6 link-local only"),
        pytest.param((LO, ETH0), {"NCCL_SOCKET_FAMILY": "AF_INET6"}, "link-local", id="link-local by family"),
    ],
)
def test_bad_nccl_interface_leads_nowhere(items: tuple[Interface, ...], variables: dict[str, Any], words: str) -> None:
    (finding,) = nccl(TWO_NODES, *items, **variables)
    assert (finding.code, finding.severity) == ("DC406", Severity.WARNING)
    assert words in finding.message
    assert nccl(ONE_NODE, *items, **variables) == []
    assert nccl(SHELL, *items, **variables) == []


def test_bad_nccl_finds_nothing() -> None:
    (finding,) = nccl(ONE_NODE, LO, NCCL_SOCKET_FAMILY="AF_INET6")
    assert (finding.code, finding.severity, finding.where.variable) == ("DC406", Severity.ERROR, "NCCL_SOCKET_FAMILY")
    (finding,) = nccl(ONE_NODE, DOWN)
    assert (finding.severity, finding.fix.by) == (Severity.ERROR, "admin")


@pytest.mark.parametrize(
    ("items", "value", "severity"),
    [
        pytest.param((LO, VLAN, BOND0), "bond0", Severity.WARNING, id="the VLAN comes before what was named"),
        pytest.param((LO, BOND0, VLAN), "bond0", Severity.INFO, id="what was named comes first"),
        pytest.param((LO, ETH1._replace(name="eth10"), ETH1), "eth1", Severity.INFO, id="one subnet"),
    ],
)
def test_bad_prefix_matches_more(items: tuple[Interface, ...], value: str, severity: Severity) -> None:
    (finding,) = nccl(TWO_NODES, *items, NCCL_SOCKET_IFNAME=value)
    assert (finding.code, finding.severity) == ("DC406", severity)
    assert finding.fix.command == f"export NCCL_SOCKET_IFNAME=={value}"


@pytest.mark.parametrize("launch", [SHELL, ONE_NODE, TWO_NODES])
@pytest.mark.parametrize(
    ("items", "variables"),
    [
        pytest.param((LO, ETH0), {}, id="plain host"),
        pytest.param((LO, ETH0, DOCKER0), {}, id="docker0 beside eth0"),
        pytest.param((LO, DOCKER0, ETH0), {}, id="docker0 before eth0"),
        pytest.param((LO, POD_ETH0), {}, id="pod whose only card is one end of a veth"),
        pytest.param((LO, ETH0._replace(kind="tunnel")), {}, id="pod whose eth0 is a tap"),
        pytest.param((LO, ETH0, ETH1, IB0), {}, id="IPoIB"),
        pytest.param((LO, ETH0, ETH1), {"NCCL_SOCKET_IFNAME": "eth"}, id="a prefix on purpose"),
        pytest.param((LO, ETH0, ETH1), {"NCCL_SOCKET_IFNAME": "eth0,ib0,bond0"}, id="names of other nodes as well"),
        pytest.param((LO, ETH0, DOCKER0), {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"}, id="exclusion"),
        pytest.param((LO, BOND0, VLAN), {}, id="bond with a VLAN"),
        pytest.param((LO, BOND0, VLAN), {"NCCL_SOCKET_IFNAME": "=bond0"}, id="exactly the bond"),
        pytest.param((LO, TUN0, ETH0), {"NCCL_SOCKET_IFNAME": "tun0"}, id="a VPN on purpose"),
        pytest.param((LO, ETH0._replace(running=None, up=None)), {}, id="state unknown"),
        pytest.param((LO, ETH0), {"NCCL_SOCKET_IFNAME": ""}, id="empty counts as unset"),
    ],
)
def test_good_nccl_interface(launch: Launch, items: tuple[Interface, ...], variables: dict[str, Any]) -> None:
    assert nccl(launch, *items, **variables) == []


@pytest.mark.parametrize(
    "items", [(LO, WLAN0, TUN0), (LO, ETH0, CALI, CALI._replace(name="cali13")), (LO, ETH0, BRIDGE)]
)
def test_good_host_with_more_interfaces_gives_no_warning(items: tuple[Interface, ...]) -> None:
    assert nccl(SHELL, *items) == nccl(ONE_NODE, *items) == []
    (finding,) = nccl(TWO_NODES, *items)
    assert (finding.code, finding.severity) == ("DC406", Severity.INFO)


def test_good_nccl_interface_without_nccl() -> None:
    assert nccl(TWO_NODES._replace(backend="gloo"), LO, ETH0, NCCL_SOCKET_IFNAME="eth9") == []
    (finding,) = nccl(TWO_NODES, LO, ETH0, gpus=NO_GPU, NCCL_SOCKET_IFNAME="eth9")
    assert finding.severity is Severity.INFO
    (finding,) = nccl(TWO_NODES._replace(backend="nccl"), LO, ETH0, gpus=NO_GPU, NCCL_SOCKET_IFNAME="eth9")
    assert finding.severity is Severity.ERROR


def test_good_when_the_master_is_behind_the_vpn() -> None:
    launch = TWO_NODES._replace(master_addr="10.8.0.1")
    assert nccl(launch, LO, TUN0, ETH0) == []
    assert nccl(TWO_NODES._replace(rdzv_endpoint="10.8.0.1:29500"), LO, TUN0, ETH0) == []


@pytest.mark.parametrize(
    ("launch", "items", "default", "command"),
    [
        (TWO_NODES._replace(master_addr="10.1.0.9"), (LO, ETH0, ETH1), "eth0", "export NCCL_SOCKET_IFNAME==eth1"),
        (TWO_NODES._replace(master_addr="node7"), (LO, ETH0, ETH1), "eth0", "export NCCL_SOCKET_IFNAME==eth0"),
        (TWO_NODES, (LO, ETH0, ETH1), None, None),
        (TWO_NODES, (LO, ETH1, DOCKER0), None, "export NCCL_SOCKET_IFNAME==eth1"),
        (TWO_NODES, (LO, TUN0, ETH1), "tun0", "export NCCL_SOCKET_IFNAME==eth1"),
    ],
)
def test_the_fix_names_the_way_to_the_nodes(
    launch: Launch, items: tuple[Interface, ...], default: str | None, command: str | None
) -> None:
    (finding,) = nccl(launch, *items, default=default, NCCL_SOCKET_IFNAME="ens9")
    assert finding.fix.command == command
    assert "second =" in finding.fix.text


def test_the_fix_stands_where_the_variable_was_set() -> None:
    here = Interfaces((LO, ETH0), "eth0")
    for origin, where, shown in (
        (COMMAND, "launch-line", False),
        ("/etc/nccl.conf:3", "job-script", True),
        ("environment", "job-script", False),
    ):
        found = Settings((Setting("NCCL_SOCKET_IFNAME", "eth9", origin),))
        (finding,) = nccl_interfaces_lead_to_the_nodes(TWO_NODES, found, here, GPUS)
        assert finding.fix.where == where
        assert ("(from /etc/nccl.conf:3)" in finding.message) is shown


@pytest.mark.parametrize("items", [(LO, ETH0, DOWN), (LO, BRIDGE, ETH0), (LO, TUN0, ETH1), (LO, LINK_LOCAL, ETH0)])
def test_the_fix_leaves_nothing_to_find(items: tuple[Interface, ...]) -> None:
    for value in ("eth9", "lo", "^lo"):
        for finding in nccl(TWO_NODES, *items, NCCL_SOCKET_IFNAME=value):
            assert finding.fix.command is not None
            fixed = finding.fix.command.removeprefix("export NCCL_SOCKET_IFNAME=")
            assert nccl(TWO_NODES, *items, NCCL_SOCKET_IFNAME=fixed) == []


# DC407


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("eth9", "'eth9' is no interface of this host"),
        ("^lo,docker", "syntax of NCCL_SOCKET_IFNAME"),
        ("=eth0", "syntax of NCCL_SOCKET_IFNAME"),
        ("lo, eth0", "blank"),
        ("10.0.0.5", "is an address"),
        ("ens35", "has no address"),
    ],
)
def test_bad_gloo_interface(value: str, words: str) -> None:
    (finding,) = gloo(ONE_NODE, LO, ETH0, BARE, GLOO_SOCKET_IFNAME=value)
    assert (finding.code, finding.severity) == ("DC407", Severity.ERROR)
    assert words in finding.message
    assert finding.fix.command == "export GLOO_SOCKET_IFNAME=eth0"
    (finding,) = gloo(SHELL, LO, ETH0, BARE, GLOO_SOCKET_IFNAME=value)
    assert finding.severity is Severity.INFO
    (finding,) = gloo(ONE_NODE._replace(backend="nccl"), LO, ETH0, BARE, GLOO_SOCKET_IFNAME=value)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(("value", "words"), [("lo", "loopback"), ("eth2", "eth2 is down")])
def test_bad_gloo_interface_reaches_no_node(value: str, words: str) -> None:
    (finding,) = gloo(TWO_NODES, LO, ETH0, DOWN, GLOO_SOCKET_IFNAME=value)
    assert (finding.code, finding.severity) == ("DC407", Severity.ERROR)
    assert words in finding.message
    assert gloo(ONE_NODE, LO, ETH0, DOWN, GLOO_SOCKET_IFNAME=value) == []


@pytest.mark.parametrize("launch", [SHELL, ONE_NODE, TWO_NODES])
@pytest.mark.parametrize(
    "variables", [{}, {"GLOO_SOCKET_IFNAME": ""}, {"GLOO_SOCKET_IFNAME": "eth0"}, {"GLOO_SOCKET_IFNAME": "eth0,ib0"}]
)
def test_good_gloo_interface(launch: Launch, variables: dict[str, Any]) -> None:
    assert gloo(launch, LO, ETH0, IB0, DOCKER0, **variables) == []


# reading


def device(
    number: int,
    parts: dict[str, str] | None = None,
    *,
    hardware: int = 1,
    state: str = "up",
    flags: str = "0x1003",
) -> dict[str, str]:
    """The files of one interface; ``parts`` adds to them, or replaces them."""
    return {
        "ifindex": f"{number}\n",
        "iflink": f"{number}\n",
        "type": f"{hardware}\n",
        "operstate": f"{state}\n",
        "flags": f"{flags}\n",
        "mtu": "1500\n",
        **(parts or {}),
    }


def machine(
    folder: Path, interfaces: dict[str, dict[str, str]], files: dict[str, Any] | None = None, **record: Any
) -> Interfaces:
    tree: dict[str, Any] = {
        f"/sys/class/net/{name}/{part}": text for name, parts in interfaces.items() for part, text in parts.items()
    }
    return read_interfaces(recorded_world(folder, files={**tree, **(files or {})}, **record))


def test_interfaces_are_read(tmp_path: Path) -> None:
    here = machine(
        tmp_path,
        {
            "lo": device(1, {"mtu": "65536\n"}, hardware=772, state="unknown", flags="0x9"),
            "eth0": device(2, {"device/vendor": "0x15b3", "speed": "100000\n"}),
            "eth1": device(3, {"device/vendor": "0x15b3", "speed": "-1\n"}, state="down", flags="0x1002"),
            "docker0": device(4, {"bridge/bridge_id": "", "uevent": "DEVTYPE=bridge\n"}, state="down"),
            "veth12": device(6, {"iflink": "2\n"}),
            "bond0": device(7, {"bonding/slaves": "eth0 eth1", "speed": "200000\n"}),
            "bond0.20": device(8, {"iflink": "7\n", "uevent": "DEVTYPE=vlan\nINTERFACE=bond0.20\n"}),
            "tun0": device(9, {"tun_flags": "0x1001\n"}, hardware=65534, state="unknown"),
            "ib0": device(10, {"mtu": "4092\n"}, hardware=32),
            "dummy0": device(11),
            "vxlan0": device(12, {"uevent": "DEVTYPE=vxlan\n"}),
        },
        files={"/sys/class/net/bonding_masters": "bond0\n"},
        addresses=[
            ["lo", "ipv4", "127.0.0.1", "255.0.0.0"],
            ["lo", "ipv6", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"],
            ["eth0", "ipv4", "10.0.0.5", "255.255.255.0"],
            ["eth0", "ipv6", "fe80::5%eth0", "ffff:ffff:ffff:ffff::"],
            ["eth0:1", "ipv4", "10.0.0.6", None],
        ],
    )
    kinds = {item.name: item.kind for item in here.interfaces}
    assert list(kinds) == [
        "lo", "eth0", "eth0:1", "eth1", "docker0", "veth12", "bond0", "bond0.20", "tun0", "ib0", "dummy0", "vxlan0",
    ]  # fmt: skip
    assert kinds == {
        "lo": "loopback",
        "eth0": "ethernet",
        "eth0:1": "ethernet",
        "eth1": "ethernet",
        "docker0": "bridge",
        "veth12": "veth",
        "bond0": "bond",
        "bond0.20": "ethernet",
        "tun0": "tunnel",
        "ib0": "infiniband",
        "dummy0": "other",
        "vxlan0": "tunnel",
    }
    assert here.named("eth0") == Interface(
        "eth0",
        ("10.0.0.5/255.255.255.0", "fe80::5%eth0/64"),
        up=True,
        running=True,
        kind="ethernet",
        speed_mbit_per_s=100000,
        mtu_bytes=1500,
    )
    lo, eth1, alias = here.named("lo"), here.named("eth1"), here.named("eth0:1")
    assert lo is not None and eth1 is not None and alias is not None
    assert (lo.loopback, lo.running, lo.addresses) == (True, True, ("127.0.0.1/255.0.0.0", "::1/128"))
    assert (eth1.up, eth1.running, eth1.speed_mbit_per_s) == (False, False, None)
    assert alias.addresses == ("10.0.0.6",)
    assert here.own_addresses() == {"127.0.0.1", "::1", "10.0.0.5", "fe80::5", "10.0.0.6"}


ROUTES = """Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
ROUTES_6 = "\n".join(
    f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} {metric} 00000001 00000000 {flags} {name}"
    for metric, flags, name in (("ffffffff", "00200200", "lo"), ("00000400", "00000003", "eth6"))
)


@pytest.mark.parametrize(
    ("files", "default", "disabled"),
    [
        ({"/proc/net/route": ROUTES, "/proc/sys/net/ipv6/conf/all/disable_ipv6": "0\n"}, "eth0", False),
        ({"/proc/net/route": ROUTES.splitlines()[0], "/proc/net/ipv6_route": ROUTES_6}, "eth6", None),
        ({"/proc/sys/net/ipv6/conf/all/disable_ipv6": "1\n"}, None, True),
        ({"/proc/sys/net/ipv4/ip_forward": "0\n"}, None, True),
        ({}, None, None),
    ],
)
def test_routes_and_ipv6(tmp_path: Path, files: dict[str, str], default: str | None, disabled: bool | None) -> None:
    here = machine(tmp_path, {"lo": device(1, hardware=772)}, files=files)
    assert (here.default_route, here.ipv6_disabled) == (default, disabled)


def test_interfaces_without_sys(tmp_path: Path) -> None:
    here = machine(
        tmp_path, {}, addresses=[["lo", "ipv4", "127.0.0.1", "255.0.0.0"], ["eth0", "ipv4", "10.0.0.5", None]]
    )
    assert here.interfaces == (
        Interface("lo", ("127.0.0.1/255.0.0.0",), loopback=True, kind="loopback"),
        Interface("eth0", ("10.0.0.5",)),
    )


def test_interfaces_of_another_system(tmp_path: Path) -> None:
    addresses = [
        ["lo0", "ipv4", "127.0.0.1", "255.0.0.0"],
        ["lo0", "ipv6", "fe80::1%lo0", None],
        ["en0", "ipv4", "10.0.0.5", None],
    ]
    here = machine(tmp_path, {}, platform="darwin", addresses=addresses)
    assert [(item.name, item.up, item.loopback) for item in here.interfaces] == [
        ("lo0", None, True),
        ("en0", None, False),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /sys/class/net")
def test_interfaces_of_this_machine() -> None:
    here = read_interfaces(World({}))
    lo = here.named("lo")
    assert lo is not None
    assert (lo.up, lo.running, lo.loopback, lo.kind) == (True, True, True, "loopback")
    assert "127.0.0.1" in here.own_addresses()
    assert lo.addresses[0] == "127.0.0.1/255.0.0.0"
    assert lo.mtu_bytes is not None and lo.mtu_bytes > 1000
    assert here.default_route is None or here.named(here.default_route) is not None
