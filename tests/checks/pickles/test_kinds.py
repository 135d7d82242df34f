"""Every kind of thing that can't be pickled is found where it is, explained as what it is, and fixed by leaving it out."""

from __future__ import annotations

import argparse
import ast
import asyncio
import concurrent.futures
import contextlib
import contextvars
import csv
import ctypes
import functools
import gzip
import hashlib
import itertools
import json
import logging
import logging.handlers
import mmap
import multiprocessing
import os
import pathlib
import pickle
import queue
import random
import re
import select
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import types
import unittest.mock
import weakref
import zipfile
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from typing import Any, NamedTuple

import pytest

from distcheck.checks.pickles import kinds, kinds_table
from distcheck.checks.pickles.objects import find_unpicklable

#: What makes a thing; what it opens is closed by the stack.
Maker = Callable[[contextlib.ExitStack], Any]


class Holder:
    """What people pickle: an object with attributes."""


class Case(NamedTuple):
    name: str
    make: Maker
    #: words that the reason and the fix must hold
    why: str
    fix: str


def nothing() -> Iterator[int]:
    yield 1


def keep(stack: contextlib.ExitStack, value: Any, close: str = "close") -> Any:
    stack.callback(getattr(value, close))
    return value


def local_class() -> type:
    class Local:
        pass

    return Local


def local_function() -> Callable[[], int]:
    def inner() -> int:
        return 1

    return inner


def cached_local() -> Callable[[], int]:
    @functools.lru_cache
    def inner() -> int:
        return 1

    return inner


async def wait() -> None: ...


async def wait_often() -> Any:
    yield 1


def traceback() -> types.TracebackType:
    try:
        raise ValueError
    except ValueError as error:
        assert error.__traceback__ is not None
        return error.__traceback__


def coroutine(stack: contextlib.ExitStack) -> Any:
    return keep(stack, wait())


def temporary_file(stack: contextlib.ExitStack) -> Any:
    return stack.enter_context(tempfile.NamedTemporaryFile())


def open_file(stack: contextlib.ExitStack, mode: str = "r") -> Any:
    return stack.enter_context(open(__file__, mode))


def zip_file(stack: contextlib.ExitStack) -> Any:
    return keep(stack, zipfile.ZipFile(stack.enter_context(tempfile.TemporaryFile()), "w"))


def map_memory(stack: contextlib.ExitStack) -> Any:
    return keep(stack, mmap.mmap(-1, 16))


def sub_process(stack: contextlib.ExitStack) -> Any:
    child = subprocess.Popen([sys.executable, "-c", ""])
    stack.callback(child.wait)
    return child


def thread_pool(stack: contextlib.ExitStack) -> Any:
    return keep(stack, concurrent.futures.ThreadPoolExecutor(1), "shutdown")


def process_pool(stack: contextlib.ExitStack) -> Any:
    return keep(stack, concurrent.futures.ProcessPoolExecutor(1), "shutdown")


def mp_queue(stack: contextlib.ExitStack) -> Any:
    return keep(stack, multiprocessing.get_context("spawn").Queue())


def event_loop(stack: contextlib.ExitStack) -> Any:
    return keep(stack, asyncio.new_event_loop())


def logger_off_the_registry(stack: contextlib.ExitStack) -> Any:
    return logging.Logger("nobody")


def file_handler(stack: contextlib.ExitStack) -> Any:
    return keep(stack, logging.FileHandler(os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "log")))


Misnamed = namedtuple("Otherwise", "x")


def shadowed() -> int:
    return 1


unshadowed = shadowed


def shadowed() -> int:  # type: ignore[no-redef]
    return 2


PLAIN = [
    Case("lock", lambda _: threading.Lock(), "lock", "threading.Lock()"),
    Case("rlock", lambda _: threading.RLock(), "re-entrant", "threading.RLock()"),
    Case("condition", lambda _: threading.Condition(), "condition", "threading.Condition()"),
    Case("event", lambda _: threading.Event(), "event", "is_set()"),
    Case("semaphore", lambda _: threading.Semaphore(2), "semaphore", "threading.Semaphore"),
    Case("barrier", lambda _: threading.Barrier(2), "barrier", "threading.Barrier"),
    Case("thread", lambda _: threading.Thread(), "thread", "start the thread again"),
    Case("timer", lambda _: threading.Timer(1, print), "timer", "threading.Timer"),
    Case("thread-local", lambda _: threading.local(), "each thread", "threading.local()"),
    Case("queue", lambda _: queue.Queue(), "queue", "as a list"),
    Case("priority-queue", lambda _: queue.PriorityQueue(), "queue", "as a list"),
    Case("simple-queue", lambda _: queue.SimpleQueue(), "SimpleQueue", "queue.SimpleQueue()"),
    Case("thread-pool", thread_pool, "threads", "ThreadPoolExecutor"),
    Case("process-pool", process_pool, "processes", "ProcessPoolExecutor"),
    Case("future", lambda _: concurrent.futures.Future(), "still waits", "future.result()"),
    Case("event-loop", event_loop, "event loop", "coroutine"),
    Case("popen", sub_process, "child process", "command"),
    Case("mp-process", lambda _: multiprocessing.get_context("spawn").Process(), "process", "pid"),
    Case("mp-lock", lambda _: multiprocessing.get_context("spawn").Lock(), "inherited", "Process(args"),
    Case("mp-queue", mp_queue, "inherited", "Process(args"),
    Case("mp-value", lambda _: multiprocessing.get_context("spawn").Value("i", 1), "inherited", "value.value"),
    Case("socket", lambda stack: keep(stack, socket.socket()), "connection", "host and port"),
    Case("tls", lambda _: ssl.create_default_context(), "encrypted", "ssl.create_default_context"),
    Case("text-file", open_file, "descriptor", "keep its path"),
    Case("binary-file", lambda stack: open_file(stack, "rb"), "descriptor", "keep its path"),
    Case("temporary-file", temporary_file, "temporary", "outlives"),
    Case("gzip", lambda stack: keep(stack, gzip.open(os.devnull)), "archive", "keep its path"),  # noqa: SIM115 - the stack closes it
    Case("zip", zip_file, "archive", "keep its path"),
    Case("scandir", lambda stack: keep(stack, os.scandir(".")), "listing", "names"),
    Case("csv", lambda _: csv.reader([]), "open file", "rows"),
    Case("mmap", map_memory, "mapping", "keep the path"),
    Case("sqlite", lambda stack: keep(stack, sqlite3.connect(":memory:")), "database", "sqlite3.connect"),
    Case("logger", logger_off_the_registry, "logging.getLogger", "top of the module"),
    Case("stream-handler", lambda _: logging.StreamHandler(), "handler", "add the handler again"),
    Case("file-handler", file_handler, "handler", "add the handler again"),
    Case("generator", lambda _: nothing(), "half-way", "list of its items"),
    Case("coroutine", coroutine, "half-way", "await"),
    Case("async-generator", lambda _: wait_often(), "half-way", "await"),
    Case("frame", lambda _: sys._getframe(), "call stack", "traceback.format"),
    Case("traceback", lambda _: traceback(), "call stack", "traceback.format"),
    Case("module", lambda _: os, "loaded in this process", "__name__"),
    Case("code", lambda _: nothing.__code__, "compiled code", "import path"),
    Case("cell", lambda _: types.CellType(1), "closure", "import path"),
    Case("lambda", lambda _: lambda: 1, "test_kinds.py:", "top of a module"),
    Case("local-function", lambda _: local_function(), "inside local_function", "top of its module"),
    Case("local-class", lambda _: local_class(), "inside local_class", "top of its module"),
    Case("local-instance", lambda _: local_class()(), "inside local_class", "top of its module"),
    Case("cached-local", lambda _: cached_local(), "cached function", "functools.cache"),
    Case("misnamed-namedtuple", lambda _: Misnamed, "nothing of that name", "first argument"),
    Case("misnamed-instance", lambda _: Misnamed(1), "nothing of that name", "first argument"),
    Case("shadowed", lambda _: unshadowed, "another object", "name of its own"),
    Case("property", lambda _: property(), "part of a class", "name of the attribute"),
    Case("mappingproxy", lambda _: types.MappingProxyType({}), "view", "dict(view)"),
    Case("dict-keys", lambda _: {}.keys(), "view of a dict", "list(view)"),
    Case("memoryview", lambda _: memoryview(b""), "window", "bytes(view)"),
    Case("match", lambda _: re.match("a", "a"), "match", "groups"),
    Case("weakref", lambda _: weakref.ref(Holder), "address", "keep the object"),
    Case("weak-dict", lambda _: weakref.WeakValueDictionary(), "addresses", "dict(collection)"),
    Case("weak-set", lambda _: weakref.WeakSet(), "addresses", "list(collection)"),
    Case("ctypes-library", lambda _: ctypes.CDLL(None), "addresses", "path of the library"),
    Case("ctypes-function", lambda _: ctypes.CDLL(None).printf, "addresses", "path of the library"),
    Case("ctypes-pointer", lambda _: ctypes.pointer(ctypes.c_int(1)), "pointer", "plain data"),
    Case("context-variable", lambda _: contextvars.ContextVar("x"), "context", "variable.get()"),
    Case("environ", lambda _: os.environ, "live environment", "dict(os.environ)"),
    Case("hash", lambda _: hashlib.sha256(), "half-fed", "hexdigest"),
    Case("struct", lambda _: struct.Struct("i"), "struct module", "value.format"),
    Case("system-random", lambda _: random.SystemRandom(), "no state", "random.Random(seed)"),
    Case("mock", lambda _: unittest.mock.MagicMock(), "mock", "small class"),
    Case("context-manager", lambda _: contextlib.contextmanager(nothing)(), "has to close", "with"),
]  # fmt: skip
if hasattr(select, "epoll"):
    PLAIN.append(Case("epoll", lambda stack: keep(stack, select.epoll()), "watches", "Selector"))


def refused(obj: object) -> str:
    """What pickle says about an object: it must refuse it."""
    with pytest.raises(Exception) as caught:
        pickle.dumps(obj)
    return f"{type(caught.value).__name__}: {caught.value}"


def drop(root: object, path: str) -> None:
    """Take out of an object what a path of a report leads to, by the syntax that the path is in."""
    tree: ast.expr = ast.parse(path, mode="eval").body

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            assert node.id == "obj"
            return root
        if isinstance(node, ast.Attribute):
            return getattr(value(node.value), node.attr)
        assert isinstance(node, ast.Subscript)
        return value(node.value)[ast.literal_eval(node.slice)]

    if isinstance(tree, ast.Attribute):
        setattr(value(tree.value), tree.attr, None)
    else:
        assert isinstance(tree, ast.Subscript)
        value(tree.value)[ast.literal_eval(tree.slice)] = None


def held(thing: Any) -> Holder:
    """A thing at three places: an attribute, deep in containers, and in an object below."""
    holder = Holder()
    holder.plain = [1, "two", {3: 4.0}]  # type: ignore[attr-defined]
    holder.member = thing  # type: ignore[attr-defined]
    holder.state = {"deep": [0, {"it": thing}]}  # type: ignore[attr-defined]
    holder.child = Holder()  # type: ignore[attr-defined]
    holder.child.other = thing  # type: ignore[attr-defined]
    return holder


PLACES = {"obj.member", "obj.state['deep'][1]['it']", "obj.child.other"}


def assert_found_and_fixed(thing: Any, why: str, fix: str) -> None:
    """Found at each place, explained, and picklable once what was found is taken out."""
    error = refused(thing)
    holder = held(thing)
    report = find_unpicklable(holder)
    assert report.complete
    places = {place for offender in report.offenders for place in (offender.path, *offender.aliases)}
    assert places == PLACES, (places, error)
    for offender in report.offenders:
        assert why in offender.why, offender.why
        assert fix in offender.fix, offender.fix
        assert not offender.why.endswith(".")
        assert "brings no way" not in offender.why, "explained as an unknown type"
    for place in places:
        drop(holder, place)
    pickle.dumps(holder)
    assert find_unpicklable(holder).ok


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_bad_a_kind_is_found_explained_and_fixed(case: Case) -> None:
    with contextlib.ExitStack() as stack:
        assert_found_and_fixed(case.make(stack), case.why, case.fix)


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_each_mode_has_its_own_advice(case: Case) -> None:
    """What to do differs: a spawned process makes its own, a collective gets plain data."""
    with contextlib.ExitStack() as stack:
        thing = case.make(stack)
        error = refused(thing)
        said = {mode: kinds.explain(thing, error, mode, "obj.member") for mode in kinds.REFUSALS}
    assert len({explanation.why for explanation in said.values()} - {said["pickle"].why}) <= 1
    assert all(explanation.fix.strip() for explanation in said.values())
    assert "__getstate__" not in said["spawn"].fix
    assert "__getstate__" not in said["collective"].fix


def fake(full_name: str, *bases: type) -> Any:
    """An object whose type has the name of one of a library that is not installed here, and can't be pickled."""
    module, _, name = full_name.rpartition(".")

    def refuse(self: object, protocol: int) -> Any:
        raise TypeError(f"cannot pickle {full_name!r} object")

    return type(name, bases, {"__module__": module, "__reduce_ex__": refuse})()


@pytest.mark.parametrize(
    ("name", "why", "fix"),
    [
        ("psycopg2.extensions.connection", "database connection", "address"),
        ("psycopg.Connection", "database connection", "address"),
        ("pymysql.connections.Connection", "database connection", "address"),
        ("redis.client.Redis", "database connection", "address"),
        ("sqlalchemy.engine.base.Engine", "pool of open connections", "sqlalchemy.create_engine"),
        ("sqlalchemy.orm.session.Session", "pool of open connections", "URL"),
        ("tqdm.std.tqdm", "progress bar", "bar.n"),
        ("tqdm.asyncio.tqdm_asyncio", "progress bar", "bar.n"),
        ("rich.progress.Progress", "progress display", "count"),
        ("torch.utils.tensorboard.writer.SummaryWriter", "event file", "log_dir"),
        ("tensorboardX.writer.SummaryWriter", "event file", "log_dir"),
        ("wandb.sdk.wandb_run.Run", "run of wandb", "run.id"),
        ("torch.cuda.streams.Stream", "queue of work", "torch.cuda.Stream()"),
        ("torch.cuda.streams.Event", "mark in the queue", "elapsed_time"),
        ("torch.cuda.graphs.CUDAGraph", "recording", "capture"),
        ("torch._C.Generator", "random number generator", "get_state()"),
        ("h5py._hl.files.File", "HDF5", "h5py.File"),
        ("lmdb.Environment", "key-value file", "lmdb.open"),
        ("botocore.client.S3", "cloud client", "bucket"),
        ("deepspeed.runtime.engine.DeepSpeedEngine", "engine", "save_checkpoint"),
        ("pytorch_lightning.trainer.trainer.Trainer", "this run", "save_checkpoint"),
        ("accelerate.accelerator.Accelerator", "distributed state", "save_state"),
        ("onnxruntime.capi.onnxruntime_inference_collection.InferenceSession", "session", "InferenceSession"),
        ("zmq.sugar.socket.Socket", "network connection", "address"),
        ("torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel", "FSDP", "dcp.save"),
        ("torch._C._distributed_c10d.ProcessGroupNCCL", "process group", "dist.new_group"),
    ],
)  # fmt: skip
def test_bad_a_kind_that_is_not_installed_here_is_known_by_its_name(name: str, why: str, fix: str) -> None:
    """By the name of the type alone."""
    thing = fake(name)
    said = kinds.explain(thing, refused(thing), "pickle", "obj.member")
    assert why in said.why
    assert fix in said.fix
    assert (said.kind == "process-group") == ("ProcessGroup" in name)
    holder = Holder()
    holder.member = thing  # type: ignore[attr-defined]
    report = find_unpicklable(holder)
    assert [offender.path for offender in report.offenders] == ["obj.member"]
    assert report.offenders[0].type == name
    assert why in report.offenders[0].why


def test_a_class_of_a_user_is_known_by_the_class_that_it_extends() -> None:
    """By that class itself; what else its package holds says nothing of it."""
    for base in (threading.Thread, logging.Handler, queue.Queue, type(fake("tqdm.std.tqdm"))):
        own = type("Own", (base,), {"__module__": "their_project"})
        assert (
            kinds.explain(object.__new__(own), "", "pickle").why
            == kinds.explain(object.__new__(base), "", "pickle").why
        )
        assert kinds.is_opaque(own)
    for base in (type(fake("torch.utils.data.dataset.Dataset")), type(fake("sqlalchemy.orm.decl_api.DeclarativeBase"))):
        own = type("Own", (base,), {"__module__": "their_project"})
        assert "their_project.Own" in kinds.explain(object.__new__(own), "", "pickle").why
        assert not kinds.is_opaque(own)


def test_bad_an_unknown_type_is_explained_by_what_pickling_says() -> None:
    """A type of an extension module that no table holds: here the scanner of Python's own json."""
    thing = json.decoder.JSONDecoder().scan_once  # type: ignore[attr-defined]
    error = refused(thing)
    said = kinds.explain(thing, error, "pickle", "obj.handle")
    assert kinds.type_name(type(thing)) in said.why
    assert error in said.why
    assert "drop handle in __getstate__" in said.fix
    assert "copyreg.pickle" in said.fix


def test_bad_a_getstate_that_raises_is_named() -> None:
    said = kinds.explain(Raises(), refused(Raises()), "pickle", "obj.state")
    assert "__getstate__" in said.why
    assert "not today" in said.why
    assert "Raises.__getstate__" in said.fix


class Raises:
    def __getstate__(self) -> object:
        raise ValueError("not today")


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("trainer.model._forward_hooks[3]", "handle.remove()"),
        ("trainer.model._backward_pre_hooks[0]", "handle.remove()"),
        ("trainer.scheduler.lr_lambdas[0]", "scheduler.state_dict()"),
        ("trainer.counts.default_factory", "defaultdict(list)"),
        ("trainer.loader.collate_fn", "collate_fn as a function"),
        ("trainer.loader.worker_init_fn", "worker_init_fn as a function"),
    ],
)
def test_the_place_of_a_lambda_decides_about_its_fix(path: str, fix: str) -> None:
    assert fix in kinds.explain(lambda: 1, "", "pickle", path).fix
    assert fix not in kinds.explain(lambda: 1, "", "pickle", "trainer.fn").fix


def test_a_default_factory_is_found() -> None:
    holder = Holder()
    holder.counts = defaultdict(lambda: 0)  # type: ignore[attr-defined]
    report = find_unpicklable(holder)
    assert len(report.offenders) == 1
    assert report.offenders[0].path.startswith("obj.counts")
    assert "lambda" in report.offenders[0].why


def test_depth_is_explained_with_both_numbers() -> None:
    said = kinds.too_deep(5000, 498, "pickle")
    assert said.kind == "too-deep"
    assert "5000" in said.why
    assert "498" in said.why
    assert "copy.deepcopy" in kinds.too_deep(5000, 498, "deepcopy").why


class Meta(type):
    """A metaclass that would like to have a say."""

    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise AssertionError("nobody may ask")

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(f"nobody may ask for {name}")


def test_no_code_of_the_value_runs() -> None:
    class Nosy(metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"nobody may ask for {name}")

        def __repr__(self) -> str:
            raise AssertionError("nobody may print it")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("nobody may compare it")

    for mode in kinds.REFUSALS:
        nosy = object.__new__(Nosy)
        assert kinds.explain(nosy, "TypeError: no", mode, "obj.x").why
        assert kinds.caution(nosy, mode) is None
        assert not kinds.interesting(Nosy, mode)
        assert "Nosy" in kinds.type_name(Nosy)


def test_a_module_that_answers_by_code_is_not_asked() -> None:
    """A lazy module, as some packages put into sys.modules: its classes are not said to be missing."""

    class Lazy(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"nobody may ask for {name}")

    class Raises:
        def __getstate__(self) -> object:
            raise ValueError("not today")

    Raises.__module__, Raises.__qualname__ = "lazy_package", "Raises"
    sys.modules["lazy_package"] = Lazy("lazy_package")
    try:
        said = kinds.explain(Raises(), "ValueError: not today", "pickle", "obj.x")
    finally:
        del sys.modules["lazy_package"]
    assert "__getstate__" in said.why


def test_names_of_types_are_printable() -> None:
    odd = type("a\x1b[31m\nb" + "c" * 1000, (), {"__module__": "x\ry"})
    name = kinds.type_name(odd)
    assert name.isprintable()
    assert len(name) < 300
    said = kinds.explain(odd(), "TypeError: \x1b[2J gone\nsecond line", "pickle", "obj.x")
    assert said.why.isprintable()
    assert said.fix.isprintable()


def test_a_lock_inside_of_one_thing_is_that_thing() -> None:
    assert kinds.is_opaque(queue.Queue)
    assert kinds.is_opaque(threading.Thread)
    assert not kinds.is_opaque(dict)
    assert not kinds.is_opaque(Holder)
    assert kinds.belongs(threading.Condition, queue.Queue)
    assert not kinds.belongs(Holder, queue.Queue)


def test_bad_what_a_user_put_into_a_thread_is_named_itself() -> None:
    """The lambda is reachable without the thread as well: leaving the thread out would not be enough."""
    inner = Holder()
    inner.fn = lambda: 1  # type: ignore[attr-defined]
    holder = Holder()
    holder.thread = threading.Thread(target=print, args=(inner,))  # type: ignore[attr-defined]
    holder.inner = inner  # type: ignore[attr-defined]
    report = find_unpicklable(holder)
    places = {place for offender in report.offenders for place in (offender.path, *offender.aliases)}
    assert "obj.thread" in places
    assert "obj.inner.fn" in places


def test_whose_class_it_is() -> None:
    assert kinds.is_library(threading.Thread)
    assert kinds.is_library(pytest.Item)
    assert not kinds.is_library(Holder)


def test_the_table_says_something_in_each_row() -> None:
    rows = {id(row): row for row in (*kinds_table.EXACT.values(), *kinds_table.PREFIXES.values())}
    assert len(rows) > 80
    for row in rows.values():
        if row is kinds_table.TENSOR:
            continue
        assert len(row.why) > 15
        assert row.recreate or row.instead, row
        assert not row.why.endswith(".")
        assert not row.why[0].isupper() or row.why.startswith("System"), row.why
    for names in (kinds_table.PITFALLS, kinds_table.PITFALL_PREFIXES):
        assert all(row.why and row.fix and row.modes and row.kind in ("breaks", "note") for row in names.values())


@pytest.mark.parametrize("name", [name for name, row in kinds_table.EXACT.items() if row.recreate])
def test_what_makes_it_again_is_an_expression(name: str) -> None:
    """It is printed as code, and pasted as code."""
    text = kinds.recreate(name).replace("<namespace>", "aten").replace("<name>", "add")
    ast.parse(text, mode="eval")


# what can be pickled


GOOD: list[tuple[str, Callable[[], object]]] = [
    ("numbers", lambda: {"a": [1, 2.0, 3j], "b": (None, True, b"x")}),
    ("text that looks odd", lambda: {"os.system": "eval", "/home/someone/file": "cuda:3"}),
    ("relative path", lambda: pathlib.Path("checkpoints/last.pt")),
    ("function", lambda: nothing),
    ("class", lambda: Holder),
    ("instance", Holder),
    ("namespace", lambda: argparse.Namespace(lr=0.1)),
    ("simple namespace", lambda: types.SimpleNamespace(a=1)),
    ("default dict", lambda: defaultdict(list, a=[1])),
    ("partial", lambda: functools.partial(print, 1)),
    ("pattern", lambda: re.compile("a")),
    ("exception", lambda: ValueError("x")),
    ("bound method", lambda: Holder().__repr__),
]


@pytest.mark.parametrize(("name", "make"), GOOD, ids=[name for name, _ in GOOD])
def test_good_plain_things_get_no_word(name: str, make: Callable[[], object]) -> None:
    value = make()
    for mode in ("pickle", "deepcopy", "collective"):
        report = find_unpicklable({"it": value}, mode=mode)
        assert report.ok, report.offenders
        assert report.warnings == ()


def loud(report: Any) -> list[Any]:
    return [item for item in report.warnings if item.kind != "note"]


@pytest.mark.parametrize(
    ("name", "make", "why"),
    [
        ("logger", lambda: logging.getLogger("tests.kinds"), "only the name"),
        ("absolute path", lambda: pathlib.Path("/data/train").absolute(), "another host"),
        ("random numbers", lambda: random.Random(1), "same numbers"),
    ],
)
def test_good_what_is_only_worth_knowing_is_a_note(name: str, make: Callable[[], object], why: str) -> None:
    """Said once for each type, never as a warning, and not where it does not matter."""
    report = find_unpicklable([make() for _ in range(5)])
    assert report.ok
    assert loud(report) == []
    assert len(report.warnings) == 1
    assert why in report.warnings[0].why
    assert find_unpicklable([make()], mode="deepcopy").warnings == ()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there they can't be pickled at all")
def test_an_iterator_of_itertools_is_a_note() -> None:
    report = find_unpicklable([itertools.count(3)])
    assert [item.kind for item in report.warnings] == ["note"]
    assert "3.13" in report.warnings[0].why


@pytest.mark.skipif(sys.version_info < (3, 14), reason="up to 3.13 they can be pickled")
def test_bad_an_iterator_of_itertools() -> None:
    assert_found_and_fixed(itertools.count(3), "3.14", "list of the items")


def test_bad_dc603_shared_memory_goes_by_its_name() -> None:
    memory = shared_memory.SharedMemory(create=True, size=16)
    try:
        report = find_unpicklable({"memory": memory})
        assert report.ok
        assert [(item.path, item.kind) for item in report.warnings] == [("obj['memory']", "breaks")]
        assert "name" in report.warnings[0].why
        assert find_unpicklable({"memory": memory}, mode="spawn").warnings == ()
    finally:
        memory.close()
        memory.unlink()


def test_bad_dc603_a_temporary_folder() -> None:
    folder = tempfile.TemporaryDirectory()
    try:
        report = find_unpicklable({"scratch": folder})
        assert [item.kind for item in report.warnings] == ["breaks"]
        assert "deletes" in report.warnings[0].why
    finally:
        folder.cleanup()


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from distcheck.checks.pickles.objects import find_unpicklable
class Config:
    pass
report = find_unpicklable([Config(), Config(), Config()], mode={mode!r})
print(report.ok, [(item.kind, "Config" in item.why) for item in report.warnings])
"""


def run(arguments: list[str], given: str = "") -> str:
    return subprocess.run(
        [sys.executable, *arguments], input=given, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_bad_dc603_classes_of_main(tmp_path: pathlib.Path) -> None:
    """In a script a warning, once for each class; in a session a note, but fatal for what is spawned from it."""
    root = str(pathlib.Path(__file__).parents[3])
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(root=root, mode="pickle"))
    assert run([str(script)]) == "True [('breaks', True)]"
    assert run(["-"], SCRIPT.format(root=root, mode="pickle")) == "True [('note', True)]"
    assert run(["-"], SCRIPT.format(root=root, mode="spawn")) == "True [('breaks', True)]"
    assert run(["-"], SCRIPT.format(root=root, mode="collective")) == "True []"
    script.write_text(SCRIPT.format(root=root, mode="spawn"))
    assert run([str(script)]) == "True []"


def test_good_torch_is_not_imported() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from distcheck.checks.pickles import kinds\n"
        "kinds.explain(object(), '', 'pickle'); kinds.interesting(object, 'pickle')\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=pathlib.Path(__file__).parents[3], timeout=60)


def test_a_function_that_a_package_made_is_not_to_be_moved() -> None:
    """Nobody moves code of Python or of torch to the top of its module."""
    made = functools.singledispatch(print)
    inner = made.dispatch  # defined inside functools.singledispatch
    said = kinds.explain(inner, "", "pickle", "obj.choose")
    assert "defined inside singledispatch (functools)" in said.why
    assert "move" not in said.fix
    assert "self.choose = singledispatch(…)" in said.fix
