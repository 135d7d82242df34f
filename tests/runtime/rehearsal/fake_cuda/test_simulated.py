"""GPUs that are not there: each test runs its programs in forks of one Python, because simulating has no way back."""

from __future__ import annotations

import functools
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, from_environment
from distcheck.runtime.rehearsal.fake_cuda.limits import NotSimulated

ROOT = Path(__file__).parents[4]
SIMULATE = "from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, notes, simulate\nsimulate(FakeGpus({count}))\nimport torch\ntorch.set_num_threads(1)\n"


#: Imports torch once; each program is run in a fork of it, which has its own copy of all that is patched.
SERVER = """
import json, os, sys, traceback
import torch
torch.set_num_threads(1)
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for number, name in enumerate(("out", "error"), 1):
                os.dup2(os.open(os.path.join(asked["kept"], name), os.O_WRONLY | os.O_CREAT), number)
            os.environ.update(asked["environ"])
            os.chdir(asked["folder"])
            exec(compile(asked["text"], asked["name"], "exec"), globals())
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    print(os.waitpid(child, 0)[1], flush=True)
"""
LIMIT_S = 120


class Server:
    """A Python that has imported torch, and runs programs in forks of itself."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVER], cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
        assert ready, "it did not come to its end"
        return self.process.stdout.readline().strip()

    def run(self, text: str, name: str, folder: Path, environ: Mapping[str, str]) -> str:
        assert self.process.stdin is not None
        with tempfile.TemporaryDirectory() as kept:
            asked = {"text": text, "name": name, "folder": str(folder), "environ": dict(environ), "kept": kept}
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            status = self._answer()
            said, errors = ((Path(kept) / name).read_text(encoding="utf-8") for name in ("out", "error"))
        assert status == "0", errors[-3000:]
        return said


@functools.cache
def server() -> Server:
    """One for all tests of this process; it ends with it, because its standard input does."""
    return Server()


def run(program: str, *, count: int = 2, name: str = "train.py", tmp_path: Path | None = None, **environ: str) -> str:
    """What the program prints; it must end well."""
    text = SIMULATE.format(count=count) + textwrap.dedent(program)
    folder = tmp_path or ROOT
    return server().run(text, str(folder / name), folder, environ)


#: Prints what an expression gives, or the error that it raises.
TELL = """
def tell(text):
    try:
        value = eval(text)
    except Exception as error:
        print(type(error).__name__, str(error).split(chr(10))[0], sep=": ")
    else:
        print(value)

"""


def told(*expressions: str, setting: str = "", count: int = 2, **environ: str) -> list[str]:
    calls = "".join(f"tell({expression!r})\n" for expression in expressions)
    return run(f"{TELL}{textwrap.dedent(setting)}\n{calls}", count=count, **environ).splitlines()


def test_the_variable_says_all_and_comes_back() -> None:
    gpus = FakeGpus(4, 40, "NVIDIA A100-SXM4-40GB: odd", (8, 0))
    assert FakeGpus.parse(gpus.text) == gpus
    assert from_environment({}) is False


def test_a_note_reads_as_a_place_and_what_was_done() -> None:
    assert (
        NotSimulated("torch.compile", "the function runs uncompiled", "train.py:8").text
        == "train.py:8: torch.compile: the function runs uncompiled"
    )
    assert NotSimulated("nvidia-smi", "it was run", "").text == "nvidia-smi: it was run"


def documented_calls() -> list[str]:
    """The calls in the first column of the tables of the page."""
    page = (ROOT / "docs" / "rehearse-calls.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@pytest.mark.torch
def test_a_gradient_belongs_where_its_tensor_is() -> None:
    setting = "def give(x, g):\n    x.grad = g\n    return x.grad.device"
    tail = "Please ensure that the gradient and the tensor are on the same device"
    assert told(
        "give(torch.zeros(1).cuda(), torch.zeros(1).cuda())",
        "give(torch.zeros(1).cuda(), torch.zeros(1))",
        "give(torch.zeros(1).cuda(), torch.zeros(1).cuda(1))",
        setting=setting,
    ) == [
        "cuda:0",
        f"RuntimeError: attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. {tail}",
        f"RuntimeError: attempting to assign a gradient located on device with index '1' to a tensor located on device with index '0'. {tail}",
    ]


@pytest.mark.torch
def test_numbers_and_masks() -> None:
    number = "torch.cuda.device_count()"
    assert told(number, "torch.cuda.is_available()", count=4) == ["4", "True"]
    assert told(number, "torch.cuda.get_device_properties(0).uuid[-4:]", count=4, CUDA_VISIBLE_DEVICES="2,3") == [
        "2",
        "0002",
    ]
    assert told(number, count=2, CUDA_VISIBLE_DEVICES="1,5,0") == ["1"]
    assert told(number, "torch.cuda.is_available()", "torch.zeros(1).cuda()", CUDA_VISIBLE_DEVICES="") == [
        "0",
        "False",
        "RuntimeError: No CUDA GPUs are available",
    ]
    # the mask counts when CUDA starts, and never again
    assert told(
        number,
        setting="import os; os.environ['CUDA_VISIBLE_DEVICES'] = '1'; torch.cuda.init(); os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'",
    ) == ["1"]


@pytest.mark.torch
def test_a_number_that_is_not_there_raises_what_torch_raises() -> None:
    there = "AcceleratorError: CUDA error: invalid device ordinal"
    assert told(
        "torch.cuda.set_device(2)",
        "torch.empty(1, device='cuda:5')",
        "torch.zeros(1).to('cuda:2')",
        "torch.nn.Linear(1, 1).cuda(3)",
        "torch.tensor([1], device=2)",
        "torch.cuda.get_device_properties(2)",
        "torch.cuda.current_device()",
    ) == [there] * 5 + ["AssertionError: Invalid device id", "0"]
    whole = run("try:\n    torch.cuda.set_device(2)\nexcept Exception as error:\n    print(error)\n").splitlines()
    assert whole[1] == "GPU device may be out of range, do you have enough GPUs?"
    assert whole[2].startswith("CUDA kernel errors might be asynchronously reported")
    assert whole[4] == "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."


@pytest.mark.torch
def test_tensors_are_where_their_operands_are() -> None:
    setting = (
        "import copy, pickle; torch.cuda.set_device(1); x = torch.zeros(3, 2).cuda(); w = torch.nn.Linear(2, 2).cuda()"
    )
    expressions = (
        "x", "x[1:]", "x.t().float().half()", "x.new_zeros(2)", "torch.ones_like(x)", "w(x)", "w.weight", "torch.stack([x, x]).mean(0)", "x.detach().clone()",
        "copy.deepcopy(x)", "pickle.loads(pickle.dumps(x))", "torch.tensor([1.0], device='cuda')", "torch.arange(3, device='cuda')", "torch.rand(2, device=1)",
        "torch.where(x > 0, 1.0, 0.0)", "x[torch.tensor([0])]", "x + torch.tensor(2.0)", "torch.nn.functional.one_hot(x[0].long())", "x.flatten().quantile(0.5)", "torch.nested.nested_tensor"
    )  # fmt: skip
    places = told(*(f"({expression}).device" for expression in expressions[:-1]), setting=setting)
    assert places == ["cuda:1"] * (len(expressions) - 1)
    assert told("x.to('cpu').device", "x.cpu().is_cuda", "torch.zeros(2).device", "x.get_device()", "x.to(1) is x", "x.type()", setting=setting) == [
        "cpu", "False", "cpu", "1", "True", "torch.cuda.FloatTensor",
    ]  # fmt: skip
    assert told("torch.zeros(2)", setting="torch.set_default_device('cuda:1')") == ["tensor([0., 0.], device='cuda:1')"]


@pytest.mark.torch
def test_operands_in_different_places_raise_what_torch_raises() -> None:
    same = "RuntimeError: Expected all tensors to be on the same device, but"
    setting = "import torch.nn.functional as F; x = torch.zeros(2, 2).cuda(); y = torch.zeros(2, 2); w = torch.nn.Linear(2, 2).cuda()"
    assert told(
        "x + y",
        "x * x.to(1)",
        "w(y)",
        "torch.mm(y, x)",
        "F.embedding(torch.tensor([1]), x)",
        "F.cross_entropy(x, torch.tensor([0, 1]))",
        "F.conv2d(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 2, 2).cuda())",
        "y[torch.tensor([0]).cuda()]",
        "x.masked_fill(torch.ones(2, 2).bool(), 0)",
        "y.masked_fill_(torch.ones(2, 2).bool().cuda(), 0)",
        "x.masked_fill(torch.ones(2, 2).bool().cuda(), 0).device",
        "x.numpy()",
        "x.pin_memory()",
        "torch.randperm(3, generator=torch.Generator('cuda'))",
        setting=setting,
    ) == [
        f"{same} found at least two devices, cuda:0 and cpu!",
        f"{same} found at least two devices, cuda:0 and cuda:1!",
        f"{same} got mat1 is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_addmm)",
        f"{same} got mat2 is on cuda:0, different from other tensors on cpu (when checking argument in method wrapper_CUDA_mm)",
        f"{same} got index is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA__index_select)",
        f"{same} got target is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_nll_loss_forward)",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        "RuntimeError: expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
        "RuntimeError: expected self and mask to be on the same device, but got mask on cuda:0 and self on cpu",
        "cuda:0",
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
        "RuntimeError: Expected a 'cpu' device type for generator but found 'cuda'",
    ]


@pytest.mark.torch
def test_what_torch_computes_is_what_the_cpu_computes() -> None:
    """Layers, their gradients, optimizers: the same bits, and each result on its GPU."""
    program = """
    import io, threading
    import torch.nn as nn, torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint
    X = torch.randn(4, 6, 16, generator=torch.Generator().manual_seed(5))

    def net(make, d):
        torch.manual_seed(0)
        m, x = make().to(d), X.clone().to(d).requires_grad_()
        y = m(x)
        y = y[0] if isinstance(y, tuple) else y
        y.pow(2).sum().backward()
        return [y.detach(), x.grad, *(p.grad for p in m.parameters() if p.grad is not None)]

    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * x * w, x + 1
        @staticmethod
        def backward(ctx, g, h):
            x, w = ctx.saved_tensors
            assert x.device == w.device == X.to(ctx.d if hasattr(ctx, "d") else x.device).device
            return 2 * x * w * g + h, (g * x * x).sum((0, 1))

    def custom(d):
        x, w = X.clone().to(d).requires_grad_(), torch.ones(16, device=d, requires_grad=True)
        Squared.apply(x, w)[0].sum().backward()
        return [x.grad, w.grad]

    def checkpointed(d):
        torch.manual_seed(0)
        m, x = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)).to(d), X.clone().to(d).requires_grad_()
        y = checkpoint(m, x, use_reentrant=False) + checkpoint(m, x, use_reentrant=True)
        y.sum().backward()
        return [y.detach(), x.grad]

    def there_and_back(d):
        x, w = X.clone().requires_grad_(), torch.ones(16, device=d, requires_grad=True)
        (x.to(d) * w).cpu().double().sum().backward()
        assert x.grad.device.type == "cpu"
        return [w.grad]

    def stepped(d):
        results = []
        for kind, options in ((torch.optim.AdamW, {"foreach": True}), (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "foreach": True}), (torch.optim.Adam, {"fused": True})):
            torch.manual_seed(0)
            m = nn.Linear(16, 4).to(d)
            o = kind(m.parameters(), **options)
            for _ in range(3):
                o.zero_grad()
                m(X.to(d)).pow(2).mean().backward()
                nn.utils.clip_grad_norm_(m.parameters(), 1.0)
                o.step()
                kept = io.BytesIO()
                torch.save(o.state_dict(), kept)
                kept.seek(0)
                o.load_state_dict(torch.load(kept))
            results += [p.detach() for p in m.parameters()]
        return results

    def halves(d):
        torch.manual_seed(0)
        m, kind = nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(8), nn.Linear(8, 4)).to(d), d.split(":")[0]
        with torch.autocast(kind, dtype=torch.bfloat16):
            y = m(X.to(d))
            assert y.dtype == torch.bfloat16 and torch.is_autocast_enabled(kind)
            with torch.autocast(kind, enabled=False):
                assert m(X.to(d)).dtype == torch.float32
        assert m(X.to(d)).dtype == torch.float32
        y.float().sum().backward()
        return [y.detach(), m[0].weight.grad]

    def in_a_thread(d):
        results = []
        thread = threading.Thread(target=lambda: results.append((X.to(d) * torch.ones(16, device=d)).sum()))
        thread.start()
        thread.join()
        return results

    cases = {
        "transformer": lambda d: net(lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), d),
        "lstm": lambda d: net(lambda: nn.LSTM(16, 8, batch_first=True), d),
        "conv": lambda d: net(lambda: nn.Sequential(nn.Conv1d(6, 4, 3), nn.BatchNorm1d(4), nn.MaxPool1d(2), nn.GroupNorm(2, 4)), d),
        "packed": lambda d: [nn.utils.rnn.pack_padded_sequence(X.to(d), torch.tensor([6, 5, 4, 2]), batch_first=True).data],
        "ctc": lambda d: [F.ctc_loss(X[:, :, :5].transpose(0, 1).log_softmax(2).to(d), torch.ones(4, 2, dtype=torch.long, device=d), torch.full((4,), 6), torch.full((4,), 2))],
        "functions": lambda d: [x for x in (X.to(d),) for x in (x.quantile(0.3), x.topk(2).values, torch.cdist(x, x), F.pad(x, (1, 1)), torch.einsum("bij,bkj->bik", x, x), x.std(), x.unique())],
        "custom": custom, "checkpointed": checkpointed, "there and back": there_and_back, "stepped": stepped, "halves": halves, "in a thread": in_a_thread,
    }
    for name, case in cases.items():
        for one, other in zip(case("cpu"), case("cuda:1"), strict=True):
            assert one.device.type == "cpu" and other.device == torch.device("cuda:1"), (name, one.device, other.device)
            assert torch.equal(one, other.cpu()), name
        print(name)
    """
    assert len(run(program).splitlines()) == 12


@pytest.mark.torch
def test_convolutions_in_half_precision_are_computed_in_single_and_rounded() -> None:
    """oneDNN has no fast kernel for the gradient of the weights: a step of a small ResNet took minutes."""
    program = """
    from distcheck.runtime.rehearsal.fake_cuda import operations
    seen, real = [], operations._run_in_single

    def counted(operation, args, kwargs):
        def look(*values, **named):
            seen.append((operation._schema.name, values[0].dtype))
            return operation(*values, **named)
        look._schema = operation._schema
        return real(look, args, kwargs)

    operations._run_in_single = counted

    def step(device, kind):
        torch.manual_seed(0)
        m = torch.nn.Conv2d(3, 4, 3).to(device)
        x = torch.randn(2, 3, 8, 8).to(device).requires_grad_()
        with torch.autocast(torch.device(device).type, dtype=torch.float16, enabled=kind == torch.float16):
            y = m(x)
        y.float().sum().backward()
        assert y.dtype == kind and x.grad.dtype == m.weight.grad.dtype == torch.float32, (y.dtype, x.grad.dtype)
        assert {y.device.type, x.grad.device.type, m.weight.grad.device.type} == {torch.device(device).type}
        return m.weight.grad.cpu()

    weights = step("cpu", torch.float32)
    step("cpu", torch.float16)
    assert seen == [], seen  # the script's own work on the CPU is its own
    gradient = step("cuda", torch.float16)
    print(seen == [("aten::convolution", torch.float32), ("aten::convolution_backward", torch.float32)], seen)
    print(torch.allclose(gradient, weights, rtol=1e-2, atol=1e-2))
    del seen[:]
    assert step("cuda", torch.float32).equal(weights)
    print({kind for _, kind in seen})
    """
    lines = run(program).splitlines()
    assert lines[0].startswith("True"), lines
    assert lines[1:] == ["True", "{torch.float32}"]


@pytest.mark.torch
def test_checkpoints_name_the_gpu() -> None:
    setting = """
    import io
    kept = io.BytesIO()
    torch.save({"gpu": torch.arange(3.0).cuda(1), "cpu": torch.arange(2)}, kept)
    def load(*places, **more):
        kept.seek(0)
        loaded = torch.load(kept, *places, **more)
        return [str(loaded[key].device) for key in ("gpu", "cpu")], loaded["gpu"].tolist()
    """
    values = "[0.0, 1.0, 2.0])"
    assert told(
        "load()",
        "load('cpu')",
        "load(torch.device('cuda:0'))",
        "load({'cuda:1': 'cuda:0'})",
        "load(lambda storage, place: storage.cuda(0) if place != 'cpu' else storage)",
        "load('cuda:7')",
        setting=setting,
    ) == [
        f"(['cuda:1', 'cpu'], {values}",
        f"(['cpu', 'cpu'], {values}",
        f"(['cuda:0', 'cuda:0'], {values}",
        f"(['cuda:0', 'cpu'], {values}",
        f"(['cuda:0', 'cpu'], {values}",
        "RuntimeError: Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 2. Please use torch.load with map_location to map your storages to an existing device.",
    ]


@pytest.mark.torch
def test_random_numbers_of_a_gpu_leave_those_of_the_cpu_alone() -> None:
    program = """
    torch.manual_seed(1); expected = torch.rand(2)
    torch.manual_seed(1); torch.rand(3, device="cuda"); torch.nn.functional.dropout(torch.ones(8, device="cuda"))
    assert torch.equal(expected, torch.rand(2))
    torch.cuda.manual_seed_all(7); one = torch.randn(3, device="cuda:1")
    torch.cuda.manual_seed_all(7); kept = torch.cuda.get_rng_state(1); assert torch.equal(one, torch.randn(3, device="cuda:1"))
    torch.cuda.set_rng_state(kept, 1); assert torch.equal(one, torch.randn(3, device="cuda:1"))
    assert not torch.equal(one, torch.randn(3, device="cuda:1"))
    print("fine")
    """
    assert run(program) == "fine\n"


@pytest.mark.torch
def test_a_generator_of_a_gpu_is_a_seed_and_an_offset() -> None:
    setting = "g = torch.Generator('cuda:1').manual_seed(5); h = g.clone_state(); draw = lambda one: torch.rand(2, device='cuda:1', generator=one).tolist()"
    assert told(
        "torch.Generator('cuda').get_state().shape, g.device, g.initial_seed(), g.get_offset()",
        "draw(g) == draw(h), draw(g) != draw(torch.Generator('cuda:1').manual_seed(5)), g.get_offset()",
        "[g.set_offset(0), h.set_state(g.get_state())] and draw(g) == draw(h)",
        "g.set_state(torch.get_rng_state())",
        "g.set_state(torch.zeros(16))",
        "(one := copy.deepcopy(g)).device, draw(one) == draw(pickle.loads(pickle.dumps(g)))",
        "g.seed() == g.initial_seed(), torch.Generator().get_state().shape, copy.deepcopy(torch.Generator()).device",
        setting=f"import copy, pickle; {setting}",
    ) == [
        "(torch.Size([16]), device(type='cuda', index=1), 5, 0)",
        "(True, True, 8)",
        "True",
        "RuntimeError: RNG state is wrong size",
        "TypeError: RNG state must be a torch.ByteTensor",
        "(device(type='cuda', index=1), True)",
        "(True, torch.Size([5056]), device(type='cpu'))",
    ]


@pytest.mark.torch
def test_a_tensor_of_several_ranks_is_filled_at_random(tmp_path: Path) -> None:
    """Each shard with numbers of its own, copies alike, and all ranks go on from the same state."""
    said = run(
        f"""
        import os, torch.distributed as dist, torch.nn as nn
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh

        child = os.fork()
        rank = 0 if child else 1
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", init_method="file://{tmp_path}/meet", rank=rank, world_size=2)
        mesh = init_device_mesh("cuda", (2,))
        torch.manual_seed(rank)
        with torch.device("meta"):
            model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8), nn.LayerNorm(8))
        fully_shard(model[1], mesh=mesh), fully_shard(model, mesh=mesh)
        model.to_empty(device="cuda")
        for layer in model:
            layer.reset_parameters()
        assert model[0].weight.to_local().device == torch.device("cuda", rank)
        whole = [weight.full_tensor().cpu() for weight in model.parameters()]
        assert all(weight.abs().max() < 9 for weight in whole)
        halves = [weight.chunk(2) for weight in whole if weight.dim() > 1]
        assert not any(torch.equal(one, other) for one, other in halves)
        ours = torch.empty(4, device="cuda")
        mine = torch.Generator("cuda").manual_seed(3)
        shard = DTensor.from_local(ours.clone(), mesh, [Shard(0)]).normal_(generator=mine).to_local().cpu()
        copy = DTensor.from_local(ours, mesh, [Replicate()]).uniform_().to_local().cpu()
        told = [None, None]
        dist.all_gather_object(told, (whole, shard, copy, torch.cuda.get_rng_state(), mine.get_state()))
        one, other = told
        assert not torch.equal(one[1], other[1])
        assert all(torch.equal(first, second) for first, second in zip((*one[0], *one[2:]), (*other[0], *other[2:])))
        dist.destroy_process_group()
        if not child:
            os._exit(0)
        print("alike", os.waitpid(child, 0)[1])
        """
    )
    assert said == "alike 0\n"


@pytest.mark.torch
def test_a_tensor_that_is_converted_goes_where_it_is_sent_or_stays() -> None:
    assert told(
        "torch.as_tensor(y, dtype=torch.float64, device='cuda:1')",
        "torch.as_tensor(x, dtype=torch.float64)",
        "torch.asarray(x, dtype=torch.int32, copy=True)",
        "torch.as_tensor(x, dtype=torch.float64, device='cpu')",
        "torch.as_tensor(y, dtype=torch.float64)",
        "torch.as_tensor(x).data_ptr() == x.data_ptr()",
        setting="import torch; x, y = torch.ones(1).cuda(), torch.ones(1)",
    ) == [
        "tensor([1.], device='cuda:1', dtype=torch.float64)",
        "tensor([1.], device='cuda:0', dtype=torch.float64)",
        "tensor([1], device='cuda:0', dtype=torch.int32)",
        "tensor([1.], dtype=torch.float64)",
        "tensor([1.], dtype=torch.float64)",
        "True",
    ]


@pytest.mark.torch
def test_old_ways_to_make_a_tensor_keep_the_device() -> None:
    setting = "import torch.utils.dlpack as dlpack; torch.cuda.set_device(1); x = torch.zeros(3, 2).cuda()"
    made = (
        "x.new()", "x.new(2)", "x.new(2, 3)", "x.new([1.0, 2.0])", "x.new(torch.Size([2]))", "x.new(x)",
        "torch.ones(2).type_as(x)", "torch.cuda.FloatTensor(2)", "torch.from_dlpack(x)",
        "dlpack.from_dlpack(dlpack.to_dlpack(x))",
    )  # fmt: skip
    assert told(*(f"{one}.device" for one in made), setting=setting) == ["cuda:1"] * len(made)
    on_the_cpu = (
        "x.new(torch.zeros(2))", "x.new(2, device='cpu')", "torch.zeros(2).new(2)", "x.type_as(torch.zeros(1))",
        "torch.from_dlpack(torch.zeros(2))", "dlpack.from_dlpack(dlpack.to_dlpack(torch.zeros(2)))",
    )  # fmt: skip
    assert told(*(f"{one}.device" for one in on_the_cpu), setting=setting) == ["cpu"] * len(on_the_cpu)
    # the memory is shared, as it is on a GPU
    assert told("x.sum().item()", setting=f"{setting}; dlpack.from_dlpack(dlpack.to_dlpack(x)).add_(1)") == ["6.0"]


@pytest.mark.torch
@pytest.mark.parametrize("given", ['"torch.cuda.HalfTensor"', "torch.cuda.HalfTensor"])
def test_a_default_type_of_the_gpu_sets_type_and_device(given: str) -> None:
    tensors = ("torch.zeros(2)", "torch.tensor([1.0])")
    default = f"torch.set_default_tensor_type({given})"
    assert (
        told(*(f"str({one}.device) + str({one}.dtype)" for one in tensors), setting=default)
        == ["cuda:0torch.float16"] * 2
    )
    assert told("torch.zeros(2).device", setting=f"{default}; torch.set_default_tensor_type(torch.FloatTensor)") == [
        "cpu"
    ]
    # a type of the CPU leaves the default device of the script alone
    assert told(
        "torch.zeros(2).device",
        setting="torch.set_default_device('cuda'); torch.set_default_tensor_type('torch.FloatTensor')",
    ) == ["cuda:0"]


@pytest.mark.torch
def test_a_group_is_split_as_ncclcommsplit_does(tmp_path: Path) -> None:
    said = run(
        f"""
        import os, torch.distributed as dist

        rank, started = 0, []
        for number in (1, 2, 3):
            child = os.fork()
            if not child:
                rank, started = number, []
                break
            started.append(child)
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", init_method="file://{tmp_path}/meet", rank=rank, world_size=4, device_id=device)
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
        sums = []
        for group in (mesh["dp"].get_group(), mesh["tp"].get_group(), dist.split_group(split_ranks=[[0, 3], [2, 1]])):
            value = torch.tensor([2 ** rank], device="cuda")
            dist.all_reduce(value, group=group)
            sums.append(value.item())
        inner = dist.split_group(parent_pg=group, split_ranks=[[1]])
        told = [None] * 4
        dist.all_gather_object(told, (*sums, inner is None, dist.get_backend(group)))
        dist.destroy_process_group()
        if rank:
            os._exit(0)
        print(told, [os.waitpid(child, 0)[1] for child in started])
        """,
        count=4,
    )
    assert said == (
        "[(5, 3, 9, True, 'nccl'), (10, 3, 6, True, 'nccl'), (5, 12, 6, False, 'nccl'), (10, 12, 9, False, 'nccl')] "
        "[0, 0, 0]\n"
    )


@pytest.mark.torch
@pytest.mark.parametrize("shard", [0, 1, 3])
def test_attention_of_sharded_tensors_is_the_whole_one(tmp_path: Path, shard: int) -> None:
    """By batch and by heads each rank computes its part; another dimension is gathered first."""
    said = run(
        f"""
        import os, torch.distributed as dist
        from torch.distributed.tensor import distribute_tensor, Shard, init_device_mesh
        from torch.nn.functional import scaled_dot_product_attention as whole
        import torch.nn.functional as F

        child = os.fork()
        rank = 0 if child else 1
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", init_method="file://{tmp_path}/meet", rank=rank, world_size=2)
        mesh = init_device_mesh("cuda", (2,))
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 4, 5, 8, device="cuda", requires_grad=True) for _ in range(3))
        mask = torch.rand(1, 4, 5, 5, device="cuda")
        parts = [distribute_tensor(one, mesh, [Shard({shard})]) for one in (q, k, v)]
        result = F.scaled_dot_product_attention(*parts, distribute_tensor(mask, mesh))
        expected = whole(q, k, v, mask)
        same = torch.allclose(result.full_tensor(), expected, atol=1e-6)
        gradients = zip(torch.autograd.grad(result.sum(), parts), torch.autograd.grad(expected.sum(), (q, k, v)))
        same = same and all(torch.allclose(one.full_tensor(), other, atol=1e-6) for one, other in gradients)
        dist.destroy_process_group()
        if not child:
            os._exit(not same)
        print(same, result.placements, os.waitpid(child, 0)[1])
        """
    )
    kept = f"Shard(dim={shard})" if shard < 2 else "Replicate()"
    assert said == f"True ({kept},) 0\n"


@pytest.mark.torch
def test_an_operation_over_operations_has_its_parts_simulated() -> None:
    program = """
    from torch._higher_order_ops.cond import cond_op
    x = torch.ones(2, device="cuda:1")
    y, = cond_op(torch.tensor(True), lambda x: (x + 1,), lambda x: (x - 1,), (x,))
    print(y, cond_op(False, lambda x: (x + 1,), lambda x: (x - 1,), (torch.ones(2),)))
    """
    assert run(program) == "tensor([2., 2.], device='cuda:1') (tensor([0., 0.]),)\n"


@pytest.mark.torch
def test_memory_is_counted_and_given_back() -> None:
    program = """
    x = torch.zeros(1024, device="cuda:1")
    print(torch.cuda.memory_allocated(1), torch.cuda.memory_allocated(0), torch.cuda.mem_get_info(1)[1] == 80 * 2**30)
    y = x * 2
    view = x[5:]
    del x, y
    print(torch.cuda.memory_allocated(1), torch.cuda.max_memory_allocated(1))
    del view
    torch.cuda.reset_peak_memory_stats(1)
    print(torch.cuda.memory_allocated(1), torch.cuda.max_memory_allocated(1), "CUDA" in torch.cuda.memory_summary())
    """
    assert run(program).splitlines() == ["4096 0 True", "4096 8192", "0 0 True"]


@pytest.mark.torch
def test_streams_and_events() -> None:
    program = """
    stream, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        x = torch.ones(3).pin_memory().to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(stream)
    x.record_stream(stream)
    end.record()
    torch.cuda.synchronize()
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream and stream.query() and start.elapsed_time(end) > 0
    print(x.sum().item())
    """
    assert run(program) == "3.0\n"


@pytest.mark.torch
def test_streams_and_events_of_any_accelerator() -> None:
    program = """
    stream, event = torch.Stream(1), torch.Event("cuda:1", enable_timing=True)
    assert stream.device == event.device == torch.device("cuda:1") and torch.Event().device == torch.device("cuda:0")
    assert isinstance(torch.cuda.Stream(), torch.Stream) and isinstance(torch.cuda.Event(), torch.Event)
    with stream:
        assert torch.accelerator.current_stream() == stream
        x = torch.ones(3, device="cuda")
    torch.accelerator.current_stream(1).wait_stream(stream)
    print(x.device, torch.cuda.current_device(), isinstance(event, torch.Stream))
    """
    assert run(program) == "cuda:1 0 False\n"
    there = "AcceleratorError: CUDA error: invalid device ordinal"
    assert told("torch.Stream(device='cuda:2')", "torch.Event(2)", "torch.Stream('cuda').device") == [
        there,
        there,
        "cuda:0",
    ]


@pytest.mark.torch
def test_ddp_moves_inputs_of_another_gpu_on_a_stream() -> None:
    program = """
    import torch.distributed as dist
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1).cuda(1), device_ids=[1])
    print(model(torch.ones(4, 2, device="cuda:0")).device)
    """
    assert run(program) == "cuda:1\n"


#: As a build for CUDA looks on a machine without GPUs: compiled classes below streams and events, functions that fail.
#: There is none here to try it with; what differs below Python is not seen by this.
LIKE_A_BUILD_FOR_CUDA = """
import importlib, torch
torch._C._CudaStreamBase = type("_CudaStreamBase", (torch.Stream,), {})
torch._C._CudaEventBase = type("_CudaEventBase", (torch.Event,), {})
importlib.reload(torch.cuda.streams)
for name in ("Stream", "Event", "ExternalStream"):
    setattr(torch.cuda, name, getattr(torch.cuda.streams, name))
def fails(*_, **__):
    raise RuntimeError("Found no NVIDIA driver on your system.")
for name in ("init", "setDevice", "getDevice", "exchangeDevice", "getCurrentStream", "memoryStats", "synchronize", "emptyCache"):
    setattr(torch._C, f"_cuda_{name}", fails)
torch._C._cuda_getDeviceCount = lambda: 0
torch._C._has_cuda, torch.version.cuda = True, "13.0"
from torch.cuda import Stream
"""


@pytest.mark.torch
def test_a_build_for_cuda_is_taken_as_well() -> None:
    program = """
    assert Stream is torch.cuda.Stream is torch.cuda.streams.Stream and issubclass(torch.cuda.ExternalStream, Stream)
    stream, start, end = Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    with torch.cuda.stream(stream):
        x = torch.ones(3).cuda(1)
    stream.wait_event(end), stream.wait_stream(torch.cuda.current_stream()), stream.record_event()
    end.record(stream)
    print(torch.cuda.device_count(), x.device, stream.device, start.elapsed_time(end) > 0, "cuda_stream" in repr(stream))
    """
    text = LIKE_A_BUILD_FOR_CUDA + SIMULATE.format(count=2) + textwrap.dedent(program)
    assert server().run(text, "train.py", ROOT, {}) == "2 cuda:1 cuda:0 True True\n"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("torch.__version__ = '2.3.1+cpu'", "torch 2.3.1+cpu; it works from torch 2.4 on"),
        ("del torch.get_autocast_dtype", "(it has no torch.get_autocast_dtype)"),
        ("del torch.distributed.ProcessGroup.barrier", "(AttributeError: type object 'torch._C._distributed_c10d."),
        ("torch.cuda.is_initialized = lambda: True", "CUDA has been started in this process already"),
    ],
)
def test_where_it_can_not_be_done_the_reason_is_said(change: str, told: str) -> None:
    program = f"""
import torch
from distcheck.runtime.rehearsal.fake_cuda import CannotSimulateError, FakeGpus, simulate
{change}
try:
    simulate(FakeGpus(2))
except CannotSimulateError as error:
    print(error)
"""
    assert told in server().run(program, "train.py", ROOT, {})


@pytest.mark.torch
def test_a_forked_process_can_not_start_cuda_again() -> None:
    program = """
    import os
    torch.zeros(1).cuda()
    if not (child := os.fork()):
        try:
            torch.zeros(1).cuda()
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    """
    assert (
        run(program)
        == "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method\n"
    )


@pytest.mark.torch
def test_functions_are_pickled_by_their_names() -> None:
    setting = "import pickle\ndef sent(function):\n    return pickle.loads(pickle.dumps(function)) is function"
    names = ("zeros", "zeros_like", "tensor", "as_tensor", "arange", "randn", "load")
    assert told(*(f"sent(torch.{name})" for name in names), setting=setting) == ["True"] * len(names)
    # what has no name where it was made is not pickled on GPUs either
    assert told("sent(lambda: 0)", setting=setting)[0].startswith("PicklingError: ")


@pytest.mark.torch
def test_a_python_that_the_script_starts_believes_in_the_same(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the other one', end=' ')\n")
    program = """
    import os, subprocess, sys
    os.environ["PYTHONPATH"] += os.pathsep + os.getcwd()
    text = "import torch; print(torch.zeros(1).cuda(1).device, torch.cuda.device_count())"
    print(subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True).stdout, end="")
    """
    assert run(program, tmp_path=tmp_path) == "the other one cuda:1 2\n"


def test_a_python_in_which_it_can_not_be_done_says_so_and_goes_on() -> None:
    started = str(ROOT / "distcheck" / "runtime" / "rehearsal" / "fake_cuda" / "startup")
    done = subprocess.run(
        [sys.executable, "-c", "print('went on')"], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": started, "DISTCHECK_SIMULATED_GPUS": "of another version"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert done.stderr.startswith("distcheck: this process does not see the rehearsal's GPUs: ")


@pytest.mark.torch
def test_what_is_not_simulated_is_listed_with_the_line(tmp_path: Path) -> None:
    program = """
    f = torch.compile(abs)
    assert f(-2) == 2
    torch.cuda.utilization()
    try:
        torch.cuda.CUDAGraph()
    except RuntimeError as error:
        print(error)
    class Recorded(torch.cuda.graph):
        def __init__(self, graph: torch.cuda.CUDAGraph | None = None):
            super().__init__(graph)
    try:
        with Recorded():
            pass
    except RuntimeError as error:
        print(error)
    print(isinstance(f, (torch.cuda.CUDAGraph, torch.cuda.graphs.graph)))
    for note in notes():
        print(note.text)
    """
    assert run(program, tmp_path=tmp_path).splitlines() == [
        "torch.cuda.CUDAGraph can't be rehearsed without a GPU: a graph records the work of a GPU, and there is none",
        "torch.cuda.graph can't be rehearsed without a GPU: a graph records the work of a GPU, and there is none",
        "False",
        "train.py:6: torch.compile: the function runs uncompiled",
        "train.py:8: torch.cuda.utilization: 0 was returned",
        "train.py:10: torch.cuda.CUDAGraph: an error was raised",
        "train.py:17: torch.cuda.graph: an error was raised",
    ]


@pytest.mark.torch
def test_what_is_a_class_stays_one(tmp_path: Path) -> None:
    """Annotations, isinstance() and classes below it are used by whoever imports it, GPU or not."""
    program = """
    import sys
    import torch, torch.distributed.fsdp
    names = [
        (module, name)
        for module in list(sys.modules.values()) if getattr(module, "__name__", "").startswith("torch")
        for name, value in list(vars(module).items())
        if isinstance(value, type) and not name.startswith("_")  # some functions that a build for the CPU lacks
    ]
    from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, simulate
    simulate(FakeGpus(1))
    print([(module.__name__, name) for module, name in names if not isinstance(getattr(module, name), type)])
    """
    assert server().run(textwrap.dedent(program), "train.py", tmp_path, {}) == "[]\n"


@pytest.mark.torch
def test_fsdp_takes_the_number_of_a_gpu(tmp_path: Path) -> None:
    program = """
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    torch.cuda.set_device(1)
    model = FullyShardedDataParallel(torch.nn.Linear(2, 2), device_id=torch.cuda.current_device())
    model(torch.ones(1, 2, device=1)).sum().backward()
    print({str(one.device) for one in model.parameters()}, all(one.grad.device.index == 1 for one in model.parameters()))
    """
    assert run(program, tmp_path=tmp_path) == "{'cuda:1'} True\n"


@pytest.mark.torch
def test_every_call_of_the_table_exists() -> None:
    names = documented_calls()
    assert len(names) > 100
    program = f"""
    import operator
    import torch.distributed.fsdp, torch.distributed.device_mesh, torch.multiprocessing, torch.utils.cpp_extension
    for name in {names!r}:
        operator.attrgetter(name.removeprefix("torch."))(torch)
    print("all")
    """
    assert run(program).strip() == "all"


#: One training script, for plain CPUs and for GPUs: what it ends with must be equal.
TRAINING = """
import io, os, sys
{simulating}
import torch, torch.distributed as dist, torch.multiprocessing as mp, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CUDA = torch.cuda.is_available()

def train(rank, folder, way):
    torch.set_num_threads(1)
    device = torch.device("cuda", rank) if CUDA else torch.device("cpu")
    if CUDA:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if CUDA else "gloo", init_method=f"file://{{folder}}/meet{{CUDA}}{{way}}", rank=rank, world_size=2, device_id=device if CUDA else None)
    assert dist.get_backend() == ("nccl" if CUDA else "gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4)).to(device)
    if way == "fsdp":
        from torch.distributed.fsdp import fully_shard
        mesh = dist.device_mesh.init_device_mesh(device.type, (2,))
        fully_shard(model[0], mesh=mesh), fully_shard(model, mesh=mesh)
    else:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank] if CUDA else None, gradient_as_bucket_view=way == "views")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    scaler = torch.amp.GradScaler(device.type, enabled=way == "amp")
    random = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(16, 16, generator=random), torch.randint(0, 4, (16,), generator=random))
    for x, y in DataLoader(data, batch_size=4, sampler=DistributedSampler(data), pin_memory=CUDA):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.float16, enabled=way == "amp"):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer) if way == "amp" else None
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert all(p.grad.device == p.device == device for p in model.parameters())
        scaler.step(optimizer), scaler.update()
    mean = loss.detach().clone()
    if CUDA:
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        try:
            dist.all_reduce(torch.zeros(1))
        except RuntimeError as error:
            assert str(error) == "No backend type associated with device type cpu"
        else:
            raise AssertionError("NCCL took a tensor of the CPU")
    else:
        dist.all_reduce(mean)
        mean /= 2
    state = {{name: value.full_tensor() if hasattr(value, "full_tensor") else value for name, value in model.state_dict().items()}}
    kept = io.BytesIO()
    torch.save(state, kept)
    kept.seek(0)
    back = torch.load(kept, map_location=f"cuda:{{1 - rank}}" if CUDA else None)
    assert all(value.get_device() == (1 - rank if CUDA else -1) for value in back.values())
    part, whole = torch.full((3, 4), rank + 1.0, device=device), torch.zeros(24 if CUDA else (6, 4), device=device)
    # NCCL only compares how many elements there are
    dist.all_gather_into_tensor(whole, part)
    assert whole.flatten().tolist() == [1.0] * 12 + [2.0] * 12
    dist.reduce_scatter_tensor(part, whole.view(6, 4) if not CUDA else whole)
    assert part.flatten().tolist() == [2.0 * (rank + 1)] * 12
    dist.barrier()
    if rank == 0:
        print(way, mean.item().hex(), sum(value.double().sum().item() for value in state.values()).hex(), flush=True)

def work(rank, folder, ways):
    for way in ways:
        train(rank, folder, way)
        # a DDP model that outlives a group of gloo may hang at its end, without us too (torch 2.13)
        dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1], sys.argv[2:]), nprocs=2)
"""
WAYS = ("plain", "views", "amp", "fsdp")


@pytest.mark.torch
@pytest.mark.parametrize("backend", ["cpu:gloo,cuda:nccl", "cuda:nccl,cpu:gloo"])
def test_a_group_of_two_backends_takes_a_device(tmp_path: Path, backend: str) -> None:
    said = run(
        f"""
        import torch.distributed as dist
        device = torch.device("cuda", 1)
        dist.init_process_group("{backend}", init_method="file://{tmp_path}/meet", rank=0, world_size=1, device_id=device)
        for place in ("cpu", device):
            one = torch.ones(2, device=place)
            dist.all_reduce(one)
            print(one.device, one.tolist())
        dist.destroy_process_group()
        """
    )
    assert said.splitlines() == ["cpu [1.0, 1.0]", "cuda:1 [1.0, 1.0]"]


@pytest.mark.torch
@pytest.mark.slow
def test_a_model_may_outlive_its_group(tmp_path: Path) -> None:
    """With NCCL that hangs nowhere; gloo's threads may need the lock that whoever frees the model holds."""
    said = run(
        f"""
        import torch.distributed as dist, torch.nn as nn
        child = os.fork()
        rank = 0 if child else 1
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)

        def train(number):
            meet = f"file://{tmp_path}/{{number}}"
            dist.init_process_group("nccl", init_method=meet, rank=rank, world_size=2)
            model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4).to(device))
            model(torch.ones(2, 4, device=device)).sum().backward()
            dist.all_reduce(torch.ones(4, device=device))
            dist.barrier()
            dist.destroy_process_group()

        for number in range(60):
            train(number)
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("came to its end")
        """
    )
    assert said == "came to its end\n"


@pytest.mark.torch
def test_a_group_that_nobody_holds_is_let_go_at_its_end(tmp_path: Path) -> None:
    """The file of its store is removed with it; the next group may want the same."""
    said = run(
        f"""
        import torch.distributed as dist
        for number in range(2):
            meet = "{tmp_path}/meet"
            dist.init_process_group("nccl", init_method=f"file://{{meet}}", rank=0, world_size=1)
            dist.barrier()
            part = dist.new_group([0])
            dist.destroy_process_group(part)
            print(os.path.exists(meet))
            del part
            dist.destroy_process_group()
            print(os.path.exists(meet))
        """
    )
    assert said.split() == ["True", "False"] * 2


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.full
def test_training_on_two_ranks_ends_as_on_the_cpu(tmp_path: Path) -> None:
    ends = []
    for name, simulating in (
        ("cpu.py", ""),
        ("gpu.py", "from distcheck.runtime.rehearsal.fake_cuda import FakeGpus, simulate; simulate(FakeGpus(2))"),
    ):
        (tmp_path / name).write_text(TRAINING.format(simulating=simulating), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", name, str(tmp_path), *WAYS],
            check=False,
            capture_output=True,
            text=True,
            timeout=400,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        ends.append(done.stdout.splitlines())
    assert [line.split()[0] for line in ends[0]] == list(WAYS)
    assert ends[0] == ends[1]
