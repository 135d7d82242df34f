"""Makes the package's table of variables, ``distcheck/core/variables.jsonl``, from the collected facts.

The facts, ``tools/envvars.json``, name the source of each one; the package needs only what a judgement needs, and
needs it quickly: one compact object a line, sorted by name, ``name`` first. What the facts lack, such as how exactly
a text is read, stands in the tables below with its source. The same input gives the same bytes.

    python tools/make_variables.py                    write the table
    python tools/make_variables.py FACTS.json         write it from other facts
    python tools/make_variables.py --check            print whether the shipped table is current (status 1 if not)
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FACTS = ROOT / "tools" / "envvars.json"
TABLE = ROOT / "distcheck" / "core" / "variables.jsonl"

#: Keys that are carried over as they are, in the order in which they are written.
CARRIED = (
    "name",
    "exists",
    "owner",
    "type",
    "parse",
    "values",
    "default",
    "since",
    "removed",
    "deprecated_by",
    "deprecated_since",
    "suggest",
    "flags",
)

#: How a text is read, more exactly than the facts have it. Kinds are explained in ``distcheck/launch/values.py``.
PARSE: Mapping[str, str] = {
    # torch 2.13.0, Python files of the wheel: the value is compared with the text "1"
    "DCP_DISABLE_AUTOMATIC_GC": "only-1",
    "DCP_DISABLE_MANUAL_GC": "only-1",
    "DCP_USE_PREFIX_STORE": "only-1",
    "FR_TRACE_VERBOSE_OUTPUT": "only-1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "only-1",
    "TORCHELASTIC_ENABLE_FILE_TIMER": "only-1",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "only-1",
    "TORCH_ELASTIC_WORKER_IDENTICAL": "only-1",
    "TORCH_SYMMMEM_IMPLICIT_POOL": "only-1",
    "USE_LIBUV": "only-1",
    # the same, compared with "True" (torch/distributed/rendezvous.py)
    "TORCHELASTIC_USE_AGENT_STORE": "only-true",
    # the same, only checked for presence
    "TORCH_DISTRIBUTED_COMPILE_ON_ONE_RANK": "non-empty",
    "TORCH_SYMM_MEM_ENABLE_NATIVE_ASYNC_TP": "presence",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "presence",
    "RDMAV_FORK_SAFE": "presence",
    "RDMAV_HUGEPAGES_SAFE": "presence",
    # the same, through int() or float(); run with torch 2.13.0: torchrun or init_process_group raises ValueError
    "TORCH_DIST_INIT_BARRIER": "python-int",
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "python-int",
    "PET_MASTER_PORT": "python-int",
    "PET_MAX_RESTARTS": "python-int",
    "PET_MONITOR_INTERVAL": "python-float",
    "PET_NODE_RANK": "python-int",
    "PET_STANDALONE": "python-int",
    # run with torch 2.13.0
    "LOGLEVEL": "python-log-level",
    "PET_NNODES": "nnodes",
    "PET_NPROC_PER_NODE": "nproc",
    "PET_RDZV_BACKEND": "rendezvous-backend",
    "PET_RDZV_CONF": "rendezvous-conf",
    "PET_RDZV_ENDPOINT": "rendezvous-endpoint",
    "TORCH_DISTRIBUTED_DEBUG": "torch-debug-level",
    "TORCH_CPP_LOG_LEVEL": "torch-log-level",
    "TORCH_LOGS": "torch-logs",
    "GLOO_DEVICE_TRANSPORT": "gloo-transport",
    "GLOO_SOCKET_IFNAME": "gloo-interfaces",
    "GLOO_LOG_LEVEL": "word",
    "OMP_NUM_THREADS": "openmp-threads",
    "OMP_PROC_BIND": "openmp-bind",
    # c10/util/env.cpp, check_env: "0" and "1", all else is warned about and ignored
    "TORCH_NCCL_USE_COMM_NONBLOCKING": "torch-flag",
    "TORCH_SHOW_CPP_STACKTRACES": "torch-flag",
    # c10/core/AllocatorConfig.cpp
    "PYTORCH_ALLOC_CONF": "allocator",
    "PYTORCH_CUDA_ALLOC_CONF": "allocator",
    "PYTORCH_HIP_ALLOC_CONF": "allocator",
    # NVIDIA/nccl 2.30.7: src/graph/paths.cc, src/misc/socket.cc, src/init.cc, src/graph/tuning.cc
    "NCCL_P2P_DISABLE": "c-one",
    "NCCL_P2P_LEVEL": "nccl-level",
    "NCCL_NET_GDR_LEVEL": "nccl-level",
    "NCCL_SOCKET_FAMILY": "word",
    "NCCL_IB_ADDR_FAMILY": "word",
    "NCCL_CHECK_MODE": "word",
    "NCCL_LAUNCH_MODE": "word",
    "NCCL_ALGO": "nccl-selection",
    "NCCL_PROTO": "nccl-selection",
    "NCCL_SOCKET_IFNAME": "nccl-interfaces",
    "NCCL_OOB_NET_IFNAME": "nccl-interfaces",
    "NCCL_IB_HCA": "nccl-interfaces",
    "NCCL_COMM_ID": "host-port",
    "NCCL_RAS_ADDR": "host-port",
    "NCCL_CONF_FILE": "path",
    "NCCL_DEBUG_FILE": "path",
    "NCCL_GRAPH_FILE": "path",
    "NCCL_TOPO_FILE": "path",
    # src/include/param/parser_*.h of the same release
    "NCCL_DEBUG": "nccl-word",
    "NCCL_DEBUG_SUBSYS": "nccl-words",
    "NCCL_DEBUG_TIMESTAMP_LEVELS": "nccl-words",
    "NCCL_SET_THREAD_NAME": "nccl-bool",
    "NCCL_WARN_ENABLE_DEBUG_INFO": "nccl-bool",
    # strtol up to 2.30, strtod later
    "NCCL_RAS_TIMEOUT_FACTOR": "text",
    # CUDA programming guide, environment variables: a number in a range
    "CUDA_DEVICE_MAX_CONNECTIONS": "plain-int",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS": "plain-int",
}

#: Kinds that the facts name but for which nothing is judged: any text is valid, or the library was not read.
NOT_JUDGED = frozenset({"text", "nccl-typed"})

#: Corrections of single facts, each with its reason.
CORRECTED: Mapping[str, Mapping[str, Any]] = {
    # run with torch 2.13.0: "debug", "10" and the empty text end torchrun with "ValueError: Unknown level"
    "LOGLEVEL": {
        "values": "CRITICAL,FATAL,ERROR,WARN,WARNING,INFO,DEBUG,NOTSET (exact upper case)",
        "meaning": "Level of the elastic launcher's own log. Other text, also in lower case, ends torchrun at once.",
    },
    # c10d's registry of gloo devices holds the platform's name as well
    "GLOO_DEVICE_TRANSPORT": {"values": "TCP,LINUX,UV,APPLE,WIN32,TCP_TLS,IBVERBS (exact, as built)"},
    # the same list as its successor
    "PYTORCH_HIP_ALLOC_CONF": {"deprecated_since": "2.9"},
    "PYTORCH_CUDA_ALLOC_CONF": {"deprecated_since": "2.9"},
    # NVIDIA/nccl 2.30.7, src/graph/topo.cc: every path type up to SYS is taken
    "NCCL_P2P_LEVEL": {"values": "LOC,NVL,NVB,C2C,PIX,PXB,P2C,PXN,PHB,SYS (exact upper case) or legacy 0..4"},
    "NCCL_NET_GDR_LEVEL": {"values": "LOC,NVL,NVB,C2C,PIX,PXB,P2C,PXN,PHB,SYS (exact upper case) or legacy 0..4"},
    # RCCL's guides recommend 112 on MI300X, so that NCCL's documented 1..32 is no limit
    "NCCL_MIN_NCHANNELS": {"values": "1 or more"},
    # both sides are plain values, none is "automatic"
    "NCCL_SHM_LOCALITY": {"values": "1,2"},
    # the rule has the fix
    "NCCL_NVLS_DISABLE": {"meaning": "Only the positive form exists."},
    # run with torch 2.13.0 (bundled libgomp)
    "OMP_PROC_BIND": {"values": "true,false,master,primary,close,spread (any case)"},
}

#: Names that nothing reads, but that many scripts and frameworks use for themselves: their own variable is no mistake.
#: NCCL_TIMEOUT and its like are handed to init_process_group(timeout=…) in public training code, the others to
#: torchrun's options; PyTorch Lightning reads NODE_RANK.
OWN_USE = frozenset(
    {
        "GLOO_TIMEOUT",
        "MASTER_HOST",
        "MASTER_IP",
        "NCCL_TIMEOUT",
        "NCCL_TIMEOUT_SEC",
        "NNODES",
        "NODE_RANK",
        "NPROC_PER_NODE",
        "TORCH_DISTRIBUTED_TIMEOUT",
        "TORCH_NCCL_TIMEOUT",
        "WORLDSIZE",
    }
)

#: Slips whose suggestion is not the same thing under another name: its value would be another one, or the opposite.
OTHER_THING = frozenset(
    {
        "GLOO_IB_DISABLE",
        "GLOO_SOCKET_IFADDR",
        "NCCL_ABORT_ON_ERROR",
        "NCCL_CONNECT_TIMEOUT",
        "NCCL_IB_ENABLE",
        "NCCL_IB_IFNAME",
        "NCCL_NVLS_DISABLE",
        "NCCL_P2P_ENABLE",
        "NCCL_SHM_ENABLE",
        "NCCL_SOCKET_TIMEOUT",
    }
)

_NUMBER = re.compile(r"-?\d+$")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)$")
_OPEN = re.compile(r"(-?\d+) or more$")
_SPECIAL = re.compile(r"(-?\d+) (?:automatic|default|follows \w+|means automatic|system default|is off)$")
_WORDS = re.compile(r"(?:comma list of )?([A-Za-z][\w-]*(?:, ?[A-Za-z][\w-]*)+)")

#: Kinds of parsing that check a range of numbers, and kinds that check a list of words.
WITH_RANGES = frozenset({"c-int", "torch-int", "python-int", "plain-int"})
WITH_WORDS = frozenset(
    {
        "word",
        "nccl-word",
        "nccl-words",
        "nccl-level",
        "nccl-selection",
        "torch-debug-level",
        "torch-log-level",
        "python-log-level",
        "gloo-transport",
        "openmp-bind",
        "rendezvous-backend",
    }
)


def ranges_of(values: str) -> list[list[int | None]]:
    """The numbers that a text such as ``0..255, -1 default`` allows, as closed ranges; empty if it has none."""
    text = re.sub(r"\([^)]*\)", "", values.split(";")[0])
    found: list[list[int | None]] = []
    only_specials = True
    for part in (part.strip() for part in text.split(",")):
        if _NUMBER.match(part):
            found.append([int(part), int(part)])
            only_specials = False
        elif match := _RANGE.match(part):
            found.append([int(match[1]), int(match[2])])
            only_specials = False
        elif match := _OPEN.match(part):
            found.append([int(match[1]), None])
            only_specials = False
        elif part.split(" ")[0] == "positive":
            found.append([1, None])
            only_specials = False
        elif part == "else index":
            found.append([0, None])
            only_specials = False
        elif match := _SPECIAL.match(part):
            found.append([int(match[1]), int(match[1])])
        else:
            return []
    if only_specials:
        found.append([0, None])
    return found


def words_of(values: str) -> list[str]:
    """The words that a text such as ``OFF,INFO,DETAIL (any case)`` allows; empty where it lists none."""
    match = _WORDS.match(values)
    return [] if match is None else [word.strip() for word in match[1].split(",")]


def entry_of(fact: Mapping[str, Any]) -> dict[str, Any]:
    """One fact as the package needs it; keys without a value are dropped."""
    name = fact["name"]
    fact = {**fact, **CORRECTED.get(name, {})}
    entry = {key: fact[key] for key in CARRIED if fact.get(key) not in (None, [], "")}
    parse = PARSE.get(name, fact.get("parse"))
    if parse is None or parse in NOT_JUDGED:
        entry.pop("parse", None)
    else:
        entry["parse"] = parse
    values = fact.get("values") or ""
    if "inferred" not in values:
        # NCCL's switches take any number but 0 for "on", and a 2 was given a meaning of its own before
        if parse in WITH_RANGES and fact.get("type") != "bool" and (ranges := ranges_of(values)):
            entry["ranges"] = ranges
        if parse in WITH_WORDS:
            entry["words"] = words_of(values)
            if not entry["words"]:
                raise ValueError(f"{name}: no words in {values!r}")
            if "any case" in values:
                entry["any_case"] = True
    if name in OWN_USE:
        entry["own_use"] = True
    if name in OTHER_THING:
        entry["other_thing"] = True
    entry["meaning"] = fact["meaning"]
    first = {key: entry[key] for key in CARRIED if key in entry}
    return first | entry


def table_of(facts: Iterable[Mapping[str, Any]]) -> bytes:
    """The whole table, as it is shipped."""
    entries = sorted((entry_of(fact) for fact in facts), key=lambda entry: str(entry["name"]))
    names = [entry["name"] for entry in entries]
    unknown = (set(PARSE) | set(CORRECTED) | OWN_USE | OTHER_THING) - set(names)
    if unknown or len(names) != len(set(names)):
        raise ValueError(f"named here, but no fact: {sorted(unknown)}; or a name stands twice")
    dangling = {
        entry["name"]: successor
        for entry in entries
        for successor in (entry.get("suggest"), entry.get("deprecated_by"))
        if successor is not None and successor not in names and not successor.startswith("OFI_NCCL_")
    }
    if dangling:
        raise ValueError(f"successors that no fact is about: {dangling}")
    lines = (json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in entries)
    return "".join(line + "\n" for line in lines).encode()


def main(arguments: list[str] | None = None) -> int:
    """Write the table, or compare it with what is shipped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("facts", nargs="?", type=Path, default=FACTS, help="default: tools/envvars.json")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where the table is not current")
    parser.add_argument("-o", "--output", type=Path, default=TABLE, help="default: distcheck/core/variables.jsonl")
    options = parser.parse_args(arguments)
    table = table_of(json.loads(options.facts.read_text(encoding="utf-8")))
    if options.check:
        current = options.output.exists() and options.output.read_bytes() == table
        print(f"{options.output.name} is {'current' if current else 'not current: run tools/make_variables.py'}")
        return 0 if current else 1
    options.output.write_bytes(table)
    print(f"{options.output.name}: {len(table.splitlines())} variables, {len(table)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
