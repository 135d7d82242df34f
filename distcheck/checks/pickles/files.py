"""Read one file into its fact. The content decides, never the extension. Nothing is loaded, imported or called."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial

from .formats import HEAD, NOT_OPENED, PACKED, PROMISING, ending, is_distributed_checkpoint, sniff
from .picklefile import PickleFile
from .raw_pickles import METADATA, add_stream, begins_here, follow_appended, holds_pickle, is_magic_number, is_pickle
from .source_bytes import ByteSource, BytesSource, FileSource, ScanLimits
from .stream_collector import Collector, ScanItem, shown
from .trace import Global

#: A record at the end of a zip archive, with the longest comment.
_TAIL = 65_535 + 22
_AGAIN = "download or save the file again"
#: What is no pickle and no archive: what it is, and what to do.
_IN_WORDS = {
    "empty": ("it is empty", "save or download it again: the program that wrote it was stopped"),
    "git LFS pointer": ("it is a git LFS pointer, not the file itself", "git lfs pull"),
    "HTML page": ("it is an HTML page, not a model: the download failed or wants a login", "download it again"),
    "XML": ("it is XML, not a model: the download failed or was refused", "download it again"),
    "JSON": ("it is JSON, no pickle", "name the file that holds the weights"),
    "text": ("it is text, no pickle", "name the file that holds the weights; scripts are read by distcheck lint"),
    "PDF": ("it is a PDF, no pickle", "name the file that holds the weights"),
    "image": ("it is an image, no pickle", "name the file that holds the weights"),
    "executable": ("it is an executable, no pickle", "name the file that holds the weights"),
    "SQLite database": ("it is an SQLite database, no pickle", "name the file that holds the weights"),
    "Arrow file": ("it is an Arrow file, no pickle", "name the file that holds the weights"),
    "Parquet file": ("it is a Parquet file, no pickle", "name the file that holds the weights"),
}
#: Formats in which nothing can run, as far as they were checked.
_HARMLESS = frozenset({"safetensors", "numpy array", "numpy archive", "GGUF", "ONNX"})
_CONTAINERS = frozenset({"zip archive", "tar archive", ""})
#: Kinds without a mark of their own, which a pickle of protocol 0 or 1 is taken for.
_PLAIN = frozenset({"text", "unknown", "JSON", "XML", "HTML page", "empty"})
#: Kinds that are followed as a pickle anyway.
_FOLLOWED = _PLAIN | {"legacy", "pickle"}


def read_file(
    path: str | os.PathLike[str] | bytes | ByteSource, limits: ScanLimits = ScanLimits(), *, name: str | None = None
) -> PickleFile:
    """What a file holds: format, pickle streams with their traces, anomalies.

    :param path: of a file, or of the folder of a distributed checkpoint; or its bytes, or a source of them
    :param name: how to call it in the result, if not by its path
    :raises OSError: it can't be opened or read, or is a folder, a pipe, a socket or a device. Nothing else is raised,
        whatever is in it
    """
    if isinstance(path, bytes):
        return read_source(BytesSource(path), name or "<bytes>", limits)
    if not isinstance(path, (str, os.PathLike)):
        return read_source(path, name or "<bytes>", limits)
    where = os.fspath(path)
    if is_distributed_checkpoint(where):
        return _read_folder(where, name or where, limits)
    descriptor = _open_regular(where)
    try:
        return read_source(FileSource(descriptor), name or where, limits)
    finally:
        os.close(descriptor)


def read_source(source: ByteSource, path: str, limits: ScanLimits = ScanLimits()) -> PickleFile:
    """What these bytes hold. Raises OSError where they can't be read."""
    notes = _FileCollector(limits)
    form = notes.read_content(ScanItem(source, None, 0, notes))
    return notes.result(path, form, source.size, executes_nothing=notes.harmless())


def looks_like_pickle(path: str | os.PathLike[str]) -> bool:
    """Whether a file found in a folder is worth scanning, by its first bytes or by what its name promises.

    Raises OSError where it can't be read.
    """
    where = os.fspath(path)
    descriptor = _open_regular(where)
    try:
        return is_candidate(where, FileSource(descriptor))
    finally:
        os.close(descriptor)


def _open_regular(path: str) -> int:
    """Open a regular file for reading. A pipe is not waited for and a device not touched."""
    _must_be_regular(os.stat(path).st_mode, path)
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _must_be_regular(os.fstat(descriptor).st_mode, path)  # it may have been exchanged in between
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _must_be_regular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder that is no distributed checkpoint", path)
    if not stat.S_ISREG(mode):
        kinds = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"))
        what = next((name for test, name in kinds if test(mode)), "no regular file")
        raise OSError(errno.EINVAL, f"{what}, no regular file", path)


def _read_folder(folder: str, name: str, limits: ScanLimits) -> PickleFile:
    """A distributed checkpoint as one unit: its files are members."""
    notes = _FileCollector(limits)
    from .distributed_checkpoint import files_of

    names = files_of(folder)
    size = 0
    for one in names:
        descriptor = _open_regular(os.path.join(folder, one))
        try:
            source = FileSource(descriptor)
            size += source.size
            notes.read_content(ScanItem(source, one, 0, notes))
        finally:
            os.close(descriptor)
    if ".metadata" not in names:
        notes.report(
            "malformed",
            "it has no .metadata, without which torch loads nothing of it",
            fix="save it again: the save did not end",
        )
    elif len(names) == 1:
        notes.report("malformed", "it has no .distcp file", fix="copy all files of the folder")
    return notes.result(name, "distributed checkpoint", size)


class _FileCollector(Collector):
    """The notebook of one file, with the table of readers."""

    def __init__(self, limits: ScanLimits) -> None:
        super().__init__(limits, _read_content)
        #: formats found, those of members included
        self.forms: set[str] = set()

    def harmless(self) -> bool:
        """Whether nothing can run in any of the formats found."""
        met = self.forms - _CONTAINERS
        return bool(met) and met <= _HARMLESS


def _read_content(item: ScanItem) -> str:
    """Read a file or a member by its content; the format in users' words, ``""`` for a member that is none of ours."""
    source, notes = item.source, item.notes
    head = source.read(0, HEAD)
    kind = sniff(head, source.size)
    if item.depth > notes.limits.depth:
        if kind in _PLAIN and not holds_pickle(source, notes):
            return ""
        notes.not_opened(f"{shown(item.label or 'a member', 300)}: nested deeper than {notes.limits.depth}")
        return ""
    form = _read_kind(item, kind, head)
    if kind not in _FOLLOWED:
        _check_for_pickle(item, form)
    if item.depth == 0 and item.label is None and kind != "zip":
        form = _check_end(item, form)
    if isinstance(notes, _FileCollector):
        notes.forms.add(form)
    return form


def _read_kind(item: ScanItem, kind: str, head: bytes) -> str:
    """Hand it to its reader; each is imported where it is needed, since most files need one."""
    if kind == "zip":
        from . import archives

        return archives.read_zip(item)
    if kind == "tar":
        from .archives import read_tar

        return read_tar(item)
    if kind == "npy":
        from .numpy_arrays import read_npy

        return read_npy(item)
    if kind == "safetensors":
        from .safetensors import read_safetensors

        return read_safetensors(item)
    if kind == "legacy":
        from .legacy import read_legacy

        return read_legacy(item)
    if kind == "pickle":
        return read_raw(item, sure=item.depth == 0)
    if kind in PACKED:
        from . import archives

        return archives.read_compressed(item, kind) or f"{kind} file"
    if kind in NOT_OPENED:
        item.notes.not_opened(f"{shown(item.name, 300)}: {NOT_OPENED[kind]} archive is not opened")
        return f"{kind} archive"
    form = read_raw(item) if kind in _FOLLOWED else ""
    return form or _without_pickle(item, kind, head)


def _without_pickle(item: ScanItem, kind: str, head: bytes) -> str:
    """What holds no pickle: worth a report where it is the file itself, or may hold code of another kind."""
    if kind == "HDF5":
        item.notes.not_opened(
            f"{shown(item.name, 300)}: HDF5 is not opened; a Keras model in it may hold code (Lambda layers)"
        )
        return kind
    if kind in ("GGUF", "ONNX"):
        if item.depth == 0:
            item.notes.report("note", f"it is a {kind} file: it holds no pickle, and was not read any further")
        return kind
    if item.depth:
        return kind if kind == "unknown" else ""
    if kind in _IN_WORDS:
        what, fix = _IN_WORDS[kind]
    else:
        first = " ".join(f"{byte:02x}" for byte in head[:8])
        what, fix = f"it is of no format that is known here: it begins with the bytes {first}", _AGAIN
    item.report("malformed", what, offset=0, fix=fix)
    return kind


def _check_for_pickle(item: ScanItem, form: str) -> None:
    """The same bytes as ``pickle.load`` would see them."""
    source, notes = item.source, item.notes
    if source.read(0, 1) == b"P":  # PERSID, with which every zip archive begins: pickle.load stops there
        return
    trace = notes.trace(source, 0, opcodes=1_000_000)
    first = min((naming.offset for naming in trace.globals), default=0)
    if trace.opcodes.get("PERSID", first) < first:
        return  # pickle.load stops there
    if trace.ended == "budget":  # real files of other formats are no pickles after a few bytes
        notes.not_opened(f"{item.name}: read as a pickle, it goes on for longer than it was followed")
    if trace.globals and is_pickle(trace, source.read(0, 2), source.read(trace.end, 64)):
        add_stream(item, "pickle", trace, "hidden")
        item.report(
            "disagree", f"it can be read as {form or 'something else'} and as a pickle", offset=0, fix="don't load it"
        )


def _check_end(item: ScanItem, form: str) -> str:
    """A zip archive at the end of something else: zip tools see it, torch sees what is in front."""
    source, notes = item.source, item.notes
    start = notes.content_end if form else 0
    tail = max(start, source.size - _TAIL)
    if b"PK\x05\x06" not in source.read(tail, source.size - tail):
        return form
    from . import archives

    view = archives.zip_behind(source, start)
    if view is None:
        return form
    if form in ("unknown", "text", "executable"):
        notes.anomalies = [anomaly for anomaly in notes.anomalies if anomaly.kind != "malformed"]
        notes.report(
            "malformed", "torch.load refuses it: bytes stand in front of the zip archive", offset=0, fix=_AGAIN
        )
        form = "zip archive"
    else:
        notes.report(
            "disagree",
            f"it begins as {form} and ends as a zip archive: some readers load the one, others the other",
            offset=view.start,
            fix="don't load it",
        )
    archives.read_zip_behind(item, view)
    return form


def read_raw(item: ScanItem, *, sure: bool = False) -> str:
    """Follow the pickles of a source from its first byte; the format in users' words, ``""`` where there is none.

    :param sure: the first bytes are those of a pickle
    """
    source, notes = item.source, item.notes
    trace = notes.trace(source)
    if not sure and not begins_here(source, trace, partial(notes.trace, source)):
        return ""
    if trace.ended == "stop" and trace.result == "constant" and is_magic_number(source, trace):
        from .legacy import read_legacy

        return read_legacy(item)
    from . import joblib_files

    if joblib_files.is_joblib(trace):
        return joblib_files.read_joblib(item, trace)
    add_stream(item, "pickle", trace, item.role or "object")
    if not item.depth and trace.ended == "stop":
        notes.content_end = trace.end
    follow_appended(item, trace)
    is_metadata = isinstance(trace.result, Global) and trace.result == METADATA
    return "distributed checkpoint" if is_metadata else "pickle"


#: Endings of zip archives that are something else.
_OTHER_ZIPS = frozenset({
    ".whl", ".egg", ".jar", ".apk", ".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".vsix", ".nupkg",
    ".xpi", ".crx", ".kmz", ".ipa", ".sketch", ".aar", ".war",
})  # fmt: skip


def is_candidate(name: str, source: ByteSource) -> bool:
    """Whether a file found in a folder is worth scanning.

    By its content, or because its name promises a model: one that can't hold what it promises is worth reporting.
    Raises OSError where reading fails.
    """
    from .raw_pickles import begins_pickle

    head = source.read(0, HEAD)
    base = os.path.basename(name).lower()
    last = ending(base)
    kind = sniff(head, len(head))
    if last == ".pth" and kind == "text" and not begins_pickle(source):
        return False  # of Python's own, in site-packages
    if last in PROMISING or base == ".metadata":
        return True
    if kind in ("pickle", "legacy", "npy", "safetensors", "tar"):
        return True
    if kind == "git LFS pointer":
        return last == ".bin"
    if kind == "zip":
        return last not in _OTHER_ZIPS or _is_torch_zip(source)
    if kind in PACKED:
        if ending(os.path.splitext(base)[0]) in PROMISING or _packs_candidate(source, kind, last):
            return True
    elif kind in NOT_OPENED and (last in _PLAIN_NAMES or ending(os.path.splitext(base)[0]) in PROMISING):
        return True
    # what begins like an image may be a pickle as well: "GIF89a" and three more bytes are a number
    return bool(source.size) and begins_pickle(source)


def _is_torch_zip(source: ByteSource) -> bool:
    """Whether ``torch.load`` opens a zip archive, whatever its name."""
    from .torch_zip import is_torch_zip, survey
    from .zip_directory import BadDirectoryError, ends, torch_directory

    records = ends(source)
    try:
        return bool(records) and is_torch_zip(
            survey(source, torch_directory(source, records[0]), _FileCollector(_TRIAL))
        )
    except BadDirectoryError:
        return False


def _packs_candidate(source: ByteSource, kind: str, last: str) -> bool:
    """Whether compressed data is worth scanning: it is unpacked as far as an unpickler reads, or to a limit."""
    from .raw_pickles import begins_pickle
    from .unpacking import BrokenError, UnpackedSource

    notes = _FileCollector(_TRIAL)
    try:
        inside = UnpackedSource(source, kind, notes, size=_TRIAL.unpacked_bytes)
    except BrokenError:  # this Python can't unpack it
        return last in _PLAIN_NAMES
    first = inside.read(0, HEAD)
    if not first:
        return last in _PLAIN_NAMES or inside.exhausted
    return sniff(first, len(first)) in _OURS or begins_pickle(inside) or inside.exhausted


#: What the trial of compressed data in a folder may take.
_TRIAL = ScanLimits(unpacked_bytes=256 << 20, seconds=10)
#: Endings of files that may hold anything: pytorch_model.bin, as hubs call it, and none.
_PLAIN_NAMES = (".bin", "")
#: What is worth a check within compressed data.
_OURS = frozenset({"pickle", "legacy", "npy", "safetensors", "tar", "zip", *PACKED})
