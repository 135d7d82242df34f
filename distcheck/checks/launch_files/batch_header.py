"""The head of a Slurm batch script as sbatch reads it: its first line, and the directives before the first command.

sbatch(1) and slurm 24.05, src/sbatch/sbatch.c: the script begins with ``#!``, nothing in a directive is expanded, and
directives end at the first command. slurmstepd opens the files of the output before it starts the script, and creates
no folder for them. Templates that another program fills in are not judged.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, Severity, Where
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe
from distcheck.launch.model import NODE_LAUNCHERS

from .context import may_be_started_by_variable, shown
from .model import LaunchFile, LaunchFiles, Scalar
from .paths import folders_above

#: Options with a number, a size or a time: sbatch refuses other text. A name or a path may hold a dollar sign.
_NUMBERS = frozenset(
    """
    nodes ntasks ntasks-per-node ntasks-per-socket ntasks-per-gpu cpus-per-task cpus-per-gpu gpus gpus-per-node
    gpus-per-task gres mem mem-per-cpu mem-per-gpu time array
    """.split()  # noqa: SIM905 - reads better than a hundred quoted words
)
#: The long options of sbatch (slurm 24.05, src/common/slurm_opt.c) and of pyxis, without those of other plug-ins.
_LONG_OPTIONS = frozenset(
    """
    account acctg-freq array batch bb bbf begin chdir cluster cluster-constraint clusters comment constraint container
    container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
    dependency distribution error exclude exclusive export export-file extra extra-node-info get-user-env gid gpu-bind
    gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help hint hold ignore-pbs input job-name
    kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice
    no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
    open-mode output overcommit oversubscribe parsable partition power prefer priority profile propagate qos quiet
    reboot requeue reservation resv-ports segment share signal sockets-per-node spread-job stepmgr switches
    tasks-per-node test-only thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid usage
    use-min-nodes verbose version wait wait-all-nodes wckey workdir wrap
    container-image container-mounts container-name container-workdir container-mount-home container-remap-root
    container-save container-env container-entrypoint container-writable container-readonly
    """.split()  # noqa: SIM905 - reads better than a hundred quoted words
)
#: How alike an unknown option and one of sbatch are: ``gpu-per-node`` and ``gpus-per-node`` 0.96.
_ALIKE = 0.88
_LONG = lazy(r"--(?P<name>[A-Za-z][\w-]*)(?=[=\s]|$)")
_EXPANSION = lazy(r"\$(?:\w|\{(?!\{)|\()")
_DIRECTIVE = lazy(r"#SBATCH[ \t]+(\S.*)")
#: Directives of schedulers that the launch files are not read for.
_OTHERS = lazy(r"#(?:COBALT|OAR|PJM|MSUB|\$) *-")
_TEMPLATE = lazy(r"(?i)templ|tmpl|\.(?:j2|jinja2?|in)$|skeleton")
_FILLS_IN = lazy(r"\b(?:envsubst|sed|perl|awk|m4|jinja2?)\b")
#: Names of a log that differ by the task of an array: %a, %j, %J, also with a width; %N if they run on several nodes.
_OF_EACH_TASK = lazy(r"%\d*[ajJN]")
#: Programs that start steps of the job, or may.
_STARTS_STEPS = lazy(r"\b(?:srun|mpirun|mpiexec|orterun|prun)\b")
_RISK = "who submits the script must give the number"


@probe(rules.DC814)
def sbatch_reads_the_head(launch_files: LaunchFiles) -> Iterator[Finding]:
    """sbatch accepts the script, and reads each of its directives."""
    filled = [line for file in launch_files.files for line in file.lines if _FILLS_IN.search(line)]
    for file in launch_files.files:
        given = file.allocation
        if file.kind != "shell" or not file.sites:
            continue
        # directives in a here-document belong to a script that this one submits
        inner = any("<<" in line for line in file.lines)
        if given is None and file.lines[0].startswith("#!") and not inner and not any(map(_OTHERS.match, _head(file))):
            # sbatch reads none of its directives
            yield from _late_directives(file)
        if given is None or given.scheduler != "slurm":
            continue
        yield from _first_line(file)
        yield from _late_directives(file)
        name = file.path.replace("\\", "/").rpartition("/")[2]
        if _TEMPLATE.search(file.path) or any(name in line or "envsubst" in line for line in filled):
            continue
        for option, scalar in given.directives.items():
            if option in _NUMBERS and not scalar.known and _EXPANSION.search(scalar.written):
                yield _not_expanded(file, option, scalar)
        yield from _refused_options(file)
        yield from _output_of_an_array(file, given.directives)
        yield from _signal_without_steps(file, given.directives)
        yield from _folder_of_the_output(file, given.directives, launch_files)


def _first_line(file: LaunchFile) -> Iterator[Finding]:
    """Yield the finding if the line that names the shell is not the first one."""
    number = next((number for number, line in enumerate(_head(file), 1) if line.startswith("#!")), 1)
    if number == 1:
        return
    line = file.lines[number - 1]
    edits = (Edit(file.path, 1, 1, 1, 1, f"{line}\n"), Edit(file.path, number, 1, number + 1, 1, ""))
    yield rules.DC814.found(
        f"{shown(line)} is in line {number}: sbatch refuses a script that does not begin with #!",
        where=Where(path=file.path, line=number, column=1, end_line=number, end_column=len(line) + 1),
        evidence={"line": number},
        fix=Fix(f"make {shown(line)} the first line", edits=edits, safe=True, where="job-script"),
    )


def _late_directives(file: LaunchFile) -> Iterator[Finding]:
    """Yield the directives after the first command: for sbatch they are comments."""
    head = len(_head(file))
    late = [(line, text) for line, text in file.comments if line > head and _DIRECTIVE.match(text)]
    if not late:
        return
    line, text = late[0]
    more = f", as are {len(late) - 1} more" if len(late) > 1 else ""
    alone = all(file.lines[number - 1].startswith("#SBATCH") for number, _ in late)
    moved = "".join(f"{file.lines[number - 1]}\n" for number, _ in late)
    at = max((number for number, one in enumerate(_head(file), 1) if _DIRECTIVE.match(one)), default=1) + 1
    edits = (
        Edit(file.path, at, 1, at, 1, moved),
        *(Edit(file.path, number, 1, number + 1, 1, "") for number, _ in late),
    )
    yield rules.DC814.found(
        f"{shown(text.strip())} follows the first command: sbatch takes it for a comment{more}",
        severity=Severity.WARNING,
        where=Where(path=file.path, line=line, column=1),
        evidence={"directives": len(late), "first_command": head + 1},
        fix=Fix(
            "write directives before the first command",
            edits=edits if alone and line < len(file.lines) else (),
            where="job-script",
            risk="the job then requests what it did not get so far",
        ),
    )


def _not_expanded(file: LaunchFile, option: str, scalar: Scalar) -> Finding:
    span = scalar.span
    directive = file.lines[span.line - 1]
    value = scalar.written.strip("\"'")
    own = _DIRECTIVE.match(directive)
    # the only option of its directive
    alone = own is not None and re.fullmatch(r"-{1,2}[\w-]+(?:[= \t]\s*\S+)?\s*", own[1]) is not None
    edits = (Edit(file.path, span.line, 1, span.line + 1, 1, ""),) if alone and span.line < len(file.lines) else ()
    return rules.DC814.found(
        f"sbatch expands nothing in a directive: --{option} is the text {shown(value)}, which it refuses",
        where=span.where(object="directive"),
        evidence={"option": f"--{option}", "value": shown(value)},
        fix=Fix(
            f"write the number, or drop the line and submit with sbatch --{option}={value} {file.path}",
            edits=edits,
            where="job-script",
            risk=_RISK if edits else None,
        ),
    )


def _refused_options(file: LaunchFile) -> Iterator[Finding]:
    """Yield the first option of each directive that sbatch refuses: another spelling, or the start of several options.

    sbatch reads options with getopt_long, which accepts a beginning that fits one option only.
    """
    import difflib  # rarely needed

    for line, text in enumerate(_head(file), 1):
        directive = _DIRECTIVE.match(text)
        # the value of an option may hold dashes: only the first option of a directive is certain to be one
        match = _LONG.match(text, directive.start(1)) if directive is not None else None
        if match is None or match["name"] in _LONG_OPTIONS:
            continue
        name = match["name"]
        begun = sorted(option for option in _LONG_OPTIONS if option.startswith(name))
        plain = name.replace("_", "-").lower()
        alike = [plain] if plain in _LONG_OPTIONS else difflib.get_close_matches(plain, _LONG_OPTIONS, 1, _ALIKE)
        if len(begun) == 1 or not (begun or alike):
            continue
        choice = f"{name}s" if f"{name}s" in begun else "" if begun else alike[0]
        is_certain = bool(begun) or plain in _LONG_OPTIONS
        column, end = match.start() + 1, match.end() + 1
        why = (
            f"is the start of several options (--{', --'.join(begun[:3])})"
            if begun
            else f"is no option of sbatch, which has --{choice}"
        )
        yield rules.DC814.found(
            f"--{name} {why}: sbatch refuses the script",
            # a plug-in of the site may add an option of a similar name
            severity=None if is_certain else Severity.WARNING,
            where=Where(path=file.path, line=line, column=column, end_line=line, end_column=end),
            evidence={"option": f"--{name}", "meant": f"--{choice or begun[0]}"},
            fix=Fix(
                f"write --{choice}" if choice else "write the whole name of the option",
                edits=(Edit(file.path, line, column, line, end, f"--{choice}"),) if choice else (),
                where="job-script",
                risk="the job then requests what the script shows" if choice else None,
            ),
        )


def _output_of_an_array(file: LaunchFile, directives: Mapping[str, Scalar]) -> Iterator[Finding]:
    """Yield the finding if all tasks of a job array write one file, which each of them empties when it starts."""
    array, output = directives.get("array"), directives.get("output")
    if array is None or output is None or not array.known or not output.known or _at_once(str(array.value)) < 2:
        return
    written = str(output.value)
    # %A is the number of the array; %j and %J those of the task
    if _OF_EACH_TASK.search(written) or written == "none" or written.startswith("/dev/") or "open-mode" in directives:
        return
    own = written.replace("%A", "%A_%a") if "%A" in written else re.sub(r"(\.\w+)?$", r"_%A_%a\1", written, count=1)
    yield rules.DC814.found(
        f"all tasks of --array={shown(str(array.value))} write {shown(written)}: each empties it when it starts",
        severity=Severity.WARNING,
        where=output.span.where(object="directive"),
        evidence={"option": "--output", "array": str(array.value)},
        fix=Fix(
            f"name the task in it: --output={output.written.replace(written, own)}",
            edits=output.span.literal_edit(output.written, output.written.replace(written, own)),
            where="job-script",
            risk="the logs then have other names",
        ),
    )


def _at_once(array: str) -> int:
    """Return how many tasks of an array may run at once: ``0-7%2`` has 8, of which 2 do."""
    indices, _, limit = array.partition("%")
    if limit.isdecimal() and int(limit) < 2:
        return 1
    several = re.fullmatch(r"(\d+)", indices) is None
    return (int(limit) if limit.isdecimal() else 2) if several else 1


def _signal_without_steps(file: LaunchFile, directives: Mapping[str, Scalar]) -> Iterator[Finding]:
    """Yield the finding if a signal before the end of the job reaches no process: it goes to steps, and there are none.

    sbatch(1), ``--signal``: without ``B:`` all steps get it, but not the batch shell; what that starts itself does not.
    """
    scalar = directives.get("signal")
    text = "" if scalar is None or not scalar.known else str(scalar.value)
    if scalar is None or not text or "B" in text.rpartition(":")[0]:
        return
    body = "\n".join(line for line in file.lines if not line.lstrip().startswith("#"))
    # what is sourced, or another script, may start steps
    ranks = [site for site in file.sites if site.command.launcher in NODE_LAUNCHERS]
    if not ranks or len(ranks) < len(file.sites) or _STARTS_STEPS.search(body):
        return
    if any(map(may_be_started_by_variable, ranks)):
        return
    launcher, first = ranks[0].command.launcher, ranks[0].command.wrappers
    yield rules.DC814.found(
        f"--signal={shown(text)} reaches the steps that srun starts, not the batch shell and its programs: "
        f"{launcher} in line {ranks[0].span.line} does not get it",
        severity=Severity.WARNING,
        where=scalar.span.where(object="directive"),
        evidence={"option": "--signal", "value": text},
        fix=Fix(f"make the launch a step: write srun before {first[0] if first else launcher}", where="job-script"),
    )


def _folder_of_the_output(
    file: LaunchFile, directives: Mapping[str, Scalar], launch_files: LaunchFiles
) -> Iterator[Finding]:
    """Yield the finding if the script creates the folder of its output too late, or nothing creates it."""
    for option in ("output", "error"):
        scalar = directives.get(option)
        folder = "" if scalar is None else str(scalar.value or "").rpartition("/")[0]
        plain = folder.removeprefix("./").rstrip("/")
        if scalar is None or not plain or re.search(r"[%$]", plain):
            continue
        makes = re.compile(rf"\s*mkdir\s(?:\S+\s+)*?[\"']?(?:\./)?{re.escape(plain)}/?[\"']?(?:\s|;|&|$)")
        made = next((number for number, line in enumerate(file.lines, 1) if makes.match(line)), None)
        if made is None and (plain.startswith(("/", "~", "..")) or "chdir" in directives):
            continue
        named = re.compile(rf"(?<![\w.-]){re.escape(plain)}(?![\w.-])")
        if made is None and any(
            "mkdir" in line and named.search(line) for one in launch_files.files for line in one.lines
        ):
            continue
        before = f"before the script creates {shown(plain)} in line {made}" if made else "before the script starts"
        yield rules.DC814.found(
            f"Slurm opens the file of --{option} {before}: "
            + ("without the folder the job fails" if made else f"without the folder {shown(plain)} the job fails"),
            # the user may have created it
            severity=Severity.WARNING if made else Severity.INFO,
            where=scalar.span.where(object="directive"),
            evidence={"option": f"--{option}", "folder": shown(plain), "created_in_line": made},
            fix=Fix(f"create it before: mkdir -p {plain} && sbatch {file.path}", where="this-shell"),
        )
        return


def with_present_folder(finding: Finding, is_folder: Callable[[str], bool]) -> Finding | None:
    """Return a finding, if the folder of the output that it misses is there: None, or a note if the script creates it.

    The folder is searched next to the script, and in the folders above.
    """
    evidence, path = finding.evidence, finding.where.path
    if finding.code != "DC814" or path is None or "folder" not in evidence:
        return finding
    if not any(is_folder(posixpath.join(above, str(evidence["folder"]))) for above in folders_above(path)):
        return finding
    if not evidence["created_in_line"]:
        return None
    return finding._replace(severity=Severity.INFO, message=f"{finding.message}; it is there now")


def _head(file: LaunchFile) -> list[str]:
    """Return the lines before the first command."""
    found: list[str] = []
    for line in file.lines:
        if line.strip() and not line.lstrip().startswith("#"):
            break
        found.append(line)
    return found
