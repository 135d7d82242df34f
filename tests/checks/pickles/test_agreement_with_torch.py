"""Held to torch itself: what we say of weights_only is what torch.load(weights_only=True) does with the same file.

Only files that are made here are loaded.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import json
import pathlib
import pickle
import subprocess
import sys
import types
import uuid
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distcheck.checks.pickles.files import read_file
from distcheck.checks.pickles.torch_globals import installed_torch_version, rules_for, torch_name
from distcheck.checks.pickles.verdict import Policy, judge
from distcheck.checks.pickles.weights_only import WeightsOnly, names_in_file, weights_only_of_file

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")


class Point(NamedTuple):
    x: int
    y: object


@dataclasses.dataclass
class Record:
    name: str
    value: object = None


class Slots:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class Stateful:
    def __init__(self, value: object) -> None:
        self.value = value

    def __getstate__(self) -> object:
        return {"value": self.value}

    def __setstate__(self, state: Any) -> None:
        self.value = state["value"]


class Colour(enum.Enum):
    RED = 1


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Table(dict):  # type: ignore[type-arg]
    pass


class Row(list):  # type: ignore[type-arg]
    pass


class Text(str):
    __slots__ = ()


class Outer:
    class Inner:
        def __init__(self) -> None:
            self.value = 1

        class Deep:
            pass


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(1))


class Marked(torch.Tensor):  # type: ignore[misc]
    pass


def function() -> None:
    """By reference."""


NAMES_OF_DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 bfloat16 complex32 complex64 "
    "complex128 float8_e4m3fn float8_e5m2"
)
DTYPES = [getattr(torch, name) for name in NAMES_OF_DTYPES.split() if hasattr(torch, name)]


def tensor(dtype: Any) -> Any:
    return torch.zeros(1).to(dtype)


def parameter_with_an_attribute() -> Any:
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.tag = "x"
    return parameter


def optimizer(kind: Any = torch.optim.Adam) -> Any:
    parameter = torch.nn.Parameter(torch.ones(2))
    made = kind([parameter], lr=0.1)
    parameter.sum().backward()
    made.step()
    return made


def ordered_dict_with_attribute() -> Any:
    made = Net().state_dict()
    assert made._metadata
    return made


#: What may stand in a checkpoint: name → a new value.
LEAVES: dict[str, Any] = {
    "none": lambda: None,
    "true": lambda: True,
    "integer": lambda: -70000,
    "long": lambda: 1 << 100,
    "huge": lambda: 1 << 3000,
    "float": lambda: 0.5,
    "text": lambda: "os.system é \udc80",
    "bytes": lambda: b"\x00\xff",
    "no bytes": lambda: b"",
    "bytearray": lambda: bytearray(b"abc"),
    "complex": lambda: 1 + 2j,
    "range": lambda: range(3),
    "slice": lambda: slice(1, 2),
    "ellipsis": lambda: ...,
    "not implemented": lambda: NotImplemented,
    "set": lambda: {1, "a"},
    "frozenset": lambda: frozenset([1]),
    "ordered dict": lambda: collections.OrderedDict(a=1),
    "counter": lambda: collections.Counter("aab"),
    "defaultdict": lambda: collections.defaultdict(list, a=[1]),
    "empty defaultdict": lambda: collections.defaultdict(int),
    "deque": lambda: collections.deque([1]),
    "empty deque": lambda: collections.deque(maxlen=3),
    "user dict": lambda: collections.UserDict(a=1),
    "user list": lambda: collections.UserList([1]),
    "namedtuple": lambda: Point(1, [2]),
    "dataclass": lambda: Record("a", {"b": 1}),
    "slots": lambda: Slots(1),
    "stateful": lambda: Stateful(1),
    "enum": lambda: Colour.RED,
    "flags": lambda: Flags.A | Flags.B,
    "dict subclass": lambda: Table(a=1),
    "empty dict subclass": lambda: Table(),
    "list subclass": lambda: Row([1]),
    "str subclass": lambda: Text("a"),
    "namespace": lambda: argparse.Namespace(lr=0.1, path=pathlib.PurePosixPath("/a")),
    "simple namespace": lambda: types.SimpleNamespace(a=1),
    "datetime": lambda: datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    "date": lambda: datetime.date(2024, 1, 2),
    "timedelta": lambda: datetime.timedelta(seconds=3),
    "path": lambda: pathlib.PurePosixPath("/a/b"),
    "real path": lambda: pathlib.Path("/a/b"),
    "decimal": lambda: decimal.Decimal("1.5"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "uuid": lambda: uuid.UUID(int=7),
    "exception": lambda: ValueError("x"),
    "os error": lambda: FileNotFoundError(2, "x"),
    "nested class": lambda: Outer.Inner(),
    "nested class itself": lambda: Outer.Inner,
    "deeply nested class": lambda: Outer.Inner.Deep(),
    "class": lambda: Record,
    "function": lambda: function,
    "type of none": lambda: type(None),
    "partial": lambda: functools.partial(int, base=2),
    "numpy scalar": lambda: numpy.float32(1),
    "numpy integer": lambda: numpy.int64(1),
    "numpy array": lambda: numpy.arange(3),
    "numpy bool array": lambda: numpy.zeros(2, dtype=bool),
    "numpy text": lambda: numpy.array(["ab"]),
    "numpy dates": lambda: numpy.array(["2020-01-01"], dtype="M8[D]"),
    "numpy records": lambda: numpy.zeros(2, dtype=[("a", "f4"), ("b", "i2")]),
    "numpy objects": lambda: numpy.array([None, "a"], dtype=object),
    "numpy dtype": lambda: numpy.dtype("f8"),
    "numpy complex": lambda: numpy.zeros(1, dtype="c16"),
    "numpy half": lambda: numpy.zeros(1, dtype="f2"),
    "numpy masked": lambda: numpy.ma.array([1], mask=[True]),
    "numpy state": lambda: numpy.random.RandomState(1).get_state(),
    "numpy random state": lambda: numpy.random.RandomState(1),
    "numpy generator": lambda: numpy.random.default_rng(1),
    "memory map": lambda: numpy.zeros(2, "u1").view(numpy.memmap),
    "numpy type": lambda: numpy.float64,
    "torch state": lambda: torch.get_rng_state(),
    "generator": lambda: torch.Generator(),
    "size": lambda: torch.Size([1, 2]),
    "device": lambda: torch.device("cuda:3"),
    "dtype": lambda: torch.bfloat16,
    "layout": lambda: torch.sparse_coo,
    "tensor": lambda: torch.ones(2, 3),
    "tensor that needs gradients": lambda: torch.ones(2, requires_grad=True),
    "view": lambda: torch.arange(10)[2:8:2],
    "meta tensor": lambda: torch.ones(2, device="meta"),
    "storage": lambda: torch.ones(2).untyped_storage(),
    "conjugate": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "sparse csr": lambda: torch.eye(2).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
    "quantized by channel": lambda: torch.quantize_per_channel(
        torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.qint8
    ),
    "nested tensor": lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "parameter with an attribute": parameter_with_an_attribute,
    "buffer": lambda: torch.nn.Buffer(torch.ones(2)),
    "tensor subclass": lambda: torch.ones(2).as_subclass(Marked),
    "state dict": ordered_dict_with_attribute,
    "module": Net,
    "sequential": lambda: torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.BatchNorm1d(1)),
    "transformer layer": lambda: torch.nn.TransformerEncoderLayer(2, 1, 2),
    "optimizer state": lambda: optimizer().state_dict(),
    "sgd": lambda: optimizer(torch.optim.SGD),
    "scheduler state": lambda: torch.optim.lr_scheduler.StepLR(optimizer(), 1).state_dict(),
    "scheduler with a lambda left out": lambda: torch.optim.lr_scheduler.ExponentialLR(optimizer(), 0.9).state_dict(),
    "packed sequence": lambda: torch.nn.utils.rnn.pack_sequence([torch.ones(2)]),
    "maximum": lambda: torch.max(torch.ones(2, 2), 0),
    "scaler state": lambda: torch.amp.GradScaler("cpu").state_dict(),
    "dataset": lambda: torch.utils.data.TensorDataset(torch.ones(2)),
    "loss": torch.nn.MSELoss,
    "function of torch": lambda: torch.nn.functional.relu,
    **{f"tensor of {dtype}": functools.partial(tensor, dtype) for dtype in DTYPES},
}
#: In its old format torch makes these out of memory that it has not read yet: it raises, or loads what happens to lie
#: there (for a generator, the state of one that was freed a moment before).
ONLY_IN_ZIPS = {"generator", "nested tensor"}
values = st.recursive(
    st.sampled_from(sorted(LEAVES.keys() - ONLY_IN_ZIPS)).map(lambda name: LEAVES[name]()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=2).map(collections.OrderedDict)
        | inner.map(lambda value: Point(1, value))
        | inner.map(lambda value: Record("r", value))
        | inner.map(lambda value: [value, value])
    ),
    max_leaves=6,
)


@contextmanager
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def save(value: object, path: pathlib.Path, **options: Any) -> None:
    with quietly():
        torch.save(value, path, **options)


def why_not(path: pathlib.Path) -> str:
    """Why torch does not load a file, empty where it does."""
    try:
        with quietly():
            torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # noqa: BLE001 - whatever it is, it does not load
        return f"{type(error).__name__}: {error}"
    return ""


def told(path: pathlib.Path) -> WeightsOnly:
    answer = weights_only_of_file(read_file(str(path)), Policy(torch.__version__))
    assert answer is not None
    return answer


def listed(answer: WeightsOnly) -> list[Any]:
    """What our lines put on the allow-list, as a person who pastes them would."""
    names: dict[str, Any] = {}
    lines = [f"import {module}" for module in answer.modules]
    with quietly():
        exec("\n".join((*lines, *answer.imports, f"allowed = [{', '.join(answer.allowlist)}]")), names)
    return list(names["allowed"])


def everything(path: pathlib.Path) -> list[Any]:
    """All that a file names, and the types that numpy makes, under the names that torch looks up."""
    import importlib

    found: list[Any] = [(type(numpy.dtype(code)), f"dtype {code}") for code in "?bBhHiIlLqQefdgFDGSUVOMm"]
    for stream in read_file(str(path)).streams:
        for naming in stream.trace.globals:
            if naming.what.module.startswith("__torch__"):
                continue
            owner: Any = importlib.import_module(naming.what.module)
            for part in naming.what.name.split("."):
                owner = getattr(owner, part)
            found.append((owner, ".".join(torch_name(*names_in_file(naming)))))
    return found


def agree(path: pathlib.Path) -> WeightsOnly:
    """Assert that what we say of a file is what torch does with it."""
    answer = told(path)
    problem = why_not(path)
    if answer.answer == "accept":
        assert not problem, (answer, problem)
    elif answer.answer == "allowlist":
        assert problem, answer
        with torch.serialization.safe_globals(listed(answer)):
            assert not why_not(path), answer
    else:
        assert answer.answer == "never", answer
        assert problem, answer
        assert answer.why and answer.fix
        # torch calls a dangerous function that is allowed: what matters there is the advice
        dangerous = judge(read_file(str(path))).word == "dangerous"
        with torch.serialization.safe_globals(everything(path)):
            assert dangerous or why_not(path), answer
    return answer


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_each_kind_of_value(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "one.pt"
    save({"value": LEAVES[name]()}, path)
    agree(path)
    save(LEAVES[name](), path, _use_new_zipfile_serialization=False)
    if name in ONLY_IN_ZIPS:
        assert told(path).answer == "never"
    else:
        agree(path)


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_nothing_harmless_is_called_dangerous(name: str, tmp_path: pathlib.Path) -> None:
    value = LEAVES[name]()
    path = tmp_path / "one.pt"
    save(value, path)
    assert judge(read_file(str(path))).word in ("safe", "needs-allow-listing")
    for protocol in range(1, pickle.HIGHEST_PROTOCOL + 1):
        try:
            content = pickle.dumps(value, protocol)
        except Exception:  # noqa: BLE001 - what can't be pickled makes no file
            continue
        verdict = judge(read_file(content))
        assert verdict.word in ("safe", "needs-allow-listing"), (protocol, verdict)
        assert verdict.word == "safe" or verdict.untrusted


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5])
@pytest.mark.parametrize("name", ["tensor", "state dict", "text", "set", "dataclass", "integer", "bytes", "none"])
def test_other_protocols(name: str, protocol: int, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "one.pt"
    save({"value": LEAVES[name]()}, path, pickle_protocol=protocol)
    agree(path)


@pytest.mark.parametrize("name", ["buffer", "empty defaultdict", "partial", "sgd"])
def test_a_memory_map_next_to_what_may_call_it_is_never_loaded(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "one.pt"
    save([LEAVES[name](), LEAVES["memory map"]()], path)
    assert agree(path).answer == "never"


@given(values, st.booleans(), st.sampled_from([2, 2, 2, 2, 3, 4, 5]))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_generated_checkpoints(tmp_path_factory: Any, value: object, new: bool, protocol: int) -> None:
    path = tmp_path_factory.mktemp("generated") / "one.pt"
    try:
        save(value, path, pickle_protocol=protocol, _use_new_zipfile_serialization=new)
    except Exception:  # noqa: BLE001 - what torch can't save is no checkpoint
        return
    agree(path)


def test_plain_pickles_and_torchscript_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plain.pkl"
    path.write_bytes(pickle.dumps({"a": 1}, 2))
    assert agree(path).answer == "never"
    with quietly():
        torch.jit.script(torch.nn.Linear(1, 1)).save(str(path))
    assert agree(path).answer == "never"


SAVED_ELSEWHERE = {
    "torch.distributed.tensor": """
import torch.distributed as dist
dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
mesh = init_device_mesh('cpu', (1,))
value = [distribute_tensor(torch.ones(4), mesh, [Shard(0)]), distribute_tensor(torch.ones(2), mesh, [Replicate()])]
""",
    "torch._dynamo": "value = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged)",
}


@pytest.mark.parametrize("module", sorted(SAVED_ELSEWHERE))
@pytest.mark.full
def test_what_is_said_to_load_after_an_import(module: str, tmp_path: pathlib.Path) -> None:
    """Saved and loaded in processes of their own, since an import can't be taken back."""
    path = tmp_path / "one.pt"
    environment = (
        "import os, torch; os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='0', GLOO_SOCKET_IFNAME='lo')"
    )
    run(f"{environment}\n{SAVED_ELSEWHERE[module]}\ntorch.save({{'a': value}}, {str(path)!r})")
    answer = told(path)
    assert (answer.answer, answer.modules) == ("import", (module,))
    load = f"torch.load({str(path)!r}, weights_only=True)"
    run(
        f"{environment}\ntry: {load}\nexcept Exception: pass\nelse: raise SystemExit('it loads by itself')\n"
        f"import {', '.join(answer.modules)}\n{load}"
    )
    assert judge(read_file(str(path))).word == "needs-allow-listing"


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_table_of_the_installed_torch() -> None:
    version = installed_torch_version()
    assert version == torch.__version__
    rules = rules_for(version)
    if rules.note:
        pytest.skip(rules.note)
    program = """
from torch import _weights_only_unpickler as it
import json
names = lambda: sorted({*it._get_allowed_globals(), *it._get_user_allowed_globals()})
allowed, later = names(), {}
for module in MODULES:
    exec('import ' + module)
    later[module] = names()
print(json.dumps([allowed, later, it._blocklisted_modules]))
"""
    modules = tuple(dict.fromkeys(rules.imported.values()))
    out = run(program.replace("MODULES", repr(modules)))
    allowed, later, blocked = json.loads(out.splitlines()[-1])
    assert set(allowed) == rules.allowed
    assert set(blocked) == rules.blocked
    for path, module in rules.imported.items():
        assert path in later[module], (path, module)
    assert set(later[modules[-1]]) - set(allowed) == set(rules.imported)


def test_the_names_that_torch_translates() -> None:
    from torch._utils import IMPORT_MAPPING, NAME_MAPPING

    for module, now in IMPORT_MAPPING.items():
        assert torch_name(module, "anything") == (now, "anything")
    for named, now in NAME_MAPPING.items():
        assert torch_name(*named) == now
    assert torch_name("exceptions", "ValueError") == ("exceptions", "ValueError")


def _text(value: str) -> bytes:
    content = value.encode()
    return b"X" + len(content).to_bytes(4, "little") + content


#: Opcodes, and whole phrases that checkpoints are made of, so that many programs get somewhere.
PHRASES = [
    *(bytes([code]) for code in b"N]})\x85\x86\x87(tub0aeslR\x81\x88\x89.2\x8f1"),
    *(b"q" + bytes([place]) for place in range(3)),
    *(b"h" + bytes([place]) for place in range(3)),
    b"K\x05",
    b"\x8a\x01\x05",
    b"\x8c\x01a",
    _text("a"),
    _text("latin1"),
    *(
        f"c{module}\n{name}\n".encode()
        for module, name in (
            ("collections", "OrderedDict"),
            ("collections", "Counter"),
            ("collections", "deque"),
            ("__builtin__", "set"),
            ("__builtin__", "frozenset"),
            ("_codecs", "encode"),
            ("torch", "Size"),
            ("torch", "float32"),
            ("torch", "FloatStorage"),
            ("torch.nn.parameter", "Parameter"),
            ("argparse", "Namespace"),
            ("os", "getcwd"),
        )
    ),
    b"ccollections\nOrderedDict\n)R",
    b"ccollections\nCounter\n)R",
    b"cargparse\nNamespace\n)\x81",
    b"(" + _text("a") + b"K\x01u",
    b"}(" + _text("a") + b"]u",
    b"(K\x01K\x02e",
    b"}b",
]


@given(st.lists(st.sampled_from(PHRASES), max_size=14))
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_programs_of_random_opcodes(tmp_path_factory: Any, phrases: list[bytes]) -> None:
    """What torch loads is accepted, and what is never loaded, is not; values can still make torch raise.

    Nothing that these programs can call does any harm, and torch's restricted unpickler is all that runs them.
    """
    content = b"\x80\x02" + b"".join(phrases) + b"."
    path = tmp_path_factory.mktemp("program") / "one.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")
    answer = told(path)
    allowed = listed(answer) if answer.answer == "allowlist" else []
    for entries in ([], allowed):
        with torch.serialization.safe_globals(entries):
            problem = why_not(path)
        if not problem:
            assert answer.answer == ("accept" if not entries else "allowlist"), answer
    with torch.serialization.safe_globals([argparse.Namespace, collections.deque, frozenset]):
        if not why_not(path):
            assert answer.answer != "never", answer
