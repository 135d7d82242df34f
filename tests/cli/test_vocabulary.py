"""One vocabulary: an option of a name is written, given and meant alike in every command that has it."""

from __future__ import annotations

from collections import defaultdict

import click
import pytest

from distcheck.cli.main import COMMANDS, group
from distcheck.reporters import FORMATS

#: Commands that end in a report.
REPORTING = ("env", "collective", "lint", "pickle", "log", "rehearse", "run", "ci")
#: What every one of them takes.
COMMON = (
    "--select", "--extend-select", "--ignore", "--config", "--isolated", "--fail-on",
    "--output-format", "--output-file", "--color", "--quiet", "--verbose",
)  # fmt: skip
#: What those take that judge by themselves; the status of ``run`` is that of the command that it runs.
JUDGING = ("--must-check", "--strict", "--exit-zero")
#: Names that are two things, with why that is right. A new one needs a reason, or another name.
DIFFER = {
    "--backend": "env: any name that init_process_group takes; collective: those that it can start",
    "--baseline": "init asks whether there is to be one; the others name its file",
    "--merge": "env: merge what srun started here; collective: judge a folder of records",
    "--nnodes": "env: as torchrun takes it, MIN:MAX too; collective and rehearse start that many",
    "--nproc-per-node": "env: as torchrun takes it, gpu too; rehearse starts that many",
    "--master-port": "collective opens it, and refuses what is no port; env says what is wrong with it",
    "--profile": "env: the prologue of a scheduler; ci: the kind of place",
    "--output-format": "explain, rules and diff print no report: full or json",
    "--verbose": "diff prints no report: one level",
    "--timeout": "collective: for each phase, env and run: for the whole look",
}


def options() -> dict[str, dict[str, click.Option]]:
    """The options by their long names, and by command."""
    found: dict[str, dict[str, click.Option]] = defaultdict(dict)
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                found[max(parameter.opts, key=len)][name] = parameter
    return found


def shape(option: click.Option) -> tuple[object, ...]:
    """How an option is written and given."""
    choices = tuple(option.type.choices) if isinstance(option.type, click.Choice) else type(option.type)
    span = (option.type.min, option.type.max) if isinstance(option.type, (click.IntRange, click.FloatRange)) else None
    return tuple(sorted(option.opts)), option.is_flag, option.multiple, option.metavar, choices, span


def test_options_of_one_name_are_one_thing() -> None:
    differing = {name for name, found in options().items() if len({shape(option) for option in found.values()}) > 1}
    assert differing == set(DIFFER)


def test_a_short_letter_means_one_thing() -> None:
    letters: dict[str, set[str]] = defaultdict(set)
    for name, found in options().items():
        for option in found.values():
            for word in option.opts:
                if not word.startswith("--"):
                    letters[word].add(name)
    # sizes and repetitions of the smoke test are those of nccl-tests; its -f is the factor, log's is that of tail
    assert {letter: names for letter, names in letters.items() if len(names) > 1} == {"-f": {"--factor", "--follow"}}


@pytest.mark.parametrize("command", REPORTING)
def test_every_command_that_reports_takes_the_common_options(command: str) -> None:
    found = options()
    wanted = COMMON if command == "run" else (*COMMON, *JUDGING)
    assert not [name for name in wanted if command not in found[name]]
    assert isinstance(choice := found["--output-format"][command].type, click.Choice)
    assert list(choice.choices) == list(FORMATS)


def test_options_that_all_have_say_the_same_of_themselves() -> None:
    found = options()
    for name in (*COMMON, *JUDGING):
        texts = {option.help for command, option in found[name].items() if command in REPORTING}
        # run starts nothing where the others end with 1
        assert len(texts) == (2 if name == "--fail-on" else 1), texts
