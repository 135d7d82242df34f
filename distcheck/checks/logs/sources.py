"""Which files to read, in which order, what their names show about their writers, and their text as UTF-8 bytes.

What cannot be read becomes a source with a problem, and the others are still read. What stands in the text is for
:mod:`.reading`.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from distcheck.core.patterns import lazy

from .model import LineAuthor, LogSource

#: Bytes that are read at once.
PIECE = 2 << 20
#: What a folder is searched for at most; torchrun's trees are four levels deep below ``--log-dir``.
_DEEPEST = 8
_MOST_FILES = 20_000
#: Bytes of a file's beginning that decide its kind.
_BEGINNING = 4096
#: A larger file of one object is no error file and no flight recorder's dump (2000 entries with stacks take 20 MB).
_LARGEST_RECORD = 256 << 20


class LogInput(NamedTuple):
    """A file to read."""

    source: LogSource
    #: ``log``, ``error-file`` (torchelastic's error.json), ``dump`` (a flight recorder's), or empty where
    #: ``source.problem`` is the reason why it is not read
    form: str = "log"
    #: a running job may append to it: no older part of a rotated log, nothing compressed
    grows: bool = True


def find(paths: Sequence[str]) -> list[LogInput]:
    """The inputs that arguments of the command line stand for; ``-`` is standard input."""
    seen: set[tuple[int, int]] = set()
    inputs: list[LogInput] = []
    for path in paths:
        inputs.extend([LogInput(LogSource("-"))] if path == "-" else _below(path, seen))
    return _hinted(_in_order(inputs))


def _below(path: str, seen: set[tuple[int, int]]) -> Iterator[LogInput]:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        yield LogInput(LogSource(path, problem=_why(error)), "")
        return
    if not stat.S_ISDIR(status.st_mode):
        if _is_new(status, seen):
            yield _look(path, status)
        return
    files, problems, left_out = _walk(path)
    for name in files:
        try:
            status = os.stat(name)
        except OSError:
            # a link to a missing file, or a file that was removed since
            continue
        if stat.S_ISREG(status.st_mode) and _is_new(status, seen):
            item = _look(name, status)
            # settings and metrics are JSON as well
            if item.form != "log" or not name.endswith(".json"):
                yield item
    for name, why in problems:
        yield LogInput(LogSource(name, problem=why), "")
    if left_out:
        why = f"holds more than {_MOST_FILES} files, or more than {_DEEPEST} folders in each other: not all were read"
        yield LogInput(LogSource(path, problem=why), "")
    elif not files and not problems:
        yield LogInput(LogSource(path, problem="holds no log: no file named *.log, *.out, *.err or *.txt"), "")


def _is_new(status: os.stat_result, seen: set[tuple[int, int]]) -> bool:
    """Return whether a file is new, and no other name of a known one: a link would double its lines."""
    key = (status.st_dev, status.st_ino)
    if stat.S_ISREG(status.st_mode):
        if key in seen:
            return False
        seen.add(key)
    return True


#: Names of flight recorders' dumps: whatever prefix was requested, and the rank.
_DUMP = (
    r"(?:(?:nccl|comm_lib|fr|flight_?recorder)[\w-]*(?:trace|dump|rank)|.*trace_rank|.*_trace)[\w-]*"
    r"(?:\.(?:json|pkl|pickle))?"
)
#: Names of logs: by their ending, the schedulers' ``job.o4711``, and what has no ending.
_LOG_NAME = lazy(
    r"(?:.*\.(?:log|out|err|txt|stdout|stderr|output)|.*\.[oe]\d+|(?:.*[._-])?(?:stdout|stderr|syslog|messages|dmesg|nohup|output|log|logs)"
    r"|nccl[\w.-]*|error\.json|\d+|" + _DUMP + r")"
    r"(?:[.-](?:\d{1,3}|\d{8}|\d{4}-\d\d-\d\d)(?:[-T_]?\d{2,6})?)?(?:\.(?:gz|xz|bz2|zst))?",
    re.IGNORECASE,
)
#: Folders that hold no log of a job, and files by the thousand.
_NO_LOGS = frozenset((".git", "__pycache__", "node_modules", "site-packages", ".venv", "venv"))


def _walk(folder: str) -> tuple[list[str], list[tuple[str, str]], bool]:
    """Files that are named as logs are, those that can't be listed with the reason, and whether there are more."""
    files: list[str] = []
    problems: list[tuple[str, str]] = []
    waiting = [(folder, 0)]
    folders: set[tuple[int, int]] = set()
    left_out = False
    while waiting:
        path, depth = waiting.pop()
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in folders:
                continue
            folders.add((status.st_dev, status.st_ino))
            entries = sorted(os.scandir(path), key=lambda entry: _natural(entry.name))
        except OSError as error:
            problems.append((path, _why(error)))
            continue
        deeper = []
        for entry in entries:
            if _is_folder(entry):
                if entry.name in _NO_LOGS:
                    continue
                if depth < _DEEPEST:
                    deeper.append((entry.path, depth + 1))
                else:
                    left_out = True
            elif _LOG_NAME.fullmatch(entry.name):
                if len(files) >= _MOST_FILES:
                    return files, problems, True
                files.append(entry.path)
        waiting.extend(reversed(deeper))
    return files, problems, left_out


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _natural(name: str) -> list[tuple[int, int | str]]:
    """A key that sorts ``2.log`` before ``10.log``."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name)]


def _why(error: OSError | ValueError) -> str:
    """Why a file can't be read, for a person."""
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _look(path: str, status: os.stat_result) -> LogInput:
    """What one file is, by its beginning."""
    kind = status.st_mode
    is_input = stat.S_ISCHR(kind) and os.path.samestat(status, os.fstat(0))
    if (stat.S_ISCHR(kind) and not is_input) or stat.S_ISBLK(kind) or stat.S_ISSOCK(kind):
        return LogInput(LogSource(path, problem="a device, not a file"), "")
    if not stat.S_ISREG(kind):
        return LogInput(LogSource(path))
    try:
        with open(path, "rb") as stream:
            beginning = stream.read(_BEGINNING)
    except OSError as error:
        return LogInput(LogSource(path, problem=_why(error)), "")
    name = os.path.basename(path)
    is_json = beginning.lstrip()[:1] == b"{" and (name.endswith(".json") or "." not in name)
    if beginning.startswith(_PICKLE) or (is_json and _DUMP_KEYS.match(beginning)):
        return _record(path, status, "dump")
    if name == "error.json" or (is_json and re.match(rb'\s*\{\s*"message"\s*:\s*[{"]', beginning)):
        return _record(path, status, "error-file")
    what = _binary(beginning)
    if what:
        return LogInput(LogSource(path, problem=what), "", grows=False)
    return LogInput(LogSource(path), grows=not (beginning.startswith(_COMPRESSED) or beginning[:2] in _UTF16))


def _record(path: str, status: os.stat_result, form: str) -> LogInput:
    if status.st_size > _LARGEST_RECORD:
        return LogInput(LogSource(path, problem=f"too large for a record of this kind ({status.st_size >> 20} MB)"), "")
    return LogInput(LogSource(path), form)


#: A pickle of protocol 2 to 5 that begins with a dict or a frame, as a flight recorder writes it.
_PICKLE = (b"\x80\x02}", b"\x80\x03}", b"\x80\x04\x95", b"\x80\x05\x95")
_DUMP_KEYS = lazy(rb'\s*\{.{0,3000}?"(?:entries|pg_config|pg_status|nccl_version|comm_lib_version)"\s*:', re.DOTALL)
#: Beginnings of files that are no text: https://www.iana.org/assignments/media-types and file(1).
_MAGIC = (
    (b"\x7fELF", "a program, not a log"),
    (b"PK\x03\x04", "a zip archive or a checkpoint, not a log"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first (zstd -d)"),
    (b"\x04\x22\x4d\x18", "compressed with lz4: unpack it first (lz4 -d)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    (b"\x89PNG", "an image, not a log"),
    (b"SQLite format", "a database, not a log"),
    (b"!<arch>", "a library, not a log"),
)
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh")
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def _binary(beginning: bytes) -> str:
    """Why these bytes are no text; empty where they are."""
    for magic, what in _MAGIC:
        if beginning.startswith(magic):
            return what
    if beginning.startswith(_COMPRESSED) or beginning[:2] in _UTF16:
        return ""
    # a file that was cut to nothing under its writer begins with a hole
    text = beginning.lstrip(b"\0")
    controls = sum(text.count(bytes((byte,))) for byte in (0, 1, 2, 3, 4, 5, 6, 14, 15, 16, 17, 18, 19, 20))
    return "not text" if controls * 50 > len(text) else ""


# --- order ---

_ROTATED = lazy(
    r"(?P<base>.+?)(?P<part>[.-](?:\d{1,3}|\d{8}|\d{4}-\d\d-\d\d)(?:[-T_]?\d{2,6})?)?(?P<packed>\.(?:gz|xz|bz2))?"
)


def _in_order(inputs: list[LogInput]) -> list[LogInput]:
    """Parts of a rotated log stand together, the oldest first; all else stays in its order."""
    paths = {item.source.path for item in inputs}
    groups: dict[str, list[tuple[tuple[int, object], LogInput]]] = defaultdict(list)
    for item in inputs:
        base, age = _part_of(item.source.path, paths)
        groups[base].append((age, item))
    ordered = []
    for parts in groups.values():
        parts.sort(key=lambda part: part[0])
        for number, (_, item) in enumerate(parts, 1):
            note = (f"part {number} of {len(parts)}",) if len(parts) > 1 else ()
            source = item.source._replace(notes=item.source.notes + note)
            ordered.append(item._replace(source=source, grows=item.grows and number == len(parts)))
    return ordered


def _part_of(path: str, paths: set[str]) -> tuple[str, tuple[int, object]]:
    """The log that a file is a part of, and a key that rises with the part's age reversed."""
    folder, name = os.path.split(path)
    match = _ROTATED.fullmatch(name)
    if match is None or not (match["part"] or match["packed"]):
        return path, (2, 0)
    base = os.path.join(folder, match["base"])
    if not match["part"]:
        return base, (2, -1)
    digits = match["part"][1:]
    is_rotated = base in paths or os.path.splitext(match["base"])[1] in (".log", ".out", ".err", ".txt")
    if not is_rotated:
        return path, (2, 0)
    # logrotate numbers the newest part 1, and dates rise
    return base, (0, digits) if len(digits) > 3 else (1, -int(digits))


# --- who ---

_RANK = lazy(
    r"(?:^|[._\-/\[])(?P<kind>(?:global|local|node|group|world)?[_-]?rank)[_\-.=]?(?P<number>\d{1,6})(?=$|[._\-/\]])",
    re.IGNORECASE,
)
_ATTEMPT = lazy(r"attempt_(\d+)$")
_NCCL_FILE = lazy(
    r"nccl[\w]*[._-](?:debug[._-]|log[._-])?(?P<host>[A-Za-z0-9][\w.-]*?)[._-](?P<pid>\d{2,8})(?:\.(?:log|txt|out))?",
    re.IGNORECASE,
)
_ADDRESS = lazy(r"(?:^|[_-])((?:\d{1,3}\.){3}\d{1,3})(?=$|[._-])")
_HOST = lazy(
    r"(?:^|[._])((?:[a-z][a-z0-9_.-]{0,100}?)?(?:(?:node|host|dgx|hgx|compute|worker|master|launcher|server|replica)-?\d"
    r"|(?<![a-z])(?:nid|ip|pod|cn|gn)-?\d|gpu-?\d\d)[a-z0-9-]{0,100})$",
    re.IGNORECASE,
)
#: Azure ML writes one file for each process of a job.
_AZURE = lazy(r"(?:std_log(?:_process)?|70_driver_log)_(\d{1,5})\.txt")
_RAY_WORKER = lazy(r"worker-[0-9a-f]{20,}-[0-9a-f]{8}-(\d+)\.(?:out|err)")
_ENDINGS = lazy(
    r"(?:\.(?:log|out|err|txt|stdout|stderr|output|gz|xz|bz2|json|pkl|pickle)(?:[.-](?:\d{1,3}|\d{8}))?)+$",
    re.IGNORECASE,
)
#: What stands before a number that counts something else than tasks.
_COUNTS = lazy(
    r"(?:epoch|step|iter|run|exp|part|version|v|try|trial|attempt|chunk|fold|seed|stage|phase|day|eval|test|gpu)[_\-.]?$",
    re.IGNORECASE,
)


def _hinted(inputs: list[LogInput]) -> list[LogInput]:
    tasks = _tasks([item.source.path for item in inputs])
    return [
        item._replace(source=item.source._replace(who=who, attempt=attempt))
        for item in inputs
        for who, attempt in [_who(item, tasks)]
    ]


def _who(item: LogInput, tasks: dict[str, int]) -> tuple[LineAuthor, int | None]:
    path = item.source.path
    if item.form == "dump" and (match := re.search(r"(\d{1,6})(?:\.\w+)?$", path)):
        # torch writes the rank behind whatever name it was given
        return LineAuthor(rank=int(match[1])), None
    return who_by_name(path, tasks.get(path))


def who_by_name(path: str, task: int | None = None) -> tuple[LineAuthor, int | None]:
    """Return who wrote a file, and in which attempt of the job, as far as its name and the folders above show it.

    :param task: the number of the scheduler's task, where a whole set of files shows it
    """
    folders = os.path.abspath(path).split(os.sep)
    name = folders.pop()
    above = folders[-3:]
    attempt = None
    if len(above) >= 2 and above[-1].isdecimal() and (match := _ATTEMPT.match(above[-2])):
        return LineAuthor(local_rank=int(above[-1])), int(match[1])
    stem = _ENDINGS.sub("", name)
    for part in (stem, *reversed(above)):
        for match in _RANK.finditer(part):
            kind = match["kind"].lower().replace("_", "").replace("-", "")
            if kind in ("rank", "globalrank", "worldrank"):
                return LineAuthor(rank=int(match["number"])), attempt
            if kind == "localrank":
                return LineAuthor(local_rank=int(match["number"])), attempt
    if match := _AZURE.fullmatch(name):
        return LineAuthor(task=int(match[1])), attempt
    if match := _RAY_WORKER.fullmatch(name):
        return LineAuthor(pid=int(match[1])), attempt
    if match := _NCCL_FILE.fullmatch(name):
        return LineAuthor(host=match["host"], pid=int(match["pid"])), attempt
    host = _host_of(stem) or (
        _host_of(above[-1]) if above and stem in ("stdout", "stderr", "log", "train", "output") else None
    )
    return LineAuthor(host=host, task=task if host is None else None), attempt


def _host_of(stem: str) -> str | None:
    if match := _ADDRESS.search(stem):
        return match[1]
    # Slurm's job-%j-%N: what stands after the job's number
    stem = re.sub(r"^.*?(?:^|[._-])\d{3,}[._-](?=[a-zA-Z])", "", stem)
    match = _HOST.search(stem)
    return match[1] if match and any(letter.isdigit() for letter in match[1]) else None


def _tasks(paths: Iterable[str]) -> dict[str, int]:
    """Files (or folders above them) that differ by one number alone, and have all from 0 on: one task wrote each."""
    sets: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for path in paths:
        folder, name = os.path.split(path)
        above, last = os.path.split(folder)
        stem = _ENDINGS.sub("", name)
        for place, counted, rest in ((folder, stem, name[len(stem) :]), (above, last, os.sep + name)):
            match = re.fullmatch(r"(.*?)(\d{1,5})", counted)
            # Slurm numbers the jobs of an array in the same way: slurm-4711_3.out
            if match and not _COUNTS.search(match[1]) and not re.fullmatch(r"slurm-\d+_", match[1]):
                sets[os.path.join(place, match[1]), rest][path] = int(match[2])
    return {
        path: number
        for numbers in sets.values()
        if len(numbers) >= 2 and sorted(numbers.values()) == list(range(len(numbers)))
        for path, number in numbers.items()
    }


# --- bytes ---


class Text:
    """The text of an input as bytes of UTF-8, piece by piece, each piece as long as PIECE or shorter."""

    def __init__(self, source: LogSource) -> None:
        self.path = source.path
        #: bytes of the file that were read, and that it had when it was opened (0 for a pipe)
        self.done = 0
        self.size = 0
        self.problem = ""
        self.notes: list[str] = []

    def pieces(self) -> Iterator[bytes]:
        """What it holds; ends, with ``problem`` set, where it can't be read on."""
        try:
            with self._open() as stream:
                status = os.fstat(stream.fileno())
                self.size = status.st_size if stat.S_ISREG(status.st_mode) else 0
                yield from self._decoded(self._unpacked(stream))
                self._note_changes(os.fstat(stream.fileno()).st_size)
        except EOFError:
            self.problem = "the compressed file ends early: what came before was read"
        except (zlib.error, ValueError) as error:
            self.problem = f"the compressed file is damaged: what came before was read ({error})"
        except OSError as error:
            self.problem = _why(error)

    def _open(self) -> IO[bytes]:
        if self.path == "-":
            # closed by the process that started this: the descriptor shows it
            return os.fdopen(os.dup(0 if sys.stdin is None else sys.stdin.fileno()), "rb", buffering=0)
        return open(self.path, "rb", buffering=0)

    def _raw(self, stream: IO[bytes]) -> Iterator[bytes]:
        # a file that still grows is read as long as it was
        while piece := stream.read(min(PIECE, self.size - self.done) if self.size else PIECE):
            self.done += len(piece)
            yield piece

    def _unpacked(self, stream: IO[bytes]) -> Iterator[bytes]:
        raw = self._raw(stream)
        first = next(raw, b"")
        while 0 < len(first) < len(_COMPRESSED[1]) and (more := next(raw, b"")):
            first += more
        if not first.startswith(_COMPRESSED):
            yield first
            yield from raw
            return
        self.notes.append("compressed")
        yield from _unpack(first, raw)

    def _decoded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        first = next(pieces, b"")
        encoding = _UTF16.get(first[:2])
        if encoding is None:
            yield first.removeprefix(b"\xef\xbb\xbf")
            yield from pieces
            return
        import codecs

        self.notes.append("UTF-16")
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        yield decoder.decode(first[2:]).encode("utf-8", "replace")
        for piece in pieces:
            yield decoder.decode(piece).encode("utf-8", "replace")

    def _note_changes(self, size: int) -> None:
        if self.size and size > self.size:
            self.notes.append(f"grew while it was read: what came after its first {self.size} bytes was not read")
        elif self.done < self.size:
            self.notes.append(f"became shorter while it was read: {self.done} of its {self.size} bytes were read")


def _unpack(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack gzip, xz or bzip2, of one member or several.

    :raises EOFError: the data ends within a member
    :raises ValueError: it is damaged
    """
    data = first
    while True:
        unpacker = _unpacker(first)
        while True:
            # never all at once: a few kilobytes of zeros can stand for gigabytes
            yield from _bounded(unpacker, data)
            data = b""
            if unpacker.eof:
                break
            data = next(rest, b"")
            if not data:
                raise EOFError
        data = unpacker.unused_data or next(rest, b"")
        # what comes behind the last member is padding
        if not data.startswith(first[:2]):
            return
        first = data


def _unpacker(first: bytes):  # type: ignore[no-untyped-def]
    if first.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(16 + zlib.MAX_WBITS)
    if first.startswith(b"BZh"):
        import bz2

        return bz2.BZ2Decompressor()
    import lzma

    return lzma.LZMADecompressor()


def _bounded(unpacker, data: bytes) -> Iterator[bytes]:  # type: ignore[no-untyped-def]
    """What these bytes give, in pieces of bounded size."""
    if hasattr(unpacker, "unconsumed_tail"):
        while True:
            piece = unpacker.decompress(data, PIECE)
            if piece:
                yield piece
            data = unpacker.unconsumed_tail
            if unpacker.eof or (not data and len(piece) < PIECE):
                return
    else:
        while True:
            try:
                piece = unpacker.decompress(data, PIECE)
            except Exception as error:
                # lzma's own kind of error is no kind of ValueError, and its module is imported for such files only
                if type(error).__name__ == "LZMAError":
                    raise ValueError(str(error)) from error
                raise
            if piece:
                yield piece
            data = b""
            if unpacker.eof or unpacker.needs_input:
                return
