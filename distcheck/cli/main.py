"""The commands of ``distcheck``, run with click. Each command is imported only when it is called."""

from __future__ import annotations

import io
from typing import Any

import click

from distcheck._version import __version__

from .exit_status import end_with, leave
from .output import say

#: name → module, short help. The help is here so that ``--help`` imports no command.
COMMANDS = {
    "env": ("env", "Check this process and this host against a launch that runs or is planned."),
    "collective": ("collective", "Verify that all ranks are present, and that collectives are correct and fast."),
    "lint": ("lint", "Find rank and device misuse in training scripts and launch files, without running them."),
    "lsp": ("lsp", "Show the findings of lint in an editor, as one types."),
    "pickle": ("pickle", "Show what loading a file would do, or what in a live object can't be pickled."),
    "log": ("log", "Find the failed rank and the root cause in the log of a failed job."),
    "rehearse": ("rehearse", "Run the first steps of a script on simulated nodes, and report what would go wrong."),
    "watch": ("watch", "Run an unmodified training script, and report hung ranks within seconds."),
    "stuck": ("stuck", "Show where the ranks of a running job are, and which rank the others wait for."),
    "run": ("run", "Check the launch, run the command, and find the cause in its output if it fails."),
    "explain": ("explain", "Print the page of a rule, or find the rule of a pasted error message."),
    "rules": ("rules", "List the rules."),
    "ci": ("ci", "Run all checks that apply here, in one report: lint, env, smoke test."),
    "init": ("init", "Show and write the configuration and the CI file of this repository."),
    "diff": ("diff", "Compare two saved facts files, of a good and a bad node."),
}

SYMPTOMS = (
    ("environment variable RANK expected, but not set", "distcheck env -- python train.py"),
    ("invalid device ordinal", "distcheck env -- torchrun --nproc-per-node=8 train.py"),
    ("EADDRINUSE, Address already in use", "distcheck env -- torchrun … train.py"),
    ("hangs in init_process_group or the first collective", "torchrun … -m distcheck.collective"),
    ("before the first job on many GPUs", "distcheck rehearse --nnodes 2 -- train.py"),
    ("a running job makes no progress", "distcheck stuck"),
    ("it hangs, and the watchdog takes half an hour", "torchrun … -m distcheck.watch train.py"),
    ("Watchdog caught collective operation timeout", "distcheck log train.log"),
    ("Bus error, No space left on device, Too many open files", "distcheck env --nproc-per-node=8"),
    ("hangs at the same step, trains on one GPU, torn checkpoints", "distcheck lint"),
    ("cannot pickle … object, Can't pickle local object", "distcheck pickle --object module:name"),
    ("Weights only load failed; is this checkpoint safe to load", "distcheck pickle model.pt"),
    ("a job failed, and its log is long", "distcheck log train.log"),
    ("works on one node but not on another", "distcheck env --save-facts FILE; distcheck diff A B"),
    ("any other text", 'distcheck explain "the text"'),
)


class LazyGroup(click.Group):
    """A group with the commands of COMMANDS."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        from importlib import import_module

        module = import_module(f"distcheck.cli.{COMMANDS[name][0]}")
        command: click.Command = module.command
        return command

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(context, args)
        except click.UsageError:
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(COMMANDS)}"
            raise click.UsageError(f"no such command {args[0]!r}; {hint}", context) from None

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def format_help_text(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Symptom, and what to type"):
            formatter.write_dl(list(SYMPTOMS), col_max=34)
        super().format_help_text(context, formatter)


CONTEXT = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DISTCHECK", "max_content_width": 100}


@click.group(cls=LazyGroup, context_settings=CONTEXT)
# a pipeline may pin a release in DISTCHECK_VERSION, which must not print the version
@click.version_option(__version__, prog_name="distcheck", allow_from_autoenv=False)
def group() -> None:
    """Explain why a PyTorch distributed job will fail, hang or run slowly, and print the fix.

    Exit status: 0 no finding at or above --fail-on; 1 findings; 2 wrong usage, or unreadable input; 3 no finding, but
    a required check did not run.
    """


def main() -> None:
    """Run the command line of ``distcheck`` and end the process."""
    _run(group, "distcheck")


def run_command(name: str, **obj: object) -> None:
    """Run one command as its own module (``python -m distcheck.collective``) and end the process.

    :param obj: the object of click's context, which shows the command how it was started
    """
    command = group.get_command(click.Context(group), name)
    if command is None:
        raise ValueError(f"no command {name!r}")
    settings = {**CONTEXT, **command.context_settings, "auto_envvar_prefix": f"DISTCHECK_{name.upper()}"}
    _run(command, f"python -m distcheck.{name}", obj=obj, **settings)


def _run(command: click.Command, program: str, **settings: Any) -> None:
    def run() -> Any:
        try:
            return command.main(prog_name=program, standalone_mode=False, **settings)
        except click.ClickException as error:
            text = io.StringIO()
            error.show(text)
            say(text.getvalue().rstrip("\n"))
            return error.exit_code
        except click.Abort:
            click.echo("Interrupted.", err=True)
            return 130

    end_with(run, lambda status: leave(status))
