"""Reports as each command makes them, small and complete: what the golden files of the formats for programs show.

All of it is invented, save for what the rules are called.
"""

from __future__ import annotations

from distcheck import rules
from distcheck.core.model import Edit, Finding, Fix, NotChecked, ProbeRun, Report, Severity, Where, to_plain
from distcheck.runtime.smoke_test.model import Bandwidth, Comparison, Correctness, Measurements, SmokeTest, Times

#: The script that the findings of LINT are about; letters of two bytes stand before what is fixed.
TRAIN = """\
import os
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
print("größe"); first = os.environ["RANK"] == 0
if rank == 0:
    dist.barrier()
    torch.save(model, "model.pt")
torch.save(model, "model.pt")
torch.save(model, "other.pt")
"""


def saved_by_all(line: int, name: str) -> Finding:
    return rules.DC720.found(
        f'every rank writes "{name}" here',
        where=Where("train.py", line, 1, line, 30, object="<module>"),
        evidence={"source": f'torch.save(model, "{name}")'},
        fix=Fix("let one rank write: `if rank == 0:`", where="code"),
    )


LINT = Report(
    "lint",
    subject={"files": 3, "python": "3.11.7", "line": ["3 files, 1 of them a launch file"]},
    findings=(
        rules.DC209.found(
            "os.environ[\"RANK\"] is compared with the number 0: '==' is always false",
            where=Where("train.py", 7, 25, 7, 48, object="<module>"),
            evidence={"source": 'print("größe"); first = os.environ["RANK"] == 0', "variable": "RANK"},
            fix=Fix(
                'convert it: int(os.environ["RANK"]) == 0',
                edits=(Edit("train.py", 7, 25, 7, 43, 'int(os.environ["RANK"])'),),
                safe=True,
                where="code",
            ),
        ),
        rules.DC201.found(
            "torch.cuda.set_device(rank) takes the global rank for the index of a GPU",
            where=Where("train.py", 6, 1, 6, 28, object="<module>"),
            evidence={
                "source": "torch.cuda.set_device(rank)",
                "flow": ["train.py:5: the global rank, from RANK", "it is not changed on the way"],
            },
            fix=Fix('use the local rank: `int(os.environ["LOCAL_RANK"])`', where="code"),
        ),
        # two with the same key
        saved_by_all(11, "model.pt"),
        saved_by_all(12, "other.pt"),
        rules.DC804.found(
            "torchrun expects 4 nodes (--nnodes), but srun starts it on 2 nodes",
            severity=Severity.ERROR,
            where=Where("job scripts/train.sbatch", 5, 24, 5, 32, object="srun"),
            evidence={"source": "srun torchrun --nnodes 4 train.py", "nodes": 2},
            fix=Fix(
                "let Slurm say it: --nnodes=$SLURM_NNODES",
                edits=(Edit("job scripts/train.sbatch", 5, 24, 5, 32, "--nnodes=$SLURM_NNODES"),),
                where="job-script",
                risk="the number may have been meant, and what was asked for be wrong",
            ),
        ),
        rules.DC201.found(
            "torch.cuda.set_device(rank) takes the global rank for the index of a GPU",
            where=Where("explore.ipynb", 3, 1, 3, 28, cell=4),
            evidence={"source": "torch.cuda.set_device(rank)", "flow": ["explore.ipynb:2: the global rank"]},
            fix=Fix("use the local rank", where="code"),
        ),
        rules.DC208.found(
            "RANK is read where no launcher sets it",
            where=Where("train.py", 5, 1, 5, 31),
            evidence={"source": 'rank = int(os.environ["RANK"])'},
            fix=Fix("start it with torchrun", command="torchrun train.py", where="launch-line"),
        ),
    ),
    elapsed_s=0.42,
    checked=frozenset({"DC201", "DC209", "DC720", "DC804", "DC702"}),
)  # fmt: skip

ENV = Report(
    "env",
    stage="planned",
    subject={"host": "node1", "launcher": "torchrun", "line": ["torchrun 8 processes", "node1", "8 × NVIDIA H100"]},
    findings=(
        rules.DC401.found(
            "port 29500 is held by python train.py (pid 4711, alice, since 12:00)",
            where=Where(variable="MASTER_PORT"),
            evidence={"port": 29500, "pid": 4711, "nothing": None},
            fix=Fix(
                "take another port", command="torchrun --master-port=29501 train.py", where="launch-line",
                risk="all nodes need the same",
            ),
        ),
        rules.DC309.found(
            "GPU 3 counts 2 uncorrectable errors of its memory",
            where=Where(gpu="3", local_rank=3),
            evidence={"uncorrectable": 2, "pages": [{"cause": "double bit", "count": 2}]},
            fix=Fix("drain the node, and let its memory be remapped by a reset", by="admin", where="host"),
        ),
        rules.DC901.found(
            "the probe gpus.link_width raised ZeroDivisionError: division by zero",
            where=Where(object="host.gpus.link_width"),
            fix=Fix("report it with --save-facts facts.json --redact", where="this-shell"),
        ),
        rules.DC116.found(
            "/etc/nccl.conf sets NCCL_SOCKET_IFNAME",
            where=Where("/etc/nccl.conf", 2, variable="NCCL_SOCKET_IFNAME"),
            evidence={"value": "bond0"},
            fix=Fix("nothing, if it is meant", by="site", where="host"),
        ),
    ),
    not_checked=(
        NotChecked("DC301, DC302", "NVML <did> not answer & was left"),
        NotChecked("local rank 2", "it handed nothing in"),
    ),
    probes=(
        ProbeRun("host.ports.master_port_is_free", "ran", 0.001),
        ProbeRun(
            "host.gpus.link_width", "failed", 0.002,
            "Traceback (most recent call last):\n  …\nZeroDivisionError: division by zero\n",
        ),
    ),
    elapsed_s=0.08,
    checked=frozenset({"DC302", "DC401", "DC320", "DC901"}),
)  # fmt: skip

_EVENT = {"path": "logs/train.log", "rank": 2, "time": None, "repeated": 0}
LOG = Report(
    "log",
    subject={"line": ["logs/train.log", "39 lines", "8 ranks"], "files": 1},
    findings=(
        rules.DC312.found(
            "CUDA can't start on this machine with NVSwitch: its fabric manager is not ready (802)",
            where=Where("logs/train.log", 15, rank=2, host="gpu07"),
            evidence={"role": "cause", "text": "Cuda failure 802 'system not yet initialized'", "lines": 1},
            fix=Fix("have an administrator start the fabric manager", by="admin", where="host"),
        ),
        rules.DC512.found(
            "NCCL failed on rank 2 with ncclUnhandledCudaError",
            severity=Severity.INFO,
            where=Where("logs/train.log", 12, rank=2),
            evidence={"role": "failure", "explained_by": "DC312"},
            fix=Fix("one run with NCCL_DEBUG=WARN", where="launch-line"),
        ),
    ),
    elapsed_s=0.11,
    checked=frozenset({"DC312", "DC401", "DC512"}),
    story={
        "outcome": "cause",
        "sources": [{"path": "logs/train.log", "lines": 39, "bytes": 2213, "problem": None, "notes": []}],
        "attempts": 1,
        "world_size": 8,
        "hosts": ["gpu07"],
        "ranks_seen": "2",
        "silent_ranks": "",
        "dropped_events": 0,
        "first": {
            **_EVENT, "line": 15, "kind": "cause", "signature": "fabric-manager", "host": "gpu07",
            "text": "Cuda failure 802 'system not yet initialized'",
        },
        "guilty": {"rank": 2},
        "place": "/workspace/train.py:61 in main",
        "code": "DC312",
        "name": "fabric-manager-down",
        "why": "CUDA can't start on this machine with NVSwitch: its fabric manager is not ready (802)",
        "fix": Fix("have an administrator start the fabric manager", by="admin", where="host").as_dict(),
        "led_to": ["the launcher ended the job: 1 failed, exit code 1"],
        "evidence": [
            {
                **_EVENT, "line": 12, "kind": "record", "signature": "nccl-info",
                "text": "NCCL error: unhandled cuda error",
            },
            {
                **_EVENT, "line": 15, "kind": "cause", "signature": "fabric-manager",
                "text": "Cuda failure 802 'system not yet initialized'",
            },
        ],
    },
)  # fmt: skip

_STORY = dict(LOG.story)
UNDECIDED = LOG._replace(
    findings=(),
    not_checked=(NotChecked("the cause", "a failure is in this text, and no rule names it"),),
    story={
        **_STORY,
        "outcome": "unnamed",
        "code": None,
        "name": None,
        "why": "no rule of distcheck names this failure",
        "first": {**_STORY["first"], "text": "ZeroDivisionError: division by zero"},
    },
)

PICKLE = Report(
    "pickle",
    subject={
        "files": 2, "torch": "2.13", "line": ["2 files", "as torch 2.13 has it"],
        "verdict_counts": {"safe": 0, "dangerous": 1, "malformed": 1},
    },
    findings=(
        rules.DC610.found(
            "loading it calls posix.system('echo hi'): it runs a shell command",
            where=Where("models/evil.pt", object="archive/data.pkl", offset=35),
            evidence={"call": "posix.system('echo hi')"},
            fix=Fix("do not load this file", where="code"),
        ),
        rules.DC612.found(
            "it ends in the middle of an opcode",
            where=Where("models/cut.pkl", offset=4_294_967_296),
            fix=Fix("download it again", where="code"),
        ),
    ),
    not_checked=(NotChecked("models/cut.pkl", "what stands behind byte 4294967296 was not looked at"),),
    elapsed_s=0.01,
    checked=frozenset({"DC610", "DC611", "DC612"}),
)  # fmt: skip

OBJECT = Report(
    "pickle",
    subject={"object": {"name": "trainer"}, "line": ["trainer for pickle", "3 objects"]},
    findings=(
        rules.DC601.found(
            "trainer.lock (_thread.lock) can't be pickled: a lock belongs to the threads of this process",
            where=Where(object="trainer.lock"),
            fix=Fix("leave lock out in __getstate__", where="code"),
        ),
    ),
    checked=frozenset({"DC601"}),
)

MERGED = Report(
    "env",
    stage="planned",
    subject={
        "host": "gpu[01-40]", "merged_hosts": 39, "silent": "gpu17", "exclude": "gpu[07,17]",
        "line": ["torchrun 320 processes", "40 hosts"],
        "closing": ["leave out: --exclude=gpu[07,17]"],
    },
    findings=(
        rules.DC503.found(
            "NCCL is 2.27.3 on gpu[01-38], and 2.21.5 on gpu39",
            where=Where(host="gpu39"),
            evidence={"versions": {"2.27.3": "gpu[01-38]", "2.21.5": "gpu39"}},
            fix=Fix("use one image on all hosts", where="job-script"),
        ),
        rules.DC320.found(
            "/dev/shm holds 64 MiB",
            severity=Severity.WARNING,
            where=Where(host="gpu[07,31]", ranks="48-55,240-247", object="/dev/shm"),
            fix=Fix("start the containers with --shm-size=16g", where="launch-line"),
        ),
    ),
    not_checked=(NotChecked("gpu17", "it sent nothing within 30 s"),),
    elapsed_s=31.2,
    checked=frozenset({"DC320", "DC503", "DC506"}),
)  # fmt: skip

_BANDWIDTH = tuple(
    Bandwidth(
        "all_reduce", "float32", size, 8, Times(median, median, median * 1.1, median), size / median / 1e9,
        busbw, (median,), 20,
    )
    for size, median, busbw in ((1024, 2.8e-5, None), (1_073_741_824, 3.93e-3, 478.0))
)  # fmt: skip
COLLECTIVE = Report(
    "collective",
    stage="rank",
    subject={"host": "node1", "line": ["8 ranks on 1 host", "node1", "8 × SYNTHETIC H200"]},
    findings=(
        rules.DC515.found(
            "ranks 2 ↔ 5 reach 12.3 GB/s, the others 150 GB/s",
            where=Where(host="node1", rank=2, peer="rank 5", phase="stragglers"),
            fix=Fix("look at the link", command="nvidia-smi nvlink -s -i 2 | grep -v OK", where="host", by="admin"),
        ),
    ),
    not_checked=(NotChecked("DC413, DC414", "no InfiniBand port here"),),
    elapsed_s=10.31,
    checked=frozenset({"DC510", "DC513", "DC515"}),
    measurements=to_plain(
        SmokeTest(
            1, 8, ("node1",), "nccl", "cuda", {"verify": 2.31, "measure": 6.02},
            Correctness(8, 8, 1248, elapsed_s=2.3, collectives=("all_reduce",), dtypes=("float32", "bfloat16")),
            Measurements(8, "nccl", "cuda", "SYNTHETIC H200", 1, 1.92, 0.4, _BANDWIDTH, (), "cuda-events", 6.0),
            None, None, None,
            (Comparison("all_reduce", 1_073_741_824, 478.0, 482.0, 478 / 482, "shipped", "SYNTHETIC, 2026-01-01"),),
            "8 ranks on 1 host: all collectives correct; all_reduce 478 GB/s bus bandwidth at 1 GiB",
        )
    ),
)  # fmt: skip

CLEAN = Report(
    "env", stage="shell", subject={"host": "node1", "line": ["node1"]}, elapsed_s=0.05,
    checked=frozenset({"DC320", "DC401"}),
)  # fmt: skip

#: Where nothing could be looked at, nothing is fine.
BLIND = Report("env", stage="shell", not_checked=(NotChecked("DC320, DC401", "this host is not in the job"),))

SAMPLES = {
    "lint": LINT,
    "env": ENV,
    "log": LOG,
    "undecided": UNDECIDED,
    "pickle": PICKLE,
    "object": OBJECT,
    "merged": MERGED,
    "collective": COLLECTIVE,
    "clean": CLEAN,
    "blind": BLIND,
}
#: One finding of each kind of place, and the command that makes it.
PLACES = {
    "file": ("lint", LINT.findings[0]),
    "cell": ("lint", LINT.findings[5]),
    "member": ("pickle", PICKLE.findings[0]),
    "byte": ("pickle", PICKLE.findings[1]),
    "object": ("pickle", OBJECT.findings[0]),
    "variable": ("env", ENV.findings[0]),
    "GPU": ("env", ENV.findings[1]),
    "outside": ("env", ENV.findings[3]),
    "host": ("env", MERGED.findings[0]),
    "ranks": ("env", MERGED.findings[1]),
    "peer": ("collective", COLLECTIVE.findings[0]),
    "log": ("log", LOG.findings[0]),
}
