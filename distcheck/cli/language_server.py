"""The language server: ``distcheck lint`` over the text of an editor.

A run of :mod:`.lint_run` over the project uses the text of open files in place of their bytes. A project of more than a
few files is too slow to judge for each key. There, a change judges only its file, and what that changes is applied to
the findings of the last run over the project (:func:`combined`). The project follows when the keyboard rests, in a
process of its own, which the next change ends. A notebook is checked as the file that the editor would save.

It writes no file but the cache. The editor applies edits.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import signal
import sys
import threading
import time
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import click
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from distcheck._version import __version__
from distcheck.core.fixes import apply_fixes, why_it_does_not_compile
from distcheck.core.model import FEW_FILES, Finding, Fix, Severity, page_url
from distcheck.core.redaction import mask_forms
from distcheck.core.rule_page import read_page
from distcheck.core.world import World
from distcheck.reporters.progress import Progress

from . import options as shared
from .lint_inputs import DelayedProgress, LintFiles, LintOptions, inputs_of
from .lint_run import look, save_cache

if TYPE_CHECKING:
    import asyncio
    from multiprocessing.connection import Connection

#: Seconds without a change after which the text is checked: a word is typed in less.
_PAUSE_S = 0.1
#: Seconds without a change after which the whole project is checked, and the most seconds that this may take.
_REST_S, _LIMIT_S = 0.3, 600.0
#: Seconds after which it is checked whether the text has changed again.
_LOOK_S = 0.05
#: The module that imports what a check needs.
_PRELOADED = "distcheck.cli.lint_preloaded"
_LEVELS = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook="jupyter-notebook", cells=[types.NotebookCellLanguage(language="python")]
        )
    ]
)


class Project(NamedTuple):
    """The options and the files of a project."""

    options: LintOptions
    inputs: LintFiles
    #: the path that lint uses for a file, by its path in the project
    names: Mapping[str, str]

    @property
    def is_small(self) -> bool:
        """Return whether the project is judged as a whole for each change."""
        return len(self.names) <= FEW_FILES


def project_of(given: Mapping[str, Any], *words: str) -> Project:
    """Return the project in the working directory; raises click.UsageError if its configuration is not valid.

    :param words: more options of ``distcheck lint``
    """
    from .lint import command, lint_options

    configuration = shared.configuration_of(World(), given["config"], isolated=given["isolated"])
    plain = dict(command.make_context("lint", list(words), auto_envvar_prefix=None).params)
    options = lint_options(plain, configuration)
    inputs = inputs_of(options)
    return Project(options, inputs, {os.path.normpath(path): path for path in (*inputs.paths, *inputs.launch)})


def check(project: Project, texts: Mapping[str, bytes]) -> dict[str, list[Finding]]:
    """Return the findings of a project by path.

    :param texts: the text of open files, by the path that lint uses
    """
    inputs = project.inputs._replace(stamps={}, texts=texts, named=frozenset(texts))
    result = look(project.options, inputs, {}, DelayedProgress(Progress(sys.stderr), float("inf")))
    save_cache(project.options)
    found: dict[str, list[Finding]] = {}
    for finding in result.report.findings:
        if finding.where.path is not None:
            found.setdefault(finding.where.path, []).append(finding)
    return found


def _answer(sender: Connection, given: Mapping[str, Any], texts: Mapping[str, bytes]) -> None:
    """Send the findings of the project in the working directory, or the exception, from a process of its own."""
    from multiprocessing import parent_process

    def end_with_parent() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    # the process ends with its answer: a search for cycles among millions of values takes an eighth of its time
    gc.disable()
    try:
        sender.send(check(project_of(given, "-j", "1"), texts))
    except click.ClickException as error:
        sender.send(click.ClickException(error.format_message()))
    except Exception as error:  # noqa: BLE001 - the server reports it
        sender.send(error)


def check_alone(project: Project, path: str, text: bytes) -> list[Finding]:
    """Return the findings of one file as if there were no other. It neither reads nor changes the cache."""
    one = (path,)
    inputs = project.inputs._replace(
        paths=one if path in project.inputs.paths else (), launch=one if path in project.inputs.launch else ()
    )
    alone = project._replace(options=project.options._replace(cache=None), inputs=inputs)
    return check(alone, {path: text}).get(path, [])


class Basis(NamedTuple):
    """A file as the last run over the project has judged it."""

    text: bytes
    #: the findings of that run, and those of the file alone
    found: list[Finding]
    alone: list[Finding]


def combined(basis: Basis, text: bytes, alone: list[Finding]) -> list[Finding]:
    """Return the findings of a file whose text has changed, until the project is judged again.

    A finding that the file alone had before as well, and the project had not, is refuted by other files. One that only
    the project had rests on other files, and stays while its line does.

    :param alone: the findings of the new text alone
    """
    moved_line = _line_mapping(basis.text, text)

    def key(finding: Finding, line: int | None) -> tuple[object, ...]:
        return finding.code, finding.where.cell, line, finding.where.column

    def placed(findings: list[Finding]) -> dict[tuple[object, ...], Finding]:
        lines = [(finding, moved_line(finding)) for finding in findings]
        return {key(finding, line): _moved(finding, line) for finding, line in lines if line is not None}

    before, project = placed(basis.alone), placed(basis.found)
    now = {key(finding, finding.where.line): finding for finding in alone}
    shown = [finding for place, finding in now.items() if place not in before]
    shown += [finding for place, finding in project.items() if place in now or place not in before]
    return shown


def _line_mapping(old: bytes, new: bytes) -> Callable[[Finding], int | None]:
    """Return a function from a finding in the old text to its line in the new one; None if that was changed."""
    before, after = old.splitlines(), new.splitlines()
    shorter = min(len(before), len(after))
    start = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if before[-1 - n] != after[-1 - n]), rest)

    def line_of(finding: Finding) -> int | None:
        first = finding.where.line or 1
        if (finding.where.end_line or first) <= start:
            return first
        return first + len(after) - len(before) if first > len(before) - end else None

    return line_of


def _moved(finding: Finding, line: int) -> Finding:
    where = finding.where
    if line == (where.line or 1):
        return finding
    end = None if where.end_line is None or where.line is None else where.end_line + line - where.line
    # the edits of the fix are about the old lines
    return finding._replace(
        where=where._replace(line=line, end_line=end), fix=finding.fix._replace(edits=(), command=None)
    )


class Outdated(Exception):  # noqa: N818 - a state, not an error
    """A newer text is to be checked."""


class LintServer(LanguageServer):
    """The server, with the last results."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__("distcheck", __version__, notebook_document_sync=_NOTEBOOKS)
        self.given = given
        #: the folder of the project as the editor names it, perhaps by a link
        self.root = os.getcwd()
        self.project: Project | None = None
        #: findings by path, and the texts of open files that they were found in
        self.found: dict[str, list[Finding]] = {}
        self.checked: Mapping[str, bytes] = {}
        #: findings by path of the last run over the project (None: there was none), and the open files as judged there
        self.of_project: dict[str, list[Finding]] | None = None
        self.bases: dict[str, Basis] = {}
        #: what the editor shows, by document
        self.published: dict[str, list[types.Diagnostic]] = {}
        self._runs = ThreadPoolExecutor(1, "lint")
        self._next: asyncio.Task[None] | None = None
        #: counts the changes
        self._change = 0

    # runs

    def schedule(self, *, files_changed: bool = False) -> None:
        """Check soon. A run that has not begun is replaced.

        :param files_changed: files were saved, created or deleted, so the list of files and the options are read again
        """
        import asyncio

        if files_changed:
            self.project = None
        self.give_up()
        self._next = asyncio.get_running_loop().create_task(self._check_soon())

    def give_up(self) -> None:
        """End the run in progress."""
        self._change += 1
        if self._next is not None:
            self._next.cancel()

    async def _check_soon(self) -> None:
        import asyncio

        change = self._change
        await asyncio.sleep(_PAUSE_S)
        loop = asyncio.get_running_loop()
        try:
            if self.project is None:
                # one process: the editor's server has threads, and must not fork
                self.project = await loop.run_in_executor(self._runs, project_of, self.given, "-j", "1")
            project = self.project
            texts = dict(self._open_texts(project))
            if project.is_small:
                self.found = await loop.run_in_executor(self._runs, check, project, texts)
                self.checked = texts
            else:
                alone = {}
                for path, text in texts.items():
                    alone[path] = await loop.run_in_executor(self._runs, self._alone, project, path, text)
                self.found = {**(self.of_project or {}), **self._provisional(texts, alone)}
                self.checked = texts
                self._publish()
                await asyncio.sleep(_REST_S)
                self.found = self.of_project = await loop.run_in_executor(None, self._apart, texts, change)
                self.bases = {path: Basis(text, self.found.get(path, []), alone[path]) for path, text in texts.items()}
        except Outdated:
            return
        except Exception as error:
            # findings of an earlier text must not stand for this one
            self.found, self.checked = {}, {}
            self.of_project, self.bases = None, {}
            if isinstance(error, click.ClickException):
                why = error.format_message()
            else:
                why = f"{type(error).__name__}: {error}"
                logging.getLogger(__name__).exception("the check failed")
            message = f"distcheck could not check this project: {why}"
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))
        self._publish()

    def _alone(self, project: Project, path: str, text: bytes) -> list[Finding]:
        """Return the findings of one file alone; known where its text is that of the last run over the project."""
        basis = self.bases.get(path)
        return basis.alone if basis is not None and basis.text == text else check_alone(project, path, text)

    def _provisional(self, texts: Mapping[str, bytes], alone: Mapping[str, list[Finding]]) -> dict[str, list[Finding]]:
        """Return the findings of each open file until the project is judged."""
        if self.of_project is None:
            return dict(alone)
        for path in texts.keys() - self.bases.keys():
            # it was opened after the run over the project, which has read the file
            self.bases[path] = Basis(texts[path], self.of_project.get(path, []), alone[path])
        return {path: combined(self.bases[path], text, alone[path]) for path, text in texts.items()}

    def _apart(self, texts: Mapping[str, bytes], change: int) -> dict[str, list[Finding]]:
        """Return the findings of the project, judged in another process.

        :param change: the number of the change that the run is for
        :raises Outdated: another change has come in
        """
        import multiprocessing

        # a fork of a process that has imported everything; this one has threads, and must not fork
        can_fork = "forkserver" in multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("forkserver" if can_fork else "spawn")
        if can_fork:
            context.set_forkserver_preload([_PRELOADED])
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_answer, args=(sender, self.given, texts), daemon=True)
        process.start()
        sender.close()
        until = time.monotonic() + _LIMIT_S
        try:
            while not receiver.poll(_LOOK_S):
                if self._change != change:
                    raise Outdated
                if time.monotonic() > until:
                    raise TimeoutError(f"it took longer than {_LIMIT_S:.0f} s")
            found: dict[str, list[Finding]] | Exception = receiver.recv()
        except EOFError:
            raise ChildProcessError("the process that checks the project ended without an answer") from None
        finally:
            process.kill()
            process.join()
            process.close()
            receiver.close()
        if self._change != change:
            raise Outdated  # it came in with the answer
        if isinstance(found, Exception):
            raise found
        return found

    def _open_texts(self, project: Project) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the text of each open file of the project."""
        for document in self.workspace.text_documents.values():
            if (path := self._path_of(document.uri, project)) is not None:
                yield path, document.source.encode("utf-8", "surrogatepass")
        for notebook in self.workspace.notebook_documents.values():
            if (path := self._path_of(notebook.uri, project)) is not None:
                yield path, self._as_saved(notebook)

    def _as_saved(self, notebook: types.NotebookDocument) -> bytes:
        cells = [
            {
                "cell_type": "code" if cell.kind == types.NotebookCellKind.Code else "markdown",
                "source": self.workspace.get_text_document(cell.document).source,
            }
            for cell in notebook.cells
        ]
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()

    def _path_of(self, uri: str, project: Project | None) -> str | None:
        """Return the path by which lint knows a document; None if it is no file of the project."""
        path = to_fs_path(uri) if uri.startswith("file:") else None
        return None if path is None or project is None else project.names.get(os.path.relpath(path, self.root))

    # documents

    def place_of(self, finding: Finding) -> tuple[str, list[str]]:
        """Return the document of a finding and its lines."""
        uri = self._document_of(finding)
        return uri, self.lines_of(uri)

    def _document_of(self, finding: Finding) -> str:
        """Return the URI of the document of a finding: a cell of a notebook, or the file."""
        where = finding.where
        uri = self._uri_of(where.path or "")
        notebook = self.workspace.get_notebook_document(notebook_uri=uri)
        if where.cell is not None and notebook is not None and where.cell <= len(notebook.cells):
            return notebook.cells[where.cell - 1].document
        return uri

    def _uri_of(self, path: str) -> str:
        """Return the URI by which the editor knows a file, or the usual one.

        Editors differ in what they escape, and pygls knows documents by the text without escapes.
        """
        usual = str(from_fs_path(os.path.normpath(os.path.join(self.root, path))))
        notebook = self.workspace.get_notebook_document(notebook_uri=usual)
        return self.workspace.get_text_document(usual).uri if notebook is None else notebook.uri

    def lines_of(self, uri: str) -> list[str]:
        """Return the lines of a document with their ends; empty if it can't be read."""
        try:
            source = self.workspace.get_text_document(uri).source
        except (OSError, UnicodeError):
            return []
        return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", source)

    def units(self, lines: list[str], found: types.Range) -> types.Range:
        """Return a range of characters in the units of the editor."""
        return self.workspace.position_codec.range_to_client_units(lines, found)

    def findings_at(self, uri: str, wanted: types.Range) -> list[Finding]:
        """Return the findings that touch a range of a document, if they are about its current text."""
        notebook = self.workspace.get_notebook_document(cell_uri=uri)
        path = self._path_of(uri if notebook is None else notebook.uri, self.project)
        if path is None or not self.found.get(path) or not self.is_current(path):
            return []
        lines, document = self.lines_of(uri), unquote(uri)
        touching = []
        for finding in self.found[path]:
            found = self.units(lines, range_of(finding, lines))
            if (
                unquote(self._document_of(finding)) == document
                and found.start <= wanted.end
                and wanted.start <= found.end
            ):
                touching.append(finding)
        return touching

    def is_current(self, path: str) -> bool:
        """Return whether the last results are about the current text of a file."""
        now = {} if self.project is None else dict(self._open_texts(self.project))
        if path not in now or path in self.checked:
            return now.get(path) == self.checked.get(path)
        # it was opened after the run, which has read the file
        try:
            with open(path, "rb") as file:
                return file.read() == now[path]
        except OSError:
            return False

    def _publish(self) -> None:
        """Send what was found, and clear what is no longer there."""
        diagnostics: dict[str, list[types.Diagnostic]] = {}
        texts: dict[str, list[str]] = {}
        for finding in (one for findings in self.found.values() for one in findings):
            uri = self._document_of(finding)
            if uri not in texts:
                texts[uri] = self.lines_of(uri)
            lines = texts[uri]
            diagnostics.setdefault(uri, []).append(
                types.Diagnostic(
                    range=self.units(lines, range_of(finding, lines)),
                    message=mask_forms(f"{finding.message}\nfix: {finding.fix.text}"),
                    severity=_LEVELS[finding.severity],
                    code=finding.code,
                    code_description=types.CodeDescription(href=page_url(finding.code)),
                    source="distcheck",
                )
            )
        opened = {document.uri: document.version for document in self.workspace.text_documents.values()}
        for uri in {*opened, *diagnostics, *self.published}:
            found = diagnostics.get(uri, [])
            if uri in opened or found != self.published.get(uri):
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, opened.get(uri)))
        self.published = diagnostics

    # actions

    def actions_for(self, finding: Finding) -> Iterator[types.CodeAction]:
        """Yield the fix of a finding, and the comments that silence it."""
        if (edit := self._edit_of(finding.fix)) is not None:
            note = "" if finding.fix.safe else f" (review: {finding.fix.risk or 'it may change what the code does'})"
            yield _action(f"{finding.code}: {finding.fix.text}{note}", edit, preferred=finding.fix.safe)
        uri, lines = self.place_of(finding)
        if not (finding.where.path or "").endswith((".py", ".pyi", ".ipynb")):
            return
        for title, line, column, text in silencing(finding, lines):
            at = types.Position(line, column)
            edits = [types.TextEdit(self.units(lines, types.Range(at, at)), text)]
            yield _action(title, types.WorkspaceEdit(changes={uri: edits}), preferred=False)

    def _edit_of(self, fix: Fix) -> types.WorkspaceEdit | None:
        """Return the edits of a fix; None if it has none, or the files would no longer compile."""
        paths = {edit.path for edit in fix.edits}
        if not paths or any(path.endswith(".ipynb") for path in paths):
            return None
        lines = {path: self.lines_of(self._uri_of(path)) for path in paths}
        files = {path: "".join(text).encode("utf-8", "surrogatepass") for path, text in lines.items()}
        others = {path: lambda *_: None for path in paths if not path.endswith((".py", ".pyi"))}
        if not apply_fixes([fix], files, others=others).done:
            return None
        changes: dict[str, list[types.TextEdit]] = {}
        for edit in fix.edits:
            found = types.Range(
                types.Position(edit.line - 1, edit.column - 1), types.Position(edit.end_line - 1, edit.end_column - 1)
            )
            text_edit = types.TextEdit(self.units(lines[edit.path], found), edit.text)
            changes.setdefault(self._uri_of(edit.path), []).append(text_edit)
        return types.WorkspaceEdit(changes=changes)


def range_of(finding: Finding, lines: list[str]) -> types.Range:
    """Return the range of a finding in characters: its span, else its line without indentation."""
    where = finding.where
    line = min(max((where.line or 1) - 1, 0), max(len(lines) - 1, 0))
    text = lines[line].rstrip() if lines else ""
    start = len(text) - len(text.lstrip()) if where.column is None else where.column - 1
    if where.column is not None and where.end_column is not None:
        end = types.Position((where.end_line or where.line or 1) - 1, where.end_column - 1)
    else:
        end = types.Position(line, max(len(text), start))
    return types.Range(types.Position(line, start), end)


def silencing(finding: Finding, lines: list[str]) -> Iterator[tuple[str, int, int, str]]:
    """Yield the comments that silence a finding: a title, the line and column of the insertion, and its text."""
    code = finding.code
    first = (finding.where.line or 1) - 1
    comment = f"  # distcheck: ignore[{code}]"
    for line in dict.fromkeys((first, (finding.where.end_line or first + 1) - 1)):
        if line < len(lines):
            column = len(lines[line].rstrip())
            changed = [*lines[:line], lines[line][:column] + comment + "\n", *lines[line + 1 :]]
            if _has_comment("".join(changed), line):
                yield f"{code}: silence it on this line", line, column, comment
                break
    top = 0
    while top < min(2, len(lines)) and (lines[top].startswith("#!") or re.match(r"#.*coding[:=]", lines[top])):
        top += 1
    yield f"{code}: silence it in this file", top, 0, f"# distcheck: ignore-file[{code}]\n"


def _has_comment(source: str, line: int) -> bool:
    """Return whether a line of Python ends with a comment, and is not the middle of a string."""
    data = source.encode("utf-8", "surrogatepass")
    if why_it_does_not_compile(data) is not None:
        return False
    return any(
        token.type == tokenize.COMMENT and token.start[0] == line + 1
        for token in tokenize.tokenize(BytesIO(data).readline)
    )


def _action(title: str, edit: types.WorkspaceEdit, *, preferred: bool) -> types.CodeAction:
    return types.CodeAction(title=title, kind=types.CodeActionKind.QuickFix, edit=edit, is_preferred=preferred)


def rule_pages(findings: Iterable[Finding]) -> str:
    """Return the pages of the rules of some findings, in Markdown."""
    pages = []
    for code, name in dict.fromkeys((finding.code, finding.name) for finding in findings):
        page = read_page(code)
        pages.append(f"# {code} {name}" if page is None else page.text.rstrip())
    return "\n\n".join(pages)


def server_of(given: Mapping[str, Any]) -> LintServer:
    """Return the server with its features."""
    server = LintServer(given)

    @server.feature(types.INITIALIZED)
    def begin(ls: LintServer, _: types.InitializedParams) -> None:
        if ls.workspace.root_path is not None and os.path.isdir(ls.workspace.root_path):
            os.chdir(ls.workspace.root_path)
            ls.root = ls.workspace.root_path
        ls.schedule(files_changed=True)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def text_changed(ls: LintServer, _: object) -> None:
        ls.schedule()

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(ls: LintServer, _: object) -> None:
        ls.schedule(files_changed=True)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: LintServer, params: types.HoverParams) -> types.Hover | None:
        there = types.Range(params.position, params.position)
        findings = ls.findings_at(params.text_document.uri, there)
        if not findings:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, rule_pages(findings)))

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def code_action(ls: LintServer, params: types.CodeActionParams) -> list[types.CodeAction]:
        findings = ls.findings_at(params.text_document.uri, params.range)
        return [action for finding in findings for action in ls.actions_for(finding)]

    return server


def serve(given: Mapping[str, Any]) -> None:
    """Serve an editor over standard input and output until it closes the connection."""
    server = server_of(given)

    def interrupted(*_: object) -> None:
        # the thread of pygls that waits for the editor's next message would be waited for
        server.give_up()
        os._exit(128 + signal.SIGINT)

    signal.signal(signal.SIGINT, interrupted)
    # pygls closes its stream at the end; what is printed meanwhile must not be part of the messages
    with os.fdopen(os.dup(1), "wb") as messages:
        os.dup2(2, 1)
        try:
            server.start_io(stdout=messages)
        finally:
            server.give_up()
