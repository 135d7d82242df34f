"""What is observed in a rehearsed rank, one module for each topic: each has ``install(event_log, plan)``.

They run in the process of the user's script: standard library only (torch is patched when the script imports it, by
:func:`..import_hook.when_imported`). None of their exceptions reaches the script. Each writes rows ``<topic>.<what>``.
"""

#: In the order in which they are installed. :mod:`.agreement` comes after all of them.
HOOKS = (
    "network",
    "overlay",
    "files",
    "console_output",
    "trackers",
    "samples",
    "devices",
    "gradients",
    "training",
    "dropouts",
    "groups",
    "pickling",
    "buffers",
    "messages",
    "reference",
    "failed_calls",
)
