"""``distcheck explain`` with its options. Without options, :mod:`.fast_path` runs it."""

from __future__ import annotations

import click

from distcheck.rules import UnknownRule

from . import output
from .explain_text import UnknownText, answered


class NothingKnown(click.ClickException):
    """No rule knows a text: one line on standard error, and status 2."""

    exit_code = output.MISUSED


# a message may begin with dashes
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("texts", metavar="CODE|NAME|'ERROR TEXT' …", nargs=-1, required=True)
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
def command(texts: tuple[str, ...], output_format: str) -> int:
    """Print what a rule detects, why it matters and how to fix it.

    A text that is neither a code nor a name is an error message:
    distcheck explain "environment variable RANK expected, but not set". It is judged as 'distcheck log' judges a log:
    what the line shows and the fix stand before the page. A line that only follows from another failure is named as
    such. A lone - reads the text from standard input.
    """
    try:
        text = answered(texts, output_format)
    except UnknownRule as error:
        raise click.UsageError(str(error)) from None
    except UnknownText as error:
        raise NothingKnown(str(error)) from None
    output.to_stdout(text)
    return output.CLEAN
