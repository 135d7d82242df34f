"""Commands that the shell runs itself: ``cd``, ``source``, ``exit``, ``set``, ``shift``, ``read``."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from .fragments import Fragment
from .model import LookUp
from .shell_assignments import Assigning
from .shell_commands import within
from .shell_flow import EXITS, FAILS, GOES_ON, LEAVES_LOOP, RETURNS
from .shell_grammar import with_plain_line_ends
from .shell_state import ARGUMENTS, EXPORT_ALL, FOLDER, ShellSource, ShellVariable
from .shell_words import Field

#: Limit of nested shells and files.
MAX_TEXT_DEPTH = 8
#: A scheduler starts a job script in the folder of its submission by default.
_SUBMITTED_FROM = frozenset({"$SLURM_SUBMIT_DIR", "${SLURM_SUBMIT_DIR}", "$PBS_O_WORKDIR", "${PBS_O_WORKDIR}"})


class Builtins(Assigning):
    """Applies the shell's builtins."""

    def __init__(self, source: ShellSource, kind: str, look_up: LookUp) -> None:
        super().__init__(source, kind)
        self._look_up = look_up
        self._reading: list[str] = [source.path]

    @abstractmethod
    def in_text(self, source: ShellSource) -> int:
        """Read another text as a part of this one."""

    def _cd(self, fields: Sequence[Field]) -> int:
        targets = [field for field in fields if not (field.known and field.text in ("-P", "-L", "--", "-e"))]
        folder: str | None = None
        if len(targets) == 1 and targets[0].text in _SUBMITTED_FROM:
            folder = ""
        elif len(targets) == 1 and targets[0].known and targets[0].text not in ("-", ""):
            folder = within(self.state.get(FOLDER), targets[0].text)
        self.state.set(FOLDER, folder)
        return GOES_ON

    def _popd(self, fields: Sequence[Field]) -> int:
        self.state.set(FOLDER, None)
        return GOES_ON

    def _source(self, fields: Sequence[Field]) -> int:
        """Apply ``source file``: its text is read as a part of this one."""
        if not fields or not fields[0].known or self.context.depth >= MAX_TEXT_DEPTH:
            return GOES_ON
        path = fields[0].text
        own_folder = self.context.source.path.rpartition("/")[0]
        candidates = [within(self.state.get(FOLDER), path)]
        if not path.startswith(("/", "~")):
            candidates += [within(own_folder, path), within("", path)]
        for candidate in dict.fromkeys(candidates):
            if candidate is None or candidate in self._reading:
                continue
            data = self._look_up(candidate)
            if data is None:
                continue
            text = data.decode("utf-8-sig", "replace")
            if "\0" in text:
                return GOES_ON
            self._reading.append(candidate)
            arguments = self.state.get(ARGUMENTS)
            if len(fields) > 1:
                self.state.set(ARGUMENTS, None)
            result = self.in_text(ShellSource(with_plain_line_ends(Fragment(text, candidate))))
            self.state.set(ARGUMENTS, arguments)
            self._reading.pop()
            return result if result in (FAILS, EXITS) else GOES_ON
        return GOES_ON

    def _exit(self, fields: Sequence[Field]) -> int:
        code = fields[0].text if fields else "0"
        return EXITS if code == "0" or not (fields and fields[0].known) else FAILS

    def _return(self, fields: Sequence[Field]) -> int:
        return RETURNS

    def _break(self, fields: Sequence[Field]) -> int:
        return LEAVES_LOOP

    def _set(self, fields: Sequence[Field]) -> int:
        texts = [field.text for field in fields]
        for index, text in enumerate(texts):
            if text in ("-o", "+o") and texts[index + 1 : index + 2] == ["allexport"]:
                self.state.set(EXPORT_ALL, text == "-o")
            elif text in ("--", "-"):
                self.state.set(ARGUMENTS, tuple(field.parts for field in fields[index + 1 :]))
                break
            elif text[:1] in ("-", "+") and "a" in text[1:] and "o" not in text[1:]:
                self.state.set(EXPORT_ALL, text[0] == "-")
        return GOES_ON

    def _shift(self, fields: Sequence[Field]) -> int:
        arguments = self.state.get(ARGUMENTS)
        if arguments is not None:
            count = int(fields[0].text) if fields and fields[0].text.isdigit() else 1
            self.state.set(ARGUMENTS, arguments[count:])
        return GOES_ON

    def _reads(self, fields: Sequence[Field]) -> int:
        """Apply ``read X``, ``mapfile``, ``getopts``, ``printf -v``, ``let``: the variables get unknown values."""
        for field in fields:
            match = re.match(r"[A-Za-z_]\w*", field.text)
            if match and field.known:
                old = self.state.variable(match[0])
                self.state.set(
                    match[0],
                    ShellVariable(None, exported=bool(old and old.exported), setting=old.setting if old else -1),
                )
        return GOES_ON

    def _printf(self, fields: Sequence[Field]) -> int:
        return self._reads(fields[1:2]) if fields and fields[0].text == "-v" else GOES_ON

    def _nothing(self, fields: Sequence[Field]) -> int:
        return GOES_ON


#: The shell's builtins by name.
BUILTINS: Mapping[str, Callable[[Builtins, Sequence[Field]], int]] = {
    "cd": Builtins._cd,
    "pushd": Builtins._cd,
    "popd": Builtins._popd,
    "source": Builtins._source,
    ".": Builtins._source,
    "exit": Builtins._exit,
    "return": Builtins._return,
    "break": Builtins._break,
    "continue": Builtins._break,
    "set": Builtins._set,
    "shift": Builtins._shift,
    "read": Builtins._reads,
    "mapfile": Builtins._reads,
    "readarray": Builtins._reads,
    "getopts": Builtins._reads,
    "let": Builtins._reads,
    "printf": Builtins._printf,
    ":": Builtins._nothing,
}
