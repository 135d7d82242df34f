"""Logs of jobs that went on and ended well in spite of their error lines, next to the same lines of jobs that did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from distcheck.checks.logs.diagnose import diagnose, read_timeline
from distcheck.core.model import Severity

STEPS = "".join(f"step {number} loss {9 - number * 0.3:.2f} 4.1 it/s\n" for number in range(3, 20))
END = "training done\n"
OOM = "rank 3: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
RESTART = (
    "[rank1]:[E1122 07:56:31.182731234 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds "
    "before timing out.\n"
    "E1122 07:56:33.183000 7560 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6) local_rank: "
    "1 (pid: 4711) of binary: /opt/conda/bin/python\n"
    "I1122 07:56:33.183000 7560 torch/distributed/elastic/agent/server/api.py:889] [default] Worker group FAILED. 3/3 "
    "attempts left; will restart worker group\n"
)
IGNORED = (
    "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f0155f30>\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1478, in __del__\n'
    "    self._shutdown_workers()\n"
    "AssertionError: can only test a child process\n"
)
CHAINED = IGNORED + (
    "\nDuring handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1490, in __del__\n'
    "    self._close()\n"
    "RuntimeError: the iterator is closed\n"
)
RAISED = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nKeyError: 3\n'
BROKEN = "Exception ignored in: <_io.TextIOWrapper name='<stdout>'>\nBrokenPipeError: [Errno 32] Broken pipe\n"
CALLED = "subprocess.CalledProcessError: Command 'nvidia-smi' returned non-zero exit status 9.\n"


def is_clean(text: str, folder: Path) -> bool:
    path = folder / "run.log"
    path.write_text(text, "utf-8")
    report = diagnose(read_timeline([str(path)]))
    assert report.story is not None
    return report.story["outcome"] == "clean" and all(item.severity is Severity.INFO for item in report.findings)


@pytest.mark.parametrize(
    "text",
    [
        OOM + STEPS + END,
        RESTART + STEPS + END,
        STEPS + END + IGNORED,
        STEPS + END + CHAINED,
        "[rank0]: " + IGNORED,
        # two ranks at once
        "".join(f"[rank{rank}]: {line}" for line in IGNORED.splitlines(True) for rank in range(2)),
        CALLED + STEPS + END,
    ],
)
def test_a_job_that_went_on(text: str, tmp_path: Path) -> None:
    text = text.replace("\n", "\n[rank0]: ").removesuffix("[rank0]: ") if text.startswith("[rank0]: ") else text
    assert is_clean(text, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        # a step or two come out of a buffer, and a batch script ends whatever happened
        OOM + "step 3 loss 2.0\nstep 4 loss 2.0\n",
        OOM + "step 3 loss 2.0\ndone\n",
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "t.py", line 3, in <module>\n[rank3]: KeyError: 3\n'
        + STEPS
        + END,
        OOM + STEPS + "Job finished at 08:30\n",
        # the next program of a batch script
        OOM + "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-19T08:14:01 ***\n" + STEPS + END,
        RESTART,
        RESTART + "Job finished at 08:30\n",
        # an exception that was raised below an ignored one
        CHAINED + RAISED,
        BROKEN + RAISED,
        "".join("[rank1]: " + line for line in (BROKEN + RAISED).splitlines(True)),
        "".join("[rank1]: " + line for line in (IGNORED + RAISED).splitlines(True)),
        IGNORED + STEPS + IGNORED.partition("\n")[2],
        # the same exception where Python raises it
        STEPS + IGNORED.partition("\n")[2],
        IGNORED
        + '[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 3, in <module>\n[rank1]: KeyError: 3\n',
        STEPS + CALLED,
        # a launcher, and the next program of a batch script
        CALLED.replace("nvidia-smi", "['/opt/conda/bin/python', 'train.py']") + STEPS + END,
    ],
)
def test_a_job_that_did_not(text: str, tmp_path: Path) -> None:
    assert not is_clean(text, tmp_path)
