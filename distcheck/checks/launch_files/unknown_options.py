"""Options of a launch that the parser of its script does not know: every rank ends with an error of argparse."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from distcheck import rules
from distcheck.core.model import Finding, Fix
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.launch.model import NODE_LAUNCHERS
from distcheck.launch.schedulers import task_starter

from .context import edit_word
from .model import LaunchFiles, LaunchSite, Word
from .script_parsers import is_whole, parser_of, text_of_argument
from .scripts import ScriptStart, Started

if TYPE_CHECKING:
    from distcheck.checks.source.program import Program, SourceCall

#: Other parsers, and what changes the arguments or the parser before argparse reads them.
_OTHERWISE = lazy(
    r"\b(?:HfArgumentParser|TrlParser|click|typer|fire|absl|hydra|jsonargparse|configargparse|simple_parsing|tyro|draccus|"
    r"from_cli|parse_known_args|parse_known_intermixed_args|optparse|docopt|add_subparsers|prefix_chars|"
    r"fromfile_prefix_chars|set_defaults_from|runpy|argv|_add_action)\b|\bexec\(|\(argparse\.ArgumentParser\)|\(ArgumentParser\)"
)
#: A parser's method that is not called where it is named.
_PASSED_ON = lazy(r"\badd_argument\b(?![ \t\n]*\()")
_IN_AN_ATTRIBUTE = lazy(r"\.\w+[ \t]*=[ \t]*(?:\w+\.)?ArgumentParser\(")
_OPTION = lazy(r"--?[A-Za-z][\w.-]*")
#: A folder that a launch file changes to and does not name; these are usually that of the script.
_OTHER_FOLDER = lazy(
    r"\b(?:cd|pushd)[ \t]+[\"']?\$\{?(?!\w*(?:SCRIPT|SUBMIT|WORKDIR|ROOT|HERE|CODE|REPO|DIR\b)|PWD\b)\w"
)
#: What gives the project other files, or a script another text.
_CHANGES = (
    r"\bgit[ \t]+(?:checkout|switch|apply|am|stash|reset|clone)\b|\bpatch[ \t]"
    r"|\b(?:sed|cp|mv|ln|wget|curl)\b[^\n;&|]{0,500}\b"
)
#: How actions begin the option that switches another one off.
_OFF = ("no-", "no_", "no", "disable-", "disable_")
#: What returns a parser of known options.
_PARSERS = ("argparse.ArgumentParser", "deepspeed.add_config_arguments")
_OF_DEEPSPEED = ("--deepspeed", "--deepspeed_config", "--deepscale", "--deepscale_config", "--deepspeed_mpi")


@probe(rules.DC819)
def script_knows_the_options(launch_files: LaunchFiles, started: Started) -> Iterator[Finding]:
    """A launch passes no option that the parser of its script refuses."""
    program = started.program
    if program is None:
        return
    for start in started.starts:
        command = start.site.command
        starts_ranks = command.launcher in NODE_LAUNCHERS or task_starter(command) is not None
        is_certain = starts_ranks and not command.no_python and not _may_start_another(start)
        given = _given(start.site) if is_certain else []
        known = _known(program, start.script) if given else None
        unknown = [] if known is None else [word for word in given if not _is_known(_name(word), known)]
        if unknown and known is not None:
            yield _refused(start, unknown, known)


def _may_start_another(start: ScriptStart) -> bool:
    """Return whether a launch may start another script of this name, or one with another text."""
    text = "\n".join(start.file.lines)
    if start.site.folder is None and _OTHER_FOLDER.search(text):
        return True
    name = start.path.replace("\\", "/").rpartition("/")[2]
    # if python train.py --help | grep -q -- --fp16; then
    is_tested = any(name in condition for condition in start.site.conditions)
    return is_tested or re.search(_CHANGES + re.escape(name), text) is not None


def _given(site: LaunchSite) -> list[Word]:
    """Return the options among the arguments of the script, up to what is left to another program."""
    count = len(site.command.script_args)
    found = []
    for word in site.words[len(site.words) - count :] if count else ():
        if word.text == "--":
            break
        if _OPTION.fullmatch(_name(word)):
            found.append(word)
    return found


def _name(word: Word) -> str:
    return word.text.partition("=")[0]


def _known(program: Program, script: int) -> frozenset[str] | None:
    """Return the options that a script and its imports declare, or None if they may not be all."""
    known: dict[int, frozenset[str] | None] = program.notes.setdefault("options of scripts", {})
    if script not in known:
        known[script] = _declared(program, script)
    return known[script]


def _declared(program: Program, script: int) -> frozenset[str] | None:
    from distcheck.checks.source.device_uses import files_from

    files = files_from(program, script)
    texts = [program.index.files[file].text for file in files]
    if any(_OTHERWISE.search(text) or _PASSED_ON.search(text) or _is_inherited(text) for text in texts):
        return None
    parser = parser_of(program, script)
    if parser is None or not parser.strict or not is_whole(program, script) or _reads_nothing(program, script):
        return None
    found = {"--help", "-h"}
    for call in program.calls_named("add_argument", files=files):
        own = [text_of_argument(call, position) for position in range(call.positional)]
        if call.has_star or not own or None in own:
            return None
        found.update(text for text in own if text is not None and text.startswith("-"))
        if not isinstance(call.constant(None, "action", ""), str):
            # BooleanOptionalAction, and actions of the project with a spelling for "off"
            found.update(f"--{no}{text[2:]}" for no in _OFF for text in own if text and text.startswith("--"))
        if call.constant(None, "nargs") == argparse.REMAINDER:
            return None
    if any("add_config_arguments" in text for text in texts):
        found.update(_OF_DEEPSPEED)
    return frozenset(found)


def _is_inherited(text: str) -> bool:
    """Return whether a class keeps its parser in an attribute, to which the class that it extends may add options."""
    for match in _IN_AN_ATTRIBUTE.finditer(text):
        head = text[text.rfind("\nclass ", 0, match.start()) + 1 : match.start()]
        if re.match(r"class[ ]\w+\((?!object\))\s*\w", head):
            return True
    return False


def _reads_nothing(program: Program, script: int) -> bool:
    """Return whether a call of ``parse_args`` gets other arguments than those of the launch, or is of no parser."""
    from distcheck.checks.source.device_uses import files_from

    calls = list(program.calls_named("parse_args", files=files_from(program, script)))
    return not calls or any(call.positional or call.keywords or not _is_of_a_parser(call) for call in calls)


def _is_of_a_parser(call: SourceCall) -> bool:
    return any(atom.kind == "result" and atom.const in _PARSERS for atom in call.receiver)


def _is_known(option: str, known: frozenset[str]) -> bool:
    """Return whether argparse accepts an option: itself, the beginning of a long one, or joined short ones."""
    if option in known or (option.startswith("--") and any(one.startswith(option) for one in known)):
        return True
    # -b16, -vx; -lr for --lr is none
    return not option.startswith("--") and (option[:2] in known or any(one.startswith(option) for one in known))


def _refused(start: ScriptStart, unknown: list[Word], known: frozenset[str]) -> Finding:
    names = list(dict.fromkeys(map(_name, unknown)))
    near = _near(names[0], known) if len(names) == 1 else None
    first = unknown[0]
    written = "" if near is None else f"write {near}; or "
    edits = () if near is None else edit_word(first, first.text.replace(names[0], near))
    return rules.DC819.found(
        f"the parser of {start.path} does not know {', '.join(names)}, so each rank ends with an error of argparse",
        where=start.site.where(first, object=names[0]),
        evidence={"script": start.path, "options": names},
        fix=Fix(
            f"{written}drop {', '.join(names)}, or add it to the parser of {start.path}",
            edits=edits,
            where="launch-line",
            risk="the script then uses a value that it did not get so far" if edits else None,
        ),
    )


def _near(name: str, known: frozenset[str]) -> str | None:
    """Return the known option that differs from a name only in dashes, underscores and case."""
    plain = name.replace("-", "").replace("_", "").lower()
    found = [one for one in known if one.replace("-", "").replace("_", "").lower() == plain]
    return found[0] if len(found) == 1 else None
