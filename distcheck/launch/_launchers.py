"""How torchrun, torch.distributed.launch, accelerate and DeepSpeed parse their options: values, defaults, errors.

Each function reads the words after the launcher's name into a draft. A problem is reported only if the launcher itself
certainly refuses or ignores a word. Hosts are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ._arguments import GivenValue, OptionReading, OptionTable, read_arguments, shadowed
from ._draft import Draft
from ._options import ACCELERATE, DEEPSPEED, LAUNCH, TORCHRUN, TORCHRUN_CHOICES, TORCHRUN_NUMBERS, WITHOUT_VARIABLE
from ._shell import has_expansion
from .endpoint import split_endpoint
from .model import HIGHEST_PORT, integer

#: Words that ``--nproc-per-node`` takes besides numbers (torch 2.13, ``determine_local_world_size``).
NPROC_WORDS = frozenset({"gpu", "cpu", "auto", "xpu"})
#: Names that vendors give to torch's private-use backend; torchrun takes the one that is registered.
_PRIVATE_BACKENDS = frozenset({"privateuseone", "npu", "mlu", "musa", "gcu", "sdaa", "maia", "openreg", "cambricon"})
#: Rendezvous backends whose endpoint is HOST:PORT (torch 2.13, ``elastic/rendezvous/registry.py``).
_HOST_AND_PORT_BACKENDS = frozenset({"static", "c10d", "etcd", "etcd-v2"})

_TORCHRUN_FIELDS = (
    "nnodes_min", "nnodes_max", "nproc", "node_rank", "master_addr", "master_port", "rdzv_backend", "rdzv_endpoint",
    "rdzv_id", "rdzv_conf", "local_addr", "standalone", "max_restarts", "virtual_local_rank", "signals_to_handle",
    "module",
)  # fmt: skip
_ACCELERATE_FIELDS = (
    "processes", "nnodes_min", "nnodes_max", "node_rank", "master_addr", "master_port", "gpu_ids", "config_file",
    "module",
)  # fmt: skip
_DEEPSPEED_FIELDS = (
    "nproc", "nnodes_min", "nnodes_max", "node_rank", "master_addr", "master_port", "hostfile", "include", "exclude",
    "module",
)  # fmt: skip

#: Options of launchers only: scripts rarely have them, so after the script they are lost.
_LAUNCHER_ONLY = r"(?s)--(nproc[-_]per[-_]node|nnodes|rdzv[-_](?:backend|endpoint|id|conf)|standalone)(?:=.*)?"
#: Words among the script's arguments that start another command.
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch")


def read_torchrun(words: Sequence[str], draft: Draft) -> None:
    """Read ``torchrun …``, without its name."""
    draft.launcher = "torchrun"
    _torchrun(words, draft, TORCHRUN)


def read_distributed_launch(words: Sequence[str], draft: Draft) -> None:
    """Read ``python -m torch.distributed.launch …``, without its name: torchrun that adds ``--local-rank``."""
    draft.launcher = "torch.distributed.launch"
    reading = _torchrun(words, draft, LAUNCH)
    if "use-env" not in reading.flags:
        draft.set("local_rank_argument", "--local-rank")
        if "no-python" in reading.flags:
            draft.problem(
                "bad-value",
                "--no-python",
                "--no-python is given without --use-env, which torch.distributed.launch wants with it",
            )


def _torchrun(words: Sequence[str], draft: Draft, table: OptionTable) -> OptionReading:
    reading = read_arguments(words, table)
    draft.problems.extend(reading.problems)
    if reading.open_ended:
        draft.leave_open(_TORCHRUN_FIELDS)
    given, flags = dict(reading.given), reading.flags
    # Options that are not known yet override the environment.
    if not reading.open_ended:
        given = {**_variables(draft, table), **given}
        flags |= _flag_variables(draft, table)

    for flag, field in (
        ("standalone", "standalone"),
        ("virtual-local-rank", "virtual_local_rank"),
        ("no-python", "no_python"),
    ):
        if flag in flags:
            draft.set(field, True)
    if "nnodes" in given:
        _nnodes(draft, given["nnodes"])
    if "nproc-per-node" in given:
        _nproc(draft, given["nproc-per-node"])
    for option, field in (
        ("master-addr", "master_addr"),
        ("rdzv-backend", "rdzv_backend"),
        ("rdzv-endpoint", "rdzv_endpoint"),
        ("rdzv-id", "rdzv_id"),
        ("local-addr", "local_addr"),
        ("signals-to-handle", "signals_to_handle"),
    ):
        if option in given and given[option].value:
            draft.text(field, given[option].value)
    if "node-rank" in given:
        draft.number("node_rank", *given["node-rank"])
    if "master-port" in given:
        draft.port("master_port", *given["master-port"])
    if "max-restarts" in given:
        draft.number("max_restarts", *given["max-restarts"], low=0, what="a whole number from 0 on")
    if "rdzv-conf" in given:
        _rdzv_conf(draft, given["rdzv-conf"])
    if "standalone" not in flags:
        _endpoint(draft, given)
    _convert(draft, given)
    if {"no-python", "module"} <= flags and "run-path" not in flags:
        draft.problem("bad-value", "--no-python", "--no-python and --module stand together, expected only one of them")

    if _script(draft, reading, table, module="module" in flags):
        _misplaced(draft, reading, given, flags)
    return reading


def _variables(draft: Draft, table: OptionTable) -> dict[str, GivenValue]:
    """Return the values of the PET_ variables, torchrun's defaults."""
    found: dict[str, GivenValue] = {}
    for option in set(table.options.values()) - table.flags - WITHOUT_VARIABLE:
        name = _variable(option)
        if name in draft.environ:
            found[option] = GivenValue(draft.environ[name], name)
    return found


def _flag_variables(draft: Draft, table: OptionTable) -> frozenset[str]:
    found = set()
    for flag in sorted(table.flags - WITHOUT_VARIABLE):
        name = _variable(flag)
        value = draft.environ.get(name)
        if value is None:
            continue
        number = integer(value)
        if has_expansion(value):
            draft.leave_open({flag.replace("-", "_")} & set(_TORCHRUN_FIELDS))
        elif number is None:
            draft.refuse(name, value, "0 or 1")
        elif number:
            found.add(flag)
    return frozenset(found)


def _variable(option: str) -> str:
    return "PET_" + option.upper().replace("-", "_")


def _nnodes(draft: Draft, given: GivenValue) -> None:
    if has_expansion(given.value):
        draft.leave_open(("nnodes_min", "nnodes_max"))
        return
    numbers = [integer(part) for part in given.value.split(":")]
    low, high = numbers[0], numbers[-1]
    if len(numbers) > 2 or low is None or high is None:
        draft.refuse(given.word, given.value, "a number of nodes or MIN:MAX")
    elif not 0 < low <= high:
        draft.refuse(given.word, given.value, "at least one node and MIN not above MAX")
    else:
        draft.set("nnodes_min", low)
        draft.set("nnodes_max", high)


def _nproc(draft: Draft, given: GivenValue) -> None:
    word, value = given.word, given.value
    draft.text("nproc", value)
    if "nproc" in draft.unknown or value in NPROC_WORDS or value in _PRIVATE_BACKENDS:
        return
    number = integer(value)
    if number is None:
        hint = ", write gpu" if value in ("cuda", "gpus", "GPU") else ""
        draft.refuse(word, value, f"a number, gpu, cpu, xpu or auto{hint}")
    elif number < 1:
        draft.refuse(word, value, "at least one process")


def _rdzv_conf(draft: Draft, given: GivenValue) -> None:
    if has_expansion(given.value):
        draft.leave_open(("rdzv_conf",))
        return
    pairs: dict[str, str] = {}
    for part in given.value.split(",") if given.value.strip() else ():
        key, _, value = (side.strip() for side in part.partition("="))
        if not key or not value:
            draft.problem(
                "bad-value", given.word, f"{given.word} has {part!r}, expected KEY=VALUE pairs joined by commas"
            )
            return
        pairs[key] = value
    draft.set("rdzv_conf", pairs)


def _endpoint(draft: Draft, given: dict[str, GivenValue]) -> None:
    """Check that torch can parse ``--rdzv-endpoint`` as host and port."""
    endpoint = draft.fields.get("rdzv_endpoint")
    if endpoint is None or "rdzv_backend" in draft.unknown:
        return
    backend = draft.fields.get("rdzv_backend", "static")
    conf = draft.fields.get("rdzv_conf", {})
    # A c10d store of type "file" takes a path here.
    if (
        backend not in _HOST_AND_PORT_BACKENDS
        or "rdzv_conf" in draft.unknown
        or conf.get("store_type", "tcp").lower() != "tcp"
    ):
        return
    word = given["rdzv-endpoint"].word
    port = split_endpoint(endpoint)[1]
    if port is None:
        if backend == "static":
            draft.problem(
                "bad-value",
                word,
                f"{word} is {endpoint!r} without a port, expected HOST:PORT with the static rendezvous",
            )
    elif re.fullmatch(r"[0-9]{1,5}", port) is None or int(port) > HIGHEST_PORT:
        draft.refuse(word, endpoint, f"HOST:PORT with a port from 0 to {HIGHEST_PORT}")


def _convert(draft: Draft, given: dict[str, GivenValue]) -> None:
    """Check the values that argparse converts or compares."""
    for option, convert in TORCHRUN_NUMBERS.items():
        if option in given and not has_expansion(given[option].value):
            try:
                convert(given[option].value)
            except ValueError:
                draft.refuse(given[option].word, given[option].value, "a number")
    for option, choices in TORCHRUN_CHOICES.items():
        if option in given and not has_expansion(given[option].value) and given[option].value not in choices:
            draft.refuse(given[option].word, given[option].value, f"one of {', '.join(choices)}")


def _script(draft: Draft, reading: OptionReading, table: OptionTable, *, module: bool) -> bool:
    """Read the script and its arguments; return whether there is one."""
    if reading.rest:
        draft.script(reading.rest, module=module)
        if reading.open_ended and not module:
            draft.leave_open(("module",))
        if table.abbreviations and not reading.separated:
            draft.set("shadowed_script_args", shadowed(reading.rest[1:], table))
        return True
    if reading.open_ended:
        draft.leave_open(("script", "script_args"))
    elif "help" not in reading.flags and "print-completion" not in reading.given:
        draft.problem("missing-script", table.launcher, f"{table.launcher} is given no script and no module to run")
    return False


def _misplaced(draft: Draft, reading: OptionReading, given: dict[str, GivenValue], flags: frozenset[str]) -> None:
    """Report launcher options after the script: the script gets them, and torchrun does not."""
    if reading.open_ended or "no-python" in flags:
        return
    for word in reading.rest[1:]:
        if word == "--" or word.rpartition("/")[2] in _LAUNCHERS:
            return
        match = re.fullmatch(_LAUNCHER_ONLY, word) if word.startswith("--") else None
        if match is None:
            continue
        option = match[1].replace("_", "-")
        # Where torchrun has the option as well, the script has one of the same name.
        if option not in given and option not in flags:
            draft.problem(
                "misplaced-option",
                word,
                f"{word} stands behind {reading.rest[0]}, which gets it and not {draft.launcher}, expected before it",
            )


#: Options with which accelerate does not, or may not, use the path of ``--cpu``.
_STARTS_SEVERAL = frozenset(
    {"multi-gpu", "use-deepspeed", "use-fsdp", "use-megatron-lm", "tpu", "mpirun-hostfile", "config-file"}
)


def read_accelerate(words: Sequence[str], draft: Draft) -> None:
    """Read ``accelerate launch …``, without these two words."""
    draft.launcher = "accelerate"
    reading = read_arguments(words, ACCELERATE)
    draft.problems.extend(reading.problems)
    if reading.open_ended:
        draft.leave_open(_ACCELERATE_FIELDS)
    given = reading.given
    for option, field in (
        ("num-processes", "processes"),
        ("machine-rank", "node_rank"),
        ("max-restarts", "max_restarts"),
    ):
        if option in given:
            draft.number(field, *given[option])
    if "num-machines" in given:
        draft.number("nnodes_min", *given["num-machines"])
        _same(draft, "nnodes_max", "nnodes_min")
    if "main-process-port" in given:
        draft.port("master_port", *given["main-process-port"])
    for option, field in (
        ("main-process-ip", "master_addr"),
        ("gpu-ids", "gpu_ids"),
        ("config-file", "config_file"),
        ("rdzv-backend", "rdzv_backend"),
        ("deepspeed-hostfile", "hostfile"),
    ):
        if option in given:
            draft.text(field, given[option].value)
    if "rdzv-conf" in given:
        _rdzv_conf(draft, given["rdzv-conf"])
    processes = draft.fields.get("processes")
    if "multi-gpu" in reading.flags and processes is not None and processes < 2:
        word = given["num-processes"].word
        draft.problem("bad-value", word, f"{word} is {processes}, expected at least 2 with --multi_gpu")
    # accelerate 1.15, run: one plain process for any --num_processes, unless mpirun starts the others
    if "cpu" in reading.flags and not _STARTS_SEVERAL & (reading.flags | given.keys()):
        draft.set("processes", 1)
    if "no-python" in reading.flags:
        draft.set("no_python", True)
    _script(draft, reading, ACCELERATE, module="module" in reading.flags)


def read_deepspeed(words: Sequence[str], draft: Draft) -> None:
    """Read ``deepspeed …``, without its name."""
    draft.launcher = "deepspeed"
    reading = read_arguments(words, DEEPSPEED)
    draft.problems.extend(reading.problems)
    if reading.open_ended:
        draft.leave_open(_DEEPSPEED_FIELDS)
    given = reading.given
    for option in ("hostfile", "include", "exclude", "master_addr"):
        if option in given and given[option].value:
            draft.text(option, given[option].value)
    # -1 means "all" and "not given" for DeepSpeed.
    for option, field in (("num_nodes", "nnodes_min"), ("node_rank", "node_rank")):
        if option in given and given[option].value != "-1":
            draft.number(field, *given[option])
    _same(draft, "nnodes_max", "nnodes_min")
    if "num_gpus" in given and given["num_gpus"].value != "-1":
        word, value = given["num_gpus"].word, given["num_gpus"].value
        draft.text("nproc", value)
        if "nproc" not in draft.unknown and integer(value) is None:
            draft.refuse(word, value, "a whole number")
    if "master_port" in given:
        draft.port("master_port", *given["master_port"])
    _included(draft)
    if "no_python" in reading.flags:
        draft.set("no_python", True)
    if "no_local_rank" not in reading.flags:
        draft.set("local_rank_argument", "--local_rank")
    _script(draft, reading, DEEPSPEED, module="module" in reading.flags)


def _included(draft: Draft) -> None:
    """Read the nodes of ``--include host:0,1@host2:0,1``, and the processes if all nodes have as many."""
    include = draft.fields.get("include")
    if include is None:
        return
    nodes: dict[str, set[str]] = {}
    for part in include.split("@"):
        host, _, slots = part.partition(":")
        nodes.setdefault(host, set()).update(filter(None, slots.split(",")))
    draft.set("nnodes_min", len(nodes))
    draft.set("nnodes_max", len(nodes))
    if not all(slot.isdigit() for slots in nodes.values() for slot in slots):
        return
    counts = {len(slots) for slots in nodes.values()}
    if len(counts) == 1 and counts != {0} and "nproc" not in draft.fields:
        draft.set("nproc", str(counts.pop()))


def _same(draft: Draft, field: str, other: str) -> None:
    if other in draft.unknown:
        draft.leave_open((field,))
    elif other in draft.fields:
        draft.set(field, draft.fields[other])
