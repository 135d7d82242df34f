"""Verdicts on streams made by hand: bytes that are followed, and never loaded."""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import functools
import pickle
import uuid

import pytest

from distcheck.checks.pickles import machine
from distcheck.checks.pickles.picklefile import Anomaly, PickleFile, Stream
from distcheck.checks.pickles.source_bytes import BytesSource, ScanLimits
from distcheck.checks.pickles.trace import Global, Trace, Unresolved
from distcheck.checks.pickles.trusted_globals import STANDARD_LIBRARY, trust_of
from distcheck.checks.pickles.verdict import FileVerdict, Policy, judge, purpose_of

from .test_weights_only import Outer, call, made, named, stream, text


def followed(content: bytes) -> Trace:
    return machine.run(BytesSource(content), 0, ScanLimits())


def plain(*contents: bytes) -> PickleFile:
    return PickleFile("x.pkl", "pickle", 1, tuple(Stream(None, "pickle", followed(content)) for content in contents))


def torch_zip(*contents: bytes) -> PickleFile:
    streams = tuple(Stream("archive/data.pkl", "torch", followed(content)) for content in contents)
    return PickleFile("x.pt", "torch zip", 1, streams)


def verdict(content: bytes, **policy: object) -> FileVerdict:
    return judge(plain(content), Policy(**policy))  # type: ignore[arg-type]


class Mine:
    def __init__(self) -> None:
        self.value = 1


DANGEROUS = """
os system
posix system
nt system
os remove
subprocess Popen
builtins eval
builtins exec
builtins __import__
builtins getattr
builtins open
builtins map
__builtin__ eval
__builtin__ apply
importlib import_module
runpy run_path
pickle loads
_pickle loads
cPickle loads
marshal loads
types FunctionType
types CodeType
operator attrgetter
_operator call
math __dict__
test.support.script_helper assert_python_ok
test.support.os_helper unlink
numpy ndarray.tofile
numpy.rec fromfile
torch.utils.data.datapipes.utils.decoder basichandlers
operator methodcaller
functools reduce
ctypes CDLL
socket create_connection
urllib.request urlopen
urllib2 urlopen
commands getoutput
timeit timeit
ensurepip bootstrap
pkgutil resolve_name
idlelib.run x
lib2to3.pgen2.pgen x
pydoc locate
asyncio.unix_events _UnixSubprocessTransport
logging FileHandler
logging.config dictConfig
_aix_support _read_cmd_output
_osx_support _find_build_tool
imaplib IMAP4_stream
_pyrepl.pager pipe_pager
uuid _get_command_stdout
shutil rmtree
tempfile NamedTemporaryFile
pathlib Path.write_text
zipfile ZipFile
sqlite3 connect
webbrowser open
code InteractiveInterpreter
pty spawn
bdb Bdb
doctest debug_script
cProfile run
trace Trace
venv create
distutils.spawn spawn
imp load_source
popen2 Popen3
weakref WeakMethod
sys exit
_thread start_new_thread
multiprocessing.util spawnv_passfds
copyreg add_extension
numpy.f2py os.system
torch.serialization os.system
torch.serialization os
numpy.testing._private.utils runstring
numpy.f2py.crackfortran getlincoef
numpy load
numpy memmap
numpy.lib.npyio NpzFile
numpy.distutils.exec_command exec_command
torch load
torch.serialization load
torch.hub load
torch.jit load
torch.utils.cpp_extension load_inline
torch.utils.collect_env run
torch._dynamo.guards eval
torch._inductor.codecache PyCodeCache.load
torch.fx.graph_module reduce_graph_module
torch._utils _import_dotted_name
torch.storage UntypedStorage.from_file
torch FloatStorage.from_file
torch.distributed.rpc.internal _run_function
torch.multiprocessing.reductions rebuild_storage_filename
torch._C _VariableFunctionsClass.from_file
torch.nn.modules.module functools
pandas read_pickle
pandas.io.pickle read_pickle
joblib load
joblib.numpy_pickle load
dill._dill _create_function
cloudpickle.cloudpickle _builtin_type
IPython.core.interactiveshell InteractiveShell
pip main
setuptools setup
yaml unsafe_load
fickling.hook remove_hook
fickling.context check_safety
picklescan.cli main
modelscan.cli cli
distcheck.cli.main main
torch.serialization safe_globals
collections.abc Mapping.register
torch.return_types torch.load
some_package.utils system
some_package.utils os
some_package Outer.__init__
some_package Outer.__globals__
some_package thing.loader.Klass
__main__ __builtins__
"a b" c
"""
INERT = """
builtins set
builtins frozenset
__builtin__ xrange
builtins slice
builtins ValueError
exceptions ValueError
exceptions StandardError
_codecs encode
copy_reg _reconstructor
collections OrderedDict
collections deque
UserDict IterableUserDict
datetime datetime
decimal Decimal
fractions Fraction
uuid UUID
pathlib PosixPath
pathlib._local PosixPath
argparse Namespace
types SimpleNamespace
http HTTPStatus
math sqrt
typing Optional
ipaddress IPv4Address
random Random
zoneinfo ZoneInfo._unpickle
numpy ndarray
numpy dtype
numpy.core.multiarray _reconstruct
numpy._core.multiarray scalar
numpy.dtypes Float64DType
numpy.random._pickle __generator_ctor
numpy.random.mtrand RandomState
scipy.sparse._csr csr_matrix
joblib.numpy_pickle NumpyArrayWrapper
torch._utils _rebuild_tensor_v2
torch FloatStorage
torch float8_e5m2
torch.nn.modules.linear Linear
torch.nn.modules.container Sequential
torch.nn.modules.module Module
torch.nn.parameter Parameter
torch.optim.adamw AdamW
torch.optim.lr_scheduler CosineAnnealingLR
torch.return_types max
collections.abc Mapping
numbers Number
os PathLike
__future__ annotations
torch.nn.functional relu
torch.distributed.checkpoint.metadata Metadata
torch.distributed.tensor DTensor
torch._C Generator
numpy.core._internal _reconstruct
"""
UNVOUCHED = """
__main__ Config
test.models Net
some_package.models Net
some_package Outer.Inner
sklearn.linear_model._base LinearRegression
pandas.core.frame DataFrame
transformers.training_args TrainingArguments
functools partial
builtins type
builtins max
logging getLogger
_operator getitem
types GenericAlias
torch.nn.modules.module register_module_forward_hook
torch.nn.modules.linear F
torch.nn.modules.linear Surely
torch.optim.adam Surely
torch.distributions.normal Surely
torch.return_types name
torch.return_types pytree_register_structseq
torch.nn.parallel.distributed DistributedDataParallel
torch.utils.data.dataloader DataLoader
numpy vectorize
numpy add
"""


def lines(table: str) -> list[Global]:
    return [Global(*line.replace('"a b"', "a\tb").split(" ", 1)) for line in table.split("\n") if line]


@pytest.mark.parametrize("what", lines(DANGEROUS), ids=lambda what: what.path)
def test_dangerous(what: Global) -> None:
    judged = trust_of(what)
    assert judged.kind == "dangerous"
    assert judged.why
    assert not judged.why.startswith("it ")
    assert not judged.why.endswith(".")


@pytest.mark.parametrize("what", lines(INERT), ids=lambda what: what.path)
def test_inert(what: Global) -> None:
    assert trust_of(what).kind == "benign"


@pytest.mark.parametrize("what", lines(UNVOUCHED), ids=lambda what: what.path)
def test_unvouched(what: Global) -> None:
    assert trust_of(what).kind == "untrusted"


def test_all_of_the_standard_library_is_dangerous_unless_listed() -> None:
    import sys

    for module in sys.stdlib_module_names - {"this", "antigravity"}:
        assert module in STANDARD_LIBRARY, module
        assert trust_of(Global(module, "surely_not_on_any_list")).kind == "dangerous"
        assert trust_of(Global(f"{module}.below", "Anything")).kind == "dangerous"


def test_what_is_said_of_a_call() -> None:
    judged = verdict(stream(call("posix", "system", text("echo hello"))))
    assert judged.word == "dangerous"
    (danger,) = judged.dangers
    assert danger.call == "posix.system('echo hello')"
    assert danger.why == "it runs a shell command"
    assert danger.what == Global("posix", "system")
    assert judged.weights_only is not None
    assert judged.weights_only.answer == "never"
    assert not judged.weights_only.allowlist


def test_what_is_fetched_and_not_called_is_dangerous_too() -> None:
    judged = verdict(stream(named("os", "system")))
    (danger,) = judged.dangers
    assert danger.call == ""
    assert danger.why == "it names os.system, which runs a shell command"


HARMLESS = [
    {"a": [1, 2.5, None]},
    {"os.system": "eval(1)", "x": b"cos\nsystem\n(S'ls'\ntR."},
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),
    [decimal.Decimal(1), uuid.UUID(int=1), argparse.Namespace(a=1), collections.deque([1]), range(3), {1}],
    collections.defaultdict(list, a=[1]),
    ValueError("x"),
    bytearray(b"abc" * 100),
]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: type(value).__name__)
def test_harmless_pickles_are_safe(value: object, protocol: int) -> None:
    judged = verdict(pickle.dumps(value, protocol))
    assert judged.word == "safe", judged
    assert judged.weights_only is not None
    assert judged.weights_only.answer == "never"  # a plain pickle is no file of torch.save
    assert not judged.dangers
    assert not judged.untrusted


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_of_others_has_to_be_allowed(protocol: int) -> None:
    content = pickle.dumps(Mine(), protocol)
    judged = verdict(content)
    assert judged.word == "needs-allow-listing"
    assert judged.untrusted == (Global(__name__, "Mine"),)
    assert verdict(content, allow=frozenset({f"{__name__}.Mine"})).word == "safe"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nested_classes_are_no_use_of_getattr(protocol: int) -> None:
    judged = verdict(pickle.dumps([Outer.Inner(), Outer.Inner], protocol))
    assert judged.word == "needs-allow-listing", judged.dangers
    assert {found.name for found in judged.untrusted} >= {"Outer.Inner"}
    assert Global("builtins", "getattr") not in judged.benign


def test_a_method_found_by_getattr_is_judged_by_its_name() -> None:
    found = call("builtins", "getattr", named("pathlib", "Path"), text("write_text"))
    assert verdict(stream(found)).word == "dangerous"
    found = call("builtins", "getattr", named("pack", "Outer"), text("__init__"))
    assert verdict(stream(found)).word == "dangerous"


def test_partials_are_for_the_reader_to_judge() -> None:
    assert verdict(pickle.dumps(functools.partial(int, base=2), 2)).word == "needs-allow-listing"


def test_what_can_not_be_known_is_dangerous() -> None:
    for content in (
        stream(call("collections", "Counter"), b")R"),
        stream(b"\x82\x01)R"),
        stream(named("collections", "Counter"), b"}" + text("a") + b"K\x01sb"),
        b"\x80\x04\x8c\x01a(l\x93.",
        stream(text("id"), b"Q)R"),
    ):
        judged = verdict(content)
        assert judged.word in ("dangerous", "malformed"), content
        if judged.word == "dangerous":
            assert all(danger.why for danger in judged.dangers)


@pytest.mark.parametrize(
    "content",
    [
        call("builtins", "list", call("builtins", "range", b"J\xff\xff\xff\x7f")),
        call("collections", "deque", call("__builtin__", "xrange", b"J\xff\xff\xff\x7f")),
        call("builtins", "list", call("itertools", "repeat", b"K\x00")),
        call("builtins", "set", call("ipaddress", "IPv6Network", text("::/0"))),
        call("builtins", "bytearray", b"\x8a\x05\x00\x00\x00\x00\x7f"),
        call("fractions", "Fraction", text("1e999999999")),
        call("builtins", "int", call("decimal", "Decimal", text("1e999999999"))),
    ],
)
def test_calls_that_would_not_end(content: bytes) -> None:
    assert verdict(stream(content)).word == "dangerous"


def test_ranges_and_decimals_themselves_are_fine() -> None:
    assert verdict(pickle.dumps([range(10**12), decimal.Decimal("1e99"), bytearray(8)], 2)).word == "safe"


def test_bytes_that_torch_is_to_unpickle() -> None:
    """``pickle.dumps`` of a tensor: the bytes are a file of their own, and judged only where they are at hand."""
    content = stream(call("torch.storage", "_load_from_bytes", call("_codecs", "encode", text("x"), text("latin1"))))
    trace = followed(content)
    alone = PickleFile("x", "pickle", 1, (Stream(None, "pickle", trace._replace(nested=())),))
    assert judge(alone).word == "dangerous"
    inside = Stream(None, "torch-legacy", followed(pickle.dumps({"a": 1}, 2)), "nested")
    with_it = PickleFile("x", "pickle", 1, (Stream(None, "pickle", trace), inside))
    assert len(trace.nested) == 1
    assert judge(with_it).word == "safe"
    fetched = verdict(stream(named("torch.storage", "_load_from_bytes"))).dangers
    assert Global("torch.storage", "_load_from_bytes") in [danger.what for danger in fetched]
    bad = Stream(None, "torch-legacy", followed(stream(call("os", "system", text("id")))), "nested")
    assert judge(PickleFile("x", "pickle", 1, (Stream(None, "pickle", trace), bad))).word == "dangerous"


def test_what_torch_allows_needs_no_word() -> None:
    content = pickle.dumps([collections.OrderedDict(a=1), argparse.Namespace(a=1)], 2)
    assert verdict(content).benign == (Global("argparse", "Namespace"),)
    shard = stream(made("torch.distributed.tensor.placement_types", "Shard"), b"}b")
    assert verdict(shard).benign == ()


def test_allowing_nothing_of_os() -> None:
    judged = verdict(stream(call("os", "getcwd")), allow=frozenset({"os.getcwd"}))
    assert judged.word == "dangerous"
    assert "torch takes nothing of os" in judged.dangers[0].why
    assert verdict(stream(call("glob", "glob", text("x"))), allow=frozenset({"glob.glob"})).word == "safe"


def test_purposes() -> None:
    content = pickle.dumps(argparse.Namespace(a=1), 2)
    assert purpose_of(torch_zip(content), Policy()) == "weights-only"
    assert purpose_of(plain(content), Policy()) == "pickle"
    assert purpose_of(plain(content), Policy(purpose="weights-only")) == "weights-only"
    assert judge(torch_zip(content)).word == "needs-allow-listing"
    assert judge(torch_zip(content)).benign == (Global("argparse", "Namespace"),)
    assert judge(torch_zip(content), Policy(purpose="pickle")).word == "safe"
    assert judge(plain(content)).word == "safe"
    assert judge(plain(content), Policy(purpose="weights-only")).word == "needs-allow-listing"
    assert judge(torch_zip(pickle.dumps(Mine(), 2)), Policy(purpose="pickle")).word == "needs-allow-listing"


def test_the_worst_word_counts() -> None:
    fine = pickle.dumps({"a": 1}, 2)
    bad = stream(call("os", "system", text("id")))
    file = torch_zip(fine)
    assert judge(file).word == "safe"
    assert judge(file._replace(unopened=("x",))).word == "incomplete"
    odd = file._replace(unopened=("x",), anomalies=(Anomaly("it is cut", "malformed"),))
    assert judge(odd).word == "malformed"
    assert judge(file._replace(anomalies=(Anomaly("two of a name", "disagree"),))).word == "malformed"
    assert judge(file._replace(anomalies=(Anomaly("bytes behind it", "note"),))).word == "safe"
    assert judge(file._replace(storages_absent=("0",))).word == "malformed"
    hidden = Stream("x", "pickle", followed(bad), "hidden")
    assert judge(odd._replace(streams=(*odd.streams, hidden))).word == "dangerous"


def test_a_payload_before_a_broken_tail() -> None:
    judged = verdict(b"\x80\x02" + call("os", "system", text("id")) + b"\xff\xff")
    assert judged.word == "dangerous"
    assert judged.malformed


def test_streams_that_end_early() -> None:
    assert verdict(pickle.dumps([1, 2], 2)[:-1]).word == "malformed"
    trace = machine.run(BytesSource(pickle.dumps(list(range(1000)), 2)), 0, ScanLimits(opcodes=10))
    judged = judge(PickleFile("x", "pickle", 1, (Stream(None, "pickle", trace),)))
    assert judged.word == "incomplete"
    assert judged.not_checked
    cut = followed(b"\x80\x02]")
    assert judge(PickleFile("x", "joblib", 1, (Stream(None, "pickle", cut, "hidden"),))).word == "safe"
    for role in ("object", "header", "keys", "nested", "appended"):
        assert judge(PickleFile("x", "pickle", 1, (Stream(None, "pickle", cut, role),))).word == "malformed"


def test_nothing_to_judge_is_not_safe() -> None:
    assert judge(PickleFile("x", "unknown", 5)).word == "incomplete"
    assert judge(PickleFile("x", "safetensors", 5, executes_nothing=True)).word == "safe"


def test_persistent_ids_of_others() -> None:
    judged = verdict(stream(text("row 5"), b"Q"))
    assert judged.word == "incomplete"
    assert "persistent" in judged.not_checked[0]


def test_whole_modules() -> None:
    state = b"}(" + text("_parameters") + b"}" + text("_buffers") + b"}" + text("_modules") + b"}ub"
    layer = made("torch.nn.modules.linear", "Linear") + state
    mine = made("pack.net", "Net") + state
    other = made("pack.net", "Config") + b"}" + text("a") + b"K\x01sb"
    judged = judge(torch_zip(stream(b"]", layer, b"a", mine, b"a", other, b"a")))
    assert [(call.function, call.opcode) for call in judged.modules_saved] == [
        (Global("torch.nn.modules.linear", "Linear"), "NEWOBJ"),
        (Global("pack.net", "Net"), "NEWOBJ"),
    ]


def test_things_of_torch_distributed() -> None:
    content = stream(
        named("torch.distributed.distributed_c10d", "ProcessGroup"),
        b"0",
        named("torch.distributed.device_mesh", "DeviceMesh"),
        b"0",
        named("torch.distributed.checkpoint.metadata", "Metadata"),
    )
    found = judge(torch_zip(content)).distributed
    assert [what.name for what in found] == ["ProcessGroup", "DeviceMesh"]


def test_a_device_mesh_is_data_unless_it_is_made_by_a_call() -> None:
    """``DeviceMesh(…)`` makes process groups; what pickle writes of one only fills an object."""
    called = verdict(stream(call("torch.distributed.device_mesh", "DeviceMesh", text("cuda"))))
    assert called.word == "dangerous"
    assert called.dangers[0].why == "it makes process groups, and so connects to the other ranks of a job"
    assert verdict(stream(made("torch.distributed.device_mesh", "DeviceMesh"), b"}b")).word == "safe"


def test_torchscript_is_read_by_no_python() -> None:
    types = stream(made("__torch__.torch.nn.modules.linear", "Linear"), b"}b")
    payload = stream(call("os", "system", text("id")))
    for content, word in ((types, "needs-allow-listing"), (payload, "dangerous")):
        file = PickleFile(
            "x.pt",
            "TorchScript archive",
            1,
            (Stream("x/data.pkl", "torchscript", followed(content)),),
            (Anomaly("it is a TorchScript archive", "refused"),),
        )
        judged = judge(file)
        assert judged.word == word
        assert not judged.untrusted


def test_names_of_torchscript_mean_nothing_elsewhere() -> None:
    types = stream(made("__torch__.torch.nn.modules.linear", "Linear"), b"}b")
    assert judge(torch_zip(types)).untrusted == (Global("__torch__.torch.nn.modules.linear", "Linear"),)


def test_the_table_that_was_used_is_named() -> None:
    assert verdict(pickle.dumps(1, 2)).torch_version == "2.13"
    judged = verdict(pickle.dumps(1, 2), torch_version="2.8")
    assert (judged.torch_version, "2.6" in judged.torch_note) == ("2.6", True)
    with pytest.raises(ValueError, match="no version of torch"):
        verdict(b".", torch_version="latest")


def test_dangers_are_bounded_and_in_order() -> None:
    content = stream(b"".join(named("os", f"name{number}") + b"0" for number in range(3000)), b"N")
    judged = verdict(content)
    assert len(judged.dangers) == 1000
    assert [danger.offset for danger in judged.dangers] == sorted(danger.offset for danger in judged.dangers)


def test_dangers_of_all_streams_are_bounded_together() -> None:
    """Names, doubts and calls of what can't be known each count, in the first stream and in the next."""
    unknown = b"\x82\x01)R0" * 700
    names = b"".join(named("os", f"name{number}") + b"0" for number in range(700))
    judged = judge(plain(stream(names, unknown, b"N"), stream(names, unknown, b"N")))
    assert len(judged.dangers) == 1000


def test_only_build_sets_attributes() -> None:
    """More classes are filled than a trace notes: each further one adds nothing, and nothing wrong."""
    filled = b"".join(named("pack", f"Class{number}") + b"K\x01a0" for number in range(300))
    dangers = verdict(stream(filled, b"N")).dangers
    assert dangers
    assert all(danger.why.startswith("APPEND fills pack.Class") for danger in dangers)


def test_texts_of_a_file_are_printable() -> None:
    judged = verdict(b"\x80\x04" + b"\x8c\x02os\x8c\x05\x1b[31m\x93.")
    assert judged.word == "dangerous"
    assert all(danger.why.isprintable() and danger.call.isprintable() for danger in judged.dangers)


def test_filling_what_can_not_be_filled_is_malformed() -> None:
    for content in (b"K\x01K\x02a", b")K\x02K\x03s", b"N(K\x01e"):
        judged = verdict(stream(content))
        assert judged.word == "malformed", content
        assert judged.malformed[0].offset > 0


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x80\x04}]K\x01s.", "uses a list as a key or member of a dict"),
        (b"\x80\x04}(]K\x01u.", "uses a list as a key or member of a dict"),
        (b"(}K\x01d.", "uses a dict as a key or member of a dict"),
        (b"\x80\x04\x8f(\x8f\x90.", "uses a set as a key or member of a set"),
        (b"\x80\x04(]\x91.", "uses a list as a key or member of a frozenset"),
        (b"\x80\x04]\x8c\x01aK\x01s.", "uses a constant as the index of a list"),
    ],
)
def test_keys_that_no_container_takes_are_malformed(content: bytes, why: str) -> None:
    with pytest.raises(TypeError):
        pickle.loads(content)
    judged = verdict(content)
    assert judged.word == "malformed"
    assert why in judged.malformed[0].why


def test_keys_that_a_container_takes_are_fine() -> None:
    assert verdict(pickle.dumps({(1, 2): [], frozenset({1}): {}, "a": {1}})).word == "safe"
    # a class may take any key
    assert verdict(b"\x80\x02cm\nC\n)R]K\x01s.").word == "needs-allow-listing"


def test_types_of_constants() -> None:
    assert verdict(pickle.dumps([type(None), argparse.Namespace(a=1)], 2)).word == "safe"
    assert verdict(pickle.dumps([type(None), type(...), type(NotImplemented)], 2)).word == "safe"
    assert verdict(stream(call("builtins", "type", text("X"), b")", b"}"))).word == "needs-allow-listing"
    both = stream(b"(", call("builtins", "type", b"N"), call("builtins", "type", text("X"), b")", b"}"), b"t")
    assert verdict(both).word == "needs-allow-listing"


def test_a_name_that_the_end_of_the_file_cuts() -> None:
    assert trust_of(Global("collections", "")).kind == "benign"
    assert trust_of(Global("antigravity", "")).kind == "dangerous"
    assert trust_of(Global("some_package", "")).kind == "untrusted"


def test_malformed_streams_say_where() -> None:
    judged = verdict(b"\x80\x02]a.")
    assert judged.word == "malformed"
    assert all(isinstance(unresolved, Unresolved) and unresolved.why for unresolved in judged.malformed)


def test_a_note_about_a_file_in_which_nothing_was_judged_does_not_make_it_safe() -> None:
    for anomalies in ((), (Anomaly("after the end of the archive: 2 bytes", "note"),)):
        assert judge(PickleFile("x.zip", "zip archive", 1, anomalies=anomalies)).word == "incomplete"


@pytest.mark.parametrize("kind", ["disagree", "malformed", "refused"])
def test_a_file_whose_anomaly_is_reported_needs_no_second_reason(kind: str) -> None:
    """The anomaly itself says why nothing in the file could be judged."""
    assert judge(PickleFile("x.zip", "zip archive", 1, anomalies=(Anomaly("it is cut", kind),))).not_checked == ()


@pytest.mark.parametrize("of", ["collections OrderedDict", "torch float32", "my.models Net"])
def test_attributes_of_a_class_itself_are_set_once_and_dangerous(of: str) -> None:
    found = verdict(stream(named(*of.split()), b"}", text("a"), b"K\x01s", b"b"))
    assert found.word == "dangerous"
    assert [danger.why for danger in found.dangers] == [f"BUILD sets attributes of {of.replace(' ', '.')} (a)"]
