"""Pickling, spawning and checkpoints, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

# fmt: off
ROWS: tuple[Signature, ...] = (
    # writing
    *spellings("unpicklable", Kind.CAUSE, ("DC601", "DC602", "DC605"),
        (r"(?:cannot|can't) pickle '?(?P<type>[\w.\-]{2,120})'? object",
         "TypeError: cannot pickle 'torch._C._distributed_c10d.ProcessGroup' object",
         "TypeError: cannot pickle '_thread.lock' object",
         "TypeError: can't pickle generator objects",
         "TypeError: cannot pickle 'torch._C._distributed_c10d.ProcessGroup' object when serializing dict item "
         "'group'")),
    *spellings("unpicklable", Kind.CAUSE, ("DC601", "DC605"),
        (r"Can't (?:pickle|get) local object (?:'(?P<object>[^']{1,200})'|<function (?P<function>[^ ]{1,200}) at)",
         "AttributeError: Can't pickle local object 'main.<locals>.worker'",
         "AttributeError: Can't get local object 'make_loader.<locals>.collate'",
         "_pickle.PicklingError: Can't pickle local object <function main.<locals>.worker at 0x7f22a8b0c940>"),
        (r"Can't pickle (?P<object><.{1,200}?>): (?:attribute lookup|it's not|import of module)",
         "_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f22a8b0c940>: attribute lookup <lambda> on "
         "__main__ failed",
         "_pickle.PicklingError: Can't pickle <class 'config.Options'>: it's not the same object as config.Options"),
        (r"(?P<object>ctypes objects) containing pointers cannot be pickled",
         "ValueError: ctypes objects containing pointers cannot be pickled")),
    *spellings("unpicklable", Kind.CAUSE, ("DC605",),
        (r"(?P<object>\w{0,60}[Ll]ock) objects should only be shared between processes through inheritance",
         "RuntimeError: Lock objects should only be shared between processes through inheritance"),
        (r"A (?P<object>SemLock) created in a \w+ context is being shared with a process in a \w+ context",
         "RuntimeError: A SemLock created in a fork context is being shared with a process in a spawn context. This "
         "is not supported. Please use the same context to create multiprocessing objects and Process.")),
    *spellings("unpicklable-group", Kind.CAUSE, ("DC602",),
        (r"DDP Pickling/Unpickling are only supported when using DDP with the default process group",
         "RuntimeError: DDP Pickling/Unpickling are only supported when using DDP with the default process group. "
         "That is, when you have called init_process_group and have not passed process_group argument to DDP "
         "constructor")),
    # a frame that stands alone, since the log begins in the middle of a traceback
    *spellings("spawn-frame", Kind.RECORD, (),
        (r"multiprocessing[/\\]popen_(?P<method>spawn|forkserver)",
         '  File "/usr/lib/python3.8/multiprocessing/popen_spawn_posix.py", line 47, in _launch')),
    *spellings("spawned-child-lost-it", Kind.FAILURE, ("DC605",),
        (r"Can't get attribute '(?P<object>[^']{1,120})' on <module '__mp_main__'",
         "AttributeError: Can't get attribute 'collate' on <module '__mp_main__' from '/workspace/train.py'>")),
    # reading
    *spellings("weights-only", Kind.CAUSE, ("DC611",),
        (r"Weights only load failed",
         "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two "
         "options, do those steps only if you trust the source of the checkpoint.")),
    *spellings("weights-only-global", Kind.CAUSE, ("DC611",),
        (r"Unsupported (?:global: GLOBAL|class) (?P<global>[\w.]{1,200})",
         "WeightsUnpickler error: Unsupported global: GLOBAL argparse.Namespace was not an allowed global by "
         "default. Please use `torch.serialization.add_safe_globals([argparse.Namespace])` or the "
         "`torch.serialization.safe_globals([argparse.Namespace])` context manager to allowlist this global if you "
         "trust this class/function.")),
    *spellings("weights-only-global", Kind.CAUSE, ("DC611", "DC610"),
        (r"Trying to load unsupported GLOBAL (?P<global>[\w.]{1,200})",
         "WeightsUnpickler error: Trying to load unsupported GLOBAL posix.system whose module posix is blocked.")),
    *spellings("weights-only-operand", Kind.CAUSE, ("DC611", "DC612"),
        (r"WeightsUnpickler error: (?:\w+: )?Unsupported operand (?P<operand>\d+)",
         "Please file an issue with the following so that we can make `weights_only=True` compatible with your use "
         "case: WeightsUnpickler error: Unsupported operand 149")),
    *spellings("broken-file", Kind.CAUSE, ("DC612", "DC720"),
        (r"PytorchStreamReader failed (?:reading|locating) (?P<what>[\w ./-]{1,120}): (?P<why>[\w' -]{4,120})",
         "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
         "RuntimeError: PytorchStreamReader failed reading zip archive: invalid header or archive is corrupted",
         "RuntimeError: PytorchStreamReader failed reading file data/117: file read failed",
         "RuntimeError: PytorchStreamReader failed locating file data.pkl: file not found"),
        (r"unexpected EOF, expected (?P<bytes>\d+) more bytes\. The file might be corrupted",
         "RuntimeError: unexpected EOF, expected 7413905 more bytes. The file might be corrupted."),
        (r"storage has wrong (?:byte )?size: expected (?P<expected>-?\d+) got (?P<got>-?\d+)",
         "RuntimeError: storage has wrong byte size: expected 4096 got 2304"),
        (r"Invalid magic number; corrupt file\?", "RuntimeError: Invalid magic number; corrupt file?")),
    *spellings("broken-file", Kind.CAUSE, ("DC612",),
        (r"BadZipFile: (?P<why>File is not a zip file|Bad magic number for \w[\w ]{1,40}|Truncated file header|"
         r"Bad CRC-32[^\n]{0,80})",
         "zipfile.BadZipFile: File is not a zip file",
         "zipfile.BadZipFile: Bad CRC-32 for file 'weights.npy'")),
    *spellings("broken-file", Kind.CAUSE, ("DC612", "DC720"),
        (r"SafetensorError: (?:Error while deserializing header: )?(?P<why>[\w: ]{4,80})",
         "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
         "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer")),
    *spellings("broken-file", Kind.CAUSE, ("DC612",),
        (r"Unable to load weights from pytorch checkpoint file for '(?P<model>[^']{1,300})' at '(?P<file>[^']{1,300})'",
         "OSError: Unable to load weights from pytorch checkpoint file for '/models/base/pytorch_model.bin' at "
         "'/models/base/pytorch_model.bin'. If you tried to load a PyTorch model from a TF 2.0 checkpoint, please "
         "set from_tf=True.")),
    *spellings("git-lfs-pointer", Kind.CAUSE, ("DC612",),
        (r"You seem to have cloned a repository without having git-lfs installed",
         "OSError: You seem to have cloned a repository without having git-lfs installed. Please install git-lfs "
         "and run `git lfs install` followed by `git lfs pull` in the folder you cloned.")),
    *spellings("broken-pickle", Kind.FAILURE, ("DC612", "DC720"),
        (r"UnpicklingError: (?P<why>invalid load key, (?P<key>'[^']{1,8}')|pickle data was truncated|"
         r"unexpected end of data)",
         "_pickle.UnpicklingError: invalid load key, 'v'.",
         "_pickle.UnpicklingError: pickle data was truncated")),
    *spellings("broken-pickle", Kind.FAILURE, ("DC612", "DC605"),
        (r"EOFError: (?P<why>Ran out of input)", "EOFError: Ran out of input")),
    # states
    *spellings("state-mismatch", Kind.FAILURE, ("DC614",),
        (r"Error\(s\) in loading state_dict for (?P<model>\w{1,120})",
         "RuntimeError: Error(s) in loading state_dict for Net:")),
    *spellings("state-keys", Kind.NOTICE, ("DC614",),
        (r"(?P<which>Missing|Unexpected) key\(s\) in state_dict: \"(?P<key>[^\"]{1,200})\"",
         'Missing key(s) in state_dict: "conv1.weight", "conv1.bias", "fc.weight". ',
         'Unexpected key(s) in state_dict: "module.conv1.weight", "module.conv1.bias". ')),
    #: torch 0.3 stopped at the first one
    *spellings("state-key-refused", Kind.FAILURE, ("DC614",),
        (r"KeyError: 'unexpected key \"(?P<key>[^\"]{1,200})\" in state_dict'",
         "KeyError: 'unexpected key \"module.conv1.weight\" in state_dict'")),
    #: a partition of DeepSpeed's ZeRO stage 3 where the whole tensor is expected
    *spellings("state-partition", Kind.CAUSE, (),
        (r"copying a param with shape torch\.Size\(\[0\]\) from checkpoint",
         "size mismatch for fc.weight: copying a param with shape torch.Size([0]) from checkpoint, the shape in "
         "current model is torch.Size([512, 3584]).")),
    *spellings("state-into-partition", Kind.CAUSE, (),
        (r"from checkpoint, the shape in current model is torch\.Size\(\[0\]\)",
         "size mismatch for fc.weight: copying a param with shape torch.Size([250112, 512]) from checkpoint, the "
         "shape in current model is torch.Size([0]).")),
    *spellings("state-shapes", Kind.RECORD, (),
        (r"size mismatch for \S{1,200}: copying a param with shape torch\.Size\(",
         "size mismatch for fc.weight: copying a param with shape torch.Size([1, 256]) from checkpoint, the shape in "
         "current model is torch.Size([78, 256]).")),
    *spellings("checkpoint-of-ranks", Kind.FAILURE, (),
        (r"CheckpointException ranks:(?:dict_keys\(\[(?P<ranks>\d[\d, ]{0,200})\])?",
         "CheckpointException: CheckpointException ranks:dict_keys([0, 1, 2, 3])")),
    # devices of checkpoints
    *spellings("checkpoint-device", Kind.CAUSE, ("DC723",),
        (r"Attempting to deserialize object on a? ?CUDA device (?P<device>\d+) but torch\.cuda\.device_count\(\) is "
         r"(?P<count>\d+)",
         "RuntimeError: Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 4. "
         "Please use torch.load with map_location to map your storages to an existing device."),
        (r"Attempting to deserialize object on a CUDA device but torch\.cuda\.is_available\(\) is False",
         "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
         "If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to "
         "map your storages to the CPU.")),
    # saving
    *spellings("saving", Kind.RECORD, (),
        (r"(?i)\bsav(?:ing|ed) .{0,40}(?:checkpoint|model|weights|state).{0,40}?"
         r"(?P<file>[\w./-]{1,200}\.(?:pth?|ckpt|bin|safetensors))",
         "[rank1]: saving checkpoint to /workspace/ckpt/last.pt",
         "Saved model state to out/step_800.ckpt")),
    # a folder or a file of another rank
    *spellings("folder-exists", Kind.NOTICE, ("DC722",),
        (r"FileExistsError: \[Errno 17\] File exists: '(?P<file>[^']{1,300})'",
         "FileExistsError: [Errno 17] File exists: '/workspace/runs/exp1'")),
    #: a file may be missing for any reason: only another rank's words lead to DC724
    *spellings("file-missing", Kind.NOTICE, (),
        (r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<file>[^']{1,300})'",
         "FileNotFoundError: [Errno 2] No such file or directory: '/workspace/data/index.pt'")),
    *spellings("file-missing", Kind.NOTICE, ("DC724",),
        (r"RuntimeError: Parent directory (?P<folder>\S{1,300}) does not exist",
         "RuntimeError: Parent directory /workspace/ckpt/d20 does not exist.")),
    *spellings("rename-lost", Kind.FAILURE, ("DC720",),
        (r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<file>[^']{1,300})' -> '(?P<to>[^']{1,300})'",
         "FileNotFoundError: [Errno 2] No such file or directory: '/workspace/ckpt/last.pt.tmp' -> "
         "'/workspace/ckpt/last.pt'")),
)
# fmt: on
