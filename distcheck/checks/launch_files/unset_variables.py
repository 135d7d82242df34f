"""Variables that nothing sets, and that a batch script or a launch needs.

Slurm sets some variables only for an option of the job (sbatch(1), "OUTPUT ENVIRONMENT VARIABLES", Slurm 24.05). With
``set -u`` the script ends at one of the others. Without it the shell replaces the variable by nothing: an option takes
the next one as its value, and an empty mask hides all GPUs.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import SET_BY_CALLERS
from distcheck.core.registry import probe
from distcheck.core.spans import Span
from distcheck.core.variable_table import VariableTable
from distcheck.launch.model import NODE_LAUNCHERS

from .context import only_variable, setting
from .fragments import Fragment
from .model import LaunchFile, LaunchFiles, LaunchSite, Word
from .shell_grammar import nodes_in, parse, why_missing
from .variables import MASKS

#: The options that make Slurm set a variable, by long name. Without all of them it is not set.
_SET_FOR = {
    "SLURM_CPUS_PER_GPU": ("cpus-per-gpu",),
    "SLURM_CPUS_PER_TASK": ("cpus-per-task", "cpus-per-gpu", "tres-per-task"),
    "SLURM_GPUS": ("gpus", "gpus-per-task", "tres-per-task"),
    "SLURM_GPUS_PER_NODE": ("gpus-per-node",),
    "SLURM_GPUS_PER_SOCKET": ("gpus-per-socket",),
    "SLURM_GPUS_PER_TASK": ("gpus-per-task", "tres-per-task"),
    "SLURM_NTASKS_PER_CORE": ("ntasks-per-core",),
    "SLURM_NTASKS_PER_GPU": ("ntasks-per-gpu",),
    "SLURM_NTASKS_PER_NODE": ("ntasks-per-node",),
    "SLURM_NTASKS_PER_SOCKET": ("ntasks-per-socket",),
    "SLURM_ARRAY_JOB_ID": ("array",),
    "SLURM_ARRAY_TASK_COUNT": ("array",),
    "SLURM_ARRAY_TASK_ID": ("array",),
}
#: The short forms of these options.
_SHORT = {
    "SLURM_CPUS_PER_TASK": ("-c",),
    "SLURM_GPUS": ("-G",),
    "SLURM_ARRAY_JOB_ID": ("-a",),
    "SLURM_ARRAY_TASK_COUNT": ("-a",),
    "SLURM_ARRAY_TASK_ID": ("-a",),
}
#: What Slurm sets for each job instead.
_INSTEAD = {
    "SLURM_GPUS": "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_NODE": "SLURM_GPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK": "SLURM_CPUS_ON_NODE",
    "SLURM_ARRAY_JOB_ID": "SLURM_JOB_ID",
}
_NOUNSET = lazy(
    r"(?m)^[ \t]*set(?P<words>(?:[ \t]+[-+][A-Za-z]+(?:[ \t]+(?:nounset|errexit|pipefail|xtrace|errtrace))*)+)"
)
#: Where a line may not be reached, or where a variable may be unset on purpose.
_UNCERTAIN = frozenset(
    ["if_statement", "elif_clause", "else_clause", "case_item", "case_statement", "while_statement", "for_statement",
     "c_style_for_statement", "function_definition", "list", "subshell", "test_command", "command_substitution"]
)  # fmt: skip
#: Files that set up an environment of programs; others may set any variable.
_SETS_PROGRAMS = lazy(
    r"^(?!.*\bactivate\.d/).*(?:activate|bashrc|profile|conda|venv|modules|/init/|setvars|\.edf|module)"
)
_SOURCES = lazy(r"(?m)(?:^|[;&|{]|\b(?:then|do|builtin|command))[ \t]*(?:source|\\?\.)[ \t]+(?P<file>[^\s;&|]+)")
#: What may set a variable whose name is nowhere in the file.
_SETS_ANY = lazy(
    r"(?<![\w-])eval[ \t](?![^\n]{0,200}(?:conda|hook|ssh-agent|brew))|\$\{!|\bdirenv\b|\bdotenv\b|(?:^|[\s/])\.env\b"
    # declare "$name=$value", export $(cat settings), printf -v "$name"
    r"|\b(?:declare|export|local|typeset|readonly|read|printf[ \t]+-v)(?:[ \t]+-\w+)*[ \t]+[\"']?[$`]"
)
#: Names that the environment of a user, a cluster or a machine holds.
_OF_THE_ENVIRONMENT = lazy(
    r"(?:HOME|USER|PATH|ROOT|DIR|FOLDER|DATA|DATASETS?|TOKEN|KEY|HOST|HOSTS|HOSTNAME|ADDR|ADDRESS|PORT|IP|ACCOUNT|SCRATCH|WORK|PROJECT|"
    r"STORE|TMP|TEMP|SHELL|LANG|RANK|WORLD_SIZE|NNODES|NODES|NPROC|MACHINES?|URL|NAME|(?:JOB|RUN|TASK|NODE)_?ID|"
    r"\w*(?:ARG|OPT|OPTION|PARAM|FLAG|EXTRA|CONFIG)|ARGV)S?$"
    r"|^(?:SLURM|PBS|LSB|LSF|SGE|OMPI|PMI|MPI|CUDA|NCCL|CONDA|VIRTUAL|XDG|LC|AWS|AZURE|GCP|GOOGLE|K8S|KUBERNETES|POD|"
    r"VC|MLP|ARNOLD|DLTS|PAI|SM|RAY|JOB|WANDB|HF|TORCH|BASH|ROCR|HIP|PWD|OLDPWD|RANDOM|SECONDS|LINENO|EPOCH|HOSTNAME|"
    r"UID|EUID|GROUPS|IFS|REPLY|TASK|CI|GITHUB|WORKSPACE)(?:_|$)"
)
_EXPANSION = lazy(r"\$\{?(?P<name>[A-Za-z_]\w*)")
#: An assignment other than that of a mask.
_ASSIGNMENT = lazy(r"(?m)^[ \t]*(?:export[ \t]+)?(?!CUDA_|HIP_|ROCR_)[A-Za-z_]\w*=")
#: A variable of the caller with a default: ``NODES=${NODES:-1}``.
_DEFAULT = lazy(r"\$\{(?!SLURM|PBS|CUDA)[A-Z]\w*(?::?[-=?])")
#: Larger files, and files with more variables, are not checked.
_LIMIT = 1_000_000
_MOST_NAMES = 200


@probe(rules.DC818)
def variables_are_set(launch_files: LaunchFiles) -> Iterator[Finding]:
    """A batch script and its launches read no variable that nothing sets."""
    if why_missing() is not None:
        return
    texts = {file.path: "\n".join(file.lines) for file in launch_files.files}
    for file in launch_files.files:
        text = texts[file.path]
        if file.kind != "shell" or file.problems or not file.sites or "$" not in text or len(text) > _LIMIT:
            continue
        others = [other for path, other in texts.items() if path != file.path]
        reported: set[str] = set()
        for finding in (*_missing_of_slurm(file, text, others), *_missing_of_launches(file, text, others)):
            name = finding.where.variable or ""
            if name not in reported:
                reported.add(name)
                words = [name, *(f"--{option}" for option in _SET_FOR.get(name, ())), *_SHORT.get(name, ())]
                yield finding._replace(evidence={**finding.evidence, SET_BY_CALLERS: (file.path, words)})


# set -u in a job of Slurm


def _missing_of_slurm(file: LaunchFile, text: str, others: list[str]) -> Iterator[Finding]:
    """Yield the variables of options that a batch script does not have, where ``set -u`` ends it."""
    job = file.allocation
    if job is None or job.scheduler != "slurm" or _NOUNSET.search(text) is None:
        return
    names = [name for name in _SET_FOR if name in text and not _is_set_for(name, file, others)]
    names = [name for name in names if not _may_be_set(name, text) and not _submits_itself(name, text)]
    root = parse(text) if names else None
    if root is None or root.has_error:
        return
    source = Fragment(text, file.path)
    switches = _switches(root, text)
    for node in nodes_in(root, "simple_expansion", "expansion"):
        written = text[node.start_byte : node.end_byte]
        name = written.strip("${}")
        if name not in names or written not in (f"${name}", f"${{{name}}}") or not _is_reached(node):
            continue
        before = bisect.bisect_right(switches, (node.start_byte, False))
        if before and switches[before - 1][1]:
            yield _ends_here(name, source.span(node.start_byte, node.end_byte), file)
            names.remove(name)


def _is_set_for(name: str, file: LaunchFile, others: list[str]) -> bool:
    """Return whether an option of the job sets a variable of Slurm, here or where the script may be submitted."""
    options = _SET_FOR[name]
    given = {} if file.allocation is None else file.allocation.directives
    if not given or any(option in given for option in options):
        return True
    base = file.path.replace("\\", "/").rpartition("/")[2]
    return any(base in other and any(option in other for option in options) for other in others)


def _may_be_set(name: str, text: str) -> bool:
    """Return whether a script sets a variable, or tests whether it is set."""
    sets = rf"\b{name}\+?=|\$\{{{name}:?=|-[nvz][ \t]+[\"']?(?:\$\{{?)?{name}\b"
    return (
        re.search(rf"{sets}|\b(?:read|mapfile|readarray|getopts)\b[^\n]{{0,200}}(?<![${{\w]){name}\b", text) is not None
    )


def _submits_itself(name: str, text: str) -> bool:
    """Return whether a script submits itself with an option that sets a variable, or a comment shows that."""
    options = "|".join((*(f"--{option}" for option in _SET_FOR[name]), *_SHORT.get(name, ())))
    return re.search(rf"\bsbatch\b[^\n]{{0,500}}[ \t](?:{options})(?![\w-])", text) is not None


def _switches(root: Any, text: str) -> list[tuple[int, bool]]:
    """Return where ``set`` switches nounset on or off, in order; what may not be reached only switches it off."""
    found = []
    for node in nodes_in(root, "command"):
        match = _NOUNSET.match(text[node.start_byte : node.end_byte])
        sign = ""
        for word in [] if match is None else match["words"].split():
            sign = word[0] if word[0] in "-+" else sign
            is_switch = word == "nounset" or (word[0] in "-+" and "u" in word[1:])
            if is_switch and (sign == "+" or _is_reached(node)):
                found.append((node.end_byte, sign == "-"))
    return sorted(found)


def _is_reached(node: Any) -> bool:
    parent = node.parent
    while parent is not None and parent.type not in _UNCERTAIN:
        parent = parent.parent
    return parent is None


def _ends_here(name: str, span: Span, file: LaunchFile) -> Finding:
    option = _SET_FOR[name][0]
    instead = _INSTEAD.get(name)
    other = f"read {instead}, which needs no option; or " if instead else ""
    edits = (span.replaced_by(f"${{{name}:-}}"),) if file.path == span.path else ()
    return rules.DC818.found(
        f"`set -u` ends the script here: Slurm sets {name} only for --{option}, which the job does not have",
        where=span.where(variable=name),
        evidence={"variable": name, "option": f"--{option}"},
        fix=Fix(
            f"{other}add `#SBATCH --{option}=…`, or write `${{{name}:-}}`, which may be empty",
            edits=edits,
            where="job-script",
            risk="what reads the value then gets an empty text" if edits else None,
        ),
    )


# launches


def _missing_of_launches(file: LaunchFile, text: str, others: list[str]) -> Iterator[Finding]:
    """Yield the variables in launch lines that nothing sets, where an empty text changes what the line means."""
    candidates = [
        (site, name, finding)
        for site in file.sites
        if site.command.launcher in NODE_LAUNCHERS and site.span.path == file.path
        for name, finding in (*_swallowing(site), *_empty_masks(site))
    ]
    if not candidates or _SETS_ANY.search(text) is not None:
        return
    if any(_SETS_PROGRAMS.search(match["file"]) is None for match in _SOURCES.finditer(text)):
        return
    base = file.path.replace("\\", "/").rpartition("/")[2]
    # a script that another one starts or reads may get any variable from it
    if any(base in other for other in others):
        return
    # a script with several such variables, or with defaults for them, gets them from its caller
    names = {match["name"] for match in _EXPANSION.finditer(text)}
    if len(names) > _MOST_NAMES:
        return
    unset = [name for name in names if _OF_THE_ENVIRONMENT.search(name) is None and not _is_assigned(name, text)]
    if sum(name not in _SET_FOR for name in unset) > 1 or any(map(_DEFAULT.search, text.splitlines())):
        return
    for site, name, finding in candidates:
        if _nothing_sets(name, site, file, text, others):
            yield finding


def _nothing_sets(name: str, site: LaunchSite, file: LaunchFile, text: str, others: list[str]) -> bool:
    """Return whether no file sets a variable, and it is none of Slurm, a library, a cluster or a user's environment."""
    if name in _SET_FOR:
        job = file.allocation
        return job is not None and job.scheduler == "slurm" and not _is_set_for(name, file, others)
    # a script without variables of its own takes them from its caller
    if _ASSIGNMENT.search(text) is None:
        return False
    if _OF_THE_ENVIRONMENT.search(name) is not None or setting(site, name) is not None or _is_set_in(name, text):
        return False
    if VariableTable().lookup(name) is not None:
        return False
    return not any(re.search(rf"\bexport[ \t][^\n]{{0,200}}\b{name}\b", other) for other in others)


def _is_assigned(name: str, text: str) -> bool:
    sets = rf"\b{name}(?:\+?=|\[[^]]*\]=)|\b(?:for|read|declare|mapfile|readarray)\b[^\n]{{0,200}}\b{name}\b"
    return re.search(sets, text) is not None


def _is_set_in(name: str, text: str) -> bool:
    """Return whether a text has a name in another form than a plain ``$NAME``, comments included."""
    if re.search(rf"-[nz][ \t]+[\"']?\$\{{?{name}\b", text) is not None:
        return True
    return re.search(rf"(?<!\$)(?<!\$\{{)\b{name}\b|\$\{{{name}[^}}]", text) is not None


def _swallowing(site: LaunchSite) -> Iterator[tuple[str, Finding]]:
    """Yield the options whose value is a variable in no quotes, with another option behind it."""
    words = site.words
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        name = _bare_variable(word)
        if name is None or not _is_option(before) or not _is_option(after) or word.by_each_task:
            continue
        if not _is_about(name, before.text):
            continue
        yield name, _swallows(name, before, word, after, site)


def _bare_variable(word: Word) -> str | None:
    return only_variable(word.written) if word.written[:1] == "$" and not word.origins else None


def _is_option(word: Word) -> bool:
    return re.fullmatch(r"--?[A-Za-z][\w.-]*", word.text) is not None


def _is_about(name: str, option: str) -> bool:
    """Return whether a variable is meant as the value of an option: that of ``--learning-rate $LR``.

    A switch may stand before a variable with more options, which may be empty: ``--fp16 $RESUME``.
    """
    return any(_has_letters(option.lower(), part) for part in name.lower().split("_") if part)


def _has_letters(text: str, letters: str) -> bool:
    """Return whether a text has some letters in this order."""
    left = iter(text)
    return all(letter in left for letter in letters)


def _why_unset(name: str) -> str:
    """Return the beginning of a message."""
    if name in _SET_FOR:
        return f"Slurm sets {name} only for --{_SET_FOR[name][0]}, which the job does not have, so"
    return f"no file sets {name}: unless the environment does,"


def _swallows(name: str, option: Word, word: Word, after: Word, site: LaunchSite) -> Finding:
    return rules.DC818.found(
        f"{_why_unset(name)} {option.text} of the launch gets {after.text} as its value",
        where=word.span.where(variable=name),
        evidence={"variable": name, "option": option.text, "launch_in_line": site.span.line},
        fix=Fix(
            f"set {name} before the launch, or let the script end without it: ${{{name}:?}}",
            edits=_required(name, word.span, word.written),
            where="job-script",
            risk="the script then ends if the environment does not set it",
        ),
    )


def _empty_masks(site: LaunchSite) -> Iterator[tuple[str, Finding]]:
    """Yield the masks of a line that are a variable: an empty mask hides all GPUs."""
    for mask in MASKS:
        given = site.settings.get(mask)
        name = None if given is None or given.value is not None else only_variable(given.written)
        if given is None or name is None or name == mask or not given.certain:
            continue
        span = given.value_span or given.span
        yield (
            name,
            rules.DC818.found(
                f"{_why_unset(name)} {mask} is empty, and the launch in line {site.span.line} has no GPU",
                where=span.where(variable=name),
                evidence={"variable": name, "mask": mask, "launch_in_line": site.span.line},
                fix=Fix(
                    f"set {name} before, or let the script end without it: ${{{name}:?}}",
                    edits=_required(name, span, given.written),
                    where="job-script",
                    risk="the script then ends if the environment does not set it",
                ),
            ),
        )


def _required(name: str, span: Span, written: str) -> tuple[Edit, ...]:
    return span.literal_edit(written, re.sub(rf"\$\{{?{name}\b\}}?", f"${{{name}:?}}", written))
