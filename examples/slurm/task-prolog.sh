#!/bin/bash
# TaskProlog: runs as the user, before each task, and what it prints is executed: "export NAME=value" sets a variable of
# the task, "print TEXT" writes to its output. distcheck prints nothing there.
#
#   slurm.conf:  TaskProlog=/etc/slurm/task-prolog.sh
#
# Another status than 0 cancels the task, so this script has none. The node's own check belongs into the Prolog, which
# runs once a node and as root; this one puts its line into the job's error output, where the user reads it.

if [ "${SLURM_LOCALID:-0}" = 0 ] && [ -x /opt/distcheck/bin/distcheck ]; then
    line=$(timeout -k 1 8 /opt/distcheck/bin/distcheck env --profile prolog 2>&1 >/dev/null </dev/null)
    case "$? $line" in
        "1 distcheck prolog: FAILED: "*) echo "print this node has a fault that ends most jobs" ;;
    esac
    echo "$line" >&2
fi
exit 0
