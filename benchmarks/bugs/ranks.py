"""Runs one program as several gloo ranks on this machine, and observes how they end.

Ranks are forked from a Python that has imported torch, so that a program takes a second and not ten. Each rank gets the
variables of torchrun, its own process group and its own files for what it prints. A further process serves the store,
as torchrun's agent does. As under torchrun, one rank that fails ends all of them. Nothing here knows distcheck.

As a script it is the program's stand-in under the real torchrun: ``torchrun … ranks.py RECORDS DEBUG PROGRAM``.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
import types
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

#: Seconds in which no rank used the processor, after which ranks that have not ended hang. The second is longer than
#: the time-out below.
IDLE_S, IDLE_WITH_DEBUG_S = 5.0, 15.0
#: Seconds that the others have after a rank failed, as with torchrun.
GRACE_S = 1.0
#: Seconds of a time-out that a user sets with TORCH_DISTRIBUTED_DEBUG=DETAIL.
DEBUG_TIMEOUT_S = 6
#: Set in each program's environment.
COMMON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}


class Outcome(NamedTuple):
    """How the ranks ended: ``kind`` is "end", "crash" or "hang". The status of a rank that was ended here is None."""

    kind: str
    statuses: tuple[int | None, ...]
    outputs: tuple[str, ...]
    records: tuple[dict[str, Any], ...]
    seconds: float


# what is observed in a rank


def _digest(tensor: Any) -> str:
    import torch

    local = getattr(tensor, "_local_tensor", tensor).detach().cpu().contiguous()
    return hashlib.sha1(bytes(local.view(-1).view(torch.uint8).tolist()) if local.numel() else b"").hexdigest()[:16]


def observe(path: Path) -> None:
    """Record the parameters before the first and after the last optimizer step, and the samples of forward passes."""
    import torch
    from torch.nn.modules import module as modules
    from torch.optim import optimizer as optimizers

    record: dict[str, Any] = {"first": None, "last": None, "steps": 0, "inputs": []}
    depth = [0]

    def parameters(optimizer: Any) -> list[str]:
        return [_digest(each) for group in optimizer.param_groups for each in group["params"]]

    def before_step(optimizer: Any, *_: object) -> None:
        if record["first"] is None:
            record["first"] = parameters(optimizer)

    def after_step(optimizer: Any, *_: object) -> None:
        record["last"] = parameters(optimizer)
        record["steps"] += 1

    def before_forward(_: object, inputs: tuple[Any, ...]) -> None:
        depth[0] += 1
        if (
            depth[0] == 1
            and inputs
            and isinstance(inputs[0], torch.Tensor)
            and inputs[0].dim()
            and len(record["inputs"]) < 99
        ):
            record["inputs"].append([_digest(row) for row in inputs[0]])

    def after_forward(*_: object) -> None:
        depth[0] -= 1

    optimizers.register_optimizer_step_pre_hook(before_step)
    optimizers.register_optimizer_step_post_hook(after_step)
    modules.register_module_forward_pre_hook(before_forward)
    modules.register_module_forward_hook(after_forward, always_call=True)
    writer = os.getpid()

    def write() -> None:
        if os.getpid() == writer:
            # whole or not at all: another rank's failure ends this one at any point
            path.with_suffix(".new").write_text(json.dumps(record))
            path.with_suffix(".new").replace(path)

    atexit.register(write)


def debug() -> None:
    """What a user does who searches a hang: TORCH_DISTRIBUTED_DEBUG=DETAIL, and a short time-out."""
    import torch.distributed as dist

    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    make = dist.init_process_group

    def make_with_timeout(*args: Any, **options: Any) -> Any:
        options["timeout"] = timedelta(seconds=DEBUG_TIMEOUT_S)
        return make(*args, **options)

    dist.init_process_group = make_with_timeout
    dist.distributed_c10d.init_process_group = make_with_timeout


def become(program: Path, records: Path, with_debug: bool) -> int:
    """Run the program as this process's script; give its exit status."""
    observe(records / f"rank{os.environ['RANK']}.json")
    if with_debug:
        debug()
    sys.argv = [str(program)]
    sys.path[0] = str(program.parent)
    # as the main module, so that pickle and processes that the program spawns find what it defines
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = str(program)
    try:
        exec(compile(program.read_bytes(), str(program), "exec"), main.__dict__)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


# ranks that are forked


def _rank(program: Path, folder: Path, environment: dict[str, str], with_debug: bool) -> None:
    """A forked rank; does not return."""
    status = 70
    try:
        os.setsid()
        os.environ.update(environment)
        os.chdir(folder / "cwd")
        output = os.open(folder / f"output{environment['RANK']}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        status = become(program, folder, with_debug)
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(status)


def _serve_store(port_to: int) -> None:
    """A forked process that serves the store, as the agent of torchrun does; does not return."""
    try:
        import torch.distributed as dist

        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(port_to, f"{store.port}\n".encode())
        os.close(port_to)
        while True:
            signal.pause()
    finally:
        os._exit(1)


class Job:
    """The ranks of one program, from fork to end; ``poll`` until it gives an outcome, and ``close`` in any case."""

    def __init__(
        self, program: Path, world: int, folder: Path, limit_s: float, *, alone: bool, with_debug: bool
    ) -> None:
        self.folder, self.world, self._begin, self._limit_s = folder, world, time.monotonic(), limit_s
        (folder / "cwd").mkdir(parents=True)
        self.statuses: list[int | None] = [None] * world
        self._failed_at: float | None = None
        self._used, self._used_at = -1.0, self._begin
        self._idle_s = IDLE_WITH_DEBUG_S if with_debug else IDLE_S
        self._store, port = self._start_store()
        self._pids: list[int] = []
        sys.stdout.flush()
        sys.stderr.flush()
        for rank in range(world):
            environment = COMMON | {"RANK": str(rank)}
            if not alone:
                environment |= {
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(world),
                    "LOCAL_WORLD_SIZE": str(world),
                    "GROUP_RANK": "0",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "TORCHELASTIC_USE_AGENT_STORE": "True",
                    "TORCHELASTIC_RUN_ID": "none",
                }
            pid = os.fork()
            if not pid:
                _rank(program, folder, environment, with_debug)
            self._pids.append(pid)

    @staticmethod
    def _start_store() -> tuple[int, int]:
        port_from, port_to = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(port_from)
            _serve_store(port_to)
        os.close(port_to)
        with os.fdopen(port_from) as answer:
            return pid, int(answer.readline())

    def poll(self) -> Outcome | None:
        """Give how the ranks ended, or None while they go on."""
        now = time.monotonic()
        for rank, pid in enumerate(self._pids):
            if self.statuses[rank] is None and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self.statuses[rank] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if self._failed_at is None and any(self.statuses):
            self._failed_at = now
        if all(status is not None for status in self.statuses):
            return self._outcome("crash" if any(self.statuses) else "end")
        if self._failed_at is not None and now - self._failed_at > GRACE_S:
            return self._outcome("crash")
        used, ready = self._processor()
        if ready or used - self._used > 0.1:
            self._used, self._used_at = used, now
        if self._failed_at is None and (now - self._used_at > self._idle_s or now - self._begin > self._limit_s):
            return self._outcome("hang")
        return None

    def _processor(self) -> tuple[float, bool]:
        """Seconds of the processor of all processes of the ranks, and whether one waits for the processor."""
        total, ready = 0.0, False
        sessions = {pid for pid, status in zip(self._pids, self.statuses, strict=True) if status is None}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if int(fields[3]) in sessions:
                    total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                    ready |= fields[0] in ("R", "D")
        return total, ready

    def _outcome(self, kind: str) -> Outcome:
        self.close()
        return Outcome(kind, tuple(self.statuses), *read(self.folder, self.world), time.monotonic() - self._begin)

    def close(self) -> None:
        """End all processes of this job, workers of loaders included."""
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        if self._store:
            os.kill(self._store, signal.SIGKILL)
            os.waitpid(self._store, 0)
        self._store = 0


def read(folder: Path, world: int) -> tuple[tuple[str, ...], tuple[dict[str, Any], ...]]:
    """What each rank printed, and recorded."""
    outputs, records = [], []
    for rank in range(world):
        output, record = folder / f"output{rank}", folder / f"rank{rank}.json"
        outputs.append(output.read_text(errors="replace") if output.exists() else "")
        records.append(json.loads(record.read_text()) if record.exists() else {})
    return tuple(outputs), tuple(records)


# what is true of a program that does what it is meant to


def violated(check: dict[str, Any], outcome: Outcome) -> str:
    """Why an invariant of the program does not hold; empty if it does."""
    name, records = check["check"], outcome.records
    if name == "output":
        return _wrong_output(check, outcome.outputs)
    if not all(records):
        return "a rank recorded nothing"
    if name == "replicas":
        if not all(record["last"] for record in records):
            return "a rank made no step"
        if len({json.dumps(record["last"]) for record in records}) > 1:
            return "parameters differ between ranks after the last step"
        return ""
    if name == "trained":
        same = [rank for rank, record in enumerate(records) if record["first"] == record["last"]]
        return f"parameters never change on ranks {same}" if same else ""
    samples = [[row for batch in record["inputs"] for row in batch] for record in records]
    if not all(samples):
        return "a rank read no samples"
    if name == "distinct":
        first = set(samples[0])
        common = [rank for rank in range(1, len(samples)) if first & set(samples[rank])]
        return f"ranks {[0, *common]} train on the same samples" if common else ""
    if name == "order":
        halves = [(rows[: len(rows) // 2], rows[len(rows) // 2 :]) for rows in samples]
        return "both epochs have the same order" if all(one == other for one, other in halves) else ""
    raise ValueError(f"no such check: {name}")


def _wrong_output(check: dict[str, Any], outputs: tuple[str, ...]) -> str:
    """``pattern`` has one group; each rank that prints it must print what is ``right`` (numbers within 1e-4)."""
    found = [(rank, text) for rank, output in enumerate(outputs) for text in re.findall(check["pattern"], output)]
    if not found:
        return f"no rank prints {check['pattern']!r}"
    for rank, text in found:
        if not _equal(text, check["right"]):
            return f"rank {rank} prints {text}, right is {check['right']}"
    return ""


def _equal(text: str, right: str) -> bool:
    try:
        return abs(float(text) - float(right)) <= 1e-4 * max(1.0, abs(float(right)))
    except ValueError:
        return text == right


if __name__ == "__main__":
    raise SystemExit(become(Path(sys.argv[3]), Path(sys.argv[1]), sys.argv[2] == "debug"))
