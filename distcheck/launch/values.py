"""How a library parses the text of a variable: pure parsers, one per form.

They return the effective value and the consequence of a wrong text. The probes decide whether it matters for a launch,
and ``settings.py`` knows which text applies. Nothing outside is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from distcheck.core.patterns import lazy
from distcheck.core.variable_table import Variable, edit_distance

#: The consequence of a text that a library can't use as it is. ``crash``: the import, the launcher or the start of the
#: process group fails. ``misread``: it gets another meaning. ``ignored``: it, or a part of it, has no effect.
#: ``fallback``: the library uses its default or a similar value.
Consequence = Literal["crash", "misread", "ignored", "fallback"]


class ValueReading(NamedTuple):
    """How a library reads a text."""

    #: the value that the library uses; None for its default, or none
    effective: str | None
    #: one clause that follows the name and the value; None without a problem
    problem: str | None = None
    consequence: Consequence | None = None
    #: the problem exists unless this holds: one clause, ``the installed NCCL is older than 2.24``
    unless: str | None = None


#: Words for "off" and "on".
_OFF = frozenset({"0", "false", "no", "off", "n", "f", "disable", "disabled"})
_ON = frozenset({"1", "true", "yes", "on", "y", "t", "enable", "enabled"})

#: torch's message for a number or switch that it can't parse. If the flight recorder reads it, the exception
#: reaches running threads: the process exits with SIGABRT or hangs, by chance (run with torch 2.13.0).
_INVALID = "'Invalid value for environment variable:"

#: Characters that ``isspace`` matches in the C locale.
_C_BLANK = " \t\n\v\f\r"
_LONG_LONG_MIN, _LONG_LONG_MAX = -(1 << 63), (1 << 63) - 1
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_UNIT = lazy(r"\s*([kmgt])(?:i?b)?(?:ytes)?\s*$", re.IGNORECASE)
_UNIT_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
#: NCCL's own values for "not set" (NCCL_CONFIG_UNDEF_INT and its parameters' sentinels).
_NCCL_NOT_SET = (-1, -2)

#: Longest lists that NCCL keeps (MAX_IFS in src/include/socket.h, MAX_IB_DEVS in src/transport/net_ib, 2.30.7).
_MAX_INTERFACES = 16
_MAX_DEVICES = 32

#: The names that TORCH_LOGS accepts: those that torch 2.13.0 registers (``torch/_logging/_registrations.py``). They
#: include those of 2.2.2, 2.5.1 and 2.8.0.
TORCH_LOG_NAMES = frozenset(
    """
    all annotation aot aot_graphs aot_graphs_effects aot_joint_graph async_compile auto_chunker autograd autotuning
    benchmarking bytecode c10d cache caching compiled_autograd compiled_autograd_verbose compute_dependencies
    cudagraph_static_inputs cudagraphs custom_format_test_artifact ddp ddp_graphs distributed dtensor dynamic dynamo
    export fake_tensor fsdp fusion graph graph_breaks graph_code graph_code_verbose graph_region_expansion graph_sizes
    guards hierarchical_compile incremental inductor inductor_metrics ir_post_fusion ir_pre_fusion kernel_code
    loop_ordering loop_tiling native_dsl node_runtime_estimation not_implemented onnx onnx_diagnostics output_code
    overlap overlap_scheduling perf_hints post_grad_graphs pp pre_grad_graphs recompiles recompiles_verbose schedule
    side_effects sym_node torch trace_bytecode trace_call trace_shape_events trace_source verbose_guards
    """.split()  # noqa: SIM905 - reads better than a hundred quoted words
)
#: The grammar of TORCH_LOGS (``_gen_settings_regex``): blanks only after a comma, one sign at most.
_TORCH_LOGS = lazy(r"(?:[+-]?[\w.]+,\s*)*[+-]?[\w.]+")
#: Words that users write for a level; no module has such a name.
_LEVEL_WORDS = frozenset(
    {"critical", "debug", "error", "false", "info", "none", "off", "on", "true", "warn", "warning"}
)


def read_value(variable: Variable, text: str) -> ValueReading:
    """Return how the library of a variable reads a text. Never raises.

    A variable without a known parser accepts every text.
    """
    if not text and variable.parse in _EMPTY_IS_UNSET:
        return ValueReading(None)
    reader = _READERS.get(variable.parse or "")
    return ValueReading(text) if reader is None else reader(variable, text)


def c_integer(text: str) -> tuple[int | None, str]:
    """Return the number and the rest of a text like C's ``strtoll`` with base 0.

    The number is 0 without digits (the rest is then the whole text), and None if it does not fit 64 bits.
    """
    match = re.match(r"[ \t\n\v\f\r]*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))", text)
    if match is None:
        return 0, text
    sign, hexadecimal, octal, decimal = match.groups()
    digits, base = (hexadecimal, 16) if hexadecimal else (octal, 8) if octal else (decimal, 10)
    rest = text[match.end() :]
    # longer numbers fit no 64 bits, and Python would refuse 4300 digits
    if len(digits.lstrip("0")) > 24:
        return None, rest
    value = int(digits, base) * (-1 if sign == "-" else 1)
    return (value if _LONG_LONG_MIN <= value <= _LONG_LONG_MAX else None), rest


def torch_integer(text: str) -> int | None:
    """Return the number at the beginning of a text like C++'s ``std::stoi``, or None if that raises."""
    match = re.match(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]*)", text)
    if match is None or not match[0][-1:].isdigit() or len(match[2]) > 10:
        return None
    value = int(match[1] + (match[2] or "0"))
    return value if _INT_MIN <= value <= _INT_MAX else None


def unknown_log_names(text: str) -> tuple[str, ...]:
    """Return the names in TORCH_LOGS that torch does not register: it accepts them only as importable modules."""
    names = (part.strip().lstrip("+-") for part in text.split(","))
    return tuple(name for name in names if name and name not in TORCH_LOG_NAMES and "." not in name)


# numbers


def _c_int(variable: Variable, text: str) -> ValueReading:
    """All NCCL_PARAM variables: ``ncclLoadParam`` in src/misc/param.cc."""
    library = _library(variable)
    value, rest = c_integer(text)
    if value is None:
        return _default(f"does not fit 64 bits, and {library} falls back to its default")
    if rest == text:
        return _word_for_number(variable, text)
    if (misreading := _after_number(variable, text, value, rest)) is not None:
        return misreading
    if not _in_ranges(variable, value) and not (variable.owner == "nccl" and value in _NCCL_NOT_SET):
        return ValueReading(str(value), f"is outside of what {library} takes ({variable.values})", "fallback")
    return ValueReading(str(value))


def _word_for_number(variable: Variable, text: str) -> ValueReading:
    """Read a text without a number where C's parser expects one: it gives 0."""
    library = _library(variable)
    if variable.type == "bool" and text.strip().lower() in _OFF:
        return ValueReading("0")
    means = ", which means off" if variable.type == "bool" else ""
    return _misread("0", f"is read by {library} as 0{means}: it takes numbers only")


def _after_number(variable: Variable, text: str, value: int, rest: str) -> ValueReading | None:
    """Return the problem of the text after a number, if it changes the meaning."""
    library = _library(variable)
    written = re.match(r"[ \t\n\v\f\r]*[+-]?0+([0-9]+)", text)
    if written is not None and written[1] != str(abs(value)):
        return _misread(str(value), f"is read by {library} as {value}: a leading 0 makes it an octal number")
    tail = rest.strip()
    if not tail or tail.startswith("#") or re.fullmatch(r"\.0*", tail):
        return None
    if unit := _UNIT.match(rest):
        meant = value * 1024 ** _UNIT_POWERS[unit[1].lower()]
        return _misread(str(value), f"is read by {library} as {value}: it knows no units; {meant} is meant")
    if re.match(r"\.\d|[eE][+-]?\d", tail):
        return _misread(str(value), f"is read by {library} as {value}: it takes whole numbers only")
    return ValueReading(str(value), f"is read by {library} as {value}, and the rest of the text is ignored", "ignored")


def _c_one(variable: Variable, text: str) -> ValueReading:
    """A switch that compares with 1: ``ncclGetLevel`` in src/graph/paths.cc."""
    reading = _c_int(variable._replace(ranges=()), text)
    if reading.problem is None and reading.effective not in (None, "0", "1"):
        return ValueReading("0", f"has no effect: {_library(variable)} compares it with 1", "ignored")
    return reading


def _torch_int(variable: Variable, text: str) -> ValueReading:
    """``getCvarInt`` in torch/csrc/distributed/c10d/Utils.hpp."""
    value = torch_integer(text)
    if value is None:
        return _crash(f"makes the start of a process group fail or hang: it is no number ({_INVALID} {variable.name}')")
    match = re.match(r"[ \t\n\v\f\r]*[+-]?[0-9]+", text)
    rest = text[match.end() :].strip() if match else ""
    if rest:
        return ValueReading(str(value), f"is read by torch as {value}, and the rest of the text is ignored", "ignored")
    if not _in_ranges(variable, value):
        return ValueReading(str(value), f"is none of the values that torch knows ({variable.values})", "fallback")
    return ValueReading(str(value))


def _python_int(variable: Variable, text: str) -> ValueReading:
    """Python's ``int()``."""
    who = _library(variable)
    try:
        value = int(text)
    except ValueError:
        return _crash(f"makes {who} stop with ValueError: it is no whole number")
    if not _in_ranges(variable, value):
        return ValueReading(str(value), f"is outside of what {who} takes ({variable.values})", "fallback")
    return ValueReading(str(value))


def _python_float(variable: Variable, text: str) -> ValueReading:
    """Python's ``float()``."""
    try:
        return ValueReading(str(float(text)))
    except ValueError:
        return _crash(f"makes {_library(variable)} stop: it is no number")


def _plain_int(variable: Variable, text: str) -> ValueReading:
    """A documented range of numbers; the handling of other texts is unknown."""
    value = torch_integer(text) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) else None
    if value is None or not _in_ranges(variable, value):
        return _default(f"is no number of {variable.values}")
    return ValueReading(str(value))


def _openmp_threads(variable: Variable, text: str) -> ValueReading:
    """libgomp's ``parse_unsigned_long_list``: positive numbers, one for each level of nesting."""
    parts = [part.strip(_C_BLANK) for part in text.split(",")]
    numbers = [torch_long(part) for part in parts]
    if any(number is None or number < 1 for number in numbers):
        return _default("is no number of threads: OpenMP warns on stderr and uses every core for every rank")
    return ValueReading(str(numbers[0]))


def torch_long(text: str) -> int | None:
    """Return a decimal number that fits C's ``long``, or None."""
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text) is None:
        return None
    value = int(text)
    return value if _LONG_LONG_MIN <= value <= _LONG_LONG_MAX else None


# switches


def _nccl_bool(variable: Variable, text: str) -> ValueReading:
    """``ncclParamParserDefault<bool>`` (from 2.30); before that they were numbers."""
    word = text.lower()
    if word in ("1", "t", "true"):
        return ValueReading("1")
    if word in ("0", "f", "false"):
        return ValueReading("0")
    return _default("is neither 0 nor 1, and NCCL falls back to its default without a message")


def _torch_bool(variable: Variable, text: str) -> ValueReading:
    """``getCvarBool`` in torch/csrc/distributed/c10d/Utils.hpp."""
    word = text.lower()
    if word in ("y", "yes", "1", "t", "true"):
        return ValueReading("1")
    if word in ("n", "no", "0", "f", "false"):
        return ValueReading("0")
    return _crash(f"makes the start of a process group fail or hang: it is no switch ({_INVALID} {variable.name}')")


def _torch_flag(variable: Variable, text: str) -> ValueReading:
    """``c10::utils::check_env`` in c10/util/env.cpp."""
    if text in ("0", "1"):
        return ValueReading(text)
    return _no_effect("is neither 0 nor 1; torch warns about it and ignores it")


def _only_1(variable: Variable, text: str) -> ValueReading:
    """A switch that is on only for the text ``1``."""
    if text == "1":
        return ValueReading("1")
    if not text.strip() or text.strip().lower() in _OFF:
        return ValueReading("0")
    return _misread("0", f"is read by {_library(variable)} as off: only the text 1 switches it on")


def _only_true(variable: Variable, text: str) -> ValueReading:
    """A switch that is on only for the text ``True``."""
    if text == "True":
        return ValueReading("True")
    if text.strip().lower() in _ON:
        return _misread("False", f"is read by {_library(variable)} as off: only the text True switches it on")
    return ValueReading("False")


def _presence(variable: Variable, text: str) -> ValueReading:
    """A switch that is on if the variable is set."""
    if not text.strip() or text.strip().lower() in _OFF:
        return _misread("1", f"switches it on: {_library(variable)} only checks whether the variable is set")
    return ValueReading("1")


def _non_empty(variable: Variable, text: str) -> ValueReading:
    """A switch that is on for any text."""
    if not text:
        return ValueReading("0")
    return _presence(variable, text)


# words


def _torch_debug_level(variable: Variable, text: str) -> ValueReading:
    """``setDebugLevelFromEnvironment`` in torch/csrc/distributed/c10d/debug.cpp."""
    if text.upper() in variable.words:
        return ValueReading(text.upper())
    return _crash("makes 'import torch' itself raise ValueError: it must be OFF, INFO or DETAIL")


def _torch_log_level(variable: Variable, text: str) -> ValueReading:
    """Read by c10's logging; run with torch 2.13.0."""
    if not text or text.upper() in variable.words or text in ("0", "1", "2", "3"):
        return ValueReading(text.upper() or None)
    return _no_effect("is no level that torch knows; it warns on stderr and ignores it")


def _python_log_level(variable: Variable, text: str) -> ValueReading:
    """``logging.Logger.setLevel`` with a name, in torch/distributed/elastic/utils/logging.py."""
    if text in variable.words:
        return ValueReading(text)
    hint = f"; {text.strip().upper()} would do" if text.strip().upper() in variable.words else ""
    return _crash(f"makes torchrun itself raise 'ValueError: Unknown level'{hint}")


def _torch_logs(variable: Variable, text: str) -> ValueReading:
    """``_parse_log_settings`` in torch/_logging/_internal.py; run with torch 2.13.0."""
    raises = "makes 'import torch' itself raise"
    if not text:
        return _crash(f"is empty, which {raises}")
    if text in ("help", "+help"):
        return _crash(f"{raises} with a list of all names")
    if _TORCH_LOGS.fullmatch(text) is None:
        return _crash(f"{raises} ValueError: names stand in one comma list, each with one + or - at most")
    for name in unknown_log_names(text):
        near = _near_log_name(name)
        hint = "" if near is None else f"; {near!r} is one"
        certain = name[0].isdigit() or name.lower() in _LEVEL_WORDS
        unless = None if certain else f"a module called {name!r} can be imported"
        return _crash(f"{raises} ValueError: {name!r} is no log of torch{hint}", unless)
    return ValueReading(text)


def _near_log_name(name: str) -> str | None:
    """Return a registered name that differs in case, in one letter, or by a prefix of old torch code."""
    lower = name.lower()
    if lower in TORCH_LOG_NAMES:
        return lower
    if lower.removeprefix("dist_") in TORCH_LOG_NAMES:
        return lower.removeprefix("dist_")
    if len(lower) < 5:
        return None
    return min((other for other in TORCH_LOG_NAMES if edit_distance(lower, other, 1) <= 1), default=None)


def _word(variable: Variable, text: str) -> ValueReading:
    """One of a few words; any other has no effect, and no message is printed."""
    exact = "exact" in (variable.values or "")
    for word in variable.words:
        if text == word or (not exact and text.upper() == word.upper()):
            return ValueReading(word)
    return _no_effect(f"is ignored by {_library(variable)}: it knows {', '.join(variable.words)}")


def _nccl_word(variable: Variable, text: str) -> ValueReading:
    """``ncclParamOneOf`` (from 2.30); earlier versions did not remove blanks."""
    word = text.strip(_C_BLANK).upper()
    if word not in variable.words:
        return _no_effect(f"acts as if it were not set: NCCL knows {', '.join(variable.words)}")
    if word != text.upper():
        return ValueReading(
            None, "acts as if it were not set: a blank belongs to the word", "ignored", "NCCL is 2.30 or newer"
        )
    return ValueReading(word)


def _nccl_words(variable: Variable, text: str) -> ValueReading:
    """``ncclParamBitsetOf`` (from 2.30); earlier versions skipped an unknown word."""
    words = [word for word in text.removeprefix("^").split(",") if word.strip(_C_BLANK)]
    for word in words:
        if word.strip(_C_BLANK).upper() not in variable.words:
            return ValueReading(
                None,
                f"holds {word.strip()!r}, which NCCL does not know: it skips the word, from 2.30 on the whole setting",
                "fallback",
            )
    if any(word != word.strip(_C_BLANK) for word in words):
        return ValueReading(
            None, "holds blanks, which up to NCCL 2.29 belong to a word", "ignored", "NCCL is 2.30 or newer"
        )
    return ValueReading(text.upper() or None)


def _nccl_level(variable: Variable, text: str) -> ValueReading:
    """``ncclGetLevel`` in src/graph/paths.cc: a path type in upper case, or a number of an older scale."""
    if text in variable.words:
        return ValueReading(text)
    if text[0] in "0123456789":
        value, _ = c_integer(text)
        if value is not None and 0 <= value <= 5:
            return ValueReading(("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")[value])
        return ValueReading("SYS", "is above NCCL's old scale of 0 to 5, and is read as SYS", "fallback")
    upper = text.strip().upper()
    hint = f"; {upper} is meant" if upper in variable.words else f"; it knows {', '.join(variable.words)}"
    return _no_effect(f"is ignored by NCCL without a message{hint}")


def _nccl_selection(variable: Variable, text: str) -> ValueReading:
    """``parseList`` in src/graph/tuning.cc (from 2.24): ``list;function:list``, a leading ^ inverts a list."""
    known = {word.upper() for word in variable.words}
    old = "NCCL is older than 2.24"
    for position, section in enumerate(section for section in text.split(";") if section):
        parts = [part for part in section.split(":") if part]
        if position and len(parts) < 2:
            return _crash(f"makes NCCL stop: {section!r} names no function", unless=old)
        for word in parts[-1].removeprefix("^").split(",") if parts else ():
            if not word or word.upper() in known:
                continue
            if word.strip().upper() in known:
                return _crash(f"makes NCCL stop: the blank in {word!r} belongs to the word", unless=old)
            problem = f"makes NCCL stop: {word!r} is none of {', '.join(variable.words)}"
            return _crash(problem, f"{old}, or knows it by now")
    return ValueReading(text or None)


# lists of names, addresses, paths


def _nccl_interfaces(variable: Variable, text: str) -> ValueReading:
    """``parseStringList`` in src/misc/utils.cc and its callers: nothing is trimmed, and marks come before the list."""
    devices = variable.name == "NCCL_IB_HCA"
    if len(text) == 1 and not devices:
        return _no_effect("is ignored by NCCL: a single character is no setting")
    if text.startswith("=^"):
        return ValueReading(
            None, f"matches nothing: the marks stand in the order ^=, as in '^={text[2:]}'", _nothing(devices)
        )
    names = [entry.split(":")[0] for entry in text.removeprefix("^").removeprefix("=").split(",")]
    names = [name for name in names if name]
    broken = [name for name in names if name != name.strip() or name[0] in "^=\"'" or re.search(r"\s", name)]
    if broken:
        first = broken[0]
        why = "the blank belongs to the name" if re.search(r"\s", first) else "the mark or quote belongs to the name"
        return ValueReading(
            None,
            f"holds {first!r}, which matches nothing: {why}",
            _nothing(devices) if len(broken) == len(names) else "ignored",
        )
    most = _MAX_DEVICES if devices else _MAX_INTERFACES
    if len(names) > most:
        return ValueReading(
            ",".join(names[:most]), f"holds {len(names)} names, and NCCL keeps the first {most}", "ignored"
        )
    return ValueReading(text)


def _nothing(devices: bool) -> Consequence:
    """Return the consequence if no name matches: NCCL stops without an interface, and uses sockets without RDMA."""
    return "ignored" if devices else "crash"


def _gloo_interfaces(variable: Variable, text: str) -> ValueReading:
    """Exact names; run with torch 2.13.0."""
    names = text.split(",")
    if names[-1] == "":
        names.pop()
    for name in names:
        if not name:
            return _crash("makes gloo stop: it holds an empty name")
        if name[0] in "^=":
            return _crash(f"makes gloo stop: {name!r} is NCCL's way of writing; gloo takes exact names only")
        if re.search(r"\s", name):
            return _crash(f"makes gloo stop: the blank in {name!r} belongs to the name")
        if re.fullmatch(r"\d+\.\d+\.\d+\.\d+", name):
            return _crash(f"makes gloo stop: {name} is an address, not the name of an interface")
    return ValueReading(text)


def _gloo_transport(variable: Variable, text: str) -> ValueReading:
    """The registry of ``GlooDeviceFactory``: exact names, even the empty one."""
    stops = "makes gloo stop with 'unsupported gloo device'"
    if text == "TCP":
        return ValueReading(text)
    if text in variable.words:
        return ValueReading(text, stops, "crash", "torch was built with it (released Linux builds know TCP only)")
    hint = f": {text.strip().upper()} is written in upper case" if text.strip().upper() in variable.words else ""
    return _crash(f"{stops}{hint}")


def _host_port(variable: Variable, text: str) -> ValueReading:
    """``ncclSocketGetAddrFromString`` in src/misc/socket.cc."""
    match = re.fullmatch(r"(?:\[[^\]\s]+\]|[^\s:\[\]]+):(\d{1,5})", text)
    if match is None or int(match[1]) > 65535:
        return _default(f"is not of the form {variable.values}")
    return ValueReading(text)


def _path(variable: Variable, text: str) -> ValueReading:
    """A path that goes to ``fopen`` as it is."""
    if text.startswith("~"):
        return _no_effect(f"names no file: {_library(variable)} does not replace the ~, only a shell does")
    return ValueReading(text or None)


def _allocator(variable: Variable, text: str) -> ValueReading:
    """``AllocatorConfig::parseArgs`` in c10/core/AllocatorConfig.cpp: ``key:value`` pairs, exact words."""
    plain = re.sub(r"\[[^\]]*\]", "[]", text.replace(" ", ""))
    for pair in plain.split(","):
        key, colon, value = pair.partition(":")
        if "=" in key:
            return _crash(f"makes torch stop when it starts CUDA: {key!r} is no option; write key:value")
        if not colon and key:
            return _crash(f"makes torch stop when it starts CUDA: {key!r} has no value; write key:value")
        if key == "expandable_segments" and value not in ("True", "False"):
            return _crash("makes torch stop when it starts CUDA: expandable_segments takes True or False")
    return ValueReading(text or None)


def _openmp_bind(variable: Variable, text: str) -> ValueReading:
    """libgomp's ``parse_bind_var``; run with torch 2.13.0."""
    words = [word.strip(_C_BLANK).lower() for word in text.split(",")]
    known = set(words) <= set(variable.words) and (len(words) == 1 or not {"true", "false"} & set(words))
    if not known:
        return _default(f"is refused by OpenMP with a message on stderr; it knows {variable.values}")
    return ValueReading(",".join(words))


# torchrun's options


def _nnodes(variable: Variable, text: str) -> ValueReading:
    """``parse_min_max_nnodes`` in torch/distributed/run.py."""
    try:
        bounds = [int(part) for part in text.split(":")]
    except ValueError:
        bounds = []
    if not 1 <= len(bounds) <= 2 or bounds[0] < 1 or bounds[0] > bounds[-1]:
        return _crash("makes torchrun stop: it takes a number of nodes, or MIN:MAX")
    return ValueReading(text)


def _nproc(variable: Variable, text: str) -> ValueReading:
    """``determine_local_world_size`` in torch/distributed/run.py."""
    if text in ("auto", "cpu", "gpu", "xpu"):
        return ValueReading(text)
    try:
        number = int(text)
    except ValueError:
        stops = f"makes torchrun stop: {text!r} is no number of processes, nor auto, cpu, gpu or xpu"
        if re.fullmatch(r"[a-z]+", text):
            return ValueReading(None, stops, "crash", f"a torch backend for {text!r} devices is installed")
        return _crash(stops)
    if number < 1:
        return _crash("makes torchrun stop: it takes one process or more")
    return ValueReading(str(number))


def _rendezvous_backend(variable: Variable, text: str) -> ValueReading:
    """The registry of torch.distributed.elastic.rendezvous."""
    if text in variable.words:
        return ValueReading(text)
    unless = f"a package registers a rendezvous called {text!r}" if text else None
    return _crash(f"makes torchrun stop: no such rendezvous; it knows {', '.join(variable.words)}", unless=unless)


def _rendezvous_conf(variable: Variable, text: str) -> ValueReading:
    """``_parse_rendezvous_config`` in torch/distributed/elastic/rendezvous/utils.py."""
    for pair in text.split(",") if text.strip() else ():
        key, _, value = pair.partition("=")
        if not key.strip() or not value.strip():
            return _crash(f"makes torchrun stop: {pair!r} is not of the form key=value")
    return ValueReading(text or None)


def _rendezvous_endpoint(variable: Variable, text: str) -> ValueReading:
    """``parse_rendezvous_endpoint`` in the same file."""
    endpoint = text.strip()
    if not endpoint:
        return ValueReading(None)
    host, colon, port = endpoint.rpartition(":")
    if not colon or (endpoint[0] == "[" and endpoint[-1] == "]"):
        host, port = endpoint, ""
    elif re.fullmatch(r"[0-9]{1,5}", port) is None or int(port) > 65535:
        return _crash(f"makes torchrun stop: {port!r} is no port from 0 to 65535")
    if len(host) > 1 and host[0] == "[" and host[-1] == "]":
        host = host[1:-1]
    if re.fullmatch(r"[\w.:-]+", host) is None:
        return _crash(f"makes torchrun stop: {host!r} is no host name or address")
    return ValueReading(endpoint)


def _crash(problem: str, unless: str | None = None) -> ValueReading:
    """Return the reading of a text with which nothing works."""
    return ValueReading(None, problem, "crash", unless)


def _misread(effective: str, problem: str) -> ValueReading:
    """Return the reading of a text with another meaning."""
    return ValueReading(effective, problem, "misread")


def _no_effect(problem: str) -> ValueReading:
    """Return the reading of a text without effect."""
    return ValueReading(None, problem, "ignored")


def _default(problem: str) -> ValueReading:
    """Return the reading of a text that is replaced by the default."""
    return ValueReading(None, problem, "fallback")


def _in_ranges(variable: Variable, value: int) -> bool:
    return not variable.ranges or any(
        (low is None or low <= value) and (high is None or value <= high) for low, high in variable.ranges
    )


def _library(variable: Variable) -> str:
    """Return the usual spelling of the library's name."""
    names = {
        "nccl": "NCCL",
        "rccl": "RCCL",
        "ucc": "UCC",
        "ucx": "UCX",
        "rdma-core": "the verbs library",
        "cuda": "CUDA",
    }
    return names.get(variable.owner or "", variable.owner or "its reader")


_READERS: Mapping[str, Callable[[Variable, str], ValueReading]] = {
    "allocator": _allocator,
    "c-int": _c_int,
    "c-one": _c_one,
    "gloo-interfaces": _gloo_interfaces,
    "gloo-transport": _gloo_transport,
    "host-port": _host_port,
    "nccl-bool": _nccl_bool,
    "nccl-interfaces": _nccl_interfaces,
    "nccl-level": _nccl_level,
    "nccl-selection": _nccl_selection,
    "nccl-word": _nccl_word,
    "nccl-words": _nccl_words,
    "nnodes": _nnodes,
    "non-empty": _non_empty,
    "nproc": _nproc,
    "only-1": _only_1,
    "only-true": _only_true,
    "openmp-bind": _openmp_bind,
    "openmp-threads": _openmp_threads,
    "path": _path,
    "plain-int": _plain_int,
    "presence": _presence,
    "python-float": _python_float,
    "python-int": _python_int,
    "python-log-level": _python_log_level,
    "rendezvous-backend": _rendezvous_backend,
    "rendezvous-conf": _rendezvous_conf,
    "rendezvous-endpoint": _rendezvous_endpoint,
    "torch-bool": _torch_bool,
    "torch-debug-level": _torch_debug_level,
    "torch-flag": _torch_flag,
    "torch-int": _torch_int,
    "torch-log-level": _torch_log_level,
    "torch-logs": _torch_logs,
    "word": _word,
}

#: Parsers for which a variable without a text is not set.
_EMPTY_IS_UNSET = frozenset({
    "c-int", "c-one", "gloo-interfaces", "host-port", "nccl-bool", "nccl-interfaces", "nccl-level", "nccl-word", "word",
})  # fmt: skip

#: The known parsers: the table of variables names no other.
KINDS = frozenset(_READERS)
