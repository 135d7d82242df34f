"""Keys in the evidence of findings that need several ranks; source code, launch files and documents each add theirs."""

from __future__ import annotations

#: The scripts that reach the line; absent once it is known that they run as several ranks.
SCRIPTS = "scripts"
#: What shows that they run as several ranks.
SIGN = "several_ranks"
#: The launch line that starts them as one process.
ONE_PROCESS = "one_process"
