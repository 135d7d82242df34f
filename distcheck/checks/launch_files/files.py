"""What a file is, by its name and content, and the dispatch to the readers of all kinds of launch files.

A reader is imported when a file needs it. Most runs see only shell scripts, and many files need no reader, because
nothing in them concerns training.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from importlib import import_module

from distcheck.core.patterns import lazy

from .fragments import Fragment
from .model import LaunchFile, LookUp
from .training_words import mentions_training

#: Bytes of a file that are read; real launch files have some thousand.
MAX_BYTES = 5_000_000
#: A zero byte in this range makes a file binary. Later ones mean data appended to a script.
_HEAD = 1024

_SHELL_SUFFIXES = frozenset({"sh", "bash", "zsh", "ksh", "sbatch", "slurm", "srun"})
#: Suffixes of job scripts that other programs use as well (HTCondor's ``.sub``): the content decides.
_JOB_SUFFIXES = frozenset({"sub", "job", "pbs", "qsub", "lsf", "bsub", "batch", "cmd"})
_MARKDOWN_SUFFIXES = frozenset({"md", "markdown", "mdx", "qmd"})
#: Suffixes of files that are no shell scripts, even with a shell in the first line.
_NEVER_SHELL = frozenset({"py", "pyw", "ipynb", "yaml", "yml", "json", "md", "markdown", "rst", "toml"})
_MAKE_SUFFIXES = frozenset({"mk", "mak", "make"})
#: ``Dockerfile.md`` describes one.
_NO_DOCKERFILE = frozenset({"md", "markdown", "py", "sh", "rst", "txt", "json", "yaml", "yml", "dockerignore"})
_DOCKERFILE = lazy(r"(?:docker|container)file(?:[._-].*)?|.*[._-](?:docker|container)file", re.IGNORECASE)
_MAKEFILE = lazy(r"(?:gnu)?makefile(?:[._-].*)?", re.IGNORECASE)
#: Kinds that are written in YAML.
_YAML = frozenset({"workflow", "kubernetes", "job", "accelerate"})
#: The module and function that read each kind, but shell; a module is imported when a file needs it.
_READERS = {
    "dockerfile": ("dockerfile", "read_dockerfile"),
    "makefile": ("makefile", "read_makefile"),
    "markdown": ("markdown", "read_markdown"),
    "workflow": ("workflow", "read_workflow"),
    "kubernetes": ("kubernetes", "read_manifest"),
    "job": ("job_specs", "read_job"),
    "accelerate": ("launcher_configs", "read_accelerate"),
    "deepspeed": ("launcher_configs", "read_deepspeed"),
    "hostfile": ("launcher_configs", "read_hostfile"),
}
_SHEBANG = lazy(r"\ufeff?#![ \t]*(?:[^\s]*/)?(?:env[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*)?(?:\S*/)?(\S+)")
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh", "ash", "rbash", "mksh"})
_DIRECTIVE = lazy(r"^#(?:SBATCH|PBS|BSUB|FLUX|COBALT)[ \t]", re.MULTILINE)
_WORKFLOW_PATH = lazy(r"(?:^|/)\.(?:github|gitea|forgejo)/workflows/[^/]+$")
_WORKFLOW = (
    lazy(r"^jobs:", re.MULTILINE),
    lazy(r"^[ \t]+(?:runs-on|uses):", re.MULTILINE),
)
_ACTION = (
    lazy(r"^runs:", re.MULTILINE),
    lazy(r"^[ \t]+using:[ \t]*['\"]?composite", re.MULTILINE),
)
#: A job file of a cloud launcher: a shell text that starts Python or a launcher, and what it runs on (job_specs.py).
_JOB = (
    lazy(r"^(?:run|commands?)[ \t]*:|^\$schema:[ \t]*\S*azureml", re.MULTILINE),
    lazy(r"^(?:resources|num_nodes|compute|distribution|envs|setup|image|type|\$schema)[ \t]*:", re.MULTILINE),
    lazy(r"\b(?:torchrun|accelerate launch|deepspeed|composer|torch\.distributed\.(?:run|launch)|python3?)[ \t]"),
)
#: Keys of ``accelerate config`` (accelerate 1.x, ``commands/config/config_args.py``), and those of no other program.
_ACCELERATE = lazy(
    r"^(compute_environment|distributed_type|num_machines|num_processes|machine_rank|main_process_ip|main_process_port"
    r"|main_training_function|downcast_bf16|mixed_precision|same_network|rdzv_backend|use_cpu|gpu_ids):",
    re.MULTILINE,
)
_ACCELERATE_ONLY = frozenset(
    {
        "compute_environment",
        "distributed_type",
        "num_machines",
        "machine_rank",
        "main_training_function",
        "downcast_bf16",
    }
)
#: Keys of DeepSpeed's configuration (deepspeed.ai/docs/config-json), and those of no other program.
_DEEPSPEED = lazy(
    r'"(train_batch_size|train_micro_batch_size_per_gpu|gradient_accumulation_steps|gradient_clipping|zero_optimization'
    r"|zero_allow_untested_optimizer|zero_force_ds_cpu_optimizer|steps_per_print|wall_clock_breakdown|bf16|fp16|optimizer"
    r"|scheduler|prescale_gradients|communication_data_type|activation_checkpointing|flops_profiler|comms_logger|aio"
    r'|data_efficiency|tensorboard|elasticity)"\s*:'
)
_DEEPSPEED_ONLY = frozenset(
    {
        "train_micro_batch_size_per_gpu", "zero_optimization", "zero_allow_untested_optimizer",
        "zero_force_ds_cpu_optimizer", "wall_clock_breakdown", "prescale_gradients", "comms_logger",
    }
)  # fmt: skip
_HOSTFILE = lazy(r".*(?:host|machine)[_-]?file.*|.*\.hostfile", re.IGNORECASE)
#: Files about hostfiles that are none.
_NO_HOSTFILE = _NEVER_SHELL | {"sh", "bash", "rst", "c", "h", "cc", "cpp", "go", "rs", "j2", "tpl", "tmpl", "in"}
_HOST_LINE = lazy(r"[\w.\-\[\]]+(?:[ \t]*:[ \t]*[0-9]+)?(?:[ \t]+[a-z_-]+[ \t]*=[ \t]*[^\s=]+)*", re.IGNORECASE)


def kind_of(path: str, data: bytes, *, include_markdown: bool = False) -> str | None:
    """Return one of ``model.KINDS``, or None; ``data`` may be only the beginning of the file.

    A clear name decides (``.sh``, ``Dockerfile``), otherwise the content: YAML and JSON have many uses.
    """
    name = path.replace("\\", "/").rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""
    if suffix in _SHELL_SUFFIXES:
        return None if _shebang(data) not in (None, *_SHELLS) else "shell"
    if suffix in _MARKDOWN_SUFFIXES:
        return "markdown" if include_markdown else None
    if _DOCKERFILE.fullmatch(name) and suffix not in _NO_DOCKERFILE:
        return "dockerfile"
    if (_MAKEFILE.fullmatch(name) and suffix not in _NO_DOCKERFILE) or suffix in _MAKE_SUFFIXES:
        return "makefile"
    if suffix not in _NEVER_SHELL and _is_shell(data, job=suffix in _JOB_SUFFIXES or not suffix):
        return "shell"
    if suffix in ("yaml", "yml"):
        return _kind_of_yaml(path.replace("\\", "/"), _seen(data))
    if suffix == "json":
        names = set(_DEEPSPEED.findall(_seen(data)))
        return "deepspeed" if len(names) >= 2 and not names.isdisjoint(_DEEPSPEED_ONLY) else None
    if _HOSTFILE.fullmatch(name) and suffix not in _NO_HOSTFILE and b"\0" not in data:
        return "hostfile" if _is_hostfile(_seen(data)) else None
    return None


def read_file(path: str, data: bytes, kind: str, look_up: LookUp) -> LaunchFile:
    """Return the contents of a file. Never raises: unreadable parts are problems of the file.

    :param path: the displayed path, relative to the working directory
    """
    problem = _unreadable(data)
    if problem is not None:
        return LaunchFile(path, kind, problems=(problem,))
    if kind not in ("accelerate", "deepspeed", "hostfile", "kubernetes") and not mentions_training(data):
        return LaunchFile(path, kind)
    problems: list[tuple[str, int, int]] = []
    if len(data) > MAX_BYTES:
        data = data[: data.rfind(b"\n", 0, MAX_BYTES) + 1]
        problems.append(
            (f"the file is larger than {MAX_BYTES:,} bytes; it is read up to there", data.count(b"\n") + 1, 0)
        )
    if b"\0" in data:
        data = data[: data.rfind(b"\n", 0, data.index(b"\0")) + 1]
        problems.append(("binary data stand behind the text; the file is read up to them", data.count(b"\n") + 1, 0))
    text = _decoded(data)
    file = _read(path, text, kind, look_up)
    return file._replace(
        problems=(*problems, *file.problems),
        lines=file.lines or tuple(line.removesuffix("\r") for line in text.split("\n")),
    )


def _read(path: str, text: str, kind: str, look_up: LookUp) -> LaunchFile:
    if kind not in _YAML and text.startswith("\ufeff"):
        # a blank keeps all columns; for YAML it would be an indentation
        text = " " + text[1:]
    if kind == "shell":
        from .shell import read_shell

        read = read_shell(Fragment(text, path), look_up)
        return LaunchFile(
            path, kind, read.sites, read.settings, read.allocation, comments=read.comments, problems=read.problems
        )
    module, name = _READERS[kind]
    read_text: Callable[[str, str, LookUp], LaunchFile] = getattr(import_module(f".{module}", __package__), name)
    return read_text(path, text, look_up)


def _kind_of_yaml(path: str, text: str) -> str | None:
    if _WORKFLOW_PATH.search(path) or all(sign.search(text) for sign in _WORKFLOW):
        return "workflow"
    if all(sign.search(text) for sign in _ACTION):
        return "workflow"
    from .kubernetes import is_manifest

    if is_manifest(text):
        return "kubernetes"
    if all(sign.search(text) for sign in _JOB):
        return "job"
    names = set(_ACCELERATE.findall(text))
    return "accelerate" if len(names) >= 2 and names & _ACCELERATE_ONLY else None


def _is_hostfile(text: str) -> bool:
    """Return whether each line names a host, with or without slots."""
    lines = [line for line in (line.partition("#")[0].strip() for line in text.split("\n")) if line]
    return bool(lines) and all(_HOST_LINE.fullmatch(line) for line in lines)


def _is_shell(data: bytes, *, job: bool) -> bool:
    """Return whether the first line, or a scheduler's directive in a job script, is that of a shell."""
    program = _shebang(data)
    if program is not None:
        return program in _SHELLS
    return job and b"#" in data and _DIRECTIVE.search(_decoded(data[:4096])) is not None


def _shebang(data: bytes) -> str | None:
    """Return the program that the first line names: ``bash`` for ``#!/usr/bin/env -S bash -e``."""
    if not data.startswith((b"#!", codecs.BOM_UTF8 + b"#!")):
        return None
    match = _SHEBANG.match(data[:512].split(b"\n", 1)[0].decode("utf-8", "replace"))
    return match[1].rpartition("/")[2] if match else None


def _unreadable(data: bytes) -> tuple[str, int, int] | None:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "the file is encoded as UTF-16; shells and launchers read UTF-8: save it so", 1, 0
    if b"\0" in data[:_HEAD]:
        # in UTF-16 without a byte order mark every second byte is zero
        if data[1:64:2].count(0) > 16 or data[:64:2].count(0) > 16:
            return "the file seems to be encoded as UTF-16; shells and launchers read UTF-8: save it so", 1, 0
        return "the file holds binary data, not text", 1, 0
    return None


def _decoded(data: bytes) -> str:
    """Return the text. A byte that is no UTF-8 becomes one character, so that columns stay."""
    return data.decode("utf-8", "replace")


def _seen(data: bytes) -> str:
    """Return the text without a byte order mark."""
    return _decoded(data).removeprefix("\ufeff")
