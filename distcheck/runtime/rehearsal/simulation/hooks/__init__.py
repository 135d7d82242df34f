"""What is observed inside of a rehearsed rank, a topic a module: each has ``install(event_log, plan)``.

They run in the process of the user's script: standard library only (torch is patched when the script imports it, by
:func:`..importing.when_imported`), no exception of theirs gets out, and each writes rows ``<topic>.<what>``.
"""

#: In the order in which they are installed; ``agreement`` comes last, so that its wrapping is the outermost.
HOOKS = (
    "overlay",
    "files",
    "console_output",
    "trackers",
    "samples",
    "devices",
    "gradients",
    "groups",
    "pickling",
    "agreement",
)
