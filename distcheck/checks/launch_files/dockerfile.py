"""Dockerfiles: what an image sets for all processes, and what it runs.

Source: the Dockerfile reference (docs.docker.com/reference/dockerfile, syntax 1.7). It covers continuation lines,
comments between them, heredocs, the shell and the exec form, and stages. The value of an ``ARG`` is unknown, because
``--build-arg`` sets it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from distcheck.core.patterns import lazy

from .fragments import Fragment, FragmentBuilder, line_spans
from .model import FileSetting, LaunchFile, LookUp
from .plain_commands import FileContents, as_shell_text, as_written, in_image, joined, with_lost
from .training_words import mentions_training

_INSTRUCTION = lazy(r"[ \t]*([A-Za-z]+)(?:[ \t]+|$)")
_ESCAPE = lazy(r"#[ \t]*escape[ \t]*=[ \t]*([\\`])", re.IGNORECASE)
_DIRECTIVE = lazy(r"#[ \t]*[a-z]+[ \t]*=", re.IGNORECASE)
_HEREDOC = lazy(r"(?:^|(?<=\s))[0-9]*<<(-?)(['\"]?)([A-Za-z_][\w.]*)\2(?=\s|$)")
#: options of RUN, COPY: ``--mount=type=cache,target=/root``
_FLAG = lazy(r"--[a-z-]+(?:=\S*)?\s+")
_NAME = lazy(r"[A-Za-z_]\w*")
#: A word of a line: blanks separate words, but not in quotes or after a backslash.
_WORD = lazy(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\]|[\"'\\])+", re.DOTALL)
_VARIABLE = lazy(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+?])([^}]*))?\}|(\{[^}]*\}))")
_FROM = lazy(r"(?:--\S+\s+)*(\S+)(?:\s+[Aa][Ss]\s+(\S+))?")
_SHELLS = lazy(r"(?:.*/)?(?:ba|da|z|k|a)?sh")
#: Longest value that replaces a variable. A longer one is unknown: values that contain each other twice double with
#: every line.
_MAX_VALUE_LENGTH = 10_000


class Instruction(NamedTuple):
    """One instruction, its lines joined."""

    #: in upper case
    name: str
    #: the text after the name
    rest: Fragment
    #: the contents of its heredocs, in order, without the delimiters
    heredocs: tuple[Fragment, ...] = ()


class _BuildStage:
    """What a build stage has set so far."""

    def __init__(self, below: _BuildStage | None = None) -> None:
        self.settings: dict[str, FileSetting] = dict(below.settings) if below else {}
        self.arguments: dict[str, FileSetting] = {}
        self.entrypoint: Fragment | tuple[Fragment, ...] | None = below.entrypoint if below else None
        self.command: Fragment | tuple[Fragment, ...] | None = below.command if below else None
        self.in_shell: bool = below.in_shell if below else True
        #: it has its own command, not only that of its base stage
        self.starts = False


def read_dockerfile(path: str, text: str, look_up: LookUp) -> LaunchFile:
    """Return the contents of a Dockerfile. Never raises."""
    from .shell import ShellText, read_shell

    source = Fragment(text, path)
    stages: dict[str, _BuildStage] = {}
    stage = _BuildStage()
    lines = text.split("\n")
    contents = FileContents()
    contents.comments.extend(_comments(text))
    lost: dict[str, FileSetting] = {}

    def carry_out(fragment: Fragment, environ: Mapping[str, FileSetting]) -> ShellText:
        found = read_shell(fragment, look_up, kind="dockerfile", environ=environ)
        found = found._replace(sites=tuple(as_written(with_lost(in_image(found.sites), lost), path, lines)))
        contents.add(found._replace(settings=()))
        return found

    def end(stage: _BuildStage) -> None:
        if not stage.starts:
            return
        whole, fallback = _started(stage, path)
        found = carry_out(whole, stage.settings) if whole is not None else None
        if fallback is not None and (found is None or not found.sites):
            # the image's own entry point runs its arguments
            carry_out(fallback, stage.settings)

    for instruction in instructions(source):
        name, rest = instruction.name, instruction.rest
        if name == "ONBUILD":
            inner = _INSTRUCTION.match(rest.text)
            if inner is None:
                continue
            name, rest = inner[1].upper(), rest.part(inner.end(), len(rest.text))
        if name == "FROM":
            end(stage)
            lost.clear()
            match = _FROM.match(rest.text)
            stage = _BuildStage(stages.get(match[1].lower()) if match else None)
            if match and match[2]:
                stages[match[2].lower()] = stage
        elif name == "ENV":
            for setting in list(_assignments(rest, stage)):
                stage.settings[setting.name] = setting
                contents.settings.append(setting)
        elif name == "ARG":
            for setting in _assignments(rest, stage, values=False):
                stage.arguments[setting.name] = setting
        elif name == "SHELL":
            words = _exec_form(rest)
            stage.in_shell = words is None or any(_SHELLS.fullmatch(word.text) for word in words)
        elif name == "RUN":
            for fragment in _run(instruction._replace(rest=rest), stage):
                if not mentions_training(fragment.text.encode()):
                    continue
                environ = {**stage.arguments, **stage.settings}
                carried = carry_out(fragment, environ).settings
                contents.settings.extend(carried)
                # what a RUN exports ends with it
                lost.update({setting.name: setting for setting in carried if setting.reach == "exported"})
        elif name in ("CMD", "ENTRYPOINT"):
            started = _exec_form(rest) or (rest if stage.in_shell else None)
            stage.starts = True
            if name == "CMD":
                stage.command = started
            else:
                # an entry point drops the command of the base image, but not one of this stage
                stage.entrypoint = started
    end(stage)
    contents.sites.sort(key=lambda site: site.span[1:])
    return contents.file(path, "dockerfile")


def instructions(source: Fragment) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile in order."""
    lines = line_spans(source.text)
    numbers: dict[str, list[int]] = {}
    escape = "\\"
    for start, end in lines:
        if not _DIRECTIVE.match(source.text[start:end].lstrip()):
            break
        found = _ESCAPE.match(source.text[start:end].lstrip())
        escape = found[1] if found else escape
    index = 0
    while index < len(lines):
        start, end = lines[index]
        index += 1
        line = source.text[start:end].strip()
        if not line or line.startswith("#"):
            continue
        stretches: list[tuple[int, int]] = []
        while True:
            kept = len(source.text[start:end].rstrip())
            if kept and source.text[start + kept - 1] == escape:
                stretches.append((start, start + kept - 1))
            else:
                stretches.append((start, end))
                break
            # Docker skips comments and empty lines between continuation lines
            while index < len(lines) and source.text[slice(*lines[index])].strip()[:1] in ("", "#"):
                index += 1
            if index == len(lines):
                break
            start, end = lines[index]
            index += 1
        whole = joined(source, stretches)
        match = _INSTRUCTION.match(whole.text)
        if match is None:
            continue
        name = match[1].upper()
        heredocs: list[Fragment] = []
        if name in ("RUN", "COPY", "ADD", "ONBUILD"):
            for mark in _HEREDOC.finditer(whole.text, match.end()):
                body, behind = _heredoc(source, lines, index, mark[3], numbers, tabs=bool(mark[1]))
                if body is None:
                    break
                heredocs.append(body)
                index = behind
        yield Instruction(name, whole.part(match.end(), len(whole.text)), tuple(heredocs))


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            yield number, line.strip()


def _heredoc(
    source: Fragment,
    lines: list[tuple[int, int]],
    index: int,
    delimiter: str,
    numbers: dict[str, list[int]],
    *,
    tabs: bool,
) -> tuple[Fragment | None, int]:
    """Return the text up to the delimiter, and the index of the line after it. The text is None without a delimiter.

    :param numbers: the line numbers by content, filled on the first call
    """
    if not numbers:
        for number, (start, end) in enumerate(lines):
            numbers.setdefault(source.text[start:end].lstrip("\t"), []).append(number)
    found = numbers.get(delimiter, [])
    for last in found[bisect_left(found, index) :]:
        if tabs or not source.text.startswith("\t", lines[last][0]):
            stretches: list[tuple[int, int]] = []
            for start, _ in lines[index:last]:
                line = source.text[start : source.text.index("\n", start) + 1]
                dropped = len(line) - len(line.lstrip("\t")) if tabs else 0
                stretches.append((start + dropped, start + len(line)))
            return joined(source, stretches), last + 1
    return None, index


def _run(instruction: Instruction, stage: _BuildStage) -> Iterator[Fragment]:
    """Yield the texts that a shell runs while the image is built."""
    rest = instruction.rest
    flag = _FLAG.match(rest.text)
    while flag is not None:
        rest = rest.part(flag.end(), len(rest.text))
        flag = _FLAG.match(rest.text)
    words = _exec_form(rest)
    if words is not None:
        yield as_shell_text(words, rest.path)
        return
    if not stage.in_shell:
        return
    if not instruction.heredocs:
        yield rest
        return
    if not _HEREDOC.sub("", rest.text).strip():
        for body in instruction.heredocs:
            first = body.text.split("\n", 1)[0]
            if not first.startswith("#!") or re.search(r"[/ ](?:ba|da|z|k|a)?sh\b", first):
                yield body
        return
    # a program reads it: the shell reader knows whether a heredoc is a script or data
    yield _with_heredocs(rest, instruction.heredocs)


def _with_heredocs(line: Fragment, bodies: tuple[Fragment, ...]) -> Fragment:
    made = FragmentBuilder()
    made.add(line)
    made.add_text("\n")
    for mark, body in zip(_HEREDOC.finditer(line.text), bodies, strict=False):
        made.add(body)
        made.add_text(f"{mark[3]}\n")
    return made.fragment(line.path)


def _started(stage: _BuildStage, path: str) -> tuple[Fragment | None, Fragment | None]:
    """Return the command that a container of this stage runs, and its last part alone."""
    entrypoint, command = stage.entrypoint, stage.command
    if isinstance(entrypoint, Fragment):
        return entrypoint, None
    if entrypoint is None:
        return (command if isinstance(command, Fragment | None) else as_shell_text(command, path)), None
    if isinstance(command, tuple):
        return as_shell_text((*entrypoint, *command), path), as_shell_text(command, path)
    # what is given when the container starts follows
    open_ended = FragmentBuilder()
    open_ended.add(as_shell_text(entrypoint, path))
    open_ended.add_text(' "$@"')
    return open_ended.fragment(path), command


def _exec_form(rest: Fragment) -> tuple[Fragment, ...] | None:
    """Return the words of ``["torchrun", "train.py"]``, or None: Docker passes other text to a shell."""
    text = rest.text.strip()
    if not text.startswith("["):
        return None
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return None
    return tuple(
        _unescaped(rest, match.start() + 1, match.end() - 1) for match in re.finditer(r'"(?:[^"\\]|\\.)*"', rest.text)
    )


def _unescaped(rest: Fragment, start: int, end: int) -> Fragment:
    """Return the text between the quotes of a JSON string."""
    if "\\" not in rest.text[start:end]:
        return rest.part(start, end)
    made = FragmentBuilder()
    for match in re.finditer(r"(?:\\u[0-9a-fA-F]{4})+|\\.|[^\\]+", rest.text[start:end]):
        made.add_text(json.loads(f'"{match[0]}"', strict=False), rest.location(start + match.start()))
    made.add_text("", rest.location(end))
    return made.fragment(rest.path)


def _assignments(rest: Fragment, stage: _BuildStage, *, values: bool = True) -> Iterator[FileSetting]:
    """Yield the variables of ENV and ARG.

    :param values: false for ARG: its value is known only during the build
    """
    words = [match.span() for match in _WORD.finditer(rest.text)]
    first = _NAME.match(rest.text[words[0][0] : words[0][1]]) if words else None
    if first is None:
        return
    start = words[0][0]
    behind = start + first.end()
    if values and rest.text[behind : behind + 1] != "=":
        # the old form: the rest of the line after the name is the value
        value_start = behind + len(rest.text[behind:]) - len(rest.text[behind:].lstrip())
        words = [(start, len(rest.text.rstrip()))]
        if value_start < words[0][1]:
            yield _setting(rest, start, behind, value_start, words[0][1], stage, known=True)
        return
    # variables of one instruction do not see each other
    for start, end in words:
        match = _NAME.match(rest.text, start, end)
        if match is None:
            continue
        if rest.text[match.end() : match.end() + 1] == "=":
            yield _setting(rest, start, match.end(), match.end() + 1, end, stage, known=values)
        elif not values and match.end() == end:
            yield _setting(rest, start, end, end, end, stage, known=False)


def _setting(
    rest: Fragment, start: int, name_end: int, value_start: int, end: int, stage: _BuildStage, *, known: bool
) -> FileSetting:
    written = rest.text[value_start:end]
    return FileSetting(
        rest.text[start:name_end],
        _expanded(written, stage) if known else None,
        rest.span(start, end),
        rest.span(start, name_end),
        rest.span(value_start, end) if value_start < end else None,
        "image",
        written=written,
    )


def _expanded(written: str, stage: _BuildStage) -> str | None:
    """Return a value without quotes and with known variables replaced, or None if one is unknown."""
    made: list[str] = []
    for match in re.finditer(
        r"'(?P<plain>[^']*)'|\\(?P<escaped>.)|(?P<quote>\")|(?P<variable>\$(?:\w+|\{[^}]*\}))|(?P<other>.)",
        written,
        re.DOTALL,
    ):
        if match["variable"] is not None:
            known = _value_of(match["variable"], stage)
            if known is None:
                return None
            made.append(known)
        else:
            made.append(match["plain"] or match["escaped"] or match["other"] or "")
    value = "".join(made)
    return value if len(value) <= max(_MAX_VALUE_LENGTH, len(written)) else None


def _value_of(reference: str, stage: _BuildStage) -> str | None:
    match = _VARIABLE.fullmatch(reference)
    if match is None or match[5]:
        return None
    name = match[1] or match[2]
    setting = stage.settings.get(name) or stage.arguments.get(name)
    # the base image may set it
    if setting is None or setting.value is None:
        return None
    if match[3] in ("+", ":+"):
        return match[4] if setting.value or match[3] == "+" else ""
    if match[3] in ("-", ":-") and not setting.value and match[3] == ":-":
        return match[4] if "$" not in match[4] else None
    return setting.value
