"""What the examples of the rule pages leave out: the rest of the script, the machine, what a comment in them tells.

An example without a row needs nothing. What can't be carried out without GPUs, several hosts or a fault of distcheck
itself stands in :data:`NOT_EXECUTED`, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.recorded import HOSTS

from .examples import Example, Script, session


class Files(NamedTuple):
    """What stands around a block of a launch file."""

    beside: Mapping[str, str] = {}
    name: str = "job.sh"
    #: all blocks of the section are files of one project, and not alternatives
    together: bool = False


class Pickle(NamedTuple):
    """What stands around a block that makes an object or a file."""

    #: ``object`` or ``file``
    what: str
    before: str = ""
    after: str = ""
    #: the head of a class that the block stands in
    inside: str = ""
    torch: bool = False


class Machine(NamedTuple):
    """The machine on which a session runs, in the words of ``tests/hosts/*/cases.json``."""

    host: str
    case: Mapping[str, Any] = {}
    #: what a text in the block means; ``!text``: what it means that the text is not there
    says: Mapping[str, Mapping[str, Any]] = {}


def like(host: str, name: str) -> dict[str, Any]:
    """What a recorded case says of its machine."""
    cases = json.loads((HOSTS / host / "cases.json").read_text(encoding="utf-8"))
    (case,) = [case for case in cases if case["name"] == name]
    return {key: case[key] for key in ("environ", "world", "files", "without", "facts") if key in case}


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two descriptions of a machine, the second on top."""
    both = dict(first)
    for name, value in second.items():
        if isinstance(value, Mapping) and isinstance(both.get(name), Mapping):
            both[name] = merged(both[name], value)
        elif name == "without":
            both[name] = [*both.get(name, ()), *value]
        else:
            both[name] = value
    return both


def on_a_machine(example: Example, number: int) -> tuple[str, dict[str, Any]]:
    """Return the recorded host of a block of an example, and the launch on it as a case of that host."""
    block = example.blocks[number]
    machine = MACHINES.get(example.code, Machine(_HGX))
    case = merged(machine.case, session(block.text))
    host = machine.host
    for text, meaning in machine.says.items():
        if (text.removeprefix("!") in block.text) is not text.startswith("!"):
            case = merged(case, meaning)
            host = str(case.pop("host", host))
    if case.pop("on_the_node", False):
        words = case["command"]
        case["command"] = words[next(place for place, word in enumerate(words) if word in ("torchrun", "python")) :]
    return host, {**case, "name": f"{example.name}-{number}"}


def _iommu_groups(host: str) -> list[str]:
    """Where a machine tells what its IOMMU does."""
    files = json.loads((HOSTS / host / "files.json").read_text(encoding="utf-8"))
    return [path for path in files if path.endswith("/iommu_group/type")]


_A100, _HGX = "a100-pcie", "hgx-h100-infiniband"
_NOW = 1_795_000_000


def _nodes(master: str, each: int = 8, **more: Any) -> dict[str, Any]:
    """Options of a launch on two nodes, of which this is the first."""
    options = {"nnodes": "2", "node_rank": 0, "master_addr": master, "master_port": 29500, "nproc_per_node": str(each)}
    return {"options": {**options, **more}}


_TWO = _nodes("gpu01")
_FOUR_HERE = {"command": ["torchrun", "--nproc-per-node=4", "train.py"]}
_TWO_HERE = {"command": ["torchrun", "--standalone", "--nproc-per-node=2", "train.py"]}
_RANK_3 = {
    "RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "gpu01", "MASTER_PORT": "29500",
}  # fmt: skip
_SLURM_3 = {
    "SLURM_JOB_ID": "1", "SLURM_PROCID": "3", "SLURM_LOCALID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "8", "SLURM_NNODES": "1",
}  # fmt: skip
_DISK = {"/dev/shm": [1 << 40, 1 << 40], "/tmp": [1 << 40, 1 << 39]}
_MAIN = "if __name__ == '__main__':\n    main()\n"
_STEP = "    for batch in loader:\n        model(batch).sum().backward()\n"

_LOADER = "data = TensorDataset(torch.randn(100, 2))\n"
_NET = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.backbone = nn.Linear(2, 2)\n        self.head = nn.Linear(2, 2)\n\n\nnet = Net().cuda()\n"
)
_STEPS = "for batch in data:\n    model(batch).sum().backward()\n    optimizer.step()\n"
_STEPS_OF_TRAIN = (
    "def train(model):\n    optimizer = torch.optim.SGD(model.parameters())\n    for batch in data:\n"
    "        model(batch).sum().backward()\n        optimizer.step()\n\n\n"
)
_TRAIN = "for batch in loader:\n    model(batch).sum().backward()\n"

_WRAPPED = "ddp = DDP(nn.Linear(2, 2))\n"
_TRAINER = (
    "class Writer:\n    def close(self):\n        pass\n\n\n"
    "class Trainer:\n    def __init__(self):\n        self.writer = Writer()\n\n"
)

SCRIPTS: Mapping[str, Script] = {
    "DC208": Script(setup=False, guarded=True),
    "DC214": Script(setup=False),
    "DC215": Script(setup=False),
    "DC218": Script(after="loader = DataLoader(Images(), num_workers=4)\n"),
    "DC704": Script(
        "net = nn.BatchNorm1d(2).cuda()\nmodel = net\n\n\ndef evaluate(model, data):\n"
        "    for batch in data:\n        model(batch)\n\n\n"
    ),
    "DC714": Script("hits = 3\n"),
    "DC730": Script("def step(batch):\n    model(batch).sum().backward()\n\n\n"),
    "DC732": Script(_LOADER, _TRAIN),
    "DC734": Script(
        "test_data = TensorDataset(torch.randn(101, 2))\n\n\n@torch.no_grad()\ndef evaluate(model, loader):\n"
        "    model.eval()\n    hits = torch.zeros(1).cuda()\n    for batch in loader:\n        hits += model(batch).sum()\n"
        "    dist.all_reduce(hits)\n    return hits / len(loader.dataset)\n\n\n"
    ),
    "DC735": Script(after="loader = DataLoader(Lines())\n" + _TRAIN),
    "DC741": Script("def setup():\n    dist.init_process_group('nccl')\n\n\n"),
    "DC742": Script(
        setup=False,
        after="\n\ndef main():\n    dist.init_process_group('nccl')\n    info('hello')\n\n\n"
        "if __name__ == '__main__':\n    main()\n",
    ),
    "DC743": Script("def train():\n    dist.barrier()\n\n\n", guarded=True),
    "DC751": Script(_NET, _STEPS, guarded=True),
    "DC752": Script("model = nn.Linear(2, 2).cuda()\n", _STEPS, guarded=True),
    "DC756": Script(_STEPS_OF_TRAIN, guarded=True),
    "DC905": Script("local_rank = int(os.environ['LOCAL_RANK'])\n"),
}

FILES: Mapping[str, Files] = {
    "DC106": Files(
        beside={
            "main.py": "import torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n\n\ndef worker(rank):\n    dist.init_process_group('nccl')\n    dist.barrier()\n\n\n"
            "if __name__ == '__main__':\n    mp.spawn(worker, nprocs=torch.cuda.device_count())\n"
        }
    ),
    "DC201": Files(together=True),
    "DC207": Files(together=True),
    "DC303": Files(together=True),
    "DC802": Files(together=True),
    "DC812": Files(
        beside={"job.sh": "#!/bin/bash\ndeepspeed --num_gpus 8 train.py --deepspeed_config ds_config.json\n"}
    ),
    "DC819": Files(together=True),
    "DC817": Files(
        beside={
            "requirements.txt": "transformers\n",
            "train.py": "from transformers import HfArgumentParser, TrainingArguments\n\n"
            "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nprint(args.local_rank)\n",
        }
    ),
}

MACHINES: Mapping[str, Machine] = {
    # what the tasks see of what the job script has exported
    "DC103": Machine(
        _HGX, says={"0 for all tasks": {"command": None, "environ": {**_RANK_3, **_SLURM_3, "RANK": "0"}}}
    ),
    "DC107": Machine("kubernetes-pytorchjob"),
    "DC115": Machine(_HGX, says={"srun --ntasks-per-node=8 python": {"command": None, "environ": _RANK_3}}),
    "DC116": Machine(_HGX, _TWO),
    "DC120": Machine(_HGX, {"options": {"backend": "nccl"}}, {"2.13.0+cpu": {"host": "laptop-no-gpu"}}),
    "DC122": Machine(
        "laptop-no-gpu",
        _TWO_HERE,
        {
            "experiments/torch.py": {"files": {"/home/ada/project/torch.py": ""}},
            "experiments/try_torch.py": {"files": {"/home/ada/project/try_torch.py": ""}},
        },
    ),
    "DC123": Machine("windows-desktop", {"options": {"backend": "gloo"}}, {"wsl torchrun": {"host": "wsl2"}}),
    "DC124": Machine(
        _HGX,
        {"world": {"names": {"localhost": ["127.0.0.1"], "gpu01": ["10.0.0.11"], "etcd.lan": ["10.0.0.12"]}}},
    ),
    "DC125": Machine(
        "slurm-task-per-gpu",
        like("slurm-task-per-gpu", "the job has six minutes left"),
        {
            "--time=00:10:00": {"environ": {"SLURM_JOB_END_TIME": str(_NOW + 10 * 60 - 1)}},
            "--time=24:00:00": {"environ": {"SLURM_JOB_END_TIME": str(_NOW + 24 * 3600 - 1)}},
        },
    ),
    "DC205": Machine("rocm-mi300x", {"options": {"nproc_per_node": "2"}}),
    "DC221": Machine(
        _A100,
        {"facts": {"Gpus": {"gpus": {"0": {"name": "NVIDIA T400", "memory_bytes": 4 << 30, "architecture": "7.5"}}}}},
    ),
    "DC304": Machine(_A100, _FOUR_HERE, {"# 13.0": like(_A100, "torch for CUDA 13 on the 550 driver")}),
    "DC305": Machine(_HGX, _TWO, {"kill -9 4711": like(_HGX, "a worker of an earlier run still holds memory")}),
    "DC306": Machine(
        _A100,
        {
            "facts": {
                "Gpus": {
                    "gpus": {
                        "0": {
                            "mig_enabled": True,
                            "mig_uuids": [f"MIG-{number}9f04cbb-2222-5333-8444-555555555555" for number in range(2)],
                        }
                    }
                }
            }
        },
    ),
    "DC307": Machine(
        _A100, says={"Compute Mode: Exclusive_Process": like(_A100, "good: exclusive mode, and one rank a GPU")}
    ),
    "DC308": Machine(
        _A100,
        {
            "environ": {"CUDA_VISIBLE_DEVICES": "GPU-01ab4e2c,GPU-8f1c2d31"},
            "facts": {
                "Gpus": {
                    "gpus": {
                        "0": {"uuid": "GPU-01ab4e2c-5b6a-4c7d-8e9f-0a1b2c3d4e50"},
                        "1": {"name": "NVIDIA T400", "memory_bytes": 4 << 30, "architecture": "7.5"},
                    }
                }
            },
        },
    ),
    "DC309": Machine(_HGX, _TWO, {"Pending : Yes": like(_HGX, "a GPU waits for a reset after memory errors")}),
    "DC310": Machine(
        _HGX,
        _TWO,
        {
            "HW Thermal Slowdown : Active": like(_HGX, "a GPU is too hot"),
            "SW Power Cap : Active": {"facts": {"Gpus": {"gpus": {"2": {"throttle": ["sw-power-cap"]}}}}},
        },
    ),
    "DC311": Machine(_A100, _FOUR_HERE, {"Persistence Mode : Disabled": like(_A100, "good: persistence mode is off")}),
    "DC312": Machine(_HGX, _TWO, {"State : In Progress": like(_HGX, "NVSwitch's fabric manager has not finished")}),
    "DC313": Machine(_HGX, _TWO, {"NVRM version: … 550.54.15": like(_HGX, "the driver was upgraded and not reloaded")}),
    "DC314": Machine(
        "docker-default", _TWO_HERE, {"sleep infinity": like("docker-default", "the container has lost its GPUs")}
    ),
    "DC321": Machine(
        _HGX,
        {"world": {"limits": {"memlock": [None, None], "nproc": [8254000, 8254000]}}},
        {
            "ulimit -n is 1024": {"world": {"limits": {"nofile": [1024, 1 << 20]}}},
            "srun torchrun": {"on_the_node": True},
        },
    ),
    "DC322": Machine(
        "roce-dual-port",
        like("roce-dual-port", "memory can't be locked for RDMA"),
        {"--ulimit memlock=-1": {"world": {"limits": {"nofile": [1 << 20, 1 << 20], "memlock": [None, None]}}}},
    ),
    "DC324": Machine(
        "podman-rootless",
        {"files": {"/sys/fs/cgroup/pids.current": "40\n"}},
        {
            "--pids-limit=128": {"files": {"/sys/fs/cgroup/pids.max": "128\n"}},
            "--pids-limit=-1": {"files": {"/sys/fs/cgroup/pids.max": "max\n"}},
        },
    ),
    "DC326": Machine(
        _HGX,
        says={
            "taskset -c 0-31": {
                **like(_HGX, "good: a rank that may run far from its GPU only"),
                "command": None,
            },
        },
    ),
    "DC327": Machine(
        _HGX,
        _TWO,
        {
            "mkdir -p $TMPDIR": {
                "environ": {"TMPDIR": "/scratch/4711"},
                "files": {"/scratch/4711": None},
                "world": {"spaces": {**_DISK, "/scratch/4711": [1 << 40, 1 << 39]}},
            }
        },
    ),
    "DC330": Machine(_HGX, says={"pipx run": {"host": "desktop-geforce"}}),
    "DC331": Machine(_HGX, _TWO, {"nvidia-nccl-cu12    2.21.5": like(_HGX, "two NCCL packages share one folder")}),
    "DC332": Machine(_HGX, _TWO, {"--no-deps torch": like(_HGX, "torch's NCCL package was left out of the image")}),
    "DC333": Machine(
        "docker-default",
        {
            **like("docker-default", "the compatibility library is taken on a card that can't use it"),
            "environ": {},
            **_TWO_HERE,
        },
    ),
    "DC334": Machine(
        "efa-p4d",
        {**_nodes("ip-10-20-1-15"), "environ": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}},
        {"/opt/amazon/ofi-nccl/lib:": {"files": {"/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so": ""}}},
    ),
    "DC335": Machine(
        "desktop-geforce",
        {
            **merged(
                like("desktop-geforce", "the card is older than anything that this torch was built for"),
                {
                    "facts": {
                        "Gpus": {"gpus": {"0": {"name": "NVIDIA GeForce RTX 5090", "architecture": "12.0"}}},
                        "Software": {"architectures": ["sm_80", "sm_90"]},
                    }
                },
            ),
            "command": ["torchrun", "--standalone", "--nproc-per-node=1", "train.py"],
        },
        {"'sm_120'": {"facts": {"Software": {"architectures": ["sm_80", "sm_90", "sm_100", "sm_120"]}}}},
    ),
    "DC336": Machine(
        _A100,
        _FOUR_HERE,
        {"# identity": {"files": dict.fromkeys(_iommu_groups(_A100), "identity\n")}},
    ),
    "DC337": Machine("wsl2", says={"6.8.0-45-generic": {"host": _A100}}),
    "DC401": Machine(_HGX, like(_HGX, "a foreign program holds the port")),
    "DC403": Machine("roce-dual-port", {"world": {"listeners": {"172.17.0.1:29500": 113, "10.0.0.4:29500": ""}}}),
    "DC404": Machine("laptop-no-gpu", like("laptop-no-gpu", "the own name resolves to nothing")),
    "DC405": Machine(
        _HGX,
        _nodes("node1"),
        {
            "127.0.1.1 node1": {
                "world": {"host_name": "node1", "names": {"localhost": ["127.0.0.1"], "node1": ["127.0.1.1"]}}
            },
            "10.0.0.5  node1": {
                "world": {"host_name": "node1", "names": {"localhost": ["127.0.0.1"], "node1": ["10.0.0.5"]}}
            },
        },
    ),
    "DC407": Machine("docker-default", {"options": {"nproc_per_node": "2", "backend": "gloo"}}),
    "DC408": Machine(
        _A100,
        {
            "world": {
                "names": {"localhost": ["127.0.0.1"], "trainbox": ["127.0.1.1"]},
                "addresses": [
                    ["lo", "ipv4", "127.0.0.1", "255.0.0.0"],
                    ["eno1np0", "ipv4", "10.0.0.4", "255.255.255.0"],
                ],
            }
        },
    ),
    "DC413": Machine(_HGX, says={"!--device=/dev/infiniband": {"without": ["/dev/infiniband"]}}),
    "DC415": Machine("roce-dual-port", _nodes("pair1", 2)),
    "DC416": Machine(_HGX, _TWO),
    "DC417": Machine(
        "efa-p4d",
        says={"/opt/amazon/ofi-nccl/lib:": {"files": {"/opt/amazon/ofi-nccl/lib/libnccl-net.so": ""}}},
    ),
    "DC418": Machine("google-a3-mega", _nodes("a3-worker-0.a3")),
    "DC420": Machine("gb200-tray", _nodes("tray03", 4)),
}

#: What of a pickling example is judged: ``object``: what the block defines or saves; ``file``: what it has saved.
PICKLES: Mapping[str, Pickle] = {
    "DC601": Pickle("object", after="made = Trainer('log.txt')\n"),
    "DC603": Pickle("object", _WRAPPED + "sampler, epoch = DistributedSampler(range(4)), 1\n", torch=True),
    "DC604": Pickle("object", after="made = Trainer()\n", inside=_TRAINER),
    "DC610": Pickle("file", "model = nn.Linear(2, 2)\n", torch=True),
    "DC611": Pickle(
        "file",
        "model = nn.Linear(2, 2)\nargs = argparse.Namespace(lr=0.1)\nhistory = defaultdict(list)\nepoch = 1\n",
        torch=True,
    ),
    "DC614": Pickle("file", _WRAPPED + "model = nn.Linear(2, 2)\n", torch=True),
}

_RANKS = "rank, device = dist.get_rank(), torch.device('cpu')\n"
#: Blocks that run on two ranks of gloo; what the ranks say then is what ``distcheck log`` reads. Code → what stands before.
RUN_ON_RANKS: Mapping[str, str] = {
    "DC512": _RANKS + "tensor = torch.ones(4)\n",
    "DC517": _RANKS
    + "batch = torch.ones(3 + rank)\n\n\ndef pad(tensor, length):\n"
    + "    return torch.cat([tensor, torch.zeros(length - len(tensor))])\n\n\n",
}

_LIVE = "needs a live process group that fails or is slow; tests/runtime/smoke_test does so with real ones"
#: Pages whose examples are not carried out here, and why.
NOT_EXECUTED: Mapping[str, str] = {
    **dict.fromkeys(("DC510", "DC511", "DC513", "DC514", "DC515", "DC516"), _LIVE),
    **dict.fromkeys(("DC763", "DC764"), "ranks that train under watch: tests/runtime/monitor/test_drift.py"),
    **dict.fromkeys(("DC765", "DC766"), "ranks that train under watch: tests/runtime/monitor/test_updates.py"),
    "DC315": "needs a driver that fails",
    "DC518": "needs the log of a job that died; tests/checks/logs has real ones",
    "DC612": "needs ranks that write one file at the same time",
    "DC613": "needs GPUs: the tensors of the file were on them",
    "DC901": "needs a fault of distcheck itself",
    "DC902": "needs a driver that hangs",
    "DC903": "needs a plug-in that is installed and broken",
}
