"""Commands of a shell text: the programs before a launcher, inner shells, and the variables that pass through."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from distcheck.core.patterns import lazy
from distcheck.launch._shell import has_expansion, is_expansion, quote_unexpanded
from distcheck.launch._wrapper_table import MPI, SUBMITTERS, WRAPPERS
from distcheck.launch._wrappers import holds_options, is_assignment, own_words
from distcheck.launch.command import PYTHON, SHELLS, parse_command, program_name, shell_argument
from distcheck.launch.model import LaunchCommand
from distcheck.launch.schedulers import TASK_STARTERS

from .model import FileSetting, Word

#: Suffixes of shell scripts.
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")
#: Programs that the parser of launch commands knows, besides wrappers.
LAUNCHERS = frozenset({"torchrun", "accelerate", "accelerate-launch", "deepspeed", "ds", "axolotl", "torchx"})
#: Containers and remote shells: only named variables pass through.
_PASSES_ON = frozenset({"docker", "podman", "nvidia-docker"})
_CLEAN = frozenset({"-e", "--cleanenv", "-c", "--contain", "-C", "--containall"})


class WrapperCommand(NamedTuple):
    """A program that starts another one, with its options."""

    program: str
    options: tuple[tuple[str, str], ...]
    #: the index of its name, and that of the command that it starts
    start: int
    end: int


class Chain(NamedTuple):
    """The programs at the beginning of a command, and what follows them."""

    steps: tuple[WrapperCommand, ...]
    #: ``command`` (a program that is no wrapper), ``text`` (shell text), ``stdin`` (shell text from there), ``nothing``
    kind: str
    #: the index of the program or of the text
    position: int
    #: the number of words before the shell: they apply to what it starts
    before: int
    #: the text continues to the last word (``ssh host a b``)
    to_end: bool = False
    #: a shell reads the rest once more
    joined: bool = False


def may_start_ranks(name: str) -> bool:
    """Return whether a command with this name may start ranks."""
    program = program_name(name)
    return (
        program in WRAPPERS
        or program in SUBMITTERS
        or program in LAUNCHERS
        or program in SHELLS
        or program in ("su", "gcloud")
        or re.fullmatch(PYTHON, program) is not None
        or name.endswith((".py", *SCRIPTS))
        or has_expansion(name)
    )


def read_chain(words: Sequence[str]) -> Chain:
    """Return the programs at the beginning of a command."""
    steps: list[WrapperCommand] = []
    position = 0
    while position < len(words):
        word = words[position]
        if is_assignment(word) or (holds_options(word) and position + 1 < len(words)):
            position += 1
            continue
        program = program_name(word)
        if program in SHELLS:
            return _shell(words, position, tuple(steps))
        if program in ("su", "gcloud") or (
            program == "tmux" and words[position + 1 : position + 2] in (["send-keys"], ["send"])
        ):
            return _sent_text(program, words, position, tuple(steps))
        wrapper = WRAPPERS.get(program) or SUBMITTERS.get(program)
        own = own_words(words[position:], wrapper) if wrapper is not None else None
        if wrapper is None or own is None:
            return Chain(tuple(steps), "command", position, position)
        end = position + own.end
        steps.append(WrapperCommand(program, own.options, position, min(end, len(words))))
        if program in SUBMITTERS and program not in WRAPPERS:
            return Chain(tuple(steps), "stdin" if end >= len(words) else "nothing", end, position)
        if program == "sbatch":
            wrapped = [index for index in range(position, len(words)) if words[index].partition("=")[0] == "--wrap"]
            if wrapped and any(option == "--wrap" for option, _ in own.options):
                return Chain(tuple(steps), "text", wrapped[-1] + ("=" not in words[wrapped[-1]]), position)
            return Chain(tuple(steps), "stdin" if end >= len(words) else "command", end, position)
        if wrapper.joined:
            return Chain(tuple(steps), "text" if end < len(words) else "stdin", end, end, to_end=True, joined=True)
        position = end
    return Chain(tuple(steps), "nothing", len(words), len(words))


def _shell(words: Sequence[str], start: int, steps: tuple[WrapperCommand, ...]) -> Chain:
    position, is_text, reads_input = shell_argument(words, start + 1)
    if is_text:
        return Chain(steps, "text" if position < len(words) else "nothing", position, start)
    if reads_input or position >= len(words) or words[position] == "-":
        return Chain(steps, "stdin", position, start)
    return Chain(steps, "command", start, start)


def _sent_text(program: str, words: Sequence[str], start: int, steps: tuple[WrapperCommand, ...]) -> Chain:
    """Return the text that is sent to an existing shell, or to one of another user."""
    steps = (*steps, WrapperCommand(program, (), start, len(words)))
    nothing = Chain(steps, "nothing", len(words), start)
    rest = range(start + 1, len(words))
    if program == "tmux":
        texts = [index for index in rest if " " in words[index]]
        return Chain(steps, "text", texts[0], start) if texts else nothing
    names = ("-c", "--command")
    for index in rest:
        name, equals, _ = words[index].partition("=")
        if name in names and (equals or index + 1 < len(words)):
            return Chain(steps, "text", index + (not equals), start)
    return nothing


# the command as a whole


class Chunk(NamedTuple):
    """Words before what an inner shell starts."""

    words: tuple[Word, ...]
    #: a shell reads the rest once more
    joined: bool = False


def argument_list(chunks: Sequence[Chunk], words: Sequence[Word]) -> list[str]:
    """Return the words of a command with those before it, for the parser of launch commands."""
    texts = [word.text for word in words]
    for chunk in reversed(chunks):
        if chunk.joined:
            texts = [quote_unexpanded(text) if has_expansion(text) else shlex.quote(text) for text in texts]
        texts = [*(word.text for word in chunk.words), *texts]
    return texts


def read_command(chunks: Sequence[Chunk], words: Sequence[Word], environ: Mapping[str, str]) -> LaunchCommand:
    """Return the parsed command; an unknown variable before a launcher is skipped."""
    texts = argument_list(chunks, words)
    command = parse_command(texts, environ)
    if "launcher" in command.unknown and not chunks and len(texts) > 1 and is_expansion(texts[0]):
        program = program_name(texts[1])
        if program in LAUNCHERS or program in TASK_STARTERS or program in SHELLS:
            command = parse_command(texts[1:], environ)
    return command


def starts_ranks(command: LaunchCommand, own_steps: Iterable[WrapperCommand]) -> bool:
    """Return whether a command is a launch line: by its launcher, a script, or srun, mpirun or sbatch."""
    if command.launcher == "python" and "ray" in command.wrappers:
        return False  # Ray starts the ranks of a plain script
    if command.launcher == "python":
        return command.script is not None or "script" in command.unknown
    if command.launcher != "other":
        return True
    if command.script is not None and command.script.endswith(SCRIPTS):
        return True
    return any(step.program in TASK_STARTERS or step.program in ("sbatch", "salloc") for step in own_steps)


# variables


def get_through(
    step: WrapperCommand, reaching: dict[str, FileSetting]
) -> tuple[dict[str, FileSetting], dict[str, FileSetting]]:
    """Return the variables that pass through a program, and those that do not."""
    names: set[str] | None = None
    program = step.program
    wrapper = WRAPPERS.get(program)
    if program in ("srun", "sbatch", "salloc"):
        exports = [value for option, value in step.options if option == "--export"]
        if exports:
            pairs = exports[-1].split(",")
            if "ALL" not in pairs and not has_expansion(exports[-1]):
                names = {pair.partition("=")[0] for pair in pairs} - {"NONE", "NIL"}
    elif program in _PASSES_ON:
        names = {value for option, value in step.options if option in ("-e", "--env") and "=" not in value}
    elif program == "sudo":
        kept = [value for option, value in step.options if option in ("-E", "--preserve-env")]
        if not kept:
            names = set()
        elif all(kept):
            names = {name for value in kept for name in value.split(",")}
    elif program == "env":
        if any(option in ("-i", "--ignore-environment") for option, _ in step.options):
            names = set()
        else:
            removed = {value for option, value in step.options if option in ("-u", "--unset")}
            names = set(reaching) - removed if removed else None
    elif program in ("singularity", "apptainer"):
        names = set() if any(option in _CLEAN for option, _ in step.options) else None
    elif program in ("su", "gcloud") or (program == "tmux" and not step.options) or (wrapper and wrapper.elsewhere):
        names = set()
    if names is None:
        return reaching, {}
    return (
        {name: setting for name, setting in reaching.items() if name in names},
        {name: setting for name, setting in reaching.items() if name not in names},
    )


def leaves_node(step: WrapperCommand) -> bool:
    """Return whether a program runs its command elsewhere, with other folders."""
    wrapper = WRAPPERS.get(step.program)
    return step.program in ("su", "gcloud", "singularity", "apptainer") or bool(wrapper and wrapper.elsewhere)


def folder_of(step: WrapperCommand, folder: str | None) -> str | None:
    """Return the folder in which a program starts its command."""
    for option, value in step.options:
        if (
            (step.program in ("srun", "sbatch", "salloc") and option in ("-D", "--chdir"))
            or (step.program == "env" and option in ("-C", "--chdir"))
            or (step.program in MPI and option in ("-wdir", "--wdir", "-wd", "--wd"))
        ):
            return None if has_expansion(value) else within(folder, value)
    return None if leaves_node(step) else folder


def within(folder: str | None, path: str) -> str | None:
    """Return a path relative to a folder."""
    if path.startswith(("/", "~")):
        return path
    if folder is None:
        return None
    parts: list[str] = []
    for part in f"{folder}/{path}".split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if folder.startswith("/") else "") + "/".join(parts)


_NAME_AND_SIGN = lazy(r"(?:^|(?<=^-[exE])|(?<=[=,]))([A-Za-z_]\w*)=")


def settings_on_line(words: Sequence[Word], assignments: Mapping[str, str], *, certain: bool) -> list[FileSetting]:
    """Return the variables that a line sets for its command: before it, by ``env``, ``-x``, ``--export``, ``-e``."""
    found: dict[str, FileSetting] = {}
    for word in words:
        if "=" not in word.text:
            continue
        for match in _NAME_AND_SIGN.finditer(word.text):
            name = match[1]
            value = assignments.get(name)
            if value is None or not word.text.startswith(value, match.end()):
                continue
            known = None if has_expansion(value) else value
            span = word.span
            name_span = value_span = span
            written = word.written
            at = written.find(f"{name}=")
            if at >= 0 and span.line == span.end_line and len(written) == span.end_column - span.column:
                behind = at + len(name) + 1
                in_list = word.text[match.end() + len(value) :].startswith(",")
                length = len(value) if in_list and written.startswith(value, behind) else len(written) - behind
                name_span = span._replace(column=span.column + at, end_column=span.column + at + len(name))
                value_span = span._replace(column=span.column + behind, end_column=span.column + behind + length)
                span = span._replace(column=name_span.column, end_column=value_span.end_column)
                written = written[behind : behind + length]
            found[name] = FileSetting(name, known, span, name_span, value_span, "line", certain, written)
    return list(found.values())
