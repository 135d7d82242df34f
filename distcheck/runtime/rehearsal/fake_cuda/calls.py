"""The rest of what is patched: autocast, processes that the script starts, and what can only be passed over."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from typing import Any

import torch

from distcheck.runtime.coordination.import_hook import when_imported

from .device_marks import TensorDevices
from .limits import note, refuse
from .nvidia_smi import is_answered


def install(devices: TensorDevices) -> None:
    """Patch what is neither driver nor tensor nor group."""
    _autocast()
    _spawning()
    _data_parallel()
    _sharded()
    _attention()
    _extensions()
    sys.addaudithook(_commands)


def _autocast() -> None:
    """The CPU's autocast does the work of the GPU's, with the same type."""
    kind = torch.amp.autocast_mode.autocast
    enter, leave = kind.__enter__, kind.__exit__

    def enter_both(self: Any) -> Any:
        result = enter(self)
        if self.device == "cuda":
            kept = getattr(self, "_distcheck_kept", [])
            kept.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
            self._distcheck_kept = kept
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return result

    def leave_both(self: Any, *error: Any) -> Any:
        if self.device == "cuda" and getattr(self, "_distcheck_kept", None):
            enabled, dtype = self._distcheck_kept.pop()
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return leave(self, *error)

    kind.__enter__, kind.__exit__ = enter_both, leave_both


def _spawning() -> None:
    """Fresh Pythons that ``multiprocessing`` starts believe in the same GPUs, before they import the script."""
    from multiprocessing import spawn

    real = spawn.get_command_line

    def get_command_line(**kwargs: Any) -> list[str]:
        words = real(**kwargs)
        if "-c" in words:
            place = words.index("-c") + 1
            words[place] = (
                f"from distcheck.runtime.rehearsal import fake_cuda; fake_cuda.from_environment(); {words[place]}"
            )
        return list(words)

    spawn.get_command_line = get_command_line


def _data_parallel() -> None:
    kind = torch.nn.DataParallel
    initialise = kind.__init__

    def one_device(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        many = device_ids if device_ids is not None else range(torch.cuda.device_count())
        if len(many) > 1:
            note("torch.nn.DataParallel", "the first device computes the whole batch")
        initialise(self, module, list(many)[:1], output_device, dim)

    kind.__init__ = one_device


def _sharded() -> None:
    """``device_id=0`` becomes a device in torch's compiled part, which has no GPUs to count."""

    def attach(module: Any) -> None:
        kind = module.FullyShardedDataParallel
        initialise = kind.__init__

        @functools.wraps(initialise)
        def on_device(self: Any, *args: Any, **kwargs: Any) -> None:
            if isinstance(kwargs.get("device_id"), int):
                kwargs["device_id"] = torch.device("cuda", kwargs["device_id"])
            initialise(self, *args, **kwargs)

        kind.__init__ = on_device

    when_imported("torch.distributed.fsdp.fully_sharded_data_parallel", attach)


def _attention() -> None:
    """Attention of DTensors: torch knows how the kernels of GPUs are sharded, and not the one of the CPU.

    Batch and heads are independent, so each rank computes its part of them, as the kernels of GPUs do.
    """

    def attach(module: Any) -> None:
        real = torch.nn.functional.scaled_dot_product_attention
        sharded = module.DTensor

        @functools.wraps(real)
        def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
            given = [part for part in (query, key, value, attn_mask) if part is not None]
            if not all(isinstance(part, sharded) for part in given):
                return real(query, key, value, attn_mask, *args, **kwargs)
            placements = [
                first if first.is_shard() and first.dim in (0, 1) and set(others) == {first} else module.Replicate()
                for first, *others in zip(query.placements, key.placements, value.placements, strict=True)
            ]
            local = [_local_part(part, placements, query.shape, module) for part in given]
            result = real(*local[:3], local[3] if attn_mask is not None else None, *args, **kwargs)
            return sharded.from_local(result, query.device_mesh, placements, run_check=False)

        torch.nn.functional.scaled_dot_product_attention = torch._C._nn.scaled_dot_product_attention = attention

    when_imported(f"torch.distributed.{'tensor' if torch.__version__ >= (2, 5) else '_tensor'}", attach)


def _local_part(part: Any, placements: Any, shape: Any, module: Any) -> Any:
    """This rank's part of an operand, which is whole where it is the same for all of a sharded dimension (a mask)."""

    def has(dim: int) -> bool:
        own = dim - len(shape) + part.dim()
        return bool(own >= 0 and part.shape[own] == shape[dim])

    shards = [
        module.Shard(one.dim - len(shape) + part.dim()) if one.is_shard() and has(one.dim) else module.Replicate()
        for one in placements
    ]
    return part.redistribute(part.device_mesh, shards).to_local()


def _extensions() -> None:
    import importlib.util

    if importlib.util.find_spec("torch.utils.cpp_extension") is None:
        return
    from torch.utils import cpp_extension

    def load(*_: Any, **__: Any) -> Any:
        raise refuse("torch.utils.cpp_extension.load", "custom kernels are compiled for a GPU")

    cpp_extension.load = cpp_extension.load_inline = load


def _commands(event: str, arguments: Any) -> None:
    """Programs that query real GPUs."""
    if event == "subprocess.Popen":
        program, words = arguments[0], arguments[1]
        text = shlex.join(map(os.fsdecode, words)) if isinstance(words, (list, tuple)) else os.fsdecode(words)
        if isinstance(words, (list, tuple)) and len(words) == 3 and words[1] == "-c":
            text = os.fsdecode(words[2])  # of a shell
        text = text if "nvidia-smi" in text else os.fsdecode(program or "")
    elif event == "os.system":
        text = os.fsdecode(arguments[0])
    else:
        return
    if "nvidia-smi" in text and not is_answered(text):
        note("nvidia-smi", "a rehearsal does not answer this call")
