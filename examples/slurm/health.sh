#!/bin/bash
# HealthCheckProgram of slurmd: looks at idle nodes, and drains a broken one before a job meets it, with the reason.
#
#   slurm.conf:  HealthCheckProgram=/etc/slurm/distcheck-health.sh
#                HealthCheckInterval=300
#                HealthCheckNodeState=IDLE
#
# distcheck only says what it saw; it is this script, which is yours, that calls scontrol. It never brings a node back:
# the administrator who fixed it does (scontrol update NodeName=… State=RESUME).

export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PYTHONNOUSERSITE=1

distcheck=/opt/distcheck/bin/distcheck
scontrol=/usr/bin/scontrol
limit_s=8
node=${SLURMD_NODENAME:-$(uname -n)}
node=${node%%.*}

[ -x "$distcheck" ] || exit 0

# see prolog.sh for why it is read like this
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
        # one that is drained already keeps its reason and its date
        if ! timeout -k 1 20 "$scontrol" --oneliner show node "$node" | grep -q 'State=[^ ]*DRAIN'; then
            timeout -k 1 20 "$scontrol" update NodeName="$node" State=DRAIN Reason="${line/ prolog: FAILED/}"
        fi
        ;;
esac
exit 0
