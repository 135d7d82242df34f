"""The parser of launch commands: from the words of a user to a :class:`LaunchCommand`.

It reads a command as its programs do: nohup, srun, containers and ``bash -c``, then the launcher's options by the
launcher's own rules. It runs nothing, opens no file and never raises. Values that only the shell knows
(``$SLURM_NNODES``) are named in ``unknown``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from ._draft import Draft
from ._launchers import read_accelerate, read_deepspeed, read_distributed_launch, read_torchrun
from ._shell import has_expansion, split_commands
from ._wrapper_table import PYTHON_WRAPPERS, WRAPPERS, Wrapper
from ._wrappers import holds_options, is_assignment, note_assignments, note_tasks, own_words
from .model import LaunchCommand, integer
from .schedulers import task_starter

__all__ = ["line_with_processes", "nproc_on", "parse_command", "program_name", "shell_argument", "shell_line"]

#: Limit of nested shells.
_MAX_SHELL_DEPTH = 8

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
PYTHON = r"(?:python|pypy)[0-9.]*[tdw]?"
_SHELL_SCRIPT = (".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".sub", ".pbs", ".lsf", ".job")
#: ``$(which torchrun)`` and ``$(command -v torchrun)``, also in backticks.
WHICH = r"(?:\$\(|`)\s*(?:which|command\s+-v|type\s+-[pP])\s+([^\s)`]+)\s*[)`]"
#: ``${LAUNCHER:-torchrun}``: the caller may choose another one.
DEFAULT_LAUNCHER = r"\$\{\w+:?-[\"']?(?:\S*/)?(?:torchrun|accelerate|deepspeed)\b[^}]*\}"
_LAUNCHER_IN_NAME = r"(?i)torchrun|accelerate|deepspeed"
_PYTHON_IN_NAME = r"(?i)\$\{?(?:\w+_)?(?:PYTHON[0-9]*|PY)(?:_?(?:BIN|EXE|EXECUTABLE|EXEC|INTERPRETER|PATH))?\b.*"
#: Further contents of a variable that holds a launcher.
_ITS_OPTIONS = "${OPTIONS[@]}"

#: Python options with the next word as their value (``python3 --help``, 3.13); ``-c`` and ``-m`` end the options.
_PYTHON_VALUED = frozenset("XW")

_MODULES: Mapping[str, Callable[[Sequence[str], Draft], None]] = {
    "torch.distributed.run": read_torchrun,
    "torch.distributed.launch": read_distributed_launch,
    "accelerate.commands.launch": read_accelerate,
    "deepspeed.launcher.runner": read_deepspeed,
}
_PROGRAMS: Mapping[str, Callable[[Sequence[str], Draft], None]] = {
    "torchrun": read_torchrun,
    "accelerate-launch": read_accelerate,
    "deepspeed": read_deepspeed,
    "ds": read_deepspeed,
}


def parse_command(argv: Sequence[str], environ: Mapping[str, str] = {}) -> LaunchCommand:
    """Parse a launch command.

    :param argv: its words, as a shell passes them, or unexpanded as in a file
    :param environ: its environment; ``PET_`` variables are torchrun's defaults
    """
    draft = Draft(environ)
    _read(list(argv), draft, 0)
    return draft.finish(argv)


def nproc_on(command: LaunchCommand, *, gpus: int | None, cpus: int) -> int | None:
    """Return the number of processes on one host, counted like the launcher, or None if unknown.

    :param gpus: GPUs that the launcher would see, or None if unknown
    :param cpus: logical cores of the host
    """
    if command.launcher in ("torchrun", "torch.distributed.launch"):
        if "nproc" in command.unknown:
            return None
        word = "1" if command.nproc is None else command.nproc
        if word == "gpu":
            return gpus or None
        if word == "cpu":
            return cpus
        if word == "auto":
            return cpus if gpus == 0 else gpus
        return _positive(integer(word))
    if command.launcher == "accelerate":
        machines = 1 if command.nnodes_min is None and command.config_file is None else command.nnodes_min
        if command.unknown & {"processes", "nnodes_min", "config_file"} or command.processes is None or not machines:
            return None
        return _positive(command.processes // machines)
    if command.launcher == "deepspeed":
        if command.unknown & {"nproc", "hostfile", "include", "exclude"}:
            return None
        if command.nproc is not None:
            return _positive(integer(command.nproc))
        return None if command.hostfile or command.include or command.exclude else gpus or None
    return _tasks_on(command) if command.launcher == "python" else None


def _tasks_on(command: LaunchCommand) -> int | None:
    """Return the tasks on a node for a plain program after srun or mpirun; 1 without them."""
    if task_starter(command) is None:
        return 1
    if command.tasks_per_node is not None or "tasks_per_node" in command.unknown:
        return command.tasks_per_node
    if command.tasks == 1:
        return 1
    if command.tasks and command.nodes and command.tasks % command.nodes == 0:
        return command.tasks // command.nodes
    return None


def _positive(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None


#: The option for the number of processes, by launcher; accelerate counts those of all machines.
_PROCESS_OPTIONS = {
    "torchrun": r"--nproc[-_]per[-_]node",
    "torch.distributed.launch": r"--nproc[-_]per[-_]node",
    "accelerate": r"--num[-_]processes",
    "deepspeed": r"--num_gpus",
}


def line_with_processes(command: LaunchCommand, count: int) -> str | None:
    """Return the command as a line to paste with another number of processes, or None if it gives none."""
    option = _PROCESS_OPTIONS.get(command.launcher)
    words = list(command.argv)
    for index in range(len(words) - len(command.script_args)):
        if option is None:
            break
        name, equals, _ = words[index].partition("=")
        if not re.fullmatch(option, name):
            continue
        if equals:
            words[index] = f"{name}={count}"
        elif index + 1 < len(words):
            words[index + 1] = str(count)
        return shell_line(command._replace(argv=tuple(words)))
    return None


def shell_line(command: LaunchCommand) -> str:
    """Return the command as a line to paste, with its assignments.

    An assignment that was added to ``command.assignments``, changed or removed there is written so. New ones come first
    in the line. The caller must know whether they pass a container, ssh or sbatch. Assignments inside the text of
    ``bash -c`` stay as they are.
    """
    wanted = command.assignments
    written = parse_command(command.argv).assignments
    words = [f"{name}={shlex.quote(value)}" for name, value in wanted.items() if name not in written]
    before_arguments = len(command.argv) - len(command.script_args)
    leading = True
    for index, word in enumerate(command.argv):
        name, equals, value = word.partition("=")
        leading = leading and is_assignment(word)
        if equals and index < before_arguments and written.get(name) == value != wanted.get(name):
            if name not in wanted:
                if not leading:
                    words.append(shlex.quote(word))
                continue
            value = wanted[name]
        # Quoted as a whole, X='a b' would be the name of a program.
        words.append(f"{name}={shlex.quote(value)}" if leading else shlex.quote(f"{name}{equals}{value}"))
    return " ".join(words)


def _read(words: list[str], draft: Draft, depth: int) -> None:
    """Read a command into the draft, from its outermost program inwards."""
    rest: list[str] | None = words
    while rest is not None:
        start = 0
        while start < len(rest) and is_assignment(rest[start]):
            name, _, value = rest[start].partition("=")
            draft.assign(name, value)
            start += 1
        rest = _next(rest[start:], draft, depth) if start < len(rest) else None


def _next(words: list[str], draft: Draft, depth: int) -> list[str] | None:
    """Read the outermost program; return what it starts, or None for the innermost one."""
    program = program_name(words[0])
    if program in _PROGRAMS:
        _PROGRAMS[program](words[1:], draft)
    elif program == "accelerate":
        if words[1:2] == ["launch"]:
            read_accelerate(words[2:], draft)
    elif program == "axolotl":
        return _axolotl(words)
    elif program == "torchx":
        return _torchx(words, draft)
    elif re.fullmatch(PYTHON, program):
        return _python(words, draft)
    elif program in SHELLS:
        _shell(program, words, draft, depth)
    elif program in WRAPPERS:
        return _wrapper(program, WRAPPERS[program], words, draft, depth)
    elif words[0].endswith(".py"):
        draft.launcher = "python"
        draft.script(words, module=False)
    elif words[0].endswith(_SHELL_SCRIPT):
        draft.script(words, module=False)
    elif has_expansion(words[0]):
        return _variable(words, draft)
    return None


def program_name(word: str) -> str:
    """Return the name of a program: ``torchrun`` for ``/opt/venv/bin/torchrun`` and ``$(which torchrun)``."""
    which = re.fullmatch(WHICH, word) if word.startswith(("$", "`")) else None
    if which:
        word = which[1]
    name = word.replace("\\", "/").rpartition("/")[2]
    return name.removesuffix(".exe").removesuffix(".EXE")


def _variable(words: list[str], draft: Draft) -> list[str] | None:
    """Read a program in a variable, whose name often shows which one it is."""
    if re.fullmatch(_PYTHON_IN_NAME, words[0]):
        return ["python", *words[1:]]
    named = re.search(_LAUNCHER_IN_NAME, words[0])
    if named and named[0].lower() == "accelerate":
        return ["accelerate", "launch", _ITS_OPTIONS, *words[1 + (words[1:2] == ["launch"]) :]]
    if named:
        return [named[0].lower(), _ITS_OPTIONS, *words[1:]]
    if holds_options(words[0]) and len(words) > 1:
        return words[1:]
    draft.leave_open(("launcher", "script"))
    return None


def _axolotl(words: list[str]) -> list[str] | None:
    """Return the launch that ``axolotl train CONFIG [--launcher NAME] -- OPTIONS`` starts, or None if it names neither.

    The configuration and its overrides are no options of the launcher (axolotl 0.13, ``cli/utils/train.py``).
    """
    if words[1:2] not in (["train"], ["evaluate"], ["inference"]):
        return None
    end = words.index("--") if "--" in words else len(words)
    launcher = ""
    for word, following in zip(words[2:end], [*words[3:end], ""], strict=False):
        name, equals, value = word.partition("=")
        if name == "--launcher":
            launcher = value if equals else following
    options = words[end + 1 :]
    module = ["-m", f"axolotl.cli.{words[1]}"]
    if launcher == "torchrun":
        return ["torchrun", *options, *module]
    if launcher == "accelerate" or (not launcher and options):
        return ["accelerate", "launch", *options, *module]
    return ["python", *module] if launcher == "python" else None


def _torchx(words: list[str], draft: Draft) -> list[str] | None:
    """Return the torchrun that ``torchx run [OPTIONS] dist.ddp -j 2x8 --script train.py`` starts, or None.

    torchx gives it the rendezvous (torchx 0.7, ``components/dist.py``).
    """
    if words[1:2] != ["run"] or "dist.ddp" not in words:
        return None
    draft.wrappers.append("torchx")
    # all options of the component have a value; the arguments of the script follow
    position = words.index("dist.ddp") + 1
    given: dict[str, str] = {}
    while position < len(words) and words[position].startswith("-") and words[position] != "--":
        name, equals, value = words[position].partition("=")
        position += 1
        if not equals and position < len(words):
            value = words[position]
            position += 1
        given[name.lstrip("-")] = value
    rest = words[position + (words[position : position + 1] == ["--"]) :]
    shape = given.get("j", "1x2")
    if not has_expansion(shape) and re.fullmatch(r"(?:(?:\d+:)?\d+x)?\d+", shape) is None:
        draft.refuse("-j", shape, "NODESxPROCESSES")
        shape = "$NODESx$PROCESSES"
    nodes, _, each = shape.rpartition("x")
    nodes = nodes or ("$NODES" if has_expansion(shape) else "1")
    endpoint = "localhost:0" if nodes == "1" else f"$TORCHX_RANK0_HOST:{given.get('rdzv_port', '29500')}"
    started = ["-m", given["m"]] if "m" in given else [given["script"]] if "script" in given else []
    return [
        "torchrun", "--rdzv_backend", given.get("rdzv_backend", "c10d"), "--rdzv_endpoint", endpoint, "--rdzv_id",
        "$TORCHX_JOB_ID", "--nnodes", nodes, "--nproc_per_node", each, *started, *rest,
    ]  # fmt: skip


def _python(words: list[str], draft: Draft) -> list[str] | None:
    """Read ``python [options] script`` or ``python [options] -m module``."""
    draft.launcher = "python"
    position = 1
    while position < len(words):
        word = words[position]
        position += 1
        if word == "-" or not word.startswith("-"):
            return _python_script(words[position - 1 :], draft)
        if word.startswith("--"):
            position += word == "--check-hash-based-pycs"
            continue
        for index, letter in enumerate(word[1:], 1):
            glued = word[index + 1 :]
            if letter == "c":
                draft.set("script_args", tuple(words[position + (not glued) :]))
                return None
            if letter == "m":
                return _python_module(([glued] if glued else []) + words[position:], draft)
            if letter in _PYTHON_VALUED:
                position += not glued
                break
    return None


def _python_script(words: list[str], draft: Draft) -> list[str] | None:
    program = program_name(words[0])
    path = words[0].replace("\\", "/")
    for module, read in _MODULES.items():
        if path.endswith(module.replace(".", "/") + ".py"):
            read(words[1:], draft)
            return None
    # python $(which torchrun) …
    if program in _PROGRAMS or program == "accelerate":
        draft.launcher = "other"
        return words
    if words[0] == "-":
        draft.set("script_args", tuple(words[1:]))
    else:
        draft.script(words, module=False)
    return None


def _python_module(words: list[str], draft: Draft) -> list[str] | None:
    if not words:
        return None
    module = words[0]
    if module in _MODULES:
        _MODULES[module](words[1:], draft)
    elif module in ("accelerate.commands.accelerate_cli", "accelerate") and words[1:2] == ["launch"]:
        read_accelerate(words[2:], draft)
    elif module in PYTHON_WRAPPERS:
        own = own_words(words, PYTHON_WRAPPERS[module])
        if own is not None and own.end < len(words):
            draft.wrappers.append(module)
            return ["python", *words[own.end :]]
        draft.script(words, module=True)
    else:
        draft.script(words, module=True)
    return None


def _shell(program: str, words: list[str], draft: Draft, depth: int) -> None:
    """Read ``bash -c 'text'`` or ``bash script``."""
    draft.wrappers.append(program)
    position, is_text, _ = shell_argument(words, 1)
    if position >= len(words):
        return
    if is_text:
        _text(words[position], draft, depth)
    else:
        draft.script(words[position:], module=False)


def shell_argument(words: Sequence[str], position: int) -> tuple[int, bool, bool]:
    """Return the index after a shell's options, and whether it runs a text (``-c``) or its standard input (``-s``).

    :param position: the index of the first option
    """
    is_text = reads_input = False
    while position < len(words) and words[position][:1] in ("-", "+") and len(words[position]) > 1:
        word = words[position]
        position += 1
        if word == "--":
            break
        if word.startswith("--"):
            position += word in ("--rcfile", "--init-file")
            continue
        is_text = is_text or (word[0] == "-" and "c" in word)
        reads_input = reads_input or (word[0] == "-" and "s" in word)
        position += word[1:].count("o")
    return position, is_text, reads_input


def _text(text: str, draft: Draft, depth: int) -> None:
    """Read the command of a shell text that starts a launcher, otherwise the first with python, otherwise the last."""
    if depth >= _MAX_SHELL_DEPTH:
        return
    best: Draft | None = None
    setting = draft
    for words in split_commands(text):
        if words[0] == "export":
            setting = setting.copy()
            for word in words[1:]:
                name, _, value = word.partition("=")
                if is_assignment(word):
                    setting.assign(name, value)
            continue
        attempt = setting.copy()
        _read(words, attempt, depth + 1)
        if best is None or _weight(attempt) > _weight(best) or _weight(attempt) == _weight(best) == 0:
            best = attempt
    draft.take(best if best is not None else setting)


def _weight(draft: Draft) -> int:
    return {"other": 0, "python": 1}.get(draft.launcher, 2)


def _wrapper(program: str, wrapper: Wrapper, words: list[str], draft: Draft, depth: int) -> list[str] | None:
    own = own_words(words, wrapper)
    if own is None:
        return None
    draft.wrappers.append(program)
    if program == "command" and any(option in ("-v", "-V") for option, _ in own.options):
        draft.launcher = "other"  # it only searches for the program
        return None
    keeps_environment = program != "sudo" or any(option in ("-E", "--preserve-env") for option, _ in own.options)
    if wrapper.elsewhere or not keeps_environment:
        draft.environ.clear()
    note_assignments(program, own.options, draft)
    note_tasks(program, own, draft)
    rest = words[own.end :]
    if program == "env":
        split = [value for option, value in own.options if option in ("-S", "--split-string")]
        rest = [word for value in split for words in split_commands(value) for word in words] + rest
    if program == "sbatch":
        wrapped = [value for option, value in own.options if option == "--wrap"]
        if wrapped:
            _text(wrapped[-1], draft, depth)
        elif rest:
            draft.script(rest, module=False)
        return None
    if wrapper.joined:
        _text(rest[0] if len(rest) == 1 else " ".join(rest), draft, depth)
        return None
    if not rest:
        return None
    return ["python", *rest] if wrapper.python and rest[0].startswith("-") else rest
