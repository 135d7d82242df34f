"""``distcheck lsp``: start the language server of :mod:`.language_server` on standard input and output."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from . import options as shared

EPILOG = """\b
Editors start this command. docs/editors.md has the setup of VS Code, Neovim, Helix and Emacs.
It needs pygls: pip install 'pygls>=2'

\b
Exit status: 2 without pygls, or used wrongly; 0 after the editor has closed the connection.
"""


@click.command("lsp", epilog=EPILOG, context_settings={"auto_envvar_prefix": "DISTCHECK_LSP"})
@shared.configuration_options
def command(**given: Any) -> int:
    """Show an editor the findings of 'distcheck lint' as one types, over standard input and output.

    The editor shows findings, the page of a rule, fixes, and comments that silence a finding. It checks the text of
    the editor, saved or not, with the configuration of the project. Nothing is run or imported; torch is not needed.
    """
    if find_spec("pygls") is None:
        raise click.UsageError("the language server needs pygls; fix: pip install 'pygls>=2'")
    from .language_server import serve

    serve(given)
    return 0
