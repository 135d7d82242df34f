"""Bytes of pickles and of what holds them, put together opcode by opcode. Nothing here is ever loaded.

A *fragment* is a run of opcodes that leaves one value on the stack. Fragments are joined by functions that say what the
unpickler would do: ``call(name("os", "system"), plain("…"))``.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

#: What the dangerous files would run, were they loaded: they never are.
COMMAND = "echo distcheck-test"


# ----------------------------------------------------------------------------------------------- fragments


def text(value: str) -> bytes:
    """BINUNICODE."""
    content = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(content)) + content


def short(value: str) -> bytes:
    """SHORT_BINUNICODE."""
    content = value.encode()
    return b"\x8c" + bytes([len(content)]) + content


def octets(value: bytes) -> bytes:
    """BINBYTES."""
    return b"B" + struct.pack("<I", len(value)) + value


def name(module: str, attribute: str) -> bytes:
    """GLOBAL."""
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def stacked(module: str, attribute: str) -> bytes:
    """STACK_GLOBAL with both names in sight."""
    return text(module) + text(attribute) + b"\x93"


def group(*items: bytes) -> bytes:
    """A tuple, by MARK and TUPLE."""
    return b"(" + b"".join(items) + b"t"


def call(function: bytes, *arguments: bytes) -> bytes:
    """REDUCE."""
    return function + group(*arguments) + b"R"


def new(kind: bytes, *arguments: bytes) -> bytes:
    """NEWOBJ."""
    return kind + group(*arguments) + b"\x81"


def build(instance: bytes, state: bytes) -> bytes:
    """BUILD."""
    return instance + state + b"b"


def items(*values: bytes) -> bytes:
    """A list."""
    return b"](" + b"".join(values) + b"e"


def mapping(pairs: Mapping[str, bytes] | Iterable[tuple[bytes, bytes]]) -> bytes:
    """A dictionary; keys that are ``str`` are written as text."""
    rows = [(text(key), value) for key, value in pairs.items()] if isinstance(pairs, Mapping) else list(pairs)
    return b"}(" + b"".join(key + value for key, value in rows) + b"u"


def put(fragment: bytes, index: int) -> bytes:
    """The value, and a note of it in the memo."""
    return fragment + (b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index))


def get(index: int) -> bytes:
    """A value from the memo."""
    return b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)


def plain(value: Any) -> bytes:
    """Plain data as protocol 2 writes it."""
    if value is None:
        return b"N"
    if value is True:
        return b"\x88"
    if value is False:
        return b"\x89"
    if isinstance(value, int):
        if 0 <= value < 256:
            return b"K" + bytes([value])
        if -(2**31) <= value < 2**31:
            return b"J" + struct.pack("<i", value)
        content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(content)]) + content
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return call(name("_codecs", "encode"), text(value.decode("latin-1")), text("latin1"))
    if isinstance(value, tuple):
        return group(*map(plain, value))
    if isinstance(value, list):
        return items(*map(plain, value))
    if isinstance(value, dict):
        return mapping([(plain(key), plain(each)) for key, each in value.items()])
    raise TypeError(type(value))


def whole(fragment: bytes, protocol: int | None = 2) -> bytes:
    """A pickle: PROTO, the fragment, STOP."""
    return (b"" if protocol is None else b"\x80" + bytes([protocol])) + fragment + b"."


def shell(style: str = "name", module: str = "os", attribute: str = "system") -> bytes:
    """A fragment that would call a function with the command: by GLOBAL, STACK_GLOBAL, INST or OBJ."""
    if style == "stacked":
        return call(stacked(module, attribute), text(COMMAND))
    if style == "inst":
        return b"(" + text(COMMAND) + b"i" + module.encode() + b"\n" + attribute.encode() + b"\n"
    if style == "obj":
        return b"(" + name(module, attribute) + text(COMMAND) + b"o"
    return call(name(module, attribute), text(COMMAND))


# -------------------------------------------------------------------------------------------------- torch

#: bytes of one element, by the name of the storage class
ELEMENT = {
    "FloatStorage": 4, "DoubleStorage": 8, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8, "IntStorage": 4,
    "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1, "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16, "QInt8Storage": 1, "QUInt8Storage": 1, "QInt32Storage": 4,
}  # fmt: skip


def storage(key: str, kind: str = "FloatStorage", location: str = "cpu", count: int = 6) -> bytes:
    """A persistent id as torch.save writes it to a zip."""
    return group(text("storage"), name("torch", kind), text(key), text(location), plain(count)) + b"Q"


def ordered(pairs: Mapping[str, bytes] | None = None) -> bytes:
    """An OrderedDict."""
    empty = name("collections", "OrderedDict") + b")R"
    return empty if not pairs else empty + b"(" + b"".join(text(key) + each for key, each in pairs.items()) + b"u"


def tensor(key: str = "0", kind: str = "FloatStorage", location: str = "cpu", shape: tuple[int, ...] = (2, 3)) -> bytes:
    """A tensor as torch.save writes it to a zip."""
    count, stride = 1, []
    for length in reversed(shape):
        stride.insert(0, count)
        count *= length
    return call(
        name("torch._utils", "_rebuild_tensor_v2"),
        storage(key, kind, location, count),
        plain(0),
        plain(shape),
        plain(tuple(stride)),
        plain(False),
        ordered(),
    )


class Member(NamedTuple):
    """A member of a zip archive, and how its headers lie about it."""

    name: str
    content: bytes
    deflate: bool = False
    #: None: the right one
    crc: int | None = None
    flags: int = 0
    #: in the local header; None: the same
    local_name: str | None = None
    local_flags: int | None = None
    #: sizes in the central directory and in the local header; None: the right ones
    stated_size: int | None = None
    #: method in the central directory; None: the right one
    method: int | None = None
    #: remove it from the central directory
    hidden: bool = False


def zipped(members: Sequence[Member], comment: bytes = b"", prefix: bytes = b"", suffix: bytes = b"") -> bytes:
    """A zip archive, as said."""
    out = bytearray(prefix)
    directory = bytearray()
    listed = 0
    for member in members:
        content = member.content
        if member.deflate:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            content = packer.compress(content) + packer.flush()
        method = member.method if member.method is not None else (8 if member.deflate else 0)
        crc = zlib.crc32(member.content) if member.crc is None else member.crc
        size = len(member.content) if member.stated_size is None else member.stated_size
        packed = len(content) if member.stated_size is None else size
        offset = len(out) - len(prefix)
        local = (member.name if member.local_name is None else member.local_name).encode()
        flags = member.flags if member.local_flags is None else member.local_flags
        # torch aligns the content of members to 64 bytes with an extra field
        padding = (64 - (len(out) + 30 + len(local) + 4) % 64) % 64
        extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        out += struct.pack(
            "<4sHHHHHIIIHH", b"PK\3\4", 0, flags, method, 0, 0, crc, packed, size, len(local), len(extra)
        )
        out += local + extra + content
        if member.hidden:
            continue
        central = member.name.encode()
        directory += struct.pack(
            "<4sHHHHHHIIIHHHHHII",
            b"PK\1\2", 0, 0, member.flags, method, 0, 0, crc, packed, size, len(central), 0, 0, 0, 0, 0, offset,
        ) + central  # fmt: skip
        listed += 1
    start = len(out) - len(prefix)
    out += directory
    out += struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, listed, listed, len(directory), start, len(comment)) + comment
    return bytes(out) + suffix


def torch_members(
    pickle: bytes, storages: Mapping[str, bytes] | None = None, top: str = "archive", **tweaks: Any
) -> list[Member]:
    """The members that torch.save writes; ``tweaks`` are about data.pkl."""
    return [
        Member(f"{top}/data.pkl", pickle, **tweaks),
        Member(f"{top}/.format_version", b"1"),
        Member(f"{top}/.storage_alignment", b"64"),
        Member(f"{top}/byteorder", b"little"),
        *(Member(f"{top}/data/{key}", content) for key, content in (storages or {}).items()),
        Member(f"{top}/version", b"3\n"),
        Member(f"{top}/.data/serialization_id", b"0" * 40),
    ]


def torch_zip(pickle: bytes, storages: Mapping[str, bytes] | None = None, top: str = "archive", **tweaks: Any) -> bytes:
    """What torch.save writes, around a pickle."""
    return zipped(torch_members(pickle, storages, top, **tweaks))


def checkpoint(values: Mapping[str, bytes], storages: Mapping[str, bytes] | None = None) -> bytes:
    """A torch zip that holds a dictionary of fragments."""
    return torch_zip(whole(mapping(values)), storages)


MAGIC = 0x1950A86A20F9469CFC6C
SYSTEM = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


def legacy_storage(key: str, kind: str = "FloatStorage", location: str = "cpu", count: int = 6) -> bytes:
    """A persistent id as torch.save wrote it before zip files."""
    return group(text("storage"), name("torch", kind), text(key), text(location), plain(count), b"N") + b"Q"


def legacy_tensor(key: str = "94325285795712", location: str = "cpu") -> bytes:
    """A tensor of shape (2, 3) as torch.save wrote it before zip files."""
    return call(
        name("torch._utils", "_rebuild_tensor_v2"),
        legacy_storage(key, location=location),
        plain(0),
        plain((2, 3)),
        plain((3, 1)),
        plain(False),
        ordered(),
    )


def legacy(
    content: bytes,
    keys: Sequence[str] = ("94325285795712",),
    *,
    magic: bytes | None = None,
    version: bytes | None = None,
    system: bytes | None = None,
    key_list: bytes | None = None,
    storages: bytes | None = None,
) -> bytes:
    """What torch.save wrote before zip files: header pickles, the object, the storage keys, the storages."""
    if storages is None:
        storages = b"".join(struct.pack("<q", 6) + bytes(24) for _ in keys)
    return b"".join(
        [
            magic if magic is not None else whole(plain(MAGIC)),
            version if version is not None else whole(plain(1001)),
            system if system is not None else whole(plain(SYSTEM)),
            whole(content),
            key_list if key_list is not None else whole(plain(list(keys))),
            storages,
        ]
    )


def tarred(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in members:
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def legacy_tar(
    *,
    head: bytes | None = None,
    arguments: bytes | None = None,
    views: bytes | None = None,
    tensors: bytes | None = None,
    content: bytes | None = None,
) -> bytes:
    """What torch wrote in 2016: a tar with the members sys_info, storages, tensors and pickle."""
    storages = b"".join(
        [
            head if head is not None else whole(plain(1)),
            arguments if arguments is not None else whole(group(plain(7), text("cpu"), name("torch", "FloatStorage"))),
            struct.pack("<q", 6) + bytes(24),
            views if views is not None else whole(plain([])),
        ]
    )
    rows = tensors if tensors is not None else whole(plain(1)) + whole(group(plain(8), plain(7), plain(None)))
    numbers = struct.pack("<i4x2q2qq", 2, 2, 3, 3, 1, 0)
    return tarred(
        [
            ("sys_info", whole(plain(SYSTEM))),
            ("storages", storages),
            ("tensors", rows + numbers),
            ("pickle", whole(content if content is not None else mapping({"weight": text("8") + b"Q"}))),
        ]
    )


# -------------------------------------------------------------------------------------- numpy, joblib, others


def npy(content: bytes, descr: str = "'|O'", shape: str = "(1,)", version: int = 1) -> bytes:
    """A .npy file."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    size = struct.Struct("<H" if version == 1 else "<I")
    header += b" " * (63 - (8 + size.size + len(header)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + size.pack(len(header)) + header + content


def numpy_objects(*values: bytes) -> bytes:
    """An array of objects as pickle writes it."""
    empty = call(name("numpy.core.multiarray", "_reconstruct"), name("numpy", "ndarray"), plain((0,)), plain(b"b"))
    kind = build(
        call(name("numpy", "dtype"), text("O8"), plain(False), plain(True)),
        group(plain(3), text("|"), *[b"N"] * 3, plain(-1), plain(-1), plain(63)),
    )
    return build(empty, group(plain(1), plain((len(values),)), kind, plain(False), items(*values)))


def joblib_array(kind: str, shape: tuple[int, ...], content: bytes, flags: int | None = None) -> bytes:
    """A NumpyArrayWrapper of joblib, and the array's bytes (or pickle, for objects) after it, as joblib interleaves them."""
    if flags is None:
        flags = 63 if kind == "O8" else 0
    state = mapping(
        {
            "subclass": name("numpy", "ndarray"),
            "shape": plain(shape),
            "order": text("C"),
            "dtype": build(
                call(name("numpy", "dtype"), text(kind), plain(False), plain(True)),
                group(plain(3), text("|" if kind == "O8" else "<"), *[b"N"] * 3, plain(-1), plain(-1), plain(flags)),
            ),
            "allow_mmap": plain(kind != "O8"),
            "numpy_array_alignment_bytes": b"N",
        }
    )
    wrapper = name("joblib.numpy_pickle", "NumpyArrayWrapper") + b")\x81" + state + b"b"
    return wrapper + content


def safetensors(header: bytes | None = None, content: bytes = bytes(24), length: int | None = None) -> bytes:
    """A safetensors file with one tensor of shape (2, 3)."""
    if header is None:
        header = b'{"weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'
    return struct.pack("<Q", len(header) if length is None else length) + header + content
