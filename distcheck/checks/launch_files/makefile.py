"""Makefiles: the commands of their recipes, with the variables that make sets in them.

Source: the manual of GNU make (4.4). Each line of a recipe runs in its own shell, unless the file has ``.ONESHELL``.
``$$`` is a dollar sign of the shell. A recipe's environment holds only exported variables. A value is known if the file
itself certainly sets it. Values of ``?=``, conditionals, functions and missing files are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from distcheck.core.patterns import lazy

from .fragments import Fragment, FragmentBuilder, is_continued, line_spans, placeholder
from .model import FileSetting, LaunchFile, LookUp
from .plain_commands import FileContents, as_written, joined, with_lost
from .training_words import mentions_training

#: Limit of nested includes.
_MAX_INCLUDE_DEPTH = 5
#: Limits of nested references in values, and of the length of the result.
_MAX_VALUE_DEPTH = 10
_MAX_VALUE_LENGTH = 10_000
#: Limit of variables in a recipe's environment; real files export about ten.
_MAX_EXPORTED = 1000

_ASSIGNMENT = lazy(
    r"(?P<words>(?:(?:override|export|private|unexport)[ \t]+)*)(?P<name>[^\s:#=+?!$]+)[ \t]*"
    r"(?P<sign>:{0,3}=|\?=|\+=|!=)[ \t]*"
)
_EXPORT = lazy(r"(un)?export(?:[ \t]+(?P<names>[^=]*))?$")
_CONDITIONAL = lazy(r"(ifeq|ifneq|ifdef|ifndef)\b(.*)|(else)\b(.*)|(endif)\b")
_INCLUDE = lazy(r"[-s]?include[ \t]+(.*)")
_DEFINE = lazy(r"(?:override[ \t]+|export[ \t]+)*define[ \t]+([^\s:#=+?!]+)")
_ENDEF = lazy(r"[ \t]*endef\b")
_RULE = lazy(r"(?P<targets>[^\t:=#][^:=#]*?)[ \t]*&?::?(?!=)(?P<behind>.*)", re.DOTALL)
_PREFIX = lazy(r"[@+\-\s]*")
_SHELL_NAME = lazy(r"[A-Za-z_]\w*")
#: A value with the same meaning in the text of a command and in a shell variable.
_PLAIN = lazy(r"(?!\w+=)[A-Za-z0-9_@%+=:,./\- \t]*")
#: Several words or references, without characters that are special in double quotes.
_COMPOSED = lazy(r"[^\"\\`\n]*[ $][^\"\\`\n]*")
_POSIX_SHELL = lazy(r"(?:\S*/)?(?:env[ \t]+)?(?:\S*/)?(?:ba|da|z|k|a)?sh\b.*")


class _Value(NamedTuple):
    """An assignment."""

    setting: FileSetting
    #: the text after the sign, without a comment
    text: str
    sign: str
    #: it always applies, and no unknown assignment follows
    certain: bool
    #: the same text with its locations
    fragment: Fragment


class _Recipe(NamedTuple):
    target: str
    #: the lines, each as ranges of the text, with their conditionals
    lines: tuple[tuple[tuple[tuple[int, int], ...], tuple[str, ...]], ...]


class _Makefile:
    """What was read of a file and of its includes."""

    def __init__(self) -> None:
        self.values: dict[str, list[_Value]] = {}
        #: variables of one target and of its prerequisites
        self.of_targets: dict[str, dict[str, _Value]] = {}
        self.specific: set[str] = set()
        #: the prerequisites of targets, as written
        self.needed: dict[str, list[str]] = {}
        self.exported: set[str] = set()
        #: variables that are exported for some targets
        self.exported_for: dict[str, set[str]] = {}
        self.all_exported = False
        #: computed values by variable and target, and the variables in progress
        self.known: dict[tuple[str, str | None], str | None] = {}
        self.at_work: list[str] = []
        #: the targets that a target-specific variable reaches, by variable
        self.reached: dict[str, frozenset[str]] = {}
        #: the environment of each target's recipe
        self.environ: dict[str, dict[str, FileSetting]] = {}
        self.one_shell = False
        self.recipes: list[_Recipe] = []
        self.also_read: list[str] = []
        self.settings: list[_Value] = []


def read_makefile(path: str, text: str, look_up: LookUp) -> LaunchFile:
    """Return the contents of a makefile. Never raises."""
    from .shell import read_shell

    source = Fragment(text, path)
    made = _Makefile()
    _read(source, made, look_up, 0)
    contents = FileContents()
    contents.settings.extend(
        _exported(value, made) for value in made.settings if _SHELL_NAME.fullmatch(value.setting.name)
    )
    contents.comments.extend(_comments(text))
    shell = _value("SHELL", made, None)
    # another program (Python, PowerShell) runs the recipes
    recipes = made.recipes if shell is None or _POSIX_SHELL.fullmatch(shell) else []
    own = {re.sub(r"\W", "_", name) for name in made.values}
    lines = text.split("\n")
    training_variables = _training_variables(made)
    for recipe in recipes:
        lost: dict[str, FileSetting] = {}
        for fragment, environ, conditions in _commands(source, recipe, made, training_variables):
            read = read_shell(fragment, look_up, kind="makefile", environ=environ)
            sites = (
                site._replace(routine=recipe.target, conditions=(*conditions, *site.conditions))
                for site in as_written(with_lost(read.sites, lost), path, lines)
            )
            settings = (setting for setting in read.settings if setting.name not in own or setting.reach != "shell")
            contents.add(read._replace(sites=tuple(sites), settings=tuple(settings)))
            lost.update({setting.name: setting for setting in read.settings if setting.reach == "exported"})
    return contents.file(path, "makefile")


def _read(source: Fragment, made: _Makefile, look_up: LookUp, depth: int) -> None:
    """Read the lines of a file; recipes and settings only of the first file."""
    prefix = "\t"
    conditions: list[str] = []
    target: str | None = None
    recipe: list[tuple[tuple[tuple[int, int], ...], tuple[str, ...]]] = []

    def finish() -> None:
        nonlocal target, recipe
        if target is not None and recipe and depth == 0:
            made.recipes.append(_Recipe(target, tuple(recipe)))
        target, recipe = None, []

    lines = iter(line_spans(source.text))
    for start, end in lines:
        line = source.text[start:end]
        if target is not None and line.startswith(prefix):
            parts = [(start + len(prefix), end)]
            while is_continued(source.text[start:end]) and (following := next(lines, None)) is not None:
                start, end = following
                parts[-1] = parts[-1][0], _behind_line(source.text, parts[-1][1])
                parts.append((start + source.text.startswith(prefix, start), end))
            recipe.append((tuple(parts), tuple(conditions)))
            continue
        parts = [(start, end)]
        while is_continued(source.text[slice(*parts[-1])]) and (following := next(lines, None)) is not None:
            parts[-1] = parts[-1][0], parts[-1][1] - 1
            parts.append(following)
        whole = joined(source, parts)
        bare = whole.text.strip()
        if not bare or bare.startswith("#"):
            continue
        condition = _CONDITIONAL.match(bare)
        if condition is not None:
            _note_condition(condition, bare, conditions)
            continue
        define = _DEFINE.match(bare)
        if define is not None:
            # several lines of commands: their result is unknown
            _assign(made, whole, define[1], "define", (0, 0, 0), certain=False)
            _behind_define(source.text, lines)
            continue
        include = _INCLUDE.match(bare)
        if include is not None:
            finish()
            _include(include[1].partition("#")[0], source.path, made, look_up, depth)
            continue
        offset = len(whole.text) - len(whole.text.lstrip())
        assignment = _ASSIGNMENT.match(whole.text, offset)
        if assignment is not None:
            finish()
            words = assignment["words"].split()
            name = assignment["name"]
            if name == ".RECIPEPREFIX":
                prefix = whole.text[assignment.end() : assignment.end() + 1] or "\t"
                continue
            value = _assign(
                made, whole, name, assignment["sign"],
                (assignment.start("name"), assignment.end("name"), assignment.end()), certain=not conditions,
            )  # fmt: skip
            if depth == 0:
                made.settings.append(value)
            if "export" in words:
                made.exported.add(name)
            continue
        export = _EXPORT.match(bare.partition("#")[0].strip())
        if export is not None:
            names = (export["names"] or "").split()
            if not names:
                made.all_exported = export[1] is None
            elif export[1]:
                made.exported.difference_update(names)
            else:
                made.exported.update(names)
            continue
        rule = _RULE.match(whole.text)
        if rule is None or not rule["targets"].strip():
            continue
        targets = rule["targets"].split()
        specific = _ASSIGNMENT.match(rule["behind"].lstrip())
        if specific is not None:
            at = rule.start("behind") + len(rule["behind"]) - len(rule["behind"].lstrip())
            value = _made_value(
                whole, specific["name"], specific["sign"],
                (at + specific.start("name"), at + specific.end("name"), at + specific.end()), certain=not conditions,
            )  # fmt: skip
            for one in targets:
                made.of_targets.setdefault(one, {})[specific["name"]] = value
            made.specific.add(specific["name"])
            if "export" in specific["words"].split():
                made.exported_for.setdefault(specific["name"], set()).update(targets)
            if depth == 0:
                made.settings.append(value)
            continue
        finish()
        if ".ONESHELL" in targets:
            made.one_shell = True
        target = targets[0]
        command = rule["behind"].partition(";")
        for one in targets:
            made.needed.setdefault(one, []).append(command[0])
        if command[1] and len(parts) == 1 and "#" not in command[0]:
            begin = start + rule.start("behind") + len(command[0]) + 1
            recipe.append((((begin, end),), tuple(conditions)))
    finish()


def _behind_line(text: str, end: int) -> int:
    """Return the offset after the next line end: the shell needs a continuation mark at the very end of a line."""
    return end + 1 if text.startswith("\n", end) else end


def _note_condition(match: re.Match[str], bare: str, conditions: list[str]) -> None:
    if match[1]:
        conditions.append(bare)
    elif conditions and match[3]:
        conditions[-1] = bare if match[4].strip() else f"else of {conditions[-1].removeprefix('else of ')}"
    elif conditions:
        conditions.pop()


def _behind_define(text: str, lines: Iterator[tuple[int, int]]) -> None:
    open_ = 1
    while open_ and (stretch := next(lines, None)) is not None:
        line = text[slice(*stretch)]
        if _DEFINE.match(line.lstrip()):
            open_ += 1
        elif _ENDEF.match(line):
            open_ -= 1


def _include(names: str, path: str, made: _Makefile, look_up: LookUp, depth: int) -> None:
    """Read included files. After a missing one, all values are uncertain."""
    for name in names.split():
        folder = path.rpartition("/")[0]
        wanted = name if not folder or name.startswith("/") else f"{folder}/{name}"
        data = (
            look_up(wanted) if depth < _MAX_INCLUDE_DEPTH and "$" not in name and wanted not in made.also_read else None
        )
        if data is None:
            for values in made.values.values():
                values[-1] = values[-1]._replace(certain=False)
        else:
            made.also_read.append(wanted)
            _read(Fragment(data.decode("utf-8", "replace"), wanted), made, look_up, depth + 1)


def _assign(
    made: _Makefile, line: Fragment, name: str, sign: str, at: tuple[int, int, int], *, certain: bool
) -> _Value:
    value = _made_value(line, name, sign, at, certain=certain)
    made.values.setdefault(name, []).append(value)
    return value


def _made_value(line: Fragment, name: str, sign: str, at: tuple[int, int, int], *, certain: bool) -> _Value:
    """Return an assignment.

    :param at: offsets of the name, its end, and the value in the line
    """
    name_start, name_end, value_start = at
    written = re.sub(r"(?<!\\)#.*", "", line.text[value_start:], flags=re.DOTALL).rstrip()
    span = line.span(name_start, value_start + len(written))
    value_span = line.span(value_start, value_start + len(written)) if written else None
    setting = FileSetting(name, None, span, line.span(name_start, name_end), value_span, "shell", certain, written)
    return _Value(
        setting,
        re.sub(r"\s+", " ", written.replace("\\#", "#")),
        sign,
        certain and sign not in ("?=", "!="),
        line.part(value_start, value_start + len(written)),
    )


def _value(name: str, made: _Makefile, target: str | None) -> str | None:
    """Return the value of a variable when a recipe runs, or None if unknown."""
    key = name, target
    if key not in made.known:
        # a value that refers to itself is unknown
        made.known[key] = None
        value = _worked_out(name, made, target) if len(made.at_work) < _MAX_VALUE_DEPTH else None
        made.known[key] = value if value is None or len(value) <= _MAX_VALUE_LENGTH else None
    return made.known[key]


def _worked_out(name: str, made: _Makefile, target: str | None) -> str | None:
    specific = made.of_targets.get(target or "", {}).get(name)
    # prerequisites of another target get its variables as well
    if specific is None and name in made.specific and (target is None or target in _reached(name, made)):
        return None
    values = made.values.get(name, []) if specific is None or specific.sign == "+=" else []
    known: str | None = None
    made.at_work.append(name)
    for value in [*values, *([specific] if specific is not None else [])]:
        text = _filled_in(value.text, made, target) if value.certain else None
        if text is None and (not value.certain or value.sign == "+="):
            known = None
            break
        if value.sign == "+=" and text is not None and (known is not None or value is values[0]):
            known = f"{known or ''} {text}".strip()
        else:
            known = None if value.sign == "+=" else text
    made.at_work.pop()
    return known


def _reached(name: str, made: _Makefile) -> frozenset[str]:
    """Return the targets that are made with a target-specific variable: all its prerequisites, by name."""
    if name not in made.reached:
        left = [target for target, values in made.of_targets.items() if name in values]
        found: set[str] = set()
        while left:
            for written in made.needed.get(left.pop(), ()):
                fresh = set(written.replace("|", " ").split()) - found
                found |= fresh
                left.extend(fresh)
        made.reached[name] = frozenset(found)
    return made.reached[name]


def _filled_in(text: str, made: _Makefile, target: str | None) -> str | None:
    """Return a value with all references replaced, or None if one is unknown."""
    parts: list[str] = []
    for kind, stretch, name in _references(text):
        if kind == "text":
            parts.append(stretch)
        elif kind == "dollar":
            parts.append("$")
        else:
            value = _value(name, made, target) if kind == "variable" else None
            if value is None:
                return None
            parts.append(value)
    return "".join(parts)


def _references(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the parts of a text: ``text``, ``dollar`` (``$$``), ``variable`` with name, ``unknown`` (``$@``, calls)."""
    position = 0
    while position < len(text):
        start = text.find("$", position)
        if start < 0 or start + 1 >= len(text):
            yield "text", text[position:], ""
            return
        if start > position:
            yield "text", text[position:start], ""
        sign = text[start + 1]
        if sign == "$":
            end, kind, name = start + 2, "dollar", ""
        elif sign in "({":
            end = _closing(text, start + 1)
            name = text[start + 2 : end - 1]
            kind = "variable" if re.fullmatch(r"[^\s:#=$(){},@<^*+?|%]+", name) else "unknown"
        else:
            end, name = start + 2, sign
            kind = "variable" if sign.isalnum() or sign == "_" else "unknown"
        yield kind, text[start:end], name
        position = end


def _closing(text: str, start: int) -> int:
    """Return the offset after the bracket that closes the one at ``start``."""
    opens, closes = text[start], ")" if text[start] == "(" else "}"
    depth = 0
    for position in range(start, len(text)):
        if text[position] == opens:
            depth += 1
        elif text[position] == closes:
            depth -= 1
            if not depth:
                return position + 1
    return len(text)


def _commands(
    source: Fragment, recipe: _Recipe, made: _Makefile, training_variables: frozenset[str]
) -> Iterator[tuple[Fragment, Mapping[str, FileSetting], tuple[str, ...]]]:
    """Yield the texts that a shell gets for a recipe, with its variables and the conditionals around it."""
    lines = [(_without_prefix(source, line), conditions) for line, conditions in recipe.lines]
    if made.one_shell:
        stretches: list[tuple[int, int]] = []
        for line, _ in lines:
            stretches.extend(line[:-1])
            stretches.append((line[-1][0], _behind_line(source.text, line[-1][1])))
        lines = [(tuple(stretches), recipe.lines[0][1])]
    for line, conditions in lines:
        whole = joined(source, line)
        if _mentions_training(whole.text, training_variables):
            yield *_for_shell(whole, recipe.target, made), conditions


def _mentions_training(text: str, training_variables: frozenset[str]) -> bool:
    return mentions_training(text.encode()) or any(name in training_variables for _, _, name in _references(text))


def _training_variables(made: _Makefile) -> frozenset[str]:
    """Return the variables whose values concern training, directly or through another variable."""
    found: set[str] = set()
    everything = [
        *made.values.items(),
        *((name, [value]) for of in made.of_targets.values() for name, value in of.items()),
    ]
    left = [(name, [value.text for value in values]) for name, values in everything]
    for _ in range(_MAX_VALUE_DEPTH):
        known = frozenset(found)
        found.update(name for name, texts in left if any(_mentions_training(text, known) for text in texts))
        left = [(name, texts) for name, texts in left if name not in found]
        if len(found) == len(known):
            break
    return frozenset(found)


def _without_prefix(source: Fragment, line: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    start, end = line[0]
    match = _PREFIX.match(source.text, start, end)
    return ((match.end() if match else start, end), *line[1:])


def _for_shell(line: Fragment, target: str, made: _Makefile) -> tuple[Fragment, Mapping[str, FileSetting]]:
    """Return a line of a recipe as the shell gets it, and the variables.

    A reference stays one, in the shell's form and with the same length (``$(GPUS)`` as ``${GPUS}``), so that each word
    keeps its location. Its value is given as a variable. A value of several words is assigned in a line before, with
    its location in the makefile. ``$$`` becomes one character.
    """
    environ = dict(_exported_to(target, made))
    shells_own = set(re.findall(r"\$\$\{?([A-Za-z_]\w*)", line.text)) - set(environ)
    whole = FragmentBuilder()
    before = FragmentBuilder()
    seen: set[str] = set()

    def convert(source: Fragment, into: FragmentBuilder, depth: int) -> None:
        offset = 0
        for kind, stretch, name in _references(source.text):
            part = source.part(offset, offset + len(stretch))
            offset += len(stretch)
            if kind == "text":
                into.add(part, stretch)
            elif kind == "dollar":
                into.add(part, "$")
            elif kind == "unknown" or len(stretch) != len(name) + 3 or name in shells_own:
                into.add(part, placeholder(len(stretch)))
            else:
                shell_name = re.sub(r"\W", "_", name)
                into.add(part, "${" + shell_name + "}")
                if shell_name in seen:
                    continue
                seen.add(shell_name)
                definition = _composed(name, made) if depth < _MAX_VALUE_DEPTH else None
                if definition is None:
                    setting = _setting(name, made, target, "shell")
                    environ.setdefault(shell_name, setting._replace(name=shell_name))
                    continue
                inner = FragmentBuilder()
                inner.add(definition.fragment.part(0, 0), f'{shell_name}="')
                convert(definition.fragment, inner, depth + 1)
                inner.add(definition.fragment.part(len(definition.fragment.text), len(definition.fragment.text)), '"\n')
                before.add(inner.fragment(line.path))

    convert(line, whole, 0)
    before.add(whole.fragment(line.path))
    return before.fragment(line.path), environ


def _exported_to(target: str, made: _Makefile) -> Mapping[str, FileSetting]:
    if target not in made.environ:
        names = list(made.values) if made.all_exported else [name for name in made.exported if name in made.values]
        names += [
            name for name, targets in made.exported_for.items() if target in targets or target in _reached(name, made)
        ]
        made.environ[target] = {
            name: _setting(name, made, target, "exported")
            for name in names[:_MAX_EXPORTED]
            if _SHELL_NAME.fullmatch(name)
        }
    return made.environ[target]


def _composed(name: str, made: _Makefile) -> _Value | None:
    """Return the only assignment of a variable if it holds several words or references."""
    values = made.values.get(name, [])
    if len(values) != 1 or name in made.specific or name in made.exported:
        return None
    (value,) = values
    composed = _COMPOSED.fullmatch(value.fragment.text) is not None
    return value if composed and value.certain and value.sign != "+=" else None


def _setting(name: str, made: _Makefile, target: str, reach: str) -> FileSetting:
    values = made.values.get(name, [])
    last = made.of_targets.get(target, {}).get(name) or (values[-1] if values else None)
    value = _value(name, made, target) if last is not None else None
    if value is not None and not _PLAIN.fullmatch(value):
        # the shell parses quotes and special characters in a command, but not in a variable
        value = None if reach == "shell" else value
    if last is None:
        nowhere = Fragment("", "").span(0, 0)
        return FileSetting(name, None, nowhere, nowhere, None, reach)
    return last.setting._replace(value=value, reach=reach)


def _exported(value: _Value, made: _Makefile) -> FileSetting:
    name = value.setting.name
    exported = made.all_exported or name in made.exported or name in made.exported_for
    reach = "exported" if exported else "shell"
    text = _filled_in(value.text, made, None) if value.sign in ("=", ":=", "::=", "?=") else None
    return value.setting._replace(value=text, reach=reach)


def _comments(text: str) -> Iterable[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("\t") and "#" in line:
            yield number, line[line.index("#") :].rstrip("\r")
