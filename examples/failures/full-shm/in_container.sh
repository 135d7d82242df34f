#!/bin/sh
# runs a command with a /dev/shm of the given size, as a container has it; needs root, or CAP_SYS_ADMIN
size=$1
shift
exec unshare --mount sh -c 'mount -t tmpfs -o size="$0" tmpfs /dev/shm && exec "$@"' "$size" "$@"
