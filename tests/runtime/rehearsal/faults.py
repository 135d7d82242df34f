"""One fault for each rule that a rehearsal can judge, as an edit of an example that is right.

Every edit must fit exactly once, and so must the text by which the line of the finding is known: an example that changes
takes its faults with it, or fails loudly.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).parents[3] / "examples" / "training"


class Fault(NamedTuple):
    """A fault that is planted into an example, and what is to be said of it."""

    code: str
    example: str
    #: texts and what stands in their place
    edits: tuple[tuple[str, str], ...]
    #: a text that ends on the line that the finding is to point at
    line: str
    #: whom it is about (of ranks that wait: for whom they wait). ``all``; ``0``; ``not 0``; ``second``: the second local rank of each node; ``second of all``: rank 1; ``second node``: and all behind it;
    #: ``fewer``: those with fewer batches; ``none``: no rank was there yet
    ranks: str = "all"
    #: arguments of the script
    arguments: tuple[str, ...] = ("--batch-size", "32")
    #: rules that may be broken as well, because of it
    follows: frozenset[str] = frozenset()
    #: ``warning/error``: it is a race, and told by its outcome
    severity: str = "warning"

    @property
    def name(self) -> str:
        """What the test is called."""
        return f"{self.code}-{self.example}"

    def source(self) -> str:
        """The example with its fault."""
        text = source_of(self.example)
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {text.count(old)} times in the example: {old!r}")
            text = text.replace(old, new)
        return text

    def number(self) -> int:
        """The line of the finding, from 1."""
        text = self.source()
        if text.count(self.line) != 1:
            raise ValueError(f"{self.name}: {text.count(self.line)} times in the planted example: {self.line!r}")
        return text.count("\n", 0, text.index(self.line) + len(self.line)) + 1

    def expected_ranks(self, nnodes: int, nproc_per_node: int) -> Sequence[int]:
        """The ranks that the finding is to name."""
        everyone = range(nnodes * nproc_per_node)
        return {
            "all": list(everyone),
            "0": [0],
            "not 0": [rank for rank in everyone if rank],
            "second": [rank for rank in everyone if rank % nproc_per_node == 1],
            "second of all": [1],
            "second node": [rank for rank in everyone if rank >= nproc_per_node],
            # 393 images: 315 to train with, and three ranks have one more
            "fewer": [rank for rank in everyone if rank >= 3],
            "none": [],
        }[self.ranks]


def source_of(example: str) -> str:
    """An example as it stands in the project."""
    return (EXAMPLES / f"{example}.py").read_text(encoding="utf-8")


FAULTS = (
    Fault(
        "DC201", "ddp",
        (('int(os.environ["LOCAL_RANK"])', 'int(os.environ["RANK"])'),),
        "torch.cuda.set_device(device)", "second node", severity="error",
    ),
    Fault(
        "DC202", "trainer",
        (
            (
                "    world_size = int(os.environ.get",
                '    os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)\n    world_size = int(os.environ.get',
            ),
        ),
        "torch.cuda.set_device(local_rank)", "second", severity="error",
    ),
    Fault(
        "DC206", "trainer",
        (
            ("        torch.cuda.set_device(local_rank)\n", ""),
            (', device_id=torch.device("cuda", local_rank))', ")"),
        ),
        'dist.init_process_group("nccl"', follows=frozenset({"DC303"}), severity="error",
    ),
    Fault(
        "DC303", "ddp",
        (('torch.device("cuda", local_rank)', 'torch.device("cuda", 0)'),),
        "torch.cuda.set_device(device)", severity="error",
    ),
    Fault(
        "DC517", "ddp",
        (
            (
                "    dist.all_reduce(right_and_all)\n",
                "    every = torch.zeros(len(loader.dataset), device=device)\n    dist.all_reduce(every)\n"
                "    dist.all_reduce(right_and_all)\n",
            ),
        ),
        "dist.all_reduce(every)", "second node", severity="error",
    ),
    Fault(
        "DC519", "ddp",
        (
            (
                "DataLoader(training, options.batch_size, sampler=sampler)",
                "DataLoader(Subset(training, range(rank, len(training), world_size)), options.batch_size)",
            ),
            ("        sampler.set_epoch(epoch)\n", ""),
        ),
        "total = torch.zeros((), device=device)\n    for images, labels in loader:", "fewer", ("--batch-size", "39"), severity="error",
    ),
    Fault(
        "DC602", "trainer",
        (('torch.save(state, self.path.with_suffix(".new"))', 'torch.save(trainer, self.path.with_suffix(".new"))'),),
        "torch.save(trainer,", "0", severity="error",
    ),
    Fault(
        "DC605", "spawn",
        (("args=(ranks_a_node, less_noise, options)", "args=(ranks_a_node, lambda epoch: 0.1 / epoch, options)"),),
        "mp.spawn(worker", "none", severity="error",
    ),
    Fault(
        "DC701", "trainer",
        (
            (
                "            mean = trainer.mean(loss.detach(), 1)\n            if trainer.rank == 0:\n",
                "            if trainer.rank == 0:\n                mean = trainer.mean(loss.detach(), 1)\n",
            ),
        ),
        "dist.all_reduce(total_and_number", "not 0", ("--batch-size", "16"), severity="error",
    ),
    Fault(
        "DC701", "fsdp",
        (("        dcp.save(", "        if rank == 0:\n            dcp.save("),),
        "            dcp.save(", "0", severity="error",
    ),
    Fault(
        "DC701", "accelerated",
        (
            ("    accelerator.wait_for_everyone()\n    if", "    if"),
            ("        accelerator.save(", "        accelerator.wait_for_everyone()\n        accelerator.save("),
        ),
        "accelerator.wait_for_everyone()", "not 0", severity="error",
    ),
    Fault(
        "DC702", "ddp",
        (("    # the others read what rank 0 writes\n", "    if rank != 0:\n        return\n"),),
        "    dist.barrier()", "not 0", severity="error",
    ),
    Fault(
        "DC502", "ddp",
        (
            (
                '        dist.init_process_group("nccl", device_id=device)\n',
                '        first = int(os.environ.get("NODE_RANK", "0"))\n'
                '        world = int(os.environ["WORLD_SIZE"])\n'
                '        wait = timedelta(seconds=4)\n'
                '        dist.init_process_group("nccl", timeout=wait, rank=first, world_size=world)\n',
            ),
            ("from pathlib import Path\n", "from datetime import timedelta\nfrom pathlib import Path\n"),
        ),
        "rank=first, world_size=world)", severity="error",
    ),
    Fault(
        "DC753", "ddp",
        (
            (
                "    torch.manual_seed(options.seed + rank)\n",
                "    torch.manual_seed(options.seed + rank)\n"
                "    encoder = FullyShardedDataParallel(nn.Linear(64, 64, device=device), device_id=device)\n"
                "    (100 * encoder(torch.ones(4, 64, device=device))).sum().backward()\n"
                "    nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)\n",
            ),
            (
                "from torch import nn\n",
                "from torch import nn\nfrom torch.distributed.fsdp import FullyShardedDataParallel\n",
            ),
        ),
        "    nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)", "0",
    ),
    Fault(
        "DC747", "ddp",
        (
            (
                '        dist.init_process_group("nccl", device_id=device)\n',
                "        try:\n"
                "            first, wait = int(os.environ['RANK']), timedelta(seconds=4)\n"
                "            dist.init_process_group('nccl', timeout=wait, rank=first, world_size=64)\n"
                "        except Exception as error:\n"
                "            print(f'one process: {error}')\n"
                "            dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)\n",
            ),
            ("from pathlib import Path\n", "from datetime import timedelta\nfrom pathlib import Path\n"),
            ("    rank, world_size = dist.get_rank(), ", "    rank, world_size = int(os.environ['RANK']), "),
        ),
        "rank=first, world_size=64)", "0",
    ),
    Fault(
        "DC749", "ddp",
        (
            (
                "        loss.backward()\n",
                "        if dist.get_rank() and total.item():\n            dist.destroy_process_group()\n"
                "            raise SystemExit(0)\n"
                "        try:\n            loss.backward()\n"
                "        except RuntimeError as error:\n            print(f'the others have ended: {error}')\n"
                "            raise SystemExit(0)\n",
            ),
        ),
        "            loss.backward()", "0", follows=frozenset({"DC519", "DC702"}),
    ),
    Fault(
        "DC706", "ddp",
        (
            (
                "    torch.manual_seed(options.seed + rank)\n",
                "    neighbors = dist.new_group(sorted([rank, (rank + 1) % world_size]))\n"
                "    torch.manual_seed(options.seed + rank)\n",
            ),
        ),
        "neighbors = dist.new_group(", "none", severity="error",
    ),
    Fault(
        "DC709", "ddp",
        (
            (
                "    torch.manual_seed(options.seed + rank)\n",
                "    if rank == 0:\n        dist.send(torch.ones(4, device=device), 1)\n"
                "    elif rank == 1:\n        dist.recv(torch.ones(2, dtype=torch.float64, device=device), 0)\n",
            ),
        ),
        "dist.recv(torch.ones(2, ", "second of all", severity="error",
    ),
    Fault(
        "DC710", "ddp",
        (("    dist.all_reduce(total)\n", "    total = dist.all_reduce(total)\n"),),
        "total = dist.all_reduce(total)", severity="error",
    ),
    Fault(
        "DC711", "ddp",
        (("    dist.all_reduce(total)\n", "    dist.all_reduce(total / len(loader))\n"),),
        "dist.all_reduce(total / len(loader))", severity="error",
    ),
    Fault(
        "DC712", "ddp",
        (
            (
                "    dist.all_reduce(total)\n",
                "    totals = [torch.zeros((), device=device)] * dist.get_world_size()\n"
                "    dist.all_gather(totals, total)\n",
            ),
        ),
        "dist.all_gather(totals, total)", severity="error",
    ),
    Fault(
        "DC713", "ddp",
        (("    dist.all_reduce(total)\n", "    dist.all_reduce(total, async_op=True)\n"),),
        "dist.all_reduce(total, async_op=True)",
    ),
    Fault(
        "DC716", "ddp",
        (
            (
                "    torch.manual_seed(options.seed + rank)\n",
                "    block = torch.ones(4, device=device)\n    dist.send(block, (rank + 1) % world_size)\n"
                "    dist.recv(block)\n",
            ),
        ),
        "    dist.send(block, (rank + 1) % world_size)", severity="error",
    ),
    Fault(
        "DC717", "ddp",
        (("    dist.all_reduce(total)\n", "    work = dist.all_reduce(total, async_op=True)\n    total /= 2\n    work.wait()\n"),),
        "total /= 2",
    ),
    Fault(
        "DC704", "ddp",
        (
            ("    dist.all_reduce(right_and_all)\n", ""),
            (
                "        accuracy = evaluate(model.module, validation_loader, device)\n",
                "        accuracy = evaluate(model, validation_loader, device) if rank == 0 else 0.0\n",
            ),
        ),
        "answers = network(", "0", severity="error",
    ),
    Fault(
        "DC720", "trainer",
        (
            (
                '        if trainer.rank == 0:\n            torch.save(state, self.path.with_suffix(".new"))\n'
                '            os.replace(self.path.with_suffix(".new"), self.path)\n',
                "        torch.save(state, self.path)\n",
            ),
        ),
        "torch.save(state, self.path)", severity="error",
    ),
    Fault(
        "DC721", "trainer",
        (
            (
                '        if trainer.rank == 0:\n            print(f"epoch',
                '        print(f"epoch',
            ),
        ),
        'print(f"epoch', severity="info",
    ),
    Fault(
        "DC722", "ddp",
        (
            (
                "    os.makedirs(options.folder, exist_ok=True)\n",
                "    if not options.folder.exists():\n        os.makedirs(options.folder)\n",
            ),
        ),
        "os.makedirs(options.folder)", severity="warning/error",
    ),
    Fault(
        "DC723", "ddp",
        (("torch.load(best, map_location=device, weights_only=True)", "torch.load(best, weights_only=True)"),),
        "torch.load(best", "second",
    ),
    Fault(
        "DC724", "ddp",
        (("    dist.barrier()\n", ""),),
        "torch.load(best", "not 0", severity="warning/error",
    ),
    Fault(
        "DC725", "trainer",
        (
            (
                "    if dist.get_rank() == 0 and not path.exists():\n        urlretrieve(url, path)\n",
                "    urlretrieve(url, path)\n",
            ),
        ),
        "urlretrieve(url, path)",
    ),
    Fault(
        "DC730", "ddp",
        (("        sampler.set_epoch(epoch)\n", ""),),
        "sampler = DistributedSampler(",
    ),
    Fault(
        "DC732", "spawn",
        (
            (
                "DataLoader(training, options.batch_size, sampler=sampler)",
                "DataLoader(training, options.batch_size, shuffle=True)",
            ),
        ),
        "loader = DataLoader(training", severity="error",
    ),
    Fault(
        "DC733", "ddp",
        ((", generator=torch.Generator().manual_seed(options.seed))", ")"),),
        "random_split(data",
    ),
    Fault(
        "DC735", "spawn",
        (
            ("DistributedSampler, Subset\n", "DistributedSampler, IterableDataset, Subset\n"),
            (
                "class Autoencoder(",
                "class Stream(IterableDataset):\n    def __init__(self, data):\n        self.data = data\n\n"
                "    def __len__(self):\n        return len(self.data)\n\n"
                "    def __iter__(self):\n        return (self.data[index] for index in range(len(self)))\n\n\n"
                "class Autoencoder(",
            ),
            (
                "DataLoader(training, options.batch_size, sampler=sampler)",
                "DataLoader(Stream(training), options.batch_size)",
            ),
        ),
        "loader = DataLoader(Stream(",
    ),
    Fault(
        "DC736", "ddp",
        (
            ("torch.manual_seed(options.seed + rank)", "torch.manual_seed(options.seed)"),
            ("cross_entropy(model(images.to(device)),", "cross_entropy(model(torch.randn_like(images).to(device)),"),
        ),
        "cross_entropy(model(torch.randn_like(images).to(device)), labels.to(device))", severity="info",
    ),
    Fault(
        "DC737", "ddp",
        (
            (
                "DataLoader(training, options.batch_size, sampler=sampler)",
                "DataLoader(\n        training, options.batch_size, sampler=sampler, num_workers=1, "
                "worker_init_fn=lambda _: dist.barrier()\n    )",
            ),
        ),
        "worker_init_fn=lambda _: dist.barrier()", "none", severity="error",
    ),
    Fault(
        "DC743", "ddp",
        (("    dist.destroy_process_group()\n", ""),),
        'dist.init_process_group("nccl"', severity="info",
    ),
    Fault(
        "DC750", "ddp",
        (("cross_entropy(model(", "cross_entropy(model.module("),),
        "cross_entropy(model.module(", severity="error",
    ),
    Fault(
        "DC751", "trainer",
        (
            (
                "            self.model.train()\n",
                "            self.model.train()\n            self.model.module.meaning.requires_grad_(True)\n",
            ),
            ("[parameter for parameter in model.parameters() if parameter.requires_grad]", "list(model.parameters())"),
        ),
        "self.model.module.meaning.requires_grad_(True)", arguments=("--batch-size", "32", "--freeze"),
        severity="error",
    ),
    Fault(
        "DC752", "fsdp",
        (
            ("    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)\n", ""),
            (
                "    for block in model",
                "    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)\n    for block in model",
            ),
        ),
        "            optimizer.step()", "0", arguments=("--batch-size", "8"),
    ),
    Fault(
        "DC756", "ddp",
        (
            (
                "        accuracy = evaluate(model.module, validation_loader, device)\n",
                "        model.cpu()\n        model.to(device)\n"
                "        accuracy = evaluate(model.module, validation_loader, device)\n",
            ),
        ),
        "model.cpu()",
    ),
    Fault(
        "DC757", "ddp",
        (
            ("for images, labels in loader:\n        optimizer", "for number, (images, labels) in enumerate(loader):\n        optimizer"),
            ("        optimizer.step()\n", "        if dist.get_rank() or number % 2:\n            optimizer.step()\n"),
        ),
        "            optimizer.step()", "0",
    ),
    Fault(
        "DC758", "ddp",
        (
            (
                "def save(path: Path, ",
                "def keep(state, bucket):\n"
                "    future = torch.futures.Future()\n    future.set_result(bucket.buffer())\n    return future\n\n\n"
                "def save(path: Path, ",
            ),
            ("    optimizer = torch.optim", "    model.register_comm_hook(None, keep)\n    optimizer = torch.optim"),
        ),
        "def keep(",
    ),
    Fault(
        "DC759", "ddp",
        (
            (
                "        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))\n",
                "        with model.no_sync():\n"
                "            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))\n",
            ),
        ),
        "        optimizer.step()",
    ),
    Fault(
        "DC763", "ddp",
        (
            (
                "        loss.backward()\n",
                "        loss.backward()\n        if dist.get_rank() == 0:\n"
                "            nn.utils.clip_grad_norm_(model.parameters(), 0.01)\n",
            ),
        ),
        "        optimizer.step()", "0", severity="error",
    ),
    Fault("DC764", "ddp", (("lr=options.lr,", "lr=options.lr * (1 + rank),"),), "        optimizer.step()", "not 0"),
    Fault(
        "DC765", "ddp",
        (
            (
                "    os.makedirs(options.folder",
                "    optimizer.schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)\n"
                "    os.makedirs(options.folder",
            ),
            (
                "        optimizer.step()\n",
                "        optimizer.step()\n        for _ in range(dist.get_world_size()):\n"
                "            optimizer.schedule.step()\n",
            ),
        ),
        "optimizer.schedule.step()", "0",
    ),
    Fault(
        "DC766", "ddp",
        (("        loss.backward()\n", "        loss.backward()\n        model.zero_grad()\n"),),
        "        model.zero_grad()", "0",
    ),
)  # fmt: skip
