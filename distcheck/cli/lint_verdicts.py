"""What a run of ``distcheck lint`` keeps for the next one: verdicts on parts of a tree, and on all of it.

A verdict belongs to the bytes of all files that it was made from, to the options that decide it, and to this version of
distcheck. It is kept in the user's cache (:mod:`distcheck.checks.source.cache`), which returns only what this user
wrote. A file is not read again if its size, its times, its inode and its device are those of the run before. A file
that was changed in the two seconds before it was read is read again: a second change may have the same time.

Nothing is kept for runs with fixes, for standard input, with plug-ins, or where something failed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from distcheck.core.model import Edit, Finding, Fix, NotChecked, ProbeRun, Severity, Where
from distcheck.core.registry import has_plug_ins

from .lint_inputs import FileStamp, LintFiles, LintOptions, bytes_of, covers_repositories
from .lint_units import LintUnit, UnitVerdict

if TYPE_CHECKING:
    from distcheck.checks.launch_files.document_files import Answer
    from distcheck.checks.launch_files.engine import LaunchSource
    from distcheck.checks.launch_files.model import LaunchFile, LookUp
    from distcheck.checks.source.cache import Cache
    from distcheck.checks.source.link import FileFacts
    from distcheck.checks.source.project_texts import ProjectTexts
    from distcheck.core.project_roots import RootFinder

_DIGEST_SIZE = 20
#: Parts of the package whose code decides what is found.
_CODE = (
    "checks/source",
    "checks/source/small_worlds",
    "checks/launch_files",
    "checks",
    "core",
    "launch",
    "rules",
    "cli",
)
#: Libraries that read launch files.
_LIBRARIES = ("tree_sitter", "tree_sitter_bash", "yaml")


class Reading(NamedTuple):
    """How a file was read: its stamp (None: not to be relied on), the most bytes, and the digest of the bytes."""

    stamp: FileStamp | None
    #: -1: all
    limit: int
    digest: bytes


class Seen(NamedTuple):
    """The result of a run before the options that only choose among findings."""

    verdict: UnitVerdict = UnitVerdict()
    #: DC904, for files that can't be parsed
    unreadable: tuple[Finding, ...] = ()
    #: Python files that can't be parsed
    broken: tuple[str, ...] = ()
    #: the launch files, those that were read as a whole, and how many of them are unreadable
    launch: tuple[str, ...] = ()
    launch_whole: tuple[str, ...] = ()
    launch_unread: int = 0


def digest_of(data: bytes) -> bytes:
    """Return the digest by which the content of a file is known; the same as the engine's ``content_digest``."""
    return hashlib.blake2b(data, digest_size=_DIGEST_SIZE).digest()


def memory_of(options: LintOptions, inputs: LintFiles, changed: Mapping[str, bytes]) -> RunMemory | None:
    """Return what is known from earlier runs like this one, or None for a run whose verdicts are not kept."""
    given = options.given
    if options.cache is None or changed or inputs.standard_input or given["fix"] or given["diff"]:
        return None
    if has_plug_ins(entry for entry in sys.path if entry):
        return None
    return RunMemory(options.cache, options, inputs)


class CachedAnswers:
    """Plain values that runs of the same code with the same options keep for each other."""

    def __init__(self, cache: Cache, stamp: bytes) -> None:
        self._cache = cache
        self._stamp = stamp

    def recall(self, *name: str) -> Any:
        """Return what is kept under a name, None if there is nothing."""
        data = self._cache.get(self._key(name))
        try:
            return None if data is None else marshal.loads(data)  # noqa: S302 - written by this user, a plain value
        except (ValueError, TypeError, EOFError):
            return None

    def keep(self, plain: Any, *name: str) -> None:
        """Keep a plain value under a name."""
        _put(self._cache, self._key(name), plain)

    def recall_findings(self, *name: str) -> dict[str, tuple[Finding, ...]]:
        """Return the findings that are kept under a name, by probe."""
        try:
            return {probe: _findings_from(plain) for probe, plain in (self.recall(*name) or {}).items()}
        except (ValueError, TypeError, AttributeError):  # damaged
            return {}

    def keep_findings(self, found: Mapping[str, Iterable[Finding]], *name: str) -> None:
        """Keep findings by probe."""
        self.keep({probe: _plain_findings(findings) for probe, findings in found.items()}, *name)

    def _key(self, name: tuple[str, ...]) -> bytes:
        return digest_of(repr(("answer", self._stamp, name)).encode("utf-8", "surrogateescape"))


class RunMemory:
    """What earlier runs have found out, and what this one finds out."""

    def __init__(self, cache: Cache, options: LintOptions, inputs: LintFiles) -> None:
        self.cache = cache
        self.inputs = inputs
        given = options.given
        decisive = (
            _fingerprint(),
            os.getcwd(),
            covers_repositories(options),
            options.selection,
            options.include_markdown,
            options.nodes,
            options.configuration,
            given["paths"],
            given["exclude"],
            given["extend_exclude"],
            # of Python files, the level of findings depends on it, and no verdict
            sorted(inputs.named.intersection(inputs.launch)),
        )
        self._options = digest_of(repr(decisive).encode("utf-8", "surrogateescape"))
        self._key = digest_of(b"run" + self._options + repr(sorted(inputs.named)).encode("utf-8", "surrogateescape"))
        self._before: dict[str, Reading] = {}
        #: what this run has read, by path
        self.readings: dict[str, Reading] = {}
        #: paths that launch files name, with the stamp (None: no file) and the digest of what was read (None: nothing)
        self.lookups: dict[str, tuple[tuple[int, ...] | None, bytes | None]] = {}
        #: whether there is a file
        self.exists: dict[str, bool] = {}
        self._is_settled = True
        self._stored: Any = None
        self._load()

    def _load(self) -> None:
        data = self.cache.get(self._key)
        if data is None:
            return
        try:
            stored = marshal.loads(data)  # noqa: S302 - written by this user, and holds plain values
            self._before = {
                path: Reading(None if stamp is None else FileStamp(*stamp), limit, digest)
                for path, stamp, limit, digest in stored[0]
            }
            self._stored = stored
        except (ValueError, TypeError, EOFError, IndexError, KeyError):
            self._before = {}

    # reading

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Return the bytes of a file, and record what they are; raises OSError."""
        data = bytes_of(path, self.inputs, limit=limit)
        digest = digest_of(data)
        stamp = self.inputs.stamps.get(path)  # an unsaved text has none
        most = -1 if limit is None else limit
        before = self.readings.get(path)
        if before is not None and before.limit == most and before.digest != digest:
            stamp = None
        if stamp is not None and stamp.is_recent():
            stamp = None
        # the longest reading decides what the file is known by
        if before is None or most == -1 or most >= before.limit >= 0:
            self.readings[path] = Reading(stamp, most, digest)
        return data

    def known_digest(self, path: str) -> bytes:
        """Return the digest of all bytes of a file that has not changed since it was read; empty if that is unknown."""
        reading = self.readings.get(path) or self._unchanged(path)
        if reading is None or reading.limit != -1:
            return b""
        self.readings[path] = reading
        return reading.digest

    def _unchanged(self, path: str) -> Reading | None:
        before = self._before.get(path)
        if before is None or before.stamp is None or path in self.inputs.texts:
            return None
        try:
            found = os.stat(path)
        except OSError:
            return None
        return before if FileStamp.of(found) == before.stamp else None

    def asking(self, look_up: Callable[[str], bytes | None]) -> Callable[[str], bytes | None]:
        """Return the same function; what it returns is recorded."""

        def ask(path: str) -> bytes | None:
            stamp = _stamp_of(path)
            data = look_up(path)
            if stamp is not None and stamp.is_recent():
                self._is_settled = False
            self.lookups[path] = (None if stamp is None else tuple(stamp), None if data is None else digest_of(data))
            return data

        return ask

    def is_file(self, path: str) -> bool:
        """Return whether a path is a file, and record it."""
        found = self.exists[path] = os.path.isfile(path)
        return found

    def launch_file(self, source: LaunchSource, markdown: bool, look_up: LookUp) -> LaunchFile | None:
        """Return the contents of a file as an earlier run read it, or as they are now; None if it is no launch file.

        The other files that were read for it are compared. Raises OSError.
        """
        from distcheck.checks.launch_files import engine, stored_files

        before = self._unchanged(source.path)
        if before is not None:
            data = self.cache.get(self._launch_key(source.path, markdown, before.digest))
            stored = None if data is None else stored_files.from_bytes(data, look_up)
            if stored is not None:
                self.readings[source.path] = before
                return stored.file
        recorded = stored_files.RecordedLookUps(look_up)
        file = engine.read_source(source, markdown, recorded)
        if file is None or engine.is_whole(file):
            key = self._launch_key(source.path, markdown, self.readings[source.path].digest)
            self.cache.put(key, stored_files.to_bytes(file, recorded))
        return file

    def _launch_key(self, path: str, markdown: bool, digest: bytes) -> bytes:
        return digest_of(repr(("launch", self._options, path, markdown, digest)).encode("utf-8", "surrogateescape"))

    # the whole run

    def recall(self, roots: RootFinder) -> Seen | None:
        """Return the result of the run before if nothing that it read has changed."""
        if self._stored is None:
            return None
        try:
            _, paths, launch, places, lookups, exists, plain = self._stored
            if (paths, launch) != (self.inputs.paths, self.inputs.launch) or places != self._places(roots):
                return None
            refreshed = False
            for path, before in self._before.items():
                reading = self._unchanged(path)
                if reading is None:
                    if digest_of(self.read(path, None if before.limit < 0 else before.limit)) != before.digest:
                        return None
                    refreshed = refreshed or self.readings[path].stamp is not None
                else:
                    self.readings[path] = reading
            if any(os.path.isfile(path) is not there for path, there in exists.items()):
                return None
            for path, (stamp, _) in lookups.items():
                found = _stamp_of(path)
                if (None if found is None else tuple(found)) != stamp:
                    return None
            seen = _seen_from(plain)
            if refreshed:
                self._put(paths, launch, places, lookups, exists, plain)
        except (OSError, ValueError, TypeError, IndexError, KeyError):
            return None
        return seen

    def keep(self, seen: Seen, roots: RootFinder) -> None:
        """Keep the result for the next run."""
        inputs = (*self.inputs.paths, *self.inputs.launch)
        if not seen.verdict.repeatable or not self._is_settled or any(path not in self.readings for path in inputs):
            return
        places = self._places(roots)
        self._put(self.inputs.paths, self.inputs.launch, places, self.lookups, self.exists, _plain_seen(seen))

    def _put(self, *parts: object) -> None:
        rows = [
            (path, None if reading.stamp is None else tuple(reading.stamp), reading.limit, reading.digest)
            for path, reading in self.readings.items()
        ]
        _put(self.cache, self._key, (rows, *parts))

    def _places(self, roots: RootFinder) -> bytes:
        """Return a digest of the folders that the files belong to."""
        found = dict.fromkeys(roots.of_file(path) for path in (*self.inputs.paths, *self.inputs.launch))
        packaged = [roots.is_packaged(path) for path in self.inputs.paths]
        return digest_of(repr(([tuple(one) for one in found], packaged)).encode("utf-8", "surrogateescape"))

    # parts

    def unit_key(self, unit: LintUnit, files: Sequence[FileFacts]) -> bytes | None:
        """Return the key of the verdict on a part, or None if what it depends on is not known."""
        rows = []
        for number in unit.files:
            facts = files[number]
            if facts.problem is None and not facts.digest:
                return None
            rows.append((facts.path, facts.digest, facts.repository, repr(facts.problem), facts.packaged))
        launch: Any = None
        if unit.launch is not None:
            contents = self._launch_contents(unit)
            if contents is None:
                return None
            launch = (
                contents,
                sorted(unit.launch.scripts.intersection(row[0] for row in rows)),
                [(file.path, _position(site, file.sites), path) for file, site, path in unit.starts],
            )
        # version 2: the bytes do not depend on which texts are the same object
        return digest_of(marshal.dumps(("part", self._options, rows, launch), 2))

    def _launch_contents(self, unit: LintUnit) -> Any:
        """Return what the launch files of a part hold, by digests; None if that is not known."""
        own = () if unit.launch is None else unit.launch.files.files
        if any(file.path not in self.readings for file in own):
            return None
        return (
            [(file.path, self.readings[file.path].digest) for file in own],
            sorted((path, digest or b"") for path, (_, digest) in self.lookups.items()) if own else [],
        )

    def launch_key(self, unit: LintUnit) -> str:
        """Return the name for findings that rest on nothing but the launch files of a part; empty if there is none."""
        contents = self._launch_contents(unit)
        return "" if contents is None else digest_of(marshal.dumps(contents, 2)).hex()

    def verdict(self, key: bytes | None, texts: ProjectTexts | None) -> UnitVerdict | None:
        """Return the verdict that is kept for a key, if a search for the names that it rests on finds the same."""
        data = None if key is None else self.cache.get(key)
        if data is None:
            return None
        try:
            found = _verdict_from(marshal.loads(data))  # noqa: S302 - written by this user, and holds plain values
            same = all(texts is not None and texts.answer(question) == answer for question, answer in found.searched)
            return found if same else None
        except (ValueError, TypeError, EOFError, IndexError, KeyError):
            return None

    def keep_verdict(self, key: bytes | None, verdict: UnitVerdict) -> None:
        """Keep a verdict."""
        if key is not None and verdict.repeatable:
            _put(self.cache, key, _plain_verdict(verdict))

    @property
    def answers(self) -> CachedAnswers:
        """What runs with these options keep about single files of a part."""
        return CachedAnswers(self.cache, self._options)

    # documents

    def documents_key(self, findings: Sequence[Finding], roots: Sequence[str]) -> bytes | None:
        """Return the key of what documents make of findings, or None if evidence is no plain value."""
        try:
            # version 2: the bytes do not depend on which texts are the same object
            return digest_of(marshal.dumps(("documents", self._options, tuple(roots), _plain_findings(findings)), 2))
        except ValueError:
            return None

    def with_documents(self, key: bytes | None) -> list[Finding] | None:
        """Return the findings that are kept for a key, if the documents have not changed."""
        data = None if key is None else self.cache.get(key)
        if data is None:
            return None
        from distcheck.checks.launch_files.document_files import is_unchanged

        try:
            answers, findings = marshal.loads(data)  # noqa: S302 - written by this user, and holds plain values
            return list(_findings_from(findings)) if is_unchanged(answers) else None
        except (ValueError, TypeError, EOFError, IndexError, KeyError):
            return None

    def keep_documents(self, key: bytes | None, findings: Iterable[Finding], answers: Iterable[Answer]) -> None:
        """Keep what documents make of findings, and what was read for it."""
        if key is not None:
            _put(self.cache, key, (list(answers), _plain_findings(findings)))


def _stamp_of(path: str) -> FileStamp | None:
    """Return the stamp of a file, or None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return FileStamp.of(found) if stat.S_ISREG(found.st_mode) else None


def _position(thing: object, things: Iterable[object]) -> int:
    return next(number for number, one in enumerate(things) if one is thing)


def _put(cache: Cache, key: bytes, plain: Any) -> None:
    try:
        data = marshal.dumps(plain)
    except ValueError:  # evidence that is no plain value
        return
    cache.put(key, data)


def _fingerprint() -> str:
    """Return a digest of the code that decides what is found: a version may be worked on."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rows: list[object] = [sys.version_info[:3], *_libraries()]
    try:
        for part in _CODE:
            with os.scandir(os.path.join(package, part)) as entries:
                for entry in entries:
                    if entry.name.endswith((".py", ".so")):
                        found = entry.stat()
                        rows.append((part, entry.name, found.st_size, found.st_mtime_ns))
    except OSError:  # an archive: its file stands for all
        while package and not os.path.isfile(package):
            above = os.path.dirname(package)
            package = "" if above == package else above
        if package:
            rows.append((package, os.stat(package).st_mtime_ns, os.stat(package).st_size))
    return digest_of(repr(sorted(map(repr, rows))).encode("utf-8", "surrogateescape")).hex()


def _libraries() -> Iterator[tuple[str, int]]:
    for name in _LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None and os.path.exists(spec.origin):
            yield spec.origin, os.stat(spec.origin).st_mtime_ns


# plain values


def _plain_finding(finding: Finding) -> tuple[Any, ...]:
    fix = finding.fix
    return (
        finding.code,
        finding.name,
        int(finding.severity),
        finding.message,
        (fix.text, fix.command, tuple(tuple(edit) for edit in fix.edits), *fix[3:]),
        tuple(finding.where),
        dict(finding.evidence),
    )


def _finding_from(plain: Any) -> Finding:
    code, name, severity, message, fix, where, evidence = plain
    made = Fix(*fix)
    made = made._replace(edits=tuple(Edit(*edit) for edit in made.edits))
    return Finding(code, name, Severity(severity), message, made, Where(*where), evidence)


def _plain_findings(findings: Iterable[Finding]) -> tuple[Any, ...]:
    return tuple(_plain_finding(finding) for finding in findings)


def _findings_from(plain: Any) -> tuple[Finding, ...]:
    return tuple(_finding_from(one) for one in plain)


def _plain_verdict(verdict: UnitVerdict) -> tuple[Any, ...]:
    return (
        _plain_findings(verdict.kept),
        _plain_findings(verdict.unused),
        verdict.silenced,
        verdict.unknown,
        tuple(tuple(item) for item in verdict.not_checked),
        # what took time in another run takes none in this one
        tuple((run.name, run.status) for run in verdict.probes),
        sorted(verdict.checked),
        verdict.searched,
    )


def _verdict_from(plain: Any) -> UnitVerdict:
    kept, unused, silenced, unknown, not_checked, probes, checked, searched = plain
    return UnitVerdict(
        _findings_from(kept),
        _findings_from(unused),
        silenced,
        tuple((path, line, what) for path, line, what in unknown),
        tuple(NotChecked(*item) for item in not_checked),
        tuple(ProbeRun(name, status) for name, status in probes),
        frozenset(checked),
        tuple((tuple(question), answer) for question, answer in searched),
    )


def _plain_seen(seen: Seen) -> tuple[Any, ...]:
    return (_plain_verdict(seen.verdict), _plain_findings(seen.unreadable), *seen[2:])


def _seen_from(plain: Any) -> Seen:
    verdict, unreadable, *rest = plain
    return Seen(_verdict_from(verdict), _findings_from(unreadable), *rest)
