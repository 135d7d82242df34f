"""The simulation of NCCL's and gloo's choice of interfaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host.addresses import same_subnet
from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.nccl_interfaces import (
    MOST_INTERFACES,
    Chosen,
    InterfaceChoice,
    choose_nccl_interfaces,
    gloo_interfaces,
    parse_filter,
)

LO = Interface("lo", ("127.0.0.1/255.0.0.0", "::1/128"), up=True, running=True, loopback=True, kind="loopback")
ETH0 = Interface("eth0", ("10.0.0.5/255.255.255.0", "fe80::5%eth0/64"), up=True, running=True, kind="ethernet")
ETH1 = Interface("eth1", ("10.1.0.5/255.255.255.0",), up=True, running=True, kind="ethernet")
ETH10 = Interface("eth10", ("10.10.0.5/255.255.255.0",), up=True, running=True, kind="ethernet")
DOWN = Interface("eth2", ("10.2.0.5/255.255.255.0",), up=False, running=False, kind="ethernet")
IB0 = Interface("ib0", ("192.168.0.5/255.255.255.0",), up=True, running=True, kind="infiniband")
DOCKER0 = Interface("docker0", ("172.17.0.1/255.255.0.0",), up=True, running=True, kind="bridge")
VIRBR0 = Interface("virbr0", ("192.168.122.1/255.255.255.0",), up=True, running=True, kind="bridge")
CALI = Interface("cali12", ("fe80::ecee:eeff:feee:eeee%cali12/64",), up=True, running=True, kind="veth")
V6 = Interface("eth3", ("fd00::5/64", "fe80::3%eth3/64"), up=True, running=True, kind="ethernet")
BARE = Interface("eth4", (), up=True, running=True, kind="ethernet")


def names(
    *items: Interface, ifname: str | None = None, family: str | None = None, comm_id: str | None = None
) -> tuple[str, ...]:
    return choose_nccl_interfaces(Interfaces(items), ifname=ifname, family=family, comm_id=comm_id).names


@pytest.mark.parametrize(
    ("items", "chosen", "by"),
    [
        pytest.param((LO, ETH0, IB0, DOCKER0), ("ib0",), "ib", id="names that start with ib come first"),
        pytest.param((LO, DOCKER0, VIRBR0, ETH0), ("eth0",), "any", id="bridges and loopback wait"),
        pytest.param((LO, VIRBR0, DOCKER0), ("docker0",), "docker", id="docker before loopback"),
        pytest.param((LO, VIRBR0), ("lo",), "lo", id="loopback before virbr"),
        pytest.param((VIRBR0,), ("virbr0",), "virbr", id="virbr last"),
        pytest.param((LO, DOWN, ETH1), ("eth1",), "any", id="what is down is left out"),
        pytest.param((LO, CALI, ETH0), ("eth0", "cali12"), "any", id="IPv4 before IPv6, whatever the order"),
        pytest.param((LO, BARE, ETH0), ("eth0",), "any", id="no address, no interface"),
        pytest.param((DOWN, BARE), (), "none", id="nothing runs"),
        pytest.param((), (), "none", id="no interface at all"),
    ],
)
def test_automatic_choice(items: tuple[Interface, ...], chosen: tuple[str, ...], by: str) -> None:
    choice = choose_nccl_interfaces(Interfaces(items), ifname=None)
    assert (choice.names, choice.by) == (chosen, by)


@pytest.mark.parametrize(
    ("ifname", "chosen"),
    [
        ("eth0", ("eth0",)),
        ("eth1", ("eth1", "eth10")),
        ("=eth1", ("eth1",)),
        ("eth", ("eth0", "eth1", "eth10")),
        ("=eth", ()),
        ("eth10,eth0", ("eth0", "eth10")),
        ("^eth", ("lo", "ib0", "docker0")),
        ("^=eth1,lo", ("eth0", "eth10", "ib0", "docker0")),
        ("^lo,docker,eth", ("ib0",)),
        (" eth0", ()),
        ("lo, eth0", ("lo",)),
        ("eth0:1", ("eth0",)),
        ("=^eth0", ("eth0",)),
        ("eth2", ()),
        ("e", ("ib0",)),
        ("", ("ib0",)),
        ("^=", ()),
        (",,", ("lo", "eth0", "eth1", "eth10", "ib0", "docker0")),
        ("^^eth", ("lo", "ib0", "docker0")),
    ],
)
def test_named_choice(ifname: str, chosen: tuple[str, ...]) -> None:
    assert names(LO, ETH0, ETH1, ETH10, DOWN, IB0, DOCKER0, ifname=ifname) == chosen


def test_the_first_address_counts() -> None:
    assert choose_nccl_interfaces(Interfaces((ETH0,)), ifname=None) == InterfaceChoice(
        (Chosen("eth0", "10.0.0.5"),), "any"
    )
    assert choose_nccl_interfaces(Interfaces((V6,)), ifname=None).first == Chosen("eth3", "fd00::5")


def test_family() -> None:
    assert names(ETH0, V6, family="AF_INET") == ("eth0",)
    assert choose_nccl_interfaces(Interfaces((LO, ETH0)), ifname=None, family="AF_INET6").interfaces == (
        Chosen("eth0", "fe80::5%eth0"),
    )
    assert names(LO, family="AF_INET6") == ()
    assert names(ETH0, V6, family="af_inet6") == ("eth0", "eth3")


def test_comm_id_names_the_subnet() -> None:
    assert names(ETH0, ETH1, comm_id="10.1.0.77:5000") == ("eth1",)
    assert names(ETH0, V6, comm_id="[fd00::77]:5000") == ("eth3",)
    assert names(ETH0, ETH1, comm_id="node7:5000") == ("eth0", "eth1")
    assert names(ETH0, ETH1, comm_id="8.8.8.8:5000") == ("eth0", "eth1")
    assert names(ETH0, IB0, comm_id="10.0.0.77:5000") == ("ib0",)
    assert names(ETH0, ETH1, ifname="eth0", comm_id="10.1.0.77:5000") == ("eth0",)


def test_at_most_sixteen() -> None:
    many = tuple(Interface(f"eth{n}", (f"10.0.{n}.1/255.255.255.0",), running=True) for n in range(40))
    assert len(names(*many)) == MOST_INTERFACES
    assert len(parse_filter(",".join(f"mlx5_{n}" for n in range(40)), 32).entries) == 32


def test_ports_in_a_filter() -> None:
    wanted = parse_filter("mlx5_0:1,mlx5_1:2:7,mlx5_2:")
    assert wanted.entries == (("mlx5_0", 1), ("mlx5_1", 2), ("mlx5_2", 0))
    assert wanted.takes("mlx5_0", 1) and not wanted.takes("mlx5_0", 2)
    assert wanted.takes("mlx5_10", 2) and not parse_filter("=mlx5_1:2").takes("mlx5_10", 2)
    assert parse_filter("").takes("anything") and not parse_filter("^").takes("anything")


@pytest.mark.parametrize(
    ("ifname", "taken", "missing"),
    [
        ("eth0", ("eth0",), ()),
        ("lo,eth0", ("lo", "eth0"), ()),
        ("lo, eth0", ("lo",), (" eth0",)),
        ("^lo", (), ("^lo",)),
        ("=eth0", (), ("=eth0",)),
        ("eth", (), ("eth",)),
        ("eth4", (), ("eth4",)),
        ("10.0.0.5", (), ("10.0.0.5",)),
        ("eth2", ("eth2",), ()),
    ],
)
def test_gloo_named(ifname: str, taken: tuple[str, ...], missing: tuple[str, ...]) -> None:
    choice = gloo_interfaces(Interfaces((LO, ETH0, DOWN, BARE)), ifname=ifname)
    assert (tuple(item.name for item in choice.interfaces), choice.missing) == (taken, missing)


def test_gloo_by_host_name() -> None:
    here = Interfaces((LO, ETH0, ETH1))
    assert gloo_interfaces(here, ifname=None, host_addresses=("10.1.0.5",)).interfaces == (Chosen("eth1", "10.1.0.5"),)
    assert gloo_interfaces(here, ifname="", host_addresses=("10.1.0.5",)).interfaces == (Chosen("eth1", "10.1.0.5"),)
    foreign = gloo_interfaces(here, ifname=None, host_addresses=("8.8.8.8",))
    assert foreign.interfaces == (Chosen("lo", "127.0.0.1"),)


@pytest.mark.parametrize(
    ("own", "other", "same"),
    [
        ("10.0.0.5/255.255.255.0", "10.0.0.200", True),
        ("10.0.0.5/24", "10.0.1.200", False),
        ("10.0.0.5/255.255.254.0", "10.0.1.200", True),
        ("fd00::5/64", "fd00::1:2:3", True),
        ("fd00::5/64", "fd00:0:0:1::5", False),
        ("fe80::5%eth0/64", "fe80::9", True),
        ("10.0.0.5", "10.0.0.5", False),
        ("10.0.0.5/24", "fd00::5", False),
        ("10.0.0.5/24", "node7", False),
        ("10.0.0.5/99", "10.0.0.5", False),
        ("10.0.0.5/0", "8.8.8.8", True),
    ],
)
def test_same_subnet(own: str, other: str, same: bool) -> None:
    assert same_subnet(own, other) is same


interface_names = st.sampled_from(
    ["lo", "eth0", "eth1", "eth10", "ib0", "docker0", "virbr0", "br-1f", "veth7", "bond0", "bond0.2093", "tun0"]
)
some_interfaces = st.lists(
    st.builds(
        Interface,
        interface_names,
        st.sampled_from(
            [(), ("10.0.0.5/255.255.255.0",), ("fe80::1%x/64",), ("::1/128",), ("10.0.0.6/8", "fd00::1/64")]
        ),
        running=st.sampled_from([True, False, None]),
    ),
    unique_by=lambda item: item.name,
).map(lambda items: Interfaces(tuple(items)))
word = st.text(st.sampled_from("^=,: ehtiblo01docker.-"), max_size=24)


@given(some_interfaces, word)
def test_what_is_excluded_is_never_chosen(interfaces: Interfaces, text: str) -> None:
    chosen = choose_nccl_interfaces(interfaces, ifname=f"^{text}x,lo").names
    assert not any(name.startswith("lo") for name in chosen)


@given(some_interfaces, st.lists(interface_names, min_size=1, max_size=MOST_INTERFACES))
def test_exact_names_are_equal(interfaces: Interfaces, wanted: list[str]) -> None:
    running = {
        item.name
        for item in interfaces.interfaces
        if item.running is not False and item.addresses not in ((), ("::1/128",))
    }
    assert set(choose_nccl_interfaces(interfaces, ifname="=" + ",".join(wanted)).names) == running & set(wanted)
    assert set(choose_nccl_interfaces(interfaces, ifname="^=" + ",".join(wanted)).names) == running - set(wanted)


@given(some_interfaces, st.none() | word, st.sampled_from([None, "AF_INET", "AF_INET6", "x"]), st.none() | word)
def test_every_choice_can_be_had(
    interfaces: Interfaces, ifname: str | None, family: str | None, comm_id: str | None
) -> None:
    choice = choose_nccl_interfaces(interfaces, ifname=ifname, family=family, comm_id=comm_id)
    assert len(set(choice.names)) == len(choice.names) <= MOST_INTERFACES
    assert (choice.by == "none") is (choice.first is None)
    for chosen in choice.interfaces:
        item = interfaces.named(chosen.name)
        assert item is not None
        assert any(entry.startswith(chosen.address) for entry in item.addresses)
        assert choice.by == "comm-id" or item.running is not False


@given(word)
def test_a_filter_and_its_opposite(text: str) -> None:
    wanted = parse_filter(text.lstrip("^="))
    opposite = parse_filter("^" + text.lstrip("^="))
    for name in ("eth0", "lo", "ib0", "docker0"):
        assert wanted.takes(name) is not opposite.takes(name)
