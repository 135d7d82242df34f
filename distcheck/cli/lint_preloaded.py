"""What a check of a project imports. The process that forks the checks of an editor imports it once."""

from __future__ import annotations

from distcheck.checks import launch_files, source
from distcheck.checks.launch_files import documented  # noqa: F401 - imported for the processes that are forked
from distcheck.core import package_pins  # noqa: F401

from . import language_server, lint, lint_launch_files, lint_units  # noqa: F401

source.load_probes()
launch_files.load_probes()
