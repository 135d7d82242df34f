"""What torch's restricted unpickler (``torch.load(weights_only=True)``) accepts, by version of torch, as data.

Four versions have a table of their own. Every other version is judged by the nearest table, and the report names it.

- 2.13 was generated with torch 2.13.0 (CPU). A test compares it with the installed torch.
- 2.6, 2.5 and 2.4 were read from ``torch/_weights_only_unpickler.py`` as it was before each release, with the pull
  requests pytorch/pytorch#124330, #124331, #127808 (2.4), #131259, #133189 (2.5), #137602, #139302 (2.6).
- Not verified by running: 2.4 blocks no module, and 2.6 is the first with ``(thing, 'name in the file')``
  (pytorch/pytorch#142153).
- From 2.10 on SETITEM fills only dictionaries (CVE-2026-24747). So the table of 2.13 holds from 2.10, and that of 2.6
  up to 2.9.
- Versions before 2.4 have no ``add_safe_globals``. They are judged by the table of 2.4 without it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Modules of which torch takes nothing, whatever is allow-listed (``_blocklisted_modules`` in torch 2.13).
BLOCKED_MODULES = frozenset({"os", "sys", "posix", "nt"})

#: Opcodes that are implemented, in every version from 2.4 to 2.13 (``Unpickler.load``).
OPCODES = _words(
    "APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPERSID BINPUT BINUNICODE BUILD EMPTY_DICT EMPTY_LIST "
    "EMPTY_SET EMPTY_TUPLE GLOBAL LONG1 LONG_BINGET LONG_BINPUT MARK NEWFALSE NEWOBJ NEWTRUE NONE PROTO REDUCE SETITEM "
    "SETITEMS SHORT_BINSTRING STOP TUPLE TUPLE1 TUPLE2 TUPLE3"
)

# A line is a module and what is allowed of it; `$kinds` and the like stand for the lists below.
_BASE = """\
collections Counter OrderedDict
torch Size Tensor device $dtypes $quantizers
torch BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage DoubleStorage
torch FloatStorage HalfStorage IntStorage LongStorage QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage
torch QUInt8Storage ShortStorage $tensors BoolTensor
torch._tensor _rebuild_from_type_v2
torch._utils _rebuild_meta_tensor_no_storage _rebuild_nested_tensor _rebuild_parameter _rebuild_parameter_with_state
torch._utils _rebuild_qtensor _rebuild_sparse_tensor _rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3
torch._utils _rebuild_wrapper_subclass
torch.cuda BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage DoubleStorage
torch.cuda FloatStorage HalfStorage IntStorage LongStorage ShortStorage $tensors BoolTensor
torch.cuda.sparse $tensors
torch.sparse $tensors
torch.nn.parameter Parameter
torch.serialization _get_layout
torch.storage TypedStorage UntypedStorage"""
_LISTS = {
    "$tensors": "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
    "ShortTensor",
    "$dtypes": "bfloat16 bits16 bits1x8 bits2x4 bits4x2 bits8 bool complex128 complex32 complex64 float16 float32 "
    "float64 "
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int32 int64 int8 qint32 qint8 quint2x4 quint4x2 "
    "quint8 uint16 uint32 uint64 uint8",
    "$quantizers": "per_channel_affine per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine "
    "per_tensor_symmetric",
}
# What each version with a table of its own added to the one before.
_ADDED = {
    (2, 4): "",
    (2, 5): """\
_codecs encode
builtins bytearray
torch._utils _rebuild_device_tensor_from_numpy""",
    (2, 6): """\
builtins set
torch._utils _rebuild_device_tensor_from_cpu_tensor""",
    (2, 13): """\
builtins complex
torch float4_e2m1fn_x2 float8_e8m0fnu int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7
torch.distributed._mesh_layout _FlatLayout _MeshLayout
torch.nested._internal.nested_tensor NestedTensor _rebuild_njt""",
}
# What becomes allowed when a module is imported: a line is that module, then as above.
_IMPORTED = {
    (2, 6): """\
torch.distributed.tensor torch.distributed.device_mesh DeviceMesh
torch.distributed.tensor torch.distributed.tensor DTensor
torch.distributed.tensor torch.distributed.tensor._dtensor_spec DTensorSpec TensorMeta
torch.distributed.tensor torch.distributed.tensor.placement_types Partial Replicate Shard
torch.nested torch.nested._internal.nested_tensor NestedTensor _rebuild_njt
torch._dynamo torch._dynamo.decorators _DimRange""",
    (2, 13): """\
torch.distributed.tensor torch.distributed.device_mesh DeviceMesh
torch.distributed.tensor torch.distributed.tensor DTensor
torch.distributed.tensor torch.distributed.tensor._dtensor_spec DTensorSpec ShardOrderEntry TensorMeta
torch.distributed.tensor torch.distributed.tensor.placement_types Partial Replicate Shard _StridedShard
torch._dynamo torch._dynamo.decorators _DimRange
torch.distributed._serialization torch.distributed._serialization _Entry""",
}

#: torch's own list of Python-2 names (``IMPORT_MAPPING`` and ``NAME_MAPPING`` in ``torch._utils``, torch 2.13).
_MODULES_MAPPED = {
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "Queue": "queue",
    "repr": "reprlib",
    "_abcoll": "collections.abc",
    "UserDict": "collections",
    "UserList": "collections",
    "UserString": "collections",
    "whichdb": "dbm",
    "StringIO": "io",
    "cStringIO": "io",
}
_NAMES_MAPPED = {
    ("__builtin__", "xrange"): ("builtins", "range"),
    ("__builtin__", "reduce"): ("functools", "reduce"),
    ("__builtin__", "intern"): ("sys", "intern"),
    ("__builtin__", "unichr"): ("builtins", "chr"),
    ("__builtin__", "unicode"): ("builtins", "str"),
    ("__builtin__", "long"): ("builtins", "int"),
    ("__builtin__", "basestring"): ("builtins", "str"),
    ("itertools", "izip"): ("builtins", "zip"),
    ("itertools", "imap"): ("builtins", "map"),
    ("itertools", "ifilter"): ("builtins", "filter"),
    ("itertools", "ifilterfalse"): ("itertools", "filterfalse"),
    ("itertools", "izip_longest"): ("itertools", "zip_longest"),
    ("UserDict", "IterableUserDict"): ("collections", "UserDict"),
    ("UserDict", "UserDict"): ("collections", "UserDict"),
    ("UserList", "UserList"): ("collections", "UserList"),
    ("UserString", "UserString"): ("collections", "UserString"),
    ("exceptions", "StandardError"): ("builtins", "Exception"),
}


class TorchRules(NamedTuple):
    """What one version of torch does under ``weights_only=True``."""

    #: the version whose table this is: ``2.13``
    version: str
    #: why it is this one where another version was requested, else empty
    note: str
    #: full paths (``torch._utils._rebuild_tensor_v2``) that are allowed after ``import torch``
    allowed: frozenset[str]
    #: full path → module whose import allows it
    imported: Mapping[str, str]
    #: modules of which nothing is taken, even if allow-listed
    blocked: frozenset[str]
    #: ``add_safe_globals`` exists (2.4)
    has_allow_list: bool
    #: it takes ``(thing, 'name in the file')`` and checks ``__qualname__`` (2.6; see the module)
    has_tuples: bool
    #: SETITEM and SETITEMS fill dict, OrderedDict and Counter only (2.10)
    fills_dictionaries_only: bool


def known_versions() -> tuple[str, ...]:
    """The versions of torch that have a table of their own, oldest first."""
    return tuple(f"{major}.{minor}" for major, minor in sorted(_ADDED))


@lru_cache(maxsize=8)
def rules_for(version: str | None) -> TorchRules:
    """The rules of a version (``2.6``, ``2.13.0+cpu``), or of the nearest that has a table; None: of the newest table.

    :raises ValueError: for what is no version
    """
    known = sorted(_ADDED)
    requested = known[-1] if version is None else _parse(version)
    table = _nearest(requested, known)
    lines: list[str] = [_BASE]
    lines += [_ADDED[release] for release in known if release <= table]
    imported: dict[str, str] = {}
    for release in sorted(_IMPORTED):
        if release <= table:
            imported = {
                f"{module}.{name}": trigger
                for line in _IMPORTED[release].splitlines()
                for trigger, module, *names in [line.split()]
                for name in names
            }
    return TorchRules(
        ".".join(map(str, table)),
        _note(requested, table, known),
        frozenset(_paths("\n".join(filter(None, lines)))),
        imported,
        BLOCKED_MODULES if table >= (2, 5) else frozenset(),
        has_allow_list=requested >= (2, 4),
        has_tuples=table >= (2, 6),
        fills_dictionaries_only=table >= (2, 10),
    )


def torch_name(module: str, name: str) -> tuple[str, str]:
    """The name under which torch finds what a stream names: a few names of Python 2 are translated (since 2.4)."""
    if (module, name) in _NAMES_MAPPED:
        return _NAMES_MAPPED[module, name]
    return _MODULES_MAPPED.get(module, module), name


def installed_torch_version() -> str | None:
    """The version of the torch that ``import torch`` would find (``2.13.0+cpu``), without importing it; else None."""
    for folder in sys.path:
        try:
            with open(f"{folder or '.'}/torch/version.py", encoding="utf-8") as file:
                lines = file.read(10_000).splitlines()
        except (OSError, UnicodeDecodeError, ValueError):
            continue
        for line in lines:
            name, sign, value = line.partition("=")
            version = value.strip(" '\"")
            if sign and name.partition(":")[0].strip() == "__version__" and version[:1].isdigit():
                return version[:60]
        return None
    return None


def _parse(version: str) -> tuple[int, int]:
    parts = version.strip().removeprefix("v").partition("+")[0].split(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts[:2]) or not 1 <= len(parts) <= 6:
        raise ValueError(f"{version[:40]!r} is no version of torch: give one like {known_versions()[-1]}")
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0


def _nearest(requested: tuple[int, int], known: list[tuple[int, int]]) -> tuple[int, int]:
    if requested >= (2, 10):
        return known[-1]
    return max((release for release in known if release <= requested), default=known[0])


def _note(requested: tuple[int, int], table: tuple[int, int], known: list[tuple[int, int]]) -> str:
    if requested == table:
        return ""
    version, judged = (".".join(map(str, release)) for release in (requested, table))
    if requested > known[-1]:
        return f"torch {version} is newer than the tables of distcheck: judged by those of {judged}"
    if requested < known[0]:
        return f"torch {version} has no add_safe_globals and no table of its own: judged by that of {judged} without it"
    return f"torch {version} has no table of its own: judged by that of {judged}"


def _paths(lines: str) -> list[str]:
    for sign, names in _LISTS.items():
        lines = lines.replace(sign, names)
    return [f"{module}.{name}" for line in lines.splitlines() for module, *names in [line.split()] for name in names]
