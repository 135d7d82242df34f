"""What expressions hold: each case is a line of a script, and the kind of the value that it prints."""

from __future__ import annotations

import pytest

from distcheck.checks.source import values
from distcheck.checks.source.engine import SourceFile, analyse
from distcheck.checks.source.program import Program

HEAD = """
import argparse, os, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
"""


def program(**files: str) -> Program:
    return analyse(
        [SourceFile(f"{name}.py", lambda text=text: text.encode()) for name, text in files.items()]  # type: ignore[misc]
    )


def shown(source: str, **others: str) -> values.Value:
    """What the argument of the one call of ``show`` holds."""
    (call,) = program(main=HEAD + source, **others).calls_named("show")
    value = call.argument(0)
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("show(dist.get_rank())", values.Kind.GLOBAL_RANK),
        ('show(int(os.environ["RANK"]))', values.Kind.GLOBAL_RANK),
        ('show(int(os.environ.get("LOCAL_RANK", 0)))', values.Kind.LOCAL_RANK),
        ('show(int(os.getenv("SLURM_LOCALID")))', values.Kind.LOCAL_RANK),
        ('show(os.environ["RANK"])', values.Kind.ENV_TEXT),
        ("show(dist.get_rank() % torch.cuda.device_count())", values.Kind.LOCAL_RANK),
        ("show(dist.get_rank() // torch.cuda.device_count())", values.Kind.NODE_RANK),
        # only the number of processes on a node makes a node's rank
        ("show(dist.get_rank() // 2)", values.Kind.RANK_DEPENDENT),
        ("show(dist.get_rank() // dist.get_world_size())", values.Kind.RANK_DEPENDENT),
        ("show(dist.get_rank() + 1)", values.Kind.RANK_DEPENDENT),
        ("show(dist.get_world_size())", values.Kind.WORLD_SIZE),
        ("rank, size = dist.get_rank(), dist.get_world_size()\nshow(size)", values.Kind.WORLD_SIZE),
        ('rank = int(os.environ["LOCAL_RANK"])\nshow(rank)', values.Kind.LOCAL_RANK),
        ("local_rank = dist.get_rank()\nshow(local_rank)", values.Kind.GLOBAL_RANK),
        ('show(torch.device(f"cuda:{dist.get_rank()}"))', values.Kind.DEVICE),
        ("show(DDP(torch.nn.Linear(1, 1)))", values.Kind.WRAPPED),
        ("show(DDP(torch.nn.Linear(1, 1)).cuda().train())", values.Kind.WRAPPED),
        ("show(DDP(torch.nn.Linear(1, 1)).module)", values.Kind.BARE),
        ("show(dist.get_rank() == 0)", values.Kind.TEST),
        ("show(dist.new_group([0]))", values.Kind.GROUP),
        ("def worker(index, size):\n    show(index)\nmp.spawn(worker, args=(2,), nprocs=2)", values.Kind.LOCAL_RANK),
        (
            "p = argparse.ArgumentParser()\np.add_argument('--local_rank', type=int)\nargs = p.parse_args()\nshow(args.local_rank)",
            values.Kind.LOCAL_RANK,
        ),
        ("class T:\n    def __init__(self):\n        self.r = dist.get_rank()\n    def f(self):\n        show(self.r)", values.Kind.GLOBAL_RANK),
        ("def rank():\n    return dist.get_rank() if dist.is_initialized() else 0\nshow(rank())", values.Kind.GLOBAL_RANK),
        ("def twice(value):\n    return value\nshow(twice(dist.get_rank()))", values.Kind.GLOBAL_RANK),
        ("def f(r):\n    show(r)\nf(dist.get_rank())", values.Kind.GLOBAL_RANK),
        # the number of nodes, called world size until it is multiplied
        ("show(torch.cuda.device_count() * dist.get_world_size())", values.Kind.WORLD_SIZE),
        ('def f(gpu):\n    show(int(os.environ["NODE_RANK"]) * torch.cuda.device_count() + gpu)\nf(3)', values.Kind.GLOBAL_RANK),
        ("ranks = [dist.get_rank() for _ in range(2)]\nfirst, second = ranks\nshow(second)", values.Kind.GLOBAL_RANK),
        ("show(DDP(torch.nn.Linear(1, 1)) + 1)", values.Kind.UNKNOWN),
        ("show(2 ** 3)", values.Kind.UNIFORM),
        ("show(1 // 0)", values.Kind.UNIFORM),
        ("show(-dist.get_rank())", values.Kind.RANK_DEPENDENT),
        # attributes: of a class, of an object, of a method's closure
        ("class T:\n    r = dist.get_rank()\nshow(T().r)", values.Kind.GLOBAL_RANK),
        ("class A:\n    pass\nclass T:\n    def f(self):\n        def g():\n            self.r = dist.get_rank()\n        g()\n        show(self.r)", values.Kind.GLOBAL_RANK),
        ("class T:\n    for i in range(2):\n        if i:\n            show(size)\n        size = dist.get_world_size()", values.Kind.WORLD_SIZE),
        ("show(bool())", values.Kind.UNKNOWN),
        # only texts and numbers become numbers, and a function that is named like a variable is none
        ("class T:\n    pass\nshow(int(T))", values.Kind.CLASS),
        ("for batch in torch.utils.data.DataLoader(x):\n    show(int(SLURM_PROCID(batch)))", values.Kind.BATCH),
        # what loops bind
        ("for batch in torch.utils.data.DataLoader(x):\n    for item in batch:\n        show(item)", values.Kind.BATCH),
        ("from accelerate import Accelerator\nfor item in Accelerator().prepare(x):\n    show(item)", values.Kind.BATCH),
        ("for _, item in enumerate(torch.utils.data.DataLoader(x), 1):\n    show(item)", values.Kind.BATCH),
        ("from tqdm import tqdm\nfor item in tqdm(torch.utils.data.DataLoader(x), 'epoch'):\n    show(item)", values.Kind.BATCH),
        ("from accelerate import Accelerator\nshow(Accelerator().gather(x))", values.Kind.UNIFORM),
        # what an unseen helper gives, as its name says
        ("import somewhere\nshow(somewhere.get_local_rank())", values.Kind.LOCAL_RANK),
        ("show(x.get_local_rank())", values.Kind.LOCAL_RANK),
        # arguments of a process
        ("def f(a, b):\n    show(b)\nmp.Process(target=f, args=(1, dist.get_rank())).start()", values.Kind.GLOBAL_RANK),
        ("def f(a, b):\n    show(a)\nmp.Process(target=f, args=(dist.get_rank(), 1)).start()", values.Kind.GLOBAL_RANK),
    ],
)  # fmt: skip
def test_what_an_expression_holds(source: str, kind: str) -> None:
    assert shown(source).has(kind)


@pytest.mark.parametrize(
    ("source", "constant"),
    [
        ("8 - 2", 6),
        ("4 * 2", 8),
        ("9 / 2", 4.5),
        ("9 // 2", 4),
        ("9 % 4", 1),
        ("3 <= 4", True),
        ('"x.pt".format()', "x.pt"),
    ],
)
def test_what_is_computed_of_constants(source: str, constant: object) -> None:
    assert shown(f"show({source})").constant == constant


@pytest.mark.parametrize("source", ['"3" < 4', '"cc" in "nccl"'])
def test_what_is_not_compared_is_not_known(source: str) -> None:
    (test,) = shown(f"show({source})")
    assert (test.kind, test.const) == (values.Kind.TEST, values.Who.UNCLEAR)


@pytest.mark.parametrize(
    "source",
    [
        "show(x.get_local_rank(3))",
        "show(x.f)",
        "for line in open('x'):\n    show(line)",
        "def f(a):\n    show(a)\nmp.Process(target=f, args=()).start()",
    ],
)
def test_what_has_no_evidence_is_not_known(source: str) -> None:
    assert not {atom.kind for atom in shown(source)} & {
        values.Kind.GLOBAL_RANK,
        values.Kind.LOCAL_RANK,
        values.Kind.BATCH,
    }


def test_what_callers_pass_stays_next_to_what_a_name_tells() -> None:
    passed = shown("def f(rank):\n    show(rank)\nf(0)\nf(-1)")
    assert passed.has(values.Kind.RANK)
    assert passed.constants == (0, -1)


@pytest.mark.parametrize(("parts", "known"), [(61, True), (62, False)])
def test_what_is_made_in_too_many_steps_is_not_known(parts: int, known: bool) -> None:
    """However many conditions were judged before."""
    tests = "if dist.get_rank() == 0:\n    first()\nif x and not y:\n    first()\n"
    made = program(main=f"{HEAD}{tests}show({' + '.join(['1'] * parts)})")
    assert [call.reached_by.who for call in made.calls_named("first")] == [values.Who.MAIN, values.Who.EVERYONE]
    (call,) = made.calls_named("show")
    value = call.argument(0)
    assert value is not None
    assert (value.constant == parts) is known


def test_attributes_that_closures_assign_belong_to_the_class_of_their_method() -> None:
    """Not to whatever is called ``self`` elsewhere."""
    keeps = "class {}:\n    def f(self):\n        def g():\n            self.r = {}\n        g()\n"
    first = keeps.format("First", 'int(os.environ["LOCAL_RANK"])')
    second = keeps.format("Second", "dist.get_rank()")
    assert {atom.kind for atom in shown(f"{first}{second}        show(self.r)")} == {values.Kind.GLOBAL_RANK}
    assert {atom.kind for atom in shown(f"{second}        show(self.r)\n{first}")} == {values.Kind.GLOBAL_RANK}
    third = "class Third:\n    pass\n"
    assert {atom.kind for atom in shown(f"{third}{first}{second}        show(self.r)")} == {values.Kind.GLOBAL_RANK}


def test_a_class_derives_from_the_bases_of_its_bases() -> None:
    source = (
        "from torch.utils.data import IterableDataset as D\nclass A(D):\n    pass\nclass B(A):\n    pass\nshow(B())"
    )
    (call,) = (made := program(main=HEAD + source)).calls_named("show")
    (atom,) = call.argument(0) or ()
    assert made.evaluator.derives(atom.const, "torch.utils.data.IterableDataset")
    assert not made.evaluator.derives(atom.const, "torch.utils.data.Dataset")


@pytest.mark.parametrize(("calls", "known"), [(1, True), (8, True), (9, False)])
def test_many_calls_that_share_only_a_methods_name_are_no_evidence(calls: int, known: bool) -> None:
    source = "class T:\n    def handle(self, value):\n        show(value)\ndef go(x):\n"
    assert shown(source + "    x.handle(dist.get_rank())\n" * calls).has(values.Kind.GLOBAL_RANK) is known


def test_an_option_has_the_default_of_a_file_of_the_same_program() -> None:
    declared = f"{HEAD}dist.barrier()\np = argparse.ArgumentParser()\np.add_argument('--width', type=int, default=7)\n"
    source = "def f(args):\n    show(args.width)"
    both_imported = f"{HEAD}import main\nimport options\ndist.barrier()\n"
    # whatever unrelated files declare
    assert 7 not in shown(source, options=declared).constants
    assert 7 in shown(source, options=declared, start=both_imported).constants
    other = declared.replace("7", "None")
    assert 7 in shown(source, options=declared, start=both_imported, another=other).constants
    assert None not in shown(source, options=declared, start=both_imported, another=other).constants


def test_a_method_of_an_unrelated_file_is_not_called_by_its_name() -> None:
    other = f"{HEAD}class A:\n    def handle(self, x):\n        show(x)\n"
    source = "def f(thing):\n    thing.handle(dist.get_rank())"
    assert not shown(source, other=other).has(values.Kind.GLOBAL_RANK)
    assert shown("import other\n" + source, other=other).has(values.Kind.GLOBAL_RANK)


def test_the_path_of_an_attribute_names_the_line_of_its_assignment() -> None:
    other = f"{HEAD}from main import f\ndef go(args):\n    if 1:\n        args.r = dist.get_rank()\n    f(args)\n"
    (atom,) = shown("def f(args):\n    show(args.r)", other=other)
    assert atom.kind == values.Kind.GLOBAL_RANK
    assert atom.flow[-1].text == "kept as args.r"
    assert atom.flow[-1].line == HEAD.count("\n") + 4


def test_super_calls_the_constructor_of_the_base_and_no_other() -> None:
    source = """
class Base:
    def __init__(self, index):
        show(index)
class Trainer(Base):
    def __init__(self):
        super().__init__(dist.get_rank())
class Names(list):
    def __init__(self, names):
        super().__init__(names)
        print(names)
Trainer()
Names(["a"])
"""
    value = shown(source)
    assert [(atom.kind, atom.certainty) for atom in value] == [(values.Kind.GLOBAL_RANK, values.Certainty.PROVEN)]
    (printed,) = program(main=HEAD + source).calls_named("print")
    given = printed.argument(0)
    assert given is not None
    assert given.only(values.Kind.LIST)


def test_super_calls_the_method_of_the_base() -> None:
    source = """
class Base:
    def device(self):
        return 0
class Trainer(Base):
    def device(self):
        return super().device()
show(Trainer().device())
"""
    assert shown(source).constant == 0


def test_a_device_may_be_given_by_its_number_alone() -> None:
    (device,) = shown('show(torch.device(int(os.environ["LOCAL_RANK"])))')
    assert (device.kind, device.const, device.of[0].kind) == (values.Kind.DEVICE, "cuda", values.Kind.LOCAL_RANK)


def test_values_cross_files() -> None:
    helper = "import torch.distributed as dist\n\ndef who():\n    return dist.get_rank()\n"
    assert shown("from helper import who\nshow(who())", helper=helper).has(values.Kind.GLOBAL_RANK)


def test_modules_that_import_each_other_end() -> None:
    one = "import torch.distributed\nfrom two import name\n"
    two = "import torch.distributed\nfrom one import name\nshow(name)\n"
    assert len(list(program(one=one, two=two).calls_named("show"))) == 1


def test_classes_that_derive_from_each_other_end() -> None:
    one = "import torch.distributed\nfrom two import B\nclass A(B):\n    pass\n"
    two = "import torch.distributed\nfrom one import A\nclass B(A):\n    pass\n"
    assert shown("from one import A\nshow(A())", one=one, two=two).only(values.Kind.OBJECT)


REACH = [
    ("if dist.get_rank() == 0:\n    show()", values.Who.MAIN),
    ("if not dist.get_rank():\n    show()", values.Who.MAIN),
    ("if dist.get_rank() in (-1, 0):\n    show()", values.Who.MAIN),
    ("if dist.get_rank() != 0:\n    show()", values.Who.OTHERS),
    ('if int(os.environ["LOCAL_RANK"]) == 0:\n    show()', values.Who.LOCAL_MAIN),
    ("if dist.get_rank() >= 0:\n    show()", values.Who.DISTRIBUTED),
    ("if dist.get_world_size() > 1:\n    show()", values.Who.DISTRIBUTED),
    ("if dist.get_world_size() >= 2:\n    show()", values.Who.DISTRIBUTED),
    # always true
    ("if dist.get_world_size() >= 1:\n    show()", values.Who.EVERYONE),
    ("if int(os.environ['WORLD_SIZE']) > 0:\n    show()", values.Who.EVERYONE),
    ("if not dist.is_initialized() or dist.get_rank() == 0:\n    show()", values.Who.MAIN),
    ("if dist.get_rank() == dist.get_world_size() - 1:\n    show()", values.Who.ONE),
    ("dist.get_rank() == 0 and show()", values.Who.MAIN),
    ("def f():\n    if dist.get_rank():\n        return\n    show()\nf()", values.Who.MAIN),
    ("def f():\n    show()\nif dist.get_rank() == 0:\n    f()", values.Who.MAIN),
    ("def f():\n    show()\nif dist.get_rank() == 0:\n    f()\nf()", values.Who.EVERYONE),
    ("def main():\n    return dist.get_rank() == 0\nif main():\n    show()", values.Who.MAIN),
    ("writer = open('x') if dist.get_rank() == 0 else None\nif writer:\n    show()", values.Who.MAIN),
    ("def only(f):\n    def g(*a):\n        if dist.get_rank() == 0:\n            f(*a)\n    return g\n@only\ndef h():\n    show()\nh()", values.Who.MAIN),
    ("for step in range(3):\n    if dist.get_rank():\n        continue\n    show()", values.Who.MAIN),
    ("match dist.get_rank():\n    case 0:\n        show()", values.Who.MAIN),
    ("if (dist.get_rank() == 0) is True:\n    show()", values.Who.MAIN),
    ("if (dist.get_rank() == 0) == False:\n    show()", values.Who.OTHERS),
    ("if dist.get_rank() == 9 / 3:\n    show()", values.Who.ONE),
    ("if dist.get_rank() == 2 ** 3:\n    show()", values.Who.ONE),
    ("if dist.get_rank() != 1 << 1:\n    show()", values.Who.ALL_BUT_ONE),
    ("if dist.get_rank() != -2:\n    show()", values.Who.EVERYONE),
    ("if dist.get_rank() < dist.get_world_size():\n    show()", values.Who.EVERYONE),
    ("if dist.get_rank() < torch.cuda.device_count():\n    show()", values.Who.SOME),
    ("if dist.get_rank() % 2:\n    show()", values.Who.SOME),
    ("def f(main):\n    if dist.get_rank() == main:\n        show()\nf(0)\nf(None)", values.Who.MAIN),
    ("def f():\n    show()\nif dist.get_rank() == 0:\n    f()\nif dist.get_rank() == 3:\n    f()", values.Who.ONE),
    ("def f():\n    show()\nif not dist.get_rank():\n    f()\nif not int(os.environ['LOCAL_RANK']):\n    f()", values.Who.LOCAL_MAIN),
    ("def f():\n    show()\nif dist.get_rank() == 0:\n    f()\nelse:\n    f()", values.Who.EVERYONE),
]  # fmt: skip


@pytest.mark.parametrize(("source", "who"), REACH)
def test_who_reaches_a_line(source: str, who: str) -> None:
    (call,) = program(main=HEAD + source).calls_named("show")
    assert call.reached_by.who == who


def test_a_flag_that_something_unseen_may_set_too_is_not_certain() -> None:
    source = "def f(times):\n    stop = False\n    if dist.get_rank() == 0:\n        stop = True\n"
    source += "    while times:\n        stop = agreed(stop)\n    if stop:\n        show()\nf(1)"
    (call,) = program(main=HEAD + source).calls_named("show")
    assert (call.reached_by.who, call.reached_by.traced) == (values.Who.MAIN, False)


def test_a_helper_of_another_file_is_guarded_by_its_callers() -> None:
    helper = "import torch\n\ndef write(x):\n    torch.save(x, 'x.pt')\n"
    main = HEAD + "from helper import write\nif dist.get_rank() == 0:\n    write(1)\n"
    (call,) = program(main=main, helper=helper).calls_to("torch.save")
    assert call.reached_by.who == values.Who.MAIN


def test_methods_are_known_by_name_and_functions_are_none() -> None:
    made = program(
        main="import torch.distributed as dist\n\n\nclass One:\n    def save(self):\n        return 1\n\n\n"
        "class Other:\n    def save(self):\n        return 2\n\n\ndef keep():\n    return 3\n"
    )
    assert len(made.evaluator.methods["save"]) == 2
    assert "keep" not in made.evaluator.methods


@pytest.mark.parametrize(
    ("source", "speaks"),
    [
        ('import os\nimport torch\n\n\ndef rank():\n    return int(os.environ["RANK"])\n', True),
        ("import torch\n\n\ndef one(rank):\n    torch.cuda.set_device(rank)\n    return rank\n", False),
    ],
)
def test_a_file_that_reads_a_rank_speaks_of_ranks(source: str, speaks: bool) -> None:
    assert list(program(main=source).evaluator.distributed_files) == [speaks]


def test_a_helper_is_evaluated_for_each_call() -> None:
    helpers = (
        "def env(name):\n    return int(os.environ[name])\n"
        "def number(name):\n    return env(name)\n"
        "local = env('LOCAL_RANK'), number('LOCAL_RANK')\n"
    )
    for call in ("env('RANK')", "number('RANK')"):
        assert [atom.kind for atom in shown(f"{helpers}show({call})")] == [values.Kind.GLOBAL_RANK]


def test_a_class_that_derives_from_ddp_wraps_its_first_argument() -> None:
    (wrapped,) = shown("class Wrapped(DDP):\n    pass\nshow(Wrapped(torch.nn.Linear(1, 1), [0]))")
    assert (wrapped.kind, [atom.const for atom in wrapped.of]) == (values.Kind.WRAPPED, ["torch.nn.Linear"])


def test_the_result_of_a_method_is_known_by_both_names() -> None:
    (result,) = shown("import subprocess\nshow(subprocess.Popen('x').poll())")
    assert (result.kind, result.const) == (values.Kind.RESULT, "subprocess.Popen.poll")


def test_no_term_is_no_constant() -> None:
    made = program(main=HEAD + "last = 'a text'\n")
    last = len(made.evaluator.terms[0]) - 1
    assert [made.evaluator.constant_of(0, term) for term in (last, -1)] == ["a text", None]


def test_a_statement_in_a_class_stands_in_no_method() -> None:
    made = program(
        main=HEAD
        + "class A:\n    x = show(1)\n    def f(self):\n        def g():\n            show(2)\n        show(3)\nshow(4)\n"
    )
    assert [made.evaluator.owner_of(0, call.scope) for call in made.calls_named("show")] == [-1, 0, 0, -1]
