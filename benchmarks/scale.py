"""What comparing many ranks costs, and whether those that are broken are named and no others.

    python benchmarks/scale.py [--ranks 1024 4096 16384]
    python benchmarks/scale.py --store [--clients 1024]      (needs torch)

Ranks are synthetic, eight to a host; a few hosts are broken, each in a way of its own, and a healthy set of the same
size must give nothing at all. Each size runs in a process of its own, so that its peak memory is its own; seconds are
those of the processor, since one thread does it all. The second form checks the membership with a real TCPStore on this
machine, in seconds of wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable

from distcheck.checks.cluster.comparison import PROBE_MODULES
from distcheck.checks.cluster.connectivity import peers_of
from distcheck.checks.cluster.hostlist import compress_hosts
from distcheck.checks.cluster.records import (
    Caller,
    ClockOffset,
    Cluster,
    Code,
    ConnectionAttempt,
    Device,
    HostInterface,
    HostRdmaPort,
    HostRecord,
    RankRecord,
    Reach,
    Roll,
    from_json,
    join_ranks,
    to_json,
)
from distcheck.core.checker import Checker
from distcheck.core.model import Report, Severity
from distcheck.launch.schedulers import expand_hostlist

RANKS_A_HOST = 8
TARGET_S, TARGET_MIB = 2.0, 1024
#: Time limit of the membership check with a real store: much more than it needs on a busy machine.
HANG_TIMEOUT_S = 300.0
VERSIONS = {
    "python": "3.12.4", "torch": "2.13.0+cu130", "cuda": "13.0", "nccl": "2.28.9", "driver": "580.65.06",
    "kernel": "6.8.0", "distcheck": "0.1.0",
}  # fmt: skip
SETTINGS = {f"NCCL_SETTING_{index}": str(index) for index in range(24)}


def make_host(number: int, world_size: int) -> HostRecord:
    """A host that is well."""
    gpus = tuple(
        Device(f"GPU-{number:08x}-{index:04x}", f"0000:{index + 1:02x}:00.0", "NVIDIA H100 80GB HBM3", 80 << 30, "9.0")
        for index in range(RANKS_A_HOST)
    )
    first = number * RANKS_A_HOST
    return HostRecord(
        f"rack{number // 32:03}-gpu{number % 32:02}.cluster.example",
        tuple(
            RankRecord(first + index, index, world_size, RANKS_A_HOST, number, 1000 + index, gpus[index])
            for index in range(RANKS_A_HOST)
        ),
        boot_id=f"{number:08x}-0000-0000-0000-000000000000",
        namespaces={"ipc": "4026531839", "mnt": "4026531832", "net": "4026531833", "uts": "4026531838", "shm": "0:25"},
        versions=VERSIONS,
        settings=SETTINGS,
        gpus=gpus,
        interfaces=(
            HostInterface(
                "eth0", (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}/255.0.0.0",), "ethernet", True, 9000,
                100000, nccl=True, gloo=True, default_route=True,
            ),
        ),
        rdma_ports=tuple(
            HostRdmaPort(f"mlx5_{index}", 1, "ACTIVE", "InfiniBand", 400.0) for index in range(RANKS_A_HOST)
        ),
        backends=("gloo", "nccl"),
        clock=ClockOffset(0.001 * (number % 7), 0.01),
        code=Code("/scratch/job", "0" * 40, "main"),
    )  # fmt: skip


def with_ranks(host: HostRecord, change: Callable[[RankRecord], RankRecord]) -> HostRecord:
    """The host with other ranks."""
    return host._replace(ranks=tuple(change(rank) for rank in host.ranks))


def with_gpus(host: HostRecord, change: Callable[[Device], Device]) -> HostRecord:
    """The host with other GPUs, also for its ranks."""
    gpus = {gpu.uuid: change(gpu) for gpu in host.gpus}
    return with_ranks(
        host._replace(gpus=tuple(gpus.values())), lambda rank: rank._replace(device=gpus[rank.device.uuid])
    )


#: The planted faults, by the rule that must report them: a host, and its change.
FAULTS: dict[str, Callable[[HostRecord], HostRecord]] = {
    "DC103": lambda host: with_ranks(host, lambda rank: rank._replace(local_world_size=4)),
    "DC120": lambda host: host._replace(backends=("gloo",)),
    "DC303": lambda host: with_ranks(host, lambda rank: rank._replace(device=host.gpus[0])),
    "DC308": lambda host: with_gpus(host, lambda gpu: gpu._replace(name="NVIDIA A100-SXM4-80GB")),
    "DC310": lambda host: with_gpus(host, lambda gpu: gpu._replace(throttle=("hw-thermal",))),
    "DC410": lambda host: host._replace(interfaces=(host.interfaces[0]._replace(mtu_bytes=1500),)),
    "DC503": lambda host: host._replace(versions={**VERSIONS, "torch": "2.9.1+cu130", "nccl": "2.27.5"}),
    "DC504": lambda host: host._replace(settings={**SETTINGS, "NCCL_ALGO": "Tree"}),
    "DC505": lambda host: host._replace(clock=ClockOffset(-42.0, 0.01)),
    "DC507": lambda host: host._replace(code=Code("/scratch/job", "f" * 40, "main")),
}


def make_reach(hosts: list[HostRecord], walled: HostRecord | None = None) -> Reach:
    """Each host tries some others, as it does in a run; no host reaches the one with a firewall."""
    tried = 0
    failed = []
    for index, host in enumerate(hosts):
        for number in peers_of(index, len(hosts)):
            other = hosts[number]
            tried += 1
            if other is walled:
                address = other.interfaces[0].addresses[0].partition("/")[0]
                failed.append(ConnectionAttempt(host.host, other.host, address, 40000, "timeout"))
    return Reach(tried, len(hosts), tuple(failed), complete=False, doors=1)


def make_cluster(ranks: int, *, broken: bool) -> tuple[Cluster, Roll, Reach, dict[str, set[str]]]:
    """A launch of so many ranks, and the hosts that are broken by the rule that must name them."""
    count = ranks // RANKS_A_HOST
    hosts = [make_host(number, ranks) for number in range(count)]
    roll = Roll(ranks, ranks, timeout_s=60.0)
    reach = make_reach(hosts)
    expected: dict[str, set[str]] = {}
    if not broken:
        return Cluster(tuple(hosts), "nccl", ranks, "c10d"), roll, reach, expected
    step = count // (len(FAULTS) + 5)
    for place, (code, change) in enumerate(FAULTS.items(), 1):
        hosts[place * step] = change(hosts[place * step])
        expected[code] = {hosts[place * step].host}
    place = len(FAULTS) + 1
    # two containers that NCCL takes for one host
    first = hosts[place * step]
    hosts[place * step + 1] = hosts[place * step + 1]._replace(
        host=first.host, boot_id=first.boot_id, namespaces={**first.namespaces, "shm": "0:99"}
    )
    expected["DC506"] = {first.host}
    # a host behind a firewall
    walled = hosts[(place + 1) * step]
    expected["DC412"] = {walled.host}
    # one that did not come, and one whose ranks took the numbers of another
    gone, doubled = hosts[(place + 2) * step], hosts[(place + 3) * step]
    missing = tuple(rank.rank for rank in gone.ranks)
    roll = roll._replace(
        present=ranks - len(missing),
        missing=missing,
        expected=dict.fromkeys(missing, gone.host),
        surplus=(Caller(doubled.ranks[0].rank, "stranger", 4711, ranks),),
    )
    expected["DC501"], expected["DC502"] = {gone.host}, {"stranger"}
    hosts.remove(gone)
    reach = make_reach(hosts, walled)
    return Cluster(tuple(hosts), "nccl", ranks, "c10d"), roll, reach, expected


def judge(cluster: Cluster, roll: Roll, reach: Reach) -> tuple[Report, float]:
    """The report of all probes that compare, and seconds."""
    start = time.process_time()
    plan = Checker(modules=PROBE_MODULES, plug_ins=False).plan(Cluster, Roll, Reach, command="collective", closed=True)
    report = plan.run(cluster, roll, reach)
    return report, time.process_time() - start


def verify(report: Report, expected: dict[str, set[str]], known: set[str]) -> None:
    """Verify that all faults were found, with the right hosts and no other."""
    failed = [item for item in report.findings if item.code.startswith("DC9")]
    assert not failed, failed
    reported: dict[str, set[str]] = {}
    for finding in report.at_least(Severity.WARNING):
        hosts = expand_hostlist(finding.where.host or "")
        reported.setdefault(finding.code, set()).update(hosts)
        assert len(finding.message) < 600, f"{finding.code} says {len(finding.message)} characters"
        assert len(json.dumps(finding.as_dict()["evidence"])) < 2000, f"the evidence of {finding.code} grows"
    assert reported == expected, {
        code: (sorted(reported.get(code, ())), sorted(expected.get(code, ())))
        for code in {*reported, *expected}
        if reported.get(code) != expected.get(code)
    }
    assert not {host for hosts in reported.values() for host in hosts} - known - {"stranger"}


def measure(ranks: int) -> dict[str, float]:
    """One size: seconds for each part. Asserts that what was found is right."""
    healthy, roll, reach, _ = make_cluster(ranks, broken=False)
    texts = [to_json(host) for host in healthy.hosts]
    start = time.process_time()
    decoded = join_ranks(from_json(HostRecord, text) for text in texts)
    decode_s = time.process_time() - start
    assert decoded == healthy.hosts
    report, healthy_s = judge(healthy, roll, reach)
    assert report.findings == (), report.findings
    del decoded, report
    broken, roll, reach, expected = make_cluster(ranks, broken=True)
    report, broken_s = judge(broken, roll, reach)
    verify(report, expected, {host.host for host in healthy.hosts})
    start = time.process_time()
    compress_hosts(host.host for host in healthy.hosts)
    return {
        "hosts": len(healthy.hosts),
        "record_bytes": sum(map(len, texts)) / len(texts),
        "decode_s": decode_s,
        "healthy_s": healthy_s,
        "broken_s": broken_s,
        "hostlist_s": time.process_time() - start,
        "found": len(expected),
    }


def compare(sizes: list[int]) -> bool:
    """All sizes, each in a process of its own, as a table; false where a target is missed."""
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {RANKS_A_HOST} ranks a host")
    print(f"{'ranks':>7} {'hosts':>6} {'decode':>9} {'healthy':>9} {'broken':>9} {'hostlist':>9} {'peak':>10}  found")
    good = True
    for size in sizes:
        command = [sys.executable, os.path.abspath(__file__), "--one", str(size)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        text = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{size} ranks: what was found is not right")
        row, peak = json.loads(text), usage.ru_maxrss / 1024
        seconds = [row["decode_s"], row["healthy_s"], row["broken_s"], row["hostlist_s"]]
        print(
            f"{size:7,} {row['hosts']:6,} {' '.join(f'{value:7.3f} s' for value in seconds)} {peak:6.0f} MiB  "
            f"{row['found']} of {row['found']} faults, no other"
        )
        good = good and max(row["healthy_s"], row["broken_s"]) < TARGET_S and peak < TARGET_MIB
    print(f"target: under {TARGET_S:g} s and {TARGET_MIB} MiB {'met' if good else 'MISSED'}")
    return good


# the membership check with a real store


def call_roll(clients: int, processes: int = 8) -> None:
    """Run the membership check of many clients at one TCPStore of torch, as the supervisors do; print seconds.

    Each has a connection of its own: they are threads of a few processes, since a thousand processes with torch would
    measure this machine's memory. The store's server is a thread of this process.
    """
    import resource

    # each connection without reverse DNS, and each wait that ends without its key, would be a line on stderr
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from torch.distributed import TCPStore

    from distcheck.runtime.coordination.store_client import TorchStoreClient

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * clients)), hard))
    port = free_port()
    children = []
    for index in range(processes):
        # forked before this process has threads; each child waits for the server
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = _clients(port, range(index, clients, processes), clients)
            finally:
                os._exit(status)
        children.append(child)
    start = time.perf_counter()
    server = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    client = TorchStoreClient(server, "scale")
    while client.add(f"count/{clients}", 0) < clients:
        time.sleep(0.02)
        if time.perf_counter() - start > HANG_TIMEOUT_S:
            sys.exit(f"{client.add(f'count/{clients}', 0):,} of {clients:,} clients within {HANG_TIMEOUT_S:g} s")
    called_s = time.perf_counter() - start
    missing = [rank for rank in range(clients) if not client.check([f"who/{rank}/1"])]
    assert not missing, missing
    checked_s = time.perf_counter() - start - called_s
    client.set("roll", json.dumps({"roll": to_json(Roll(clients, clients))}))
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert statuses == [0] * processes, statuses
    total_s = time.perf_counter() - start
    print(
        f"{clients:,} clients, one TCPStore, {os.cpu_count()} CPUs: all called within {called_s:.2f} s, checked in "
        f"{checked_s:.2f} s, all heard the answer after {total_s:.2f} s ({processes} processes, connections included)"
    )


def _clients(port: int, ranks: range, clients: int) -> int:
    """Run some clients: each connects, registers, and waits for the membership check."""
    import threading

    from distcheck.runtime.coordination.store_client import TorchStoreClient, open_store

    heard = []

    def call(rank: int) -> None:
        client = TorchStoreClient(open_store("127.0.0.1", port, serve=False, timeout_s=HANG_TIMEOUT_S), "scale")
        client.set(f"who/{rank}/{client.add(f'here/{rank}', 1)}", to_json(Caller(rank, f"host{rank // 8}", 1, clients)))
        client.add(f"count/{clients}", 1)
        text = client.wait("roll", HANG_TIMEOUT_S)
        heard.append(text is not None and from_json(Roll, json.loads(text)["roll"]).present == clients)

    threads = [threading.Thread(target=call, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0 if len(heard) == len(ranks) and all(heard) else 1


def free_port() -> int:
    """Return a free port of this machine."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024, 4096, 16384])
    parser.add_argument(
        "--store", action="store_true", help="run the membership check with a real TCPStore (needs torch)"
    )
    parser.add_argument("--clients", type=int, default=1024)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one)))
    elif arguments.store:
        call_roll(arguments.clients)
    elif not compare(arguments.ranks):
        sys.exit(1)


if __name__ == "__main__":
    main()
