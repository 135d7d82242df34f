"""One row for each program that starts a launcher: which words belong to it.

The row decides whether an unlisted option is a flag or has a value. No message is printed, because these programs
change often. ``_wrappers.py`` uses the rows.
"""

from __future__ import annotations

from typing import NamedTuple


class Wrapper(NamedTuple):
    """How to read the words of a program that starts another program."""

    #: options with the next word as their value (unless it is attached)
    valued: frozenset[str] = frozenset()
    #: if not None: options without a value; every other one has a value
    flags: frozenset[str] | None = None
    #: options with the next two words
    pairs: frozenset[str] = frozenset()
    #: its own words between its options and the command: a duration, a mask, an image
    operands: int = 0
    #: one of these words must come before its own options (``uv run``)
    subcommands: tuple[str, ...] = ()
    #: short options can be clustered (``-it``) and attached to their value (``-n4``)
    clusters: bool = True
    #: python starts the rest: a script, or ``-m`` and a module
    python: bool = False
    #: the rest is one shell text, its words joined
    joined: bool = False
    #: the command does not get this environment
    elsewhere: bool = False
    #: the command comes only after ``--``
    after_dashes: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN = Wrapper()
_ENVIRONMENT_RUNNER = Wrapper(
    _words("-n --name -p --prefix --cwd -C --directory --project -e --environment --manifest-path --env-file --python"),
    subcommands=("run",),
)

# Slurm 22.05, srun(1), sbatch(1), salloc(1), and the plug-in pyxis; all other options take a value.
_SLURM_FLAGS = _words(
    """
    -E -H -h -I -k -K -l -O -Q -s -u -v -V -X -Z --hold --no-kill --kill-on-bad-exit --label --overcommit --quiet
    --oversubscribe --share --unbuffered --verbose --version --disable-status --no-allocate --pty --preserve-env
    --exclusive --contiguous --spread-job --use-min-nodes --reboot --multi-prog --overlap --exact --whole --interactive
    --no-shell --requeue --no-requeue --parsable --test-only --ignore-pbs --x11 --propagate --nice --get-user-env
    --immediate --resv-ports --help --usage --bell --no-bell --stepmgr --external-launcher
    --container-mount-home --no-container-mount-home --container-remap-root --no-container-remap-root
    --container-entrypoint --no-container-entrypoint --container-writable --container-readonly
    --bcast --compress --send-libs --quit-on-interrupt
    """
)
# Open MPI 4.1 mpirun(1), MPICH 4.0 mpiexec.hydra, and what Intel MPI and HPE PALS add.
_MPI = Wrapper(
    _words(
        """
        -np --np -n --n -c -N --N -npernode --npernode -npersocket --npersocket -H -host --host --hosts -hosts
        -hostfile --hostfile -machinefile --machinefile -f -map-by --map-by -bind-to --bind-to -rank-by --rank-by -x
        -wdir --wdir -wd --wd -path --path -prefix --prefix -output-filename --output-filename -output --output
        -rf -rankfile --rankfile -app --app -timeout --timeout -stdin --stdin -tune --tune -am --am -cpu-set --cpu-set
        -cpu-list --cpu-list -slot-list --slot-list -report-uri --report-uri --personality --runtime-options --display
        -ppn --ppn -perhost --perhost -genvlist -envlist -iface -bootstrap -launcher -bootstrap-exec -launcher-exec
        -rmk -membind -order-nodes -usize -configfile -tmpdir -prepend-pattern -outfile-pattern -errfile-pattern
        -localhost -demux -topolib -nameserver -gpus-per-proc -d --depth --cpu-bind --mem-bind --env
        -default-hostfile --default-hostfile -cpus-per-proc --cpus-per-proc -cpus-per-rank --cpus-per-rank --ppr
        -xml-file --xml-file -xterm --xterm --preload-files -launch-agent --launch-agent -max-restarts --max-restarts
        -ompi-server --ompi-server -report-events --report-events -report-pid --report-pid
        """
    ),
    pairs=_words("-mca --mca -gmca --gmca -prtemca --prtemca -pmixmca --pmixmca --omca -genv --genv -env"),
    clusters=False,
)
# docker-run(1) and docker-exec(1): all other options take a value.
_CONTAINER = Wrapper(
    flags=_words(
        """
        -d --detach -i --interactive -t --tty --rm --init --privileged -P --publish-all --read-only --no-healthcheck
        --oom-kill-disable --sig-proxy --disable-content-trust -q --quiet --help -it -ti -di -id -dt -td -dit -itd -tid
        --replace --tls-verify
        """
    ),
    operands=1,
    subcommands=("run", "exec", "container run", "container exec"),
    elsewhere=True,
)
_SINGULARITY = Wrapper(
    _words(
        """
        -B --bind --env --env-file -H --home -W --workdir -S --scratch --pwd --cwd -o --overlay --app --network
        --network-args --security --add-caps --drop-caps --apply-cgroups --mount --fusemount --pem-path --hostname --dns
        --pid-file --cpus --memory --blkio-weight
        """
    ),
    operands=1,
    subcommands=("exec", "run"),
)
_REMOTE_SHELL = Wrapper(
    _words("-b -B -c -D -E -e -F -I -i -J -L -l -m -O -o -p -P -Q -R -S -W -w"), operands=1, joined=True, elsewhere=True
)
_SLURM = Wrapper(flags=_SLURM_FLAGS)

WRAPPERS: dict[str, Wrapper] = {
    **dict.fromkeys(
        _words("""
            nohup setsid command builtin unbuffer chronic catchsegv eatmydata tini dumb-init valgrind
        """),
        _PLAIN,
    ),
    "exec": Wrapper(_words("-a")),
    "time": Wrapper(_words("-f --format -o --output")),
    "nice": Wrapper(_words("-n --adjustment")),
    "ionice": Wrapper(_words("-c --class -n --classdata")),
    "chrt": Wrapper(_words("-T -P -D"), operands=1),
    "numactl": Wrapper(
        _words(
            """
            -i --interleave -w --weighted-interleave -p --preferred -P --preferred-many -N --cpunodebind
            -C --physcpubind -m --membind
            """
        )
    ),
    "stdbuf": Wrapper(_words("-i --input -o --output -e --error")),
    "taskset": Wrapper(operands=1),
    "timeout": Wrapper(_words("-k --kill-after -s --signal"), operands=1),
    "flock": Wrapper(_words("-w --timeout --wait -E --conflict-exit-code"), operands=1),
    "sudo": Wrapper(
        _words("-u --user -g --group -h --host -p --prompt -C -D --chdir -r --role -t --type -T -U -R --chroot")
    ),
    "env": Wrapper(_words("-u --unset -C --chdir -S --split-string")),
    "systemd-run": Wrapper(
        _words(
            """
            -p --property -u --unit --slice -E --setenv --uid --gid --description --working-directory -M --machine
            -H --host
            """
        )
    ),
    "xvfb-run": Wrapper(
        _words("-e --error-file -f --auth-file -n --server-num -p --xauth-protocol -s --server-args -w --wait")
    ),
    "strace": Wrapper(_words("-o -e -p -s -u -E -P -a -I -O -S -b -X")),
    "gdb": Wrapper(_words("-ex -x -iex -ix -cd -d"), clusters=False),
    "perf": Wrapper(_words("-e -o -F -p -C -c -r"), subcommands=("stat", "record")),
    # Nsight Systems and Nsight Compute: nearly every option has a value.
    "nsys": Wrapper(flags=_words("-h --help -v --version"), subcommands=("profile", "launch")),
    "ncu": Wrapper(flags=_words("-h --help -v --version --nvtx -f --force-overwrite --csv --quiet --list-sets")),
    "compute-sanitizer": Wrapper(
        _words("--tool --log-file --target-processes --save --language --launch-timeout --port")
    ),
    **dict.fromkeys(
        ("rocprof", "rocprofv2", "rocprofv3"), Wrapper(_words("-i -o -d --output-directory --output-file"))
    ),
    "py-spy": Wrapper(_words("-o --output -f --format -r --rate -d --duration"), subcommands=("record", "top")),
    "uv": Wrapper(
        _words(
            """
            -p --python --with --with-editable --with-requirements --extra --no-extra --group --no-group --only-group
            --package --directory --project --env-file --index --default-index --index-url --extra-index-url -i -f
            --find-links --config-file --cache-dir --color --python-platform -C --config-setting -P --upgrade-package
            --refresh-package --reinstall-package --link-mode --resolution --prerelease --exclude-newer
            """
        ),
        subcommands=("run",),
        python=True,
    ),
    **dict.fromkeys(
        ("poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "conda", "mamba", "micromamba"), _ENVIRONMENT_RUNNER
    ),
    **dict.fromkeys(("srun", "salloc"), _SLURM),
    # --wait has a value for srun and is a flag for sbatch.
    "sbatch": Wrapper(flags=_SLURM_FLAGS | {"-W", "--wait"}),
    "flux": Wrapper(
        flags=_words("-h --help -v --verbose -l --label-io -u --unbuffered --exclusive -x"),
        subcommands=("run", "alloc", "submit", "mini run"),
    ),
    **dict.fromkeys(
        _words("""
            mpirun mpiexec mpiexec.hydra mpiexec.openmpi mpirun.openmpi mpirun_rsh mpiexec.mpich mpirun.mpich
            orterun prterun prun
        """),
        _MPI,
    ),
    "jsrun": Wrapper(
        _words(
            """
            -n --nrs -a --tasks_per_rs -r --rs_per_host -g --gpu_per_rs -c --cpu_per_rs -p --np -b --bind -d
            --launch_distribution -l --latency_priority -E --env -D -e --stdio_mode -o --stdio_stdout -k --stdio_stderr
            -M --smpiargs -m --memory_per_rs -h --chdir -K --rs_per_socket -U --use_resource -J --use_spindle
            """
        )
    ),
    "ibrun": Wrapper(_words("-n -o -np"), clusters=False),
    "aprun": Wrapper(_words("-n -N -d -S -cc -L -j -e -p"), clusters=False),
    **dict.fromkeys(("docker", "podman", "nvidia-docker"), _CONTAINER),
    **dict.fromkeys(("singularity", "apptainer"), _SINGULARITY),
    **dict.fromkeys(
        ("kubectl", "oc"),
        Wrapper(
            _words("-c --container -n --namespace --context --kubeconfig -f --filename --pod-running-timeout"),
            operands=1,
            subcommands=("exec",),
            elsewhere=True,
            after_dashes=True,
        ),
    ),
    # they submit what follows "--" to a cluster
    "gantry": Wrapper(flags=_words("-y --yes -h --help"), subcommands=("run",), elsewhere=True, after_dashes=True),
    "ray": Wrapper(flags=_words("--no-wait --verbose"), subcommands=("job submit",), elsewhere=True, after_dashes=True),
    "ssh": _REMOTE_SHELL,
    "pdsh": Wrapper(_words("-w -x -g -f -R -l -t -u -M"), joined=True, elsewhere=True),
    "clush": Wrapper(_words("-w -x -g -X -f -l -t -u -o -R"), joined=True, elsewhere=True),
    "screen": Wrapper(_words("-S -c -e -h -p -s -t -T")),
    "tmux": Wrapper(
        _words("-s -n -c -x -y -e -t -F -L -S -f"),
        subcommands=("new-session", "new", "new-window", "neww"),
        joined=True,
    ),
}

#: Modules that start a script or module from their arguments.
PYTHON_WRAPPERS: dict[str, Wrapper] = {
    "pdb": Wrapper(_words("-c --command"), python=True),
    "cProfile": Wrapper(_words("-o --outfile -s --sort"), python=True),
    "profile": Wrapper(_words("-o --outfile -s --sort"), python=True),
    "debugpy": Wrapper(
        _words("--listen --connect --log-to --configure-subProcess --adapter-access-token --parent-session-pid"),
        python=True,
    ),
    "coverage": Wrapper(
        _words("--rcfile --source --include --omit --context --data-file --concurrency --save-signal"),
        subcommands=("run",),
        python=True,
    ),
    "viztracer": Wrapper(_words("-o --output_file --max_stack_depth --tracer_entries"), python=True),
}

#: Programs that give the shell text of their input to a scheduler. Of qsub and bsub only such a text is read: PBS
#: Professional 2022 qsub(1), Torque 6 qsub(1), IBM Spectrum LSF 10.1 bsub(1).
SUBMITTERS: dict[str, Wrapper] = {
    "sbatch": WRAPPERS["sbatch"],
    "qsub": Wrapper(
        _words(
            """
            -a -A -b -c -C -e -j -J -k -l -m -M -N -o -p -P -q -r -R -S -t -tc -u -v -w -W -sync -now -hold_jid -binding
            """
        ),
        pairs=_words("-pe"),
        clusters=False,
    ),
    "bsub": Wrapper(
        flags=_words("-x -I -Ip -Is -IS -ISp -ISs -K -H -N -B -r -rn -h -V -ul -XF -Zs -Ne -aff"), clusters=False
    ),
}

MPI = frozenset(name for name, wrapper in WRAPPERS.items() if wrapper is _MPI)
SLURM = frozenset({"srun", "salloc", "sbatch"})
