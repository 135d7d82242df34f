"""What torch's restricted unpickler would do, on streams made by hand: bytes that are followed, and never loaded."""

from __future__ import annotations

import argparse
import ast
import collections
import datetime
import pathlib
import pickle
import struct
from itertools import pairwise

import pytest

from distcheck.checks.pickles import machine
from distcheck.checks.pickles.picklefile import Anomaly, PickleFile, Stream
from distcheck.checks.pickles.source_bytes import BytesSource, ScanLimits
from distcheck.checks.pickles.torch_globals import installed_torch_version, known_versions, rules_for, torch_name
from distcheck.checks.pickles.trace import Trace
from distcheck.checks.pickles.weights_only import Policy, WeightsOnly, weights_only, weights_only_of_file


class Outer:
    class Inner:
        pass


def followed(content: bytes) -> Trace:
    return machine.run(BytesSource(content), 0, ScanLimits())


def stream(*opcodes: bytes) -> bytes:
    """A pickle of protocol 2 out of opcodes."""
    return b"\x80\x02" + b"".join(opcodes) + b"."


def named(module: str, name: str) -> bytes:
    return b"c" + f"{module}\n{name}\n".encode()


def text(value: str) -> bytes:
    content = value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return named(module, name) + b"(" + b"".join(arguments) + b"tR"


def made(module: str, name: str) -> bytes:
    """NEWOBJ without arguments."""
    return named(module, name) + b")\x81"


def ask(content: bytes, version: str | None = None, allow: frozenset[str] = frozenset()) -> WeightsOnly:
    return weights_only([followed(content)], Policy(version, allow))


def zipped(
    *traces: Trace, form: str = "torch zip", reader: str = "torch", anomalies: tuple[Anomaly, ...] = ()
) -> PickleFile:
    streams = tuple(Stream("archive/data.pkl", reader, trace) for trace in traces)
    return PickleFile("x.pt", form, 1, streams, anomalies)


STORAGE = call("torch", "FloatStorage")
ACCEPTED = {
    "plain data": pickle.dumps({"a": [1, 2.5, None, True, ("b",)], "b": -5, "c": 1 << 900}, 2),
    "a set": pickle.dumps({1, 2}, 2),
    "bytes": pickle.dumps([b"\xff", bytearray(b"a")], 2),
    "a complex number": pickle.dumps(1j, 2),
    "an ordered dict": pickle.dumps(collections.OrderedDict(a=1), 2),
    "a counter": pickle.dumps(collections.Counter("aab"), 2),
    "texts like names of functions": pickle.dumps({"os.system": "eval", "cos\nsystem\n": 1}, 2),
    "a size": stream(call("torch", "Size", b"(K\x01K\x02t")),
    "data types": stream(named("torch", "float32")),
    "a parameter with a state": stream(made("torch.nn.parameter", "Parameter"), b"}b"),
    "protocol 4 in its header only": b"\x80\x04K\x01.",
}
NEVER = {
    "a defaultdict": (pickle.dumps(collections.defaultdict(list, a=[1]), 2), "collections.defaultdict", "plain dict"),
    "a deque": (pickle.dumps(collections.deque([1]), 2), "collections.deque", "plain list"),
    "a huge integer": (pickle.dumps(1 << 3000, 2), "LONG4", "str()"),
    "protocol 4": (pickle.dumps({"a": 1}, 4), "protocol 4", "torch.save"),
    "protocol 3": (pickle.dumps(b"abc", 3), "SHORT_BINBYTES", "torch.save"),
    "protocol 0": (pickle.dumps(("a", 1), 0), "protocol 0", "torch.save"),
    "a blocked module": (stream(named("posix", "getpid")), "takes nothing of posix", "do not load"),
    "a call of a call": (stream(call("collections", "Counter"), b")R"), "result of", "do not load"),
    "a state for a class": (
        stream(named("collections", "OrderedDict"), b"}b"),
        "collections.OrderedDict",
        "do not load",
    ),
    "a state for a list": (stream(b"]}b"), "a list", "plain values"),
    "a state for a dict": (stream(b"}}b"), "a dict", "plain values"),
    "items for a global": (stream(named("collections", "OrderedDict"), b"K\x01K\x02s"), "OrderedDict", "do not load"),
    "a foreign persistent id": (stream(text("elsewhere"), b"Q"), "persistent id", "program that wrote it"),
    "an extension code": (stream(b"\x82\x01"), "extension code", "do not load"),
    "an extension code of 0": (stream(b"\x82\x00"), "it names something by an extension code (EXT1)", "do not load"),
    "items for a constant": (stream(b"NK\x01K\x02s"), "puts items into a constant", "plain dict"),
    "something dangerous": (stream(call("subprocess", "Popen", text("ls"))), "subprocess.Popen", "do not load"),
    "a name that is none": (stream(named("a b", "c d")), "a b.c d", "do not load"),
    "a data type that is called": (stream(call("torch", "float32")), "no function", "do not load"),
    "an instance of a function": (stream(made("_codecs", "encode")), "no class", "do not load"),
    "an attribute of a set": (
        stream(call("__builtin__", "set"), b"}", text("a"), b"K\x01sb"),
        "which has none",
        "do not load",
    ),
    "a stream that breaks off": (stream(b"]")[:-1], "", "again"),
}


def nested(outer: str, inner: str) -> bytes:
    return call("builtins", "getattr", named("pack", outer), text(inner))


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_accepted(name: str) -> None:
    assert ask(ACCEPTED[name]) == WeightsOnly("accept")


@pytest.mark.parametrize("name", sorted(NEVER))
def test_never(name: str) -> None:
    content, why, fix = NEVER[name]
    answer = ask(content)
    assert answer.answer == "never"
    assert why in answer.why
    assert fix in answer.fix
    assert not answer.allowlist
    assert not answer.why.endswith(".")


@pytest.mark.parametrize(
    ("value", "allowlist", "imports"),
    [
        (argparse.Namespace(a=1), ("argparse.Namespace",), ("import argparse",)),
        (datetime.date(2024, 1, 1), ("datetime.date",), ("import datetime",)),
        (frozenset([1]), ("frozenset",), ()),
        (range(3), ("range",), ()),
        (ValueError("x"), ("(ValueError, 'exceptions.ValueError')",), ()),
        (..., ("(Ellipsis, 'builtins.Ellipsis')",), ()),
        (collections.UserDict(), ("collections.UserDict",), ("import collections",)),
    ],
)
def test_the_line_to_paste(value: object, allowlist: tuple[str, ...], imports: tuple[str, ...]) -> None:
    answer = ask(pickle.dumps({"value": value}, 2))
    assert answer == WeightsOnly("allowlist", (), allowlist, imports)


def test_paths_have_one_name_in_all_versions_of_python() -> None:
    assert ask(pickle.dumps(pathlib.PurePosixPath("/a"), 2)).imports == ("import pathlib",)
    answer = ask(stream(call("pathlib._local", "PosixPath", text("/a"))))
    assert answer.allowlist == ("(pathlib.PosixPath, 'pathlib._local.PosixPath')",)


def test_modules_in_packages_are_imported_by_name() -> None:
    """``torch.optim`` takes the names of its modules away again, so that only this form finds the class."""
    answer = ask(stream(made("torch.optim.sgd", "SGD"), b"}b"))
    assert answer == WeightsOnly("allowlist", (), ("SGD",), ("from torch.optim.sgd import SGD",))


def test_two_things_of_one_name_are_kept_apart() -> None:
    answer = ask(stream(named("pack.one", "Config"), named("pack.two", "Config"), named("pack.two", "list"), b"\x87"))
    assert answer.allowlist == ("Config", "pack_two_Config", "pack_two_list")
    assert answer.imports == (
        "from pack.one import Config",
        "from pack.two import Config as pack_two_Config",
        "from pack.two import list as pack_two_list",
    )


def test_a_nested_class_needs_no_getattr_on_the_list() -> None:
    answer = ask(pickle.dumps(Outer.Inner(), 2))
    assert answer.answer == "allowlist"
    assert answer.allowlist[:2] == ("Outer", "Outer.Inner")
    assert answer.allowlist[2].startswith("(lambda *pair: {(Outer, 'Inner'): Outer.Inner}[pair], 'builtins.getattr')")
    assert "getattr" not in answer.allowlist
    assert ask(pickle.dumps(Outer.Inner(), 2), "2.5").answer == "never"


def test_a_getattr_that_is_handed_on_is_refused() -> None:
    handed = stream(
        named("pack", "Outer"),
        b"0",
        named("torch._tensor", "_rebuild_from_type_v2"),
        b"(",
        named("builtins", "getattr"),
        b"tR",
    )
    answer = ask(handed)
    assert answer.answer == "never"
    assert "getattr" in answer.why


@pytest.mark.parametrize(
    ("inner", "version", "why"),
    [
        ("__globals__", None, "it names {}, which reaches into the inside of an object"),
        ("Inner", "2.5", "{} is nested in another class"),
        ("lambda", None, "{} is no name that can be written in Python"),
    ],
)
def test_each_nested_name_that_is_refused_is_named(inner: str, version: str | None, why: str) -> None:
    answer = ask(stream(b"(", nested("One", inner), nested("Two", inner), b"t"), version)
    assert answer.answer == "never"
    assert answer.why == "; ".join(why.format(f"pack.{outer}.{inner}") for outer in ("One", "Two"))


def numpy_stream(module: str, *codes: str) -> bytes:
    arrays = b""
    for code in codes:
        dtype = (
            call("numpy", "dtype", text(code), b"\x89\x88")
            + b"(K\x03"
            + text("<")
            + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        )
        arrays += (
            call(f"{module}.multiarray", "scalar", dtype, call("_codecs", "encode", text("a"), text("latin1"))) + b"a"
        )
    return stream(b"]", arrays)


def test_the_types_that_numpy_makes_are_on_the_list() -> None:
    recent = ask(numpy_stream("numpy._core", "f8"))
    assert recent.allowlist == ("scalar", "numpy.dtype", "numpy.dtypes.Float64DType")
    assert recent.imports == ("from numpy._core.multiarray import scalar", "import numpy")
    old = ask(numpy_stream("numpy.core", "f8"))
    assert old.allowlist == (
        "(scalar, 'numpy.core.multiarray.scalar')",
        "numpy.dtype",
        "type(numpy.dtype('f8'))",
    )


def test_every_type_of_numpy_is_named_where_there_are_several() -> None:
    answer = ask(numpy_stream("numpy._core", "f8", "i4", "U5", "f8"))
    assert [entry for entry in answer.allowlist if entry.startswith("numpy.dtypes.")] == [
        "numpy.dtypes.Float64DType",
        "numpy.dtypes.Int32DType",
        "numpy.dtypes.StrDType",
    ]


def test_all_types_of_numpy_are_allowed_where_more_occur_than_a_trace_keeps_apart() -> None:
    answer = ask(numpy_stream("numpy._core", *(f"U{length}" for length in range(1, 70))))
    assert any(entry.startswith("*{type(numpy.dtype") for entry in answer.allowlist)
    assert ast.parse(f"f([{', '.join(answer.allowlist)}])")


def test_types_of_numpy_are_on_the_list_only_where_one_gets_a_state() -> None:
    filled = stream(call("numpy", "dtype", text("f8")), b"K\x01K\x02s")
    assert ask(filled, "2.6").allowlist == ("numpy.dtype",)


def test_what_an_import_allows() -> None:
    shard = stream(made("torch.distributed.tensor.placement_types", "Shard"), b"}b")
    assert ask(shard) == WeightsOnly("import", ("torch.distributed.tensor",))
    assert ask(shard, "2.6") == WeightsOnly("import", ("torch.distributed.tensor",))
    assert ask(shard, "2.5").answer == "allowlist"


def test_what_the_caller_allows() -> None:
    content = stream(made("pack.mod", "Config"), b"}b")
    assert ask(content).allowlist == ("Config",)
    assert ask(content, allow=frozenset({"pack.mod.Config"})).answer == "accept"
    blocked = stream(call("os", "getcwd"))
    assert ask(blocked, allow=frozenset({"os.getcwd"})).answer == "never"


def test_versions_of_torch() -> None:
    complex_number = pickle.dumps(1j, 2)
    assert ask(complex_number, "2.6").allowlist == ("complex",)
    assert ask(pickle.dumps({1}, 2), "2.5.1").allowlist == ("set",)
    assert ask(pickle.dumps(b"a", 2), "2.4").imports == ("import _codecs",)
    assert ask(pickle.dumps(frozenset(), 2), "2.3").answer == "never"
    filled = pickle.dumps(collections.defaultdict(list, a=[1]), 2)
    assert ask(filled, "2.9").answer == "allowlist"
    assert ask(filled, "2.10").answer == "never"
    assert ask(pickle.dumps(ValueError(1), 2), "2.5").answer == "never"


def test_the_nearest_table_is_named() -> None:
    assert known_versions() == ("2.4", "2.5", "2.6", "2.13")
    assert rules_for(None).version == rules_for("2.13.0+cpu").version == "2.13"
    assert not rules_for("2.13.1").note
    for version, table in (("2.0", "2.4"), ("2.8", "2.6"), ("2.11.0+cu128", "2.13"), ("3.1", "2.13")):
        rules = rules_for(version)
        assert rules.version == table
        assert table in rules.note
    for wrong in ("", "new", "2.x", "2..1", "²"):
        with pytest.raises(ValueError, match=r"2\.13"):
            rules_for(wrong)


def test_each_table_holds_the_one_before() -> None:
    tables = [rules_for(version).allowed for version in known_versions()]
    for before, after in pairwise(tables):
        assert before < after
    assert len(tables[-1]) == 148
    assert "torch._utils._rebuild_tensor_v2" in tables[0]


def test_names_of_python_2_that_torch_translates() -> None:
    assert torch_name("__builtin__", "set") == ("builtins", "set")
    assert torch_name("__builtin__", "xrange") == ("builtins", "range")
    assert torch_name("exceptions", "ValueError") == ("exceptions", "ValueError")
    assert torch_name("urllib2", "urlopen") == ("urllib2", "urlopen")


def test_the_installed_version_is_read_without_an_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path / "nothing"), str(tmp_path)])
    assert installed_torch_version() is None
    (tmp_path / "torch").mkdir()
    for line, expected in (
        ("__version__ = '2.13.0+cpu'\n", "2.13.0+cpu"),
        ('from typing import Optional\n__version__: str = "2.6.0"\ncuda = None\n', "2.6.0"),
        ("raise RuntimeError\n", None),
    ):
        (tmp_path / "torch" / "version.py").write_text(line)
        assert installed_torch_version() == expected


def test_a_budget_that_ends_says_nothing() -> None:
    trace = machine.run(BytesSource(pickle.dumps(list(range(1000)), 2)), 0, ScanLimits(opcodes=10))
    assert trace.ended == "budget"
    assert weights_only([trace]).answer == "unknown"
    bad = followed(NEVER["a deque"][0])._replace(ended="budget")
    assert weights_only([bad]).answer == "never"


def test_files_as_a_whole() -> None:
    fine = followed(ACCEPTED["plain data"])
    assert weights_only_of_file(zipped(fine)) == WeightsOnly("accept")
    assert weights_only_of_file(zipped(fine, form="numpy array", reader="numpy")) is None
    plain = weights_only_of_file(zipped(fine, form="pickle", reader="pickle"))
    assert plain is not None
    assert (plain.answer, "plain pickle" in plain.why) == ("never", True)
    refused = weights_only_of_file(
        zipped(fine, anomalies=(Anomaly("it is a TorchScript archive", "refused", fix="use torch.jit.load"),))
    )
    assert refused == WeightsOnly("never", why="it is a TorchScript archive", fix="use torch.jit.load")
    behind = Anomaly("2 bytes are no pickle", "malformed", offset=fine.end, member="archive/data.pkl")
    assert weights_only_of_file(zipped(fine, anomalies=(behind,))) == WeightsOnly("accept")
    cut = weights_only_of_file(zipped(fine, anomalies=(behind._replace(member=None),)))
    assert cut is not None
    assert cut.answer == "never"
    absent = weights_only_of_file(zipped(fine)._replace(storages_absent=("0",)))
    assert absent is not None
    assert absent.answer == "never"
    assert weights_only_of_file(PickleFile("x.pt", "torch zip", 1)) == WeightsOnly("unknown")


def test_hidden_streams_do_not_count_and_headers_do() -> None:
    fine, bad = followed(ACCEPTED["plain data"]), followed(NEVER["a deque"][0])
    for role, expected in (("hidden", "accept"), ("appended", "accept"), ("header", "never"), ("keys", "never")):
        streams = (Stream(None, "torch-legacy", fine), Stream(None, "torch-legacy", bad, role))
        answer = weights_only_of_file(PickleFile("x.pt", "torch legacy", 1, streams))
        assert answer is not None
        assert answer.answer == expected


def test_what_the_old_format_cannot_hold() -> None:
    content = stream(named("torch.storage", "UntypedStorage"))
    assert weights_only([followed(content)]).answer == "accept"
    assert weights_only([followed(content)], legacy=True).answer == "never"


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (call("__builtin__", "set") + b"}" + text("a") + b"K\x01sb", "which has none"),
        (nested("Outer", "lambda"), "no name that can be written"),
    ],
)
def test_reasons_of_one_rank_are_given_together(refused: bytes, why: str) -> None:
    answer = ask(stream(refused, b"0", call("collections", "deque"), b"K\x01a"))
    assert answer.answer == "never"
    assert why in answer.why
    assert "it appends to" in answer.why


def test_the_type_of_a_constant_allows_nothing_else() -> None:
    constant = named("builtins", "type") + b"N\x85R"
    answer = ask(stream(b"(", constant, call("os", "system", text("true")), b"t"))
    assert answer.answer == "never"
    assert "os.system" in answer.why
    assert ask(stream(constant)).allowlist == ("(lambda value: type(value), 'builtins.type')",)


@pytest.mark.parametrize(("module", "name"), [("pack", "lambda"), ("pack.class", "Thing")])
def test_what_python_can_not_import_is_on_no_list(module: str, name: str) -> None:
    answer = ask(stream(call(module, name)))
    assert answer.answer == "never"
    assert "no name that can be written" in answer.why


def test_a_memory_map_is_a_reason_next_to_others() -> None:
    answer = ask(stream(b"(", named("numpy", "memmap"), call("collections", "deque"), b"K\x01at"), "2.5")
    assert "memory map of numpy" in answer.why
    assert "it appends to" in answer.why


def test_three_reasons_and_three_opcodes_are_given() -> None:
    appended = [call("pack", name) + b"K\x01a" for name in ("First", "Second", "Third", "Fourth")]
    answer = ask(stream(b"(", *appended, b"t"))
    assert answer.why.split("; ") == [
        f"it appends to a pack.{name}, and torch appends to plain lists only" for name in ("First", "Second", "Third")
    ]
    assert "(UNICODE, PUT, INT and 2 more)" in ask(pickle.dumps(("a", 1, [1], {1: 2}), 0)).why


def test_what_can_not_be_called_in_torch_can_be_elsewhere() -> None:
    assert ask(stream(call("torch", "DiskStorage"))).answer == "never"
    assert ask(stream(call("zoo", "DiskStorage"))).allowlist == ("zoo.DiskStorage",)


def test_all_that_is_dangerous_is_given_together() -> None:
    answer = ask(stream(call("subprocess", "Popen", text("ls")), b"0", call("posix", "system", text("ls"))))
    assert "subprocess.Popen" in answer.why
    assert "takes nothing of posix" in answer.why


def test_what_is_dangerous_is_said_before_what_is_wrong_with_the_container() -> None:
    anomaly = Anomaly("it is a TorchScript archive", "refused", fix="use torch.jit.load")
    answer = weights_only_of_file(zipped(followed(NEVER["something dangerous"][0]), anomalies=(anomaly,)))
    assert answer is not None
    assert "subprocess.Popen" in answer.why
    assert "TorchScript" not in answer.why


def test_lists_and_dictionaries_that_a_call_makes_are_filled_as_plain_ones() -> None:
    assert ask(stream(call("builtins", "list"), b"K\x01a")).allowlist == ("list",)
    assert ask(stream(call("builtins", "dict"), b"K\x01K\x02s")).allowlist == ("dict",)


def test_a_name_of_python_2_stays_in_the_line_to_paste() -> None:
    assert ask(stream(call("UserDict", "UserDict"))).allowlist == ("collections.UserDict",)  # which torch translates
    answer = ask(stream(call("urlparse", "ParseResult")))
    assert answer.allowlist == ("(ParseResult, 'urlparse.ParseResult')",)
