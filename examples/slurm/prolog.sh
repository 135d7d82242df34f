#!/bin/bash
# Prolog of slurmd: is this node fit for the job that is about to start on it?
#
#   slurm.conf:  Prolog=/etc/slurm/prolog.d/50-distcheck.sh
#
# Slurm takes a node out of service, and holds the job, for any status but 0. This script has another one only where
# distcheck says FAILED. Where distcheck is missing, broken, late, or says something that is not understood, the job
# starts, and the log says that nothing was checked.

# slurmd sets no PATH
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# what is run as root must not depend on packages in a user's home
export PYTHONNOUSERSITE=1

distcheck=/opt/distcheck/bin/distcheck
# distcheck ends itself within 5 s; these are for a Python that can't even start
limit_s=8

# To check only jobs that have GPUs (Slurm 20.11 and newer say so here):
# [ -n "${SLURM_JOB_GPUS:-}" ] || exit 0

note() {
    if command -v logger >/dev/null; then
        logger -t distcheck -p "daemon.$1" -- "job ${SLURM_JOB_ID:-?}: $2"
    fi
    echo "$2" >&2
}

if [ ! -x "$distcheck" ]; then
    note warning "distcheck prolog: NOT CHECKED: $distcheck is not there"
    exit 0
fi

# Not $(...): that waits for a process that hangs in the kernel, which nothing can end. This shell stops listening.
exec 3< <(timeout -k 1 "$limit_s" "$distcheck" env --profile prolog 2>&1 >/dev/null </dev/null; echo "status=$?")
line=
status=
end=$((SECONDS + limit_s + 1))
while ((SECONDS < end)) && read -r -t $((end - SECONDS)) word <&3; do
    case $word in
        "distcheck prolog: "*) line=$word ;;
        "status="*) status=${word#status=} && break ;;
    esac
done

case "$status $line" in
    "1 distcheck prolog: FAILED: "*)
        note err "$line"
        exit 1
        ;;
    "0 distcheck prolog: ok: "*) note info "$line" ;;
    "0 distcheck prolog: "*) note warning "$line" ;;
    *) note warning "distcheck prolog: NOT CHECKED: no answer (status ${status:-none}) $line" ;;
esac
exit 0
