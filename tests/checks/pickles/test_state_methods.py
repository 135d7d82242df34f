"""The methods that ``--show-fix`` prints: pasted into the class, they make the object picklable."""

from __future__ import annotations

import pickle
import sys
import textwrap
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

from distcheck.checks.pickles.objects import find_unpicklable
from distcheck.checks.pickles.picklability import Offender, PickleReport
from distcheck.checks.pickles.state_methods import methods_for, state_methods

HEAD = "import threading, queue, dataclasses, functools\n"


@pytest.fixture
def project() -> Iterator[types.ModuleType]:
    """A module of a user, which pickle finds by its name."""
    module = types.ModuleType("users_project")
    sys.modules["users_project"] = module
    yield module
    del sys.modules["users_project"]


def define(module: types.ModuleType, source: str, paste: dict[str, str] | None = None) -> None:
    """Run the source of a module, with methods pasted at the end of its classes."""
    source = textwrap.dedent(source)
    for owner, methods in (paste or {}).items():
        name = owner.rpartition(".")[2]
        head, mark, rest = source.partition(f"    # end of {name}\n")
        assert mark, f"no place to paste into {name}"
        source = head + textwrap.indent(methods, "    ") + rest
    for name in [name for name in vars(module) if not name.startswith("__")]:
        delattr(module, name)
    exec(compile(HEAD + source, "users_project.py", "exec"), vars(module))


def fixed(module: types.ModuleType, source: str) -> tuple[Any, Any, str]:
    """What is found in ``make()`` is fixed by pasting; the object that was written, the one that was read, the text."""
    define(module, source)
    made = module.make()
    with pytest.raises(Exception):  # noqa: B017 - which error is pickle's affair
        pickle.dumps(made)
    report = find_unpicklable(made)
    text = state_methods(report)
    pasted = dict(methods_for(report))
    assert all(methods in text for methods in pasted.values())
    define(module, source, pasted)
    made = module.make()
    assert find_unpicklable(made).ok
    return made, pickle.loads(pickle.dumps(made)), text


def test_a_plain_class(project: types.ModuleType) -> None:
    made, loaded, text = fixed(
        project,
        """
        class Trainer:
            def __init__(self):
                self.step = 7
                self.lock = threading.Lock()
                self.queue = queue.Queue()
                self.loss = lambda x: x
            # end of Trainer

        make = Trainer
        """,
    )
    assert (loaded.step, loaded.lock, loaded.queue, loaded.loss) == (7, None, None, None)
    assert made.lock is not None, "what is written stays as it was"
    assert "# self.lock = threading.Lock()" in text
    assert "users_project.Trainer" in text


def test_an_attribute_that_holds_it_deep_inside_is_left_out_as_a_whole(project: types.ModuleType) -> None:
    _, loaded, text = fixed(
        project,
        """
        class Trainer:
            def __init__(self):
                self.step = 7
                self.state = {"a": [1, {"lock": threading.Lock()}], "b": 2}
            # end of Trainer

        make = Trainer
        """,
    )
    assert (loaded.step, loaded.state) == (7, None)
    assert "['a'][1]['lock']" in text


def test_two_classes_each_get_their_own_pair(project: types.ModuleType) -> None:
    _, loaded, text = fixed(
        project,
        """
        class Logger:
            def __init__(self):
                self.name = "x"
                self.__lock = threading.RLock()
            # end of Logger

        class Trainer:
            def __init__(self):
                self.logger = Logger()
                self.event = threading.Event()
            # end of Trainer

        make = Trainer
        """,
    )
    assert loaded.event is None
    assert loaded.logger.name == "x"
    assert loaded.logger._Logger__lock is None
    assert text.count("def __getstate__") == 2


@pytest.mark.parametrize("extra", ["", '"__dict__", '])
def test_slots(project: types.ModuleType, extra: str) -> None:
    """Of the class and of its base, with and without a dict; a subclass keeps what it adds."""
    _, loaded, _ = fixed(
        project,
        f"""
        class Base:
            __slots__ = ("name",)

        class Trainer(Base):
            __slots__ = ({extra}"step", "lock", "unset", "__private")

            def __init__(self):
                self.name, self.step, self.lock = "x", 7, threading.Lock()
                self.__private = 1
            # end of Trainer

        class Special(Trainer):
            def __init__(self):
                super().__init__()
                self.more = [1, 2]

        make = Trainer
        """,
    )
    special = pickle.loads(pickle.dumps(project.Special()))
    assert special.more == [1, 2]
    for each in (loaded, special):
        assert (each.name, each.step, each.lock) == ("x", 7, None)
        assert each._Trainer__private == 1
        assert not hasattr(each, "unset")


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "(frozen=True)",
        "(slots=True)",
        pytest.param(
            "(slots=True, frozen=True)",
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 replaces what the class defines"),
        ),
    ],
)
def test_data_classes(project: types.ModuleType, arguments: str) -> None:
    _, loaded, _ = fixed(
        project,
        f"""
        @dataclasses.dataclass{arguments}
        class Config:
            step: int = 7
            lock: object = dataclasses.field(default_factory=threading.Lock)
            # end of Config

        make = Config
        """,
    )
    assert (loaded.step, loaded.lock) == (7, None)


def test_a_base_that_has_the_methods_is_asked(project: types.ModuleType) -> None:
    _, loaded, text = fixed(
        project,
        """
        class Base:
            def __getstate__(self):
                return {name: value for name, value in vars(self).items() if name != "cache"}

            def __setstate__(self, state):
                vars(self).update(state)
                self.cache = "empty"

        class Trainer(Base):
            def __init__(self):
                self.step, self.cache, self.lock = 7, "full", threading.Lock()
            # end of Trainer

        make = Trainer
        """,
    )
    assert (loaded.step, loaded.cache, loaded.lock) == (7, "empty", None)
    assert "super().__getstate__()" in text
    assert "super().__setstate__(state)" in text


def test_a_base_that_only_reads_is_asked_to(project: types.ModuleType) -> None:
    """As torch.nn.Module does."""
    _, loaded, _ = fixed(
        project,
        """
        class Base:
            def __setstate__(self, state):
                vars(self).update(state)
                self.restored = True

        class Trainer(Base):
            def __init__(self):
                self.step, self.lock = 7, threading.Lock()
            # end of Trainer

        make = Trainer
        """,
    )
    assert (loaded.step, loaded.lock, loaded.restored) == (7, None, True)


def report(*offenders: Offender) -> PickleReport:
    return PickleReport("obj", "pickle", offenders)


def lock(path: str, owner: str | None = None, attribute: str | None = None) -> Offender:
    return Offender(path, "_thread.lock", "a lock", "drop it", owner=owner, attribute=attribute)


@pytest.mark.parametrize("method", ["__getstate__", "__reduce__", "__reduce_ex__"])
def test_a_class_with_its_own_method_is_told_which_lines_to_add(project: types.ModuleType, method: str) -> None:
    """Its method would not be asked, or would be lost: nothing that can be pasted over it."""
    define(project, f"class Trainer:\n    def {method}(self, *rest): return super().{method}(*rest)\n")
    ((_, source),) = methods_for(report(lock("obj.lock", "users_project.Trainer", "lock")))
    assert all(line.startswith("#") for line in source.splitlines())
    assert method.replace("_ex", "") in source
    assert "lock" in source


def test_what_no_class_holds_is_said_in_a_comment() -> None:
    found = find_unpicklable({"fns": [lambda: 1, lambda: 2], "lock": threading.Lock()})
    text = state_methods(found)
    compile(text, "text", "exec")
    assert all(line.startswith("#") for line in text.splitlines())
    assert "obj['fns'][0] and 1 more like it" in text
    assert "obj['lock']" in text


def test_many_of_one_kind_are_one_line() -> None:
    text = state_methods(report(*(lock(f"obj[{index}]") for index in range(10_000))))
    assert text.count("\n") == 1
    assert "9999 more" in text
    text = state_methods(report(*(lock(f"obj.a{index}") for index in range(100))))
    assert text.count("\n") == 21
    assert "80 other members" in text


@pytest.mark.parametrize("owner", ["threading.Event", "concurrent.futures.thread.ThreadPoolExecutor", "pytest.Item"])
def test_nobody_pastes_into_a_package(owner: str) -> None:
    ((_, source),) = methods_for(report(lock("obj.event._cond", owner, "_cond")))
    assert all(line.startswith("#") for line in source.splitlines())
    assert "class of a package" in source


def test_parts_of_a_module_are_not_dropped_all_at_once() -> None:
    """``_modules`` of a torch.nn.Module holds the whole network; one bad layer is no reason to lose it."""
    ((_, source),) = methods_for(report(lock("obj.layer", "users_project.Net", "_modules")))
    assert "def " not in source
    both = methods_for(report(lock("obj.layer", "a.Net", "_modules"), lock("obj.lock", "a.Net", "lock")))[0][1]
    assert '"_modules"' not in both
    assert 'state["lock"] = None' in both


def test_groups_are_made_again_after_init() -> None:
    group = Offender(
        "obj.tp_group",
        "torch._C._distributed_c10d.ProcessGroup",
        "a group",
        "make it again",
        kind="process-group",
        owner="users_project.Trainer",
        attribute="tp_group",
    )
    ((_, source),) = methods_for(report(group))
    compile(source, "text", "exec")
    assert "def rebuild_groups(self):" in source
    assert "self.tp_group = dist.new_group(" in source
    assert "init_process_group" in source


@pytest.mark.parametrize("name", ["two words", "a-b", "quote\"s'", "line\nbreak", "class"])
def test_odd_names_of_attributes_and_paths_compile(name: str) -> None:
    """Names are the object's, and what is printed is code."""
    found = report(lock(f"obj.{name}\x1b[31m", "users_project.Trainer", name), lock(f"obj[{name!r}]\x1b[31m"))
    text = state_methods(found)
    compile(text, "text", "exec")
    assert text.replace("\n", "").isprintable()


def test_nothing_wrong_gives_nothing() -> None:
    assert state_methods(report()) == ""
    assert methods_for(report()) == []


@pytest.mark.torch
def test_hooks_of_a_module_become_empty_dicts(project: types.ModuleType) -> None:
    _, loaded, _ = fixed(
        project,
        """
        import torch

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 2)
                self.activation = lambda x: x
                self.register_forward_hook(lambda *_: None)
            # end of Net

        make = Net
        """,
    )
    assert loaded.activation is None
    assert len(loaded._forward_hooks) == 0
    loaded.register_forward_hook(print)
    assert loaded.layer.weight.shape == (2, 2)


def test_what_the_report_says_of_a_class_counts_where_it_can_not_be_looked_up() -> None:
    """A class that is defined inside of a function: its slots are known from the walk."""
    slotted = lock("obj.lock", "gone_project.make.<locals>.Slotted", "lock")._replace(owner_has=("__slots__",))
    assert "copyreg" in methods_for(report(slotted))[0][1]
    own = slotted._replace(owner_has=("__getstate__", "__dict__"))
    assert methods_for(report(own))[0][1].startswith("# ")


def test_a_frozen_class_sets_it_again_past_its_own_lock(project: types.ModuleType) -> None:
    define(
        project,
        "@dataclasses.dataclass(frozen=True)\nclass Config:\n    lock: object\n",
    )
    text = state_methods(find_unpicklable(project.Config(threading.Lock())))
    assert '# object.__setattr__(self, "lock", threading.Lock())' in text
    assert "self.lock = " not in text


def test_arguments_of_new_are_named(project: types.ModuleType) -> None:
    define(project, "class Trainer:\n    def __getnewargs__(self): return ()\n")
    trainer = project.Trainer()
    trainer.lock = threading.Lock()
    text = state_methods(find_unpicklable(trainer))
    assert "# in the class users_project.Trainer" in text
    assert "users_project.Trainer.__getnewargs__ returns what a new object is made from" in text


def test_all_attributes_that_lead_to_what_is_shared_are_left_out(project: types.ModuleType) -> None:
    _, loaded, text = fixed(
        project,
        """
        class Trainer:
            def __init__(self):
                self.table = {"step": 7, "choose": lambda: 0}
                self.tables, self.kept = [self.table], [7]
            # end of Trainer

        make = Trainer
        """,
    )
    assert (loaded.table, loaded.tables, loaded.kept) == (None, None, [7])
    assert "for the sake of obj.tables[0]['choose']" in text
