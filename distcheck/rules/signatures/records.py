"""What a log tells of the job as it went: sizes, versions, settings, as logs show them."""

from __future__ import annotations

from distcheck.core.signature import Kind, Signature

from ._spellings import spellings

# fmt: off
ROWS: tuple[Signature, ...] = (
    *spellings("world-size", Kind.RECORD, (),
        (r"(?i)\bworld[_ -]?size(?:\)|'|\")?(?: ?[:=] ?| is )(?P<world_size>\d{1,6})\b",
         "[2026-11-22 07:40:01,002] [INFO] distributed environment: rank 3, world size: 8",
         "INFO:root:RANK=0 WORLD_SIZE=16 LOCAL_RANK=0")),
    *spellings("rank-of-world", Kind.RECORD, (),
        (r"(?i)\brank[ :=]{1,2}(?P<rank>\d{1,6})(?:,? ?(?:/|of)| out of) ?(?P<world_size>\d{1,6})\b",
         "Rank 3 of 8 is ready",
         "| distributed init (rank 0/8)"),
        (r"GLOBAL_RANK: (?P<rank>\d+), MEMBER: \d+/(?P<world_size>\d+)",
         "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/4")),
    *spellings("world-size", Kind.RECORD, (),
        (r"All distributed processes registered\. Starting with (?P<world_size>\d+) processes",
         "All distributed processes registered. Starting with 4 processes")),
    # of the process that is listed, not of the writer of the list
    *spellings("process-of-rank", Kind.RECORD, (),
        (r"ip=(?P<ip>[\w.:]{1,45}), pid=(?P<pid>\d{1,10})\) (?:world_)?rank=(?P<rank>\d{1,6}), "
         r"local_rank=(?P<local_rank>\d{1,6}), node_rank=",
         "(TorchTrainer pid=4700) - (ip=10.0.0.5, pid=4711) world_rank=1, local_rank=1, node_rank=0",
         "(TrainController pid=4700) - (node_id=2a90c1, ip=10.0.0.5, pid=4711) world_rank=1, local_rank=1, node_rank=0",
         "(TorchTrainer pid=4700) - (ip=10.0.0.5, pid=4711) rank=1, local_rank=1, node_rank=0"),
        (r"Setting up process group for: \S{1,80} \[rank=(?P<rank>\d{1,6})(?:, world_size=(?P<world_size>\d{1,6}))?\]",
         "(RayTrainWorker pid=4711) Setting up process group for: env:// [rank=1, world_size=4]",
         "(pid=4711) INFO distributed_torch_runner.py:58 -- Setting up process group for: tcp://10.0.0.5:47078 "
         "[rank=3]")),
    # each replica of such a job has a pod, and the master's is rank 0
    *spellings("master-pod", Kind.RECORD, (),
        (r"PyTorchJob=(?P<job>[\w.-]{1,253}), ReplicaType=Master expected=1\b",
         'msg="PyTorchJob=bert, ReplicaType=Master expected=1, running=1, succeeded=0, failed=0, Replicas=1"')),
    # Python prints what it can raise nowhere, and goes on
    *spellings("unraisable", Kind.RECORD, (),
        (r"Exception ignored (?:in|on|while)\b",
         "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f0155f30>")),
    *spellings("worker-group", Kind.RECORD, ("DC118",),
        (r"restart_count=(?P<restart>\d+)", "  restart_count=0")),
    *spellings("worker-group", Kind.RECORD, (),
        (r"global_world_sizes=\[(?P<world_size>\d+)", "  global_world_sizes=[8, 8, 8, 8, 8, 8, 8, 8]")),
    *spellings("restart", Kind.RECORD, ("DC118",),
        (r"\b(?P<left>\d{1,9})/(?P<allowed>\d{1,9}) attempts left;",
         "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 2/3 attempts left; will "
         "restart worker group")),
    *spellings("hosts-store", Kind.RECORD, (),
        (r"(?:hosts the TCP store|server has started on) ?(?:\[(?P<host>[^\]]{1,64})\]:(?P<port>\d+))?",
         "INFO:torch.distributed.elastic.rendezvous.c10d_rendezvous_backend:Process 3001 hosts the TCP store for "
         "the C10d rendezvous backend.",
         "[I1122 07:40:00.123456789 TCPStore.cpp:305] [c10d - debug] The server has started on port = 29500.")),
    *spellings("store-barrier", Kind.RECORD, (),
        (r"Added key: store_based_barrier_key:(?P<key>\d+) to store for rank: (?P<rank>\d+)",
         "INFO:torch.distributed.distributed_c10d:Added key: store_based_barrier_key:1 to store for rank: 3"),
        (r"Completed store-based barrier for (?:key:store_based_barrier_key:\d+|rank (?P<rank>\d+)).{0,20}?"
         r"(?:with (?P<world_size>\d+) nodes)",
         "INFO:torch.distributed.distributed_c10d:Rank 0: Completed store-based barrier for "
         "key:store_based_barrier_key:1 with 2 nodes.")),
    *spellings("torch-version", Kind.RECORD, (),
        (r"(?i)\b(?:py)?torch(?: version|\.__version__|_version)?(?: ?[:=]{1,2} ?| )(?P<version>[12]\.\d{1,2}\.\d{1,2}"
         r"(?:[.+a-z0-9]{0,20}))\b",
         "PyTorch version: 2.4.1+cu121",
         "torch==2.6.0")),
    # what only looks like the failure of the job: one that ends it comes with a traceback
    *spellings("tool-error", Kind.RECORD, (),
        (r"wandb: ERROR ", "wandb: ERROR Failed to sync 1 file"),
        (r"ERROR: pip's dependency resolver does not",
         "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.")),
    *spellings("epoch-ended", Kind.RECORD, ("DC519",),
        (r"(?i)\bepoch[ :#=]{1,3}\d{1,6}\S{0,8}:? (?:is )?(?:done|finished|completed?|ended|took|exhausted)\b",
         "[rank1]: epoch 3 done in 812 s",
         "Epoch: 12 finished")),
    # work of one rank while the others wait: a tokeniser, a download, a save
    *spellings("one-rank-works", Kind.RECORD, ("DC726",),
        (r"(?P<work>Running tokenizer on |[Tt]okeni[sz]ing (?:the )?(?:data|train|corpus|text|[Pp]rompts|file)"
         r"|Generating (?:train|validation|test) split|Preprocessing (?:the )?(?:data|train|corpus)"
         r"|Building (?:the )?(?:index|vocab|dataset|shuffled|cache)|Extracting features)"
         r"(?:[^|%]{0,80}?(?P<done>\d{1,3})%\|)?",
         "Running tokenizer on train dataset (num_proc=8):  41%|####      | 410000/1000000 [08:12<11:48, 832 "
         "examples/s]",
         "[rank0] tokenizing data shard 212 of 1024",
         "Generating train split: 41000 examples [00:12, 3400 examples/s]"),
        (r"Map \(num_proc=\d+\): +\d+%\||\bMap: {1,3}\d+%\|",
         "Map (num_proc=8):  41%|####      | 410000/1000000 [08:12<11:48, 832 examples/s]",
         "Map:  41%|####      | 410000/1000000 [08:12<11:48, 832 examples/s]"),
        (r"(?P<work>Downloading (?:data|shards|readme|extra|builder|model|weights|dataset|checkpoint|the ))",
         "Downloading data files:  41%|####      | 41/100 [08:12<11:48]",
         "Downloading shards:  50%|#####     | 2/4"),
        (r"(?P<work>Saving model checkpoint to|Saving (?:checkpoint|model|optimizer|state|full state)"
         r"|Uploading (?:checkpoint|model)|Merging (?:checkpoint|shards|weights))",
         "Saving model checkpoint to /scratch/run7/checkpoint-500",
         "Saving checkpoint to /scratch/run7/step_500.pt")),
)
# fmt: on
