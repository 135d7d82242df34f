"""Reports of every kind that a page can show, made by hand: what each command hands to a reporter, in its shape."""

from __future__ import annotations

from typing import Any

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, NotChecked, ProbeRun, Report, Severity, Where

ENV = Report(
    "env",
    stage="planned",
    subject={"host": "node1", "line": ["torchrun 8 processes", "node1", "2 × NVIDIA L40S", "torch 2.6.0"]},
    findings=(
        rules.DC301.found(
            "8 processes run on this host, but 2 GPUs are usable: local ranks 2-7 have none",
            fix=Fix(
                "start a process for each GPU: --nproc-per-node=2; if the ranks don't use GPUs, say so with `--backend gloo`",
                command="torchrun --nproc-per-node=2 train.py",
                where="launch-line",
            ),
            evidence={
                "ranks_here": 8,
                "usable": 2,
                "gpus": [{"index": 0, "name": "L40S"}, {"index": 1, "name": "L40S"}],
            },
        ),
        rules.DC320.found(
            "/dev/shm holds 64 MiB, 64 MiB of it free; 8 ranks need at least 1.0 GiB",
            where=Where(object="/dev/shm"),
            fix=Fix(
                "start the container with --shm-size=16g, or with --ipc=host",
                where="launch-line",
                by="admin",
                risk="--ipc=host shows the host's shared memory to the container",
            ),
            evidence={"total_bytes": 67108864, "leftover_files": 0, "note": None},
            severity=Severity.WARNING,
        ),
        rules.DC115.found(
            "OMP_NUM_THREADS is not set, and torchrun will give each of its workers 1",
            where=Where(variable="OMP_NUM_THREADS"),
            fix=Fix("set it in the job script", command="export OMP_NUM_THREADS=4", where="job-script"),
        ),
    ),
    not_checked=(
        NotChecked("DC335", "the files of this torch do not tell for which GPUs it was built"),
        NotChecked("DC401, DC402", "no port was given"),
        NotChecked("the network of the job", "this host is not in the job"),
    ),
    probes=(
        ProbeRun("host.gpus.enough_gpus", "ran", 0.0012),
        ProbeRun("host.ports.port_is_free", "failed", 0.2, "Traceback (most recent call last):\n  …\nOSError: no"),
    ),
    facts={"Platform": {"system": "linux", "container": "docker", "cgroup": None}, "Scratch": {}},
    elapsed_s=0.08,
)
LINT = Report(
    "lint",
    subject={"files": 3, "python": "3.11.7", "line": ["3 files, 1 of them a launch file", "1 silenced"]},
    findings=(
        rules.DC201.found(
            "torch.cuda.set_device(rank) takes the global rank for the index of a GPU",
            where=Where("train.py", 16, 5, 16, 32, object="main"),
            fix=Fix('use the local rank: `int(os.environ["LOCAL_RANK"])`', where="code"),
            evidence={
                "flow": [
                    "train.py:10: the global rank, from `dist.get_rank()`",
                    "train.py:15: rank comes from setup()",
                ],
                "started_by": "train.sbatch:6",
                "source": "    torch.cuda.set_device(rank)",
            },
        ),
        rules.DC209.found(
            "`rank is 0` compares objects, not numbers",
            where=Where("train.py", 30, 8, 30, 17, object="main"),
            fix=Fix(
                "compare the number: `rank == 0`",
                edits=(Edit("train.py", 30, 13, 30, 15, "=="),),
                safe=True,
                where="code",
            ),
            evidence={"source": "    if rank is 0:"},
        ),
        rules.DC106.found(
            "srun starts 8 tasks on a node, and in each of them torchrun starts 8 processes: 64 in all",
            where=Where("train.sbatch", 6, 1, 6, 53),
            fix=Fix("give torchrun one task a node: '#SBATCH --ntasks-per-node=1'", where="job-script"),
            evidence={"starter": "srun", "source": "srun torchrun --nnodes 2 --nproc-per-node 8 train.py"},
        ),
    ),
    not_checked=(NotChecked("broken.py", "it is no Python: line 3, '(' was never closed"),),
    elapsed_s=0.4,
)


def event(line: int, text: str, **more: Any) -> dict[str, Any]:
    """A line of a log, as a story has it."""
    plain = {"path": "train.log", "line": line, "time": None, "kind": "cause", "signature": "port-taken", "repeated": 0}
    return {**plain, "text": text, **more}


_TAKEN = rules.DC401.found(
    "port 29500 is taken: another process listens there, and the store of this job can't",
    where=Where("train.log", 7, rank=0),
    fix=Fix("take another port, the same on all nodes", command="ss -ltnp 'sport = :29500'", where="launch-line"),
    evidence={"port": 29500, "role": "lead"},
)
_FIRST = event(7, "DistNetworkError: The server socket has failed to bind to [::]:29500", rank=0, host="gpu01")
LOG = Report(
    "log",
    subject={"line": ["2 files", "9 lines", "4 ranks"], "files": 2},
    findings=(
        _TAKEN,
        rules.DC115.found(
            "OMP_NUM_THREADS was not set", fix=Fix("set it", where="job-script"), where=Where("train.log", 1)
        ),
    ),
    story={
        "outcome": "cause",
        "sources": [
            {"path": "train.log", "lines": 9, "bytes": 855, "problem": None, "notes": []},
            {"path": "old.log.xz", "lines": 0, "bytes": 120, "problem": "its end is cut off", "notes": ["packed"]},
        ],
        "attempts": 1,
        "world_size": 4,
        "hosts": ["gpu01"],
        "ranks_seen": "0-1",
        "silent_ranks": "2-3",
        "dropped_events": 12,
        "first": {**_FIRST, "time": "2026-01-01T10:00:00.000"},
        "guilty": {"rank": 1},
        "place": "/workspace/train.py:33 in main",
        "code": "DC401",
        "name": "master-port-in-use",
        "why": _TAKEN.message,
        "fix": _TAKEN.fix.as_dict(),
        "led_to": ["rank 1 lost its peer (train.log:8)", "the launcher ended the job: 1 failed, exit code 1"],
        "evidence": [_FIRST, event(8, "store->get('0') got error\nConnection reset", rank=1, kind="lost", repeated=3)],
        "events": [_FIRST],
    },
    elapsed_s=0.2,
)
UNDECIDED = LOG._replace(
    findings=LOG.findings[1:],
    story={
        **LOG.story,
        "outcome": "unnamed",
        "code": None,
        "name": None,
        "why": "no rule of distcheck names this failure; it was the first that was seen",
        "sources": LOG.story["sources"][:1],
    },
)
CLEAN_LOG = Report(
    "log",
    subject={"line": ["train.log", "9 lines"], "files": 1},
    story={
        "outcome": "clean",
        "sources": LOG.story["sources"][:1],
        "attempts": 1,
        "world_size": None,
        "hosts": [],
        "ranks_seen": "",
        "silent_ranks": "",
        "dropped_events": 0,
    },
)


def verdict(path: str, word: str, sentence: str, **more: Any) -> dict[str, Any]:
    """What ``distcheck pickle`` says of a file."""
    plain = {
        "format": "torch zip", "size_bytes": 1650, "weights_only": None, "dangers": [], "locations": {}, "prefixes": {},
        "distributed": [], "complete": True, "unopened": [], "confirmation": None,
    }  # fmt: skip
    return {"path": path, "verdict": word, "sentence": sentence, **plain, **more}


_VERDICTS = [
    verdict("evil.pkl", "dangerous", "dangerous: posix.system('echo hi')", format="pickle"),
    verdict("big.tar", "incomplete", "not all of it was looked at", complete=False, unopened=["big.tar/a: too large"]),
    verdict("args.pt", "needs-allow-listing", "needs allow-listing: 1 name", confirmation="it refuses another name"),
    verdict("good.pt", "safe", "loads with weights_only=True", confirmation=""),
]
PICKLE = Report(
    "pickle",
    subject={
        "files": 4,
        "verdicts": _VERDICTS,
        "verdict_counts": {"dangerous": 1, "malformed": 0, "incomplete": 1, "needs-allow-listing": 1, "safe": 1},
        "line": ["4 files", "as torch 2.13 has it"],
    },
    findings=(
        rules.DC610.found(
            "loading it calls posix.system('echo hi'): it runs a shell command",
            where=Where("evil.pkl", offset=48),
            fix=Fix("do not load this file", where="code"),
            evidence={"call": "posix.system('echo hi')"},
        ),
        rules.DC611.found(
            "torch.load refuses it with weights_only=True: it needs argparse.Namespace",
            where=Where("args.pt"),
            fix=Fix(
                "harmless; paste this before torch.load",
                command="import argparse\ntorch.serialization.add_safe_globals([argparse.Namespace])",
                where="code",
            ),
        ),
    ),
)
MANY_FILES = PICKLE._replace(
    subject={
        **PICKLE.subject,
        "files": 43,
        "verdicts": [
            *_VERDICTS[:3],
            *(verdict(f"good-{n}.pt", "safe", "loads with weights_only=True") for n in range(40)),
        ],
    }
)
OBJECT = Report(
    "pickle",
    subject={
        "object": {
            "name": "trainer", "mode": "pickle", "ok": False, "complete": True, "objects": 6, "confirmation": None,
            "offenders": [], "warnings": [],
        },
        "line": ["trainer for pickle", "6 objects"],
        "closing": ["def __getstate__(self):", "    return {**self.__dict__, 'lock': None}", ""],
    },
    findings=(
        rules.DC601.found(
            "trainer.lock (_thread.lock) can't be pickled: a lock belongs to the threads of this process",
            where=Where(object="trainer.lock"),
            fix=Fix("leave lock out in __getstate__", where="code"),
            evidence={"type": "_thread.lock", "error": "TypeError: cannot pickle '_thread.lock' object"},
        ),
    ),
)  # fmt: skip
MERGED = Report(
    "env",
    stage="rank",
    subject={
        "host": "gpu[01-38]",
        "merged_hosts": 38,
        "silent": "gpu[39-40]",
        "exclude": "gpu[17,39-40]",
        "line": ["38 of 40 hosts", "torchrun 40 nodes × 8 processes"],
        "closing": ["sent nothing within 30 s: gpu[39-40]", "to run without them: --exclude=gpu[17,39-40]"],
    },
    findings=(
        rules.DC414.found(
            "mlx5_2:1 is DOWN, although 37 of 38 like it are ACTIVE",
            where=Where(host="gpu17", object="mlx5_2:1"),
            fix=Fix("have the port looked at", by="admin", where="host"),
            evidence={"hosts": 1},
        ),
        rules.DC115.found(
            "OMP_NUM_THREADS is not set",
            where=Where(host="gpu[01-38]", variable="OMP_NUM_THREADS"),
            fix=Fix("set it", where="job-script"),
        ),
    ),
    not_checked=(NotChecked("gpu[39-40]", "sent nothing within 30 s"), NotChecked("DC335", "no torch (on gpu[01-38])")),
)


def many(number: int) -> Report:
    """A repository with as many findings."""
    findings: list[Finding] = []
    for place in range(number):
        kind = LINT.findings[place % 2]
        findings.append(kind._replace(where=kind.where._replace(path=f"part{place}.py")))
    return LINT._replace(findings=tuple(findings))


#: name → report
REPORTS: dict[str, Report] = {
    "env": ENV,
    "lint": LINT,
    "log": LOG,
    "log-undecided": UNDECIDED,
    "log-clean": CLEAN_LOG,
    "pickle": PICKLE,
    "pickle-many": MANY_FILES,
    "pickle-object": OBJECT,
    "merged": MERGED,
    "lint-many": many(14),
}
