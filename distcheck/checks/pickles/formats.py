"""Recognize a file by its first bytes, and select the files of a folder. A name can only add files."""

from __future__ import annotations

import os

from .opcodes import HIGHEST_PROTOCOL

#: Bytes from the start of a file that :func:`sniff` wants.
HEAD = 4096
#: What the first pickle of a file of ``torch.save`` before 1.6 gives (``MAGIC_NUMBER`` of torch/serialization.py).
LEGACY_NUMBER = 0x1950A86A20F9469CFC6C
#: That, as every protocol from 2 on writes it: LONG1 and its bytes.
LEGACY_MAGIC = b"\x8a\x0a" + LEGACY_NUMBER.to_bytes(10, "little")
#: The safetensors library refuses longer headers (safetensors 0.4 to 0.6, ``MAX_HEADER_SIZE``).
SAFETENSORS_HEADER = 100_000_000

#: What compressed files begin with, and the decoder for them; None: named, not unpacked.
_COMPRESSED: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
)
#: Formats that hold no pickle, by what they begin with.
_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"GGUF", "GGUF"),
    (b"version https://git-lfs.github.com/spec/", "git LFS pointer"),
    (b"%PDF-", "PDF"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"\x7fELF", "executable"),
    (b"MZ\x90\0", "executable"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"ARROW1\0\0", "Arrow file"),
    (b"PAR1", "Parquet file"),
)
#: Kinds that :mod:`.unpacking` unpacks.
PACKED = ("gzip", "bz2", "xz", "lzma", "zlib", "zstd")
#: Kinds that are archives or compressed, and not opened here.
NOT_OPENED = {"lz4": "an lz4", "7z": "a 7z", "rar": "a rar"}

#: Endings that promise a model, a checkpoint or a pickle: such a file is checked whatever is in it.
PROMISING = frozenset({
    ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".p", ".pck", ".pcl", ".dill", ".joblib", ".npy", ".npz", ".distcp",
    ".safetensors", ".t7", ".pt2", ".ptl", ".nemo", ".mar", ".th",
})  # fmt: skip


def sniff(head: bytes, size: int) -> str:
    """What begins with these bytes (``HEAD`` of them, fewer where the file ends) and has ``size`` bytes in all.

    One of ``zip``, ``tar``, ``npy``, ``safetensors``, ``legacy``, ``pickle`` (it begins with PROTO), the kinds of
    ``PACKED`` and ``NOT_OPENED``, and those that hold no pickle (``GGUF``, ``image``, ``text``, ``unknown``, …).
    Pickles of protocol 0 and 1 have no mark of their own: they are ``text`` or ``unknown`` here, and found by
    following them.
    """
    if not size:
        return "empty"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    for magic, kind in _COMPRESSED:
        if head.startswith(magic):
            return kind
    if head[:3] == b"BZh" and head[3:4] in b"123456789" and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bz2"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head[:1] == b"\x80" and len(head) > 1 and head[1] <= HIGHEST_PROTOCOL:
        if LEGACY_MAGIC in head[:32]:
            return "legacy"
        return "safetensors" if _is_safetensors(head) else "pickle"
    if _is_tar(head):
        return "tar"
    if _is_zlib(head):
        return "zlib"
    if _is_lzma(head):
        return "lzma"
    for magic, kind in _OTHERS:
        if head.startswith(magic):
            return kind
    if LEGACY_MAGIC in head[:32]:
        return "legacy"
    return "safetensors" if _is_safetensors(head) else _plain(head)


def _is_safetensors(head: bytes) -> bool:
    """A length of 8 bytes, then a JSON object of that length."""
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 2 <= length <= SAFETENSORS_HEADER and head[9:10] in (b'"', b"}", b" ", b"\n")


def _is_tar(head: bytes) -> bool:
    """By the sum over the first header, which tarfile goes by too; no header is all zeros."""
    return len(head) >= 512 and tar_checksum_fits(head[:512]) and head[:1] != b"\0"


def tar_checksum_fits(header: bytes) -> bool:
    """Whether the sum over a tar header of 512 bytes is the one that it states (POSIX.1-2001; signed sums too)."""
    stated = header[148:156]
    try:
        if stated[0] & 0x80:
            wanted = int.from_bytes(stated, "big") & ((1 << 62) - 1)
        else:
            wanted = int(stated.split(b"\0", 1)[0].strip() or b"x", 8)
    except ValueError:
        return False
    unsigned = sum(header) - sum(stated) + 8 * 32
    rest = header[:148] + header[156:]
    return wanted in (unsigned, unsigned - 256 * sum(byte > 127 for byte in rest))


def _is_zlib(head: bytes) -> bool:
    """By its two bytes of header and by what unpacks: text may begin with ``x`` too."""
    if len(head) < 8 or head[0] != 0x78 or head[1] & 0x20 or (head[0] * 256 + head[1]) % 31:
        return False
    from .unpacking import first_bytes

    return bool(first_bytes(head, "zlib", 16))


def _is_lzma(head: bytes) -> bool:
    """``.lzma`` files have no mark: usual properties, a usual dictionary, a size that is unknown or believable."""
    if head[:1] != b"\x5d" or len(head) < 14 or head[13] != 0:
        return False
    dictionary = int.from_bytes(head[1:5], "little")
    size = int.from_bytes(head[5:13], "little")
    return dictionary.bit_count() <= 2 and dictionary >= 4096 and (size == (1 << 64) - 1 or size < 1 << 40)


def _plain(head: bytes) -> str:
    """HTML, JSON, ONNX, other text, or ``unknown``."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "HTML page"
    if start.startswith(b"<?xml"):
        return "XML"
    # ONNX: field 1 (ir_version, a small number), then the field of the producer, the graph or the opsets
    if len(head) > 3 and head[0] == 0x08 and 1 <= head[1] <= 32 and head[2] in (0x12, 0x1A, 0x3A, 0x42):
        return "ONNX"
    if is_text(head):
        return "JSON" if start[:1] in (b"{", b"[") and start[1:].lstrip()[:1] in _JSON_GOES_ON else "text"
    return "unknown"


_JSON_GOES_ON = (b'"', b"{", b"[", b"}", b"]", b"-", b"t", b"f", b"n", *(b"%d" % digit for digit in range(10)), b"")


def is_text(head: bytes) -> bool:
    """UTF-8 without control characters; the last character may be cut."""
    if any(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head):
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return len(head) == HEAD and error.start >= HEAD - 4
    return True


def ending(name: str) -> str:
    """The last ending of a file name, small letters: ``.gz`` of ``model.pkl.gz``."""
    return os.path.splitext(name)[1].lower()


def is_distributed_checkpoint(folder: str) -> bool:
    """Whether a folder holds what ``torch.distributed.checkpoint`` writes. False where it can't be listed."""
    try:
        with os.scandir(folder) as entries:
            return any(entry.name == ".metadata" or entry.name.endswith(".distcp") for entry in entries)
    except OSError:
        return False
