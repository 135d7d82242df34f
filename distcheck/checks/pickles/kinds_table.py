"""The table behind :mod:`.kinds`: types by name, why they can't be pickled or what breaks later, and what to do.

Behaviour was observed with Python 3.11 and torch 2.13; where versions differ, several names stand in one row. A name
that ends with a dot or a star is a prefix.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeVar


class KindEntry(NamedTuple):
    """What is known about types that can't be pickled."""

    #: one sentence without a full stop, which can follow the path of a member
    why: str
    #: the expression that makes such an object again
    anew: str = ""
    #: what is better than leaving it out
    instead: str = ""
    #: ``unpicklable`` or ``process-group``
    kind: str = "unpicklable"
    #: what to do for copy.deepcopy, for a spawned process, for an object collective, where it is not the usual
    copy: str = ""
    spawn: str = ""
    send: str = ""
    #: pickling fails in its inner parts; users see one thing
    one_piece: bool = False


class Pitfall(NamedTuple):
    """What is known about types that can be pickled, with a catch."""

    why: str
    fix: str
    kind: str = "breaks"
    modes: tuple[str, ...] = ("pickle", "torch.save")
    once: bool = False


_GROUP = "process-group"
_DIST = ("torch._C._distributed_c10d.", "torch.distributed.distributed_c10d.")

TENSOR = KindEntry("a tensor")

_ROWS: tuple[tuple[str, KindEntry], ...] = (
    # torch.distributed
    (
        " ".join(
            f"{room}{name}"
            for room in _DIST
            for name in ("ProcessGroup", "ProcessGroup*", "Backend", "Backend*", "_ProcessGroupWrapper")
        ),
        KindEntry(
            "a process group is a set of live connections between running processes, which no file and no copy can"
            " hold",
            "dist.new_group(ranks)",
            "keep its ranks (dist.get_process_group_ranks(group)), and call dist.new_group(ranks) on every rank after"
            " init_process_group",
            _GROUP,
            copy="copy before the group is attached, or give the class a __deepcopy__ that hands the same group on:"
            " memo[id(self.group)] = self.group",
            spawn="call init_process_group inside of the worker, with the rank that it is given, and make the group"
            " there",
            send="send the list of ranks, and let every rank call dist.new_group(ranks)",
        ),
    ),
    (
        " ".join(
            f"{room}{name}" for room in _DIST for name in ("Work", "_Work", "_WorkNCCL", "FutureWork", "FakeWork")
        ),
        KindEntry(
            "it is the handle of a collective that runs in this process",
            "",
            "call .wait() on it and let it go (set it to None) before anything is written",
            _GROUP,
            copy="call .wait() on it and set it to None before copying",
            spawn="wait for it here, and pass the result",
            send="wait for it here, and send the result",
        ),
    ),
    (
        " ".join(
            f"{room}{name}"
            for room in _DIST
            for name in ("Store", "TCPStore", "FileStore", "HashStore", "PrefixStore", "_ControlCollectives")
        ),
        KindEntry(
            "a store is an open connection to the job's key-value server",
            "dist.TCPStore(host, port, world_size, is_master)",
            "keep its host and port (or the path of a FileStore), and connect again where it is used",
            _GROUP,
            copy="copy before the store is attached, or hand the same store on: memo[id(self.store)] = self.store",
            spawn="pass host and port, and connect inside of the worker",
            send="every rank has the job's store already; send the keys",
        ),
    ),
    (
        " ".join(_DIST),
        KindEntry(
            "it belongs to the running process group of this process",
            "",
            "make it again after init_process_group",
            _GROUP,
        ),
    ),
    (
        "torch.nn.parallel.distributed.DistributedDataParallel",
        KindEntry(
            "this DistributedDataParallel has a process group of its own, or the default group is gone already, and"
            " refuses to be pickled",
            "",
            "save what it wraps, ddp.module.state_dict(), and wrap the model again after init_process_group",
            _GROUP,
            copy="copy what it wraps (copy.deepcopy(ddp.module)), and wrap the copy",
            spawn="send the plain module, and wrap it inside of the worker after init_process_group",
            send="send ddp.module.state_dict() on the CPU",
        ),
    ),
    (
        "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel"
        " torch.distributed.fsdp.FullyShardedDataParallel",
        KindEntry(
            "an FSDP module holds only this rank's shards, and the process group that gathers them",
            "",
            "save its state with torch.distributed.checkpoint (dcp.save) or with FSDP.state_dict_type(…) on all ranks",
            copy="copy the module before it is wrapped",
            spawn="send the plain module, and shard it inside of the worker",
            send="gather the state (get_model_state_dict with full_state_dict=True), and send that",
            one_piece=True,
        ),
    ),
    (
        "torch.distributed.fsdp.FSDPModule torch.distributed.fsdp._fully_shard._fully_shard.FSDPModule"
        " torch.distributed.fsdp._fully_shard._fsdp_init.*",
        KindEntry(
            "fully_shard gave the module a class that was made at run time, and its state is spread over the ranks",
            "",
            "save its state on all ranks: get_model_state_dict(model) with torch.distributed.checkpoint (dcp.save)",
            copy="copy the module before fully_shard(module) is called",
            spawn="send the plain module, and call fully_shard inside of the worker",
            send="gather the state (get_model_state_dict with full_state_dict=True), and send that",
            one_piece=True,
        ),
    ),
    (
        "torch.distributed.fsdp.",
        KindEntry(
            "it is the bookkeeping of FSDP about this rank's shards",
            "",
            "save the state through torch.distributed.checkpoint",
        ),
    ),
    (
        "torch.distributed.device_mesh.DeviceMesh",
        KindEntry(
            "a device mesh leads to the process groups of this job",
            'init_device_mesh("cuda", shape)',
            "keep its shape and the names of its dimensions, and call init_device_mesh after init_process_group",
            _GROUP,
            spawn="pass its shape, and call init_device_mesh inside of the worker",
            send="send its shape; every rank makes its own mesh",
        ),
    ),
    (
        "torch.distributed.tensor.DTensor torch.distributed.tensor._api.DTensor torch.distributed._tensor.api.DTensor",
        KindEntry(
            "a DTensor is one rank's shard, and its mesh leads to the process groups of this job",
            "",
            "save it with torch.distributed.checkpoint, or save tensor.full_tensor() (a collective: on all ranks)",
            copy="copy its shard: tensor.to_local().clone()",
            spawn="send tensor.full_tensor() on the CPU, and distribute it inside of the worker",
            send="send tensor.to_local()",
        ),
    ),
    (
        "torch.distributed.rpc. torch._C._distributed_rpc.",
        KindEntry(
            "it is a reference of torch's RPC, which counts who holds it and may travel in RPC messages only",
            "",
            "send the value: rref.to_here()",
        ),
    ),
    # torch: devices and autograd
    (
        "torch.Stream torch.cuda.streams.Stream torch.cuda.streams.ExternalStream torch._C._CudaStreamBase"
        " torch._utils._CudaStreamBase torch.xpu.streams.Stream torch._C.Stream torch_npu.npu.streams.Stream",
        KindEntry(
            "a stream is a queue of work on a GPU of this process",
            "torch.cuda.Stream()",
            spawn="make the stream inside of the worker: torch.cuda.Stream()",
        ),
    ),
    (
        "torch.Event torch.cuda.streams.Event torch._C._CudaEventBase torch._utils._CudaEventBase"
        " torch.xpu.streams.Event torch_npu.npu.streams.Event",
        KindEntry(
            "an event is a mark in the queue of a GPU of this process",
            "torch.cuda.Event(enable_timing=True)",
            "keep the time that it measured (start.elapsed_time(end)) as a number",
        ),
    ),
    (
        "torch.cuda.graphs.CUDAGraph torch._C._CUDAGraph torch._utils._CUDAGraph torch.cuda.memory.MemPool"
        " torch._C._MemPool",
        KindEntry(
            "it is a recording of work, or memory, on a GPU of this process",
            "torch.cuda.CUDAGraph()",
            "capture the graph again after loading, once the tensors are on the GPU",
        ),
    ),
    (
        "torch._C.Generator torch.Generator torch.mtia.Generator",
        KindEntry(
            "this torch can't pickle a random number generator",
            "torch.Generator()",
            "keep generator.get_state(), a tensor, and call set_state() on a new torch.Generator()",
        ),
    ),
    (
        "torch.futures.Future torch.jit.Future torch.Future torch._C.Future",
        KindEntry(
            "a future is a result that this process still waits for",
            "",
            "wait for it, and keep the result: future.wait()",
        ),
    ),
    (
        "torch.utils.data.dataloader._BaseDataLoaderIter torch.utils.data.dataloader._SingleProcessDataLoaderIter"
        " torch.utils.data.dataloader._MultiProcessingDataLoaderIter",
        KindEntry(
            "the iterator of a DataLoader is tied to the workers and queues of this process",
            "iter(self.loader)",
            "keep the epoch and the number of batches done, and call iter(loader) again",
        ),
    ),
    (
        "torch.utils.data.",
        KindEntry(
            "it is the inner part of a DataLoader of this process",
            "",
            "make the loader again from dataset and settings; keep epoch and batch number",
        ),
    ),
    (
        "torch.utils.tensorboard. tensorboardX. tensorboard.summary."
        " torch.utils.tensorboard.writer.SummaryWriter tensorboardX.writer.SummaryWriter",
        KindEntry(
            "a summary writer holds an open event file and the thread that writes it",
            "SummaryWriter(self.log_dir, purge_step=self.step)",
            "keep log_dir and the step, and open the writer on rank 0 after loading",
            spawn="open the writer inside of the worker that logs, with the path as argument",
            one_piece=True,
        ),
    ),
    (
        "torch.profiler. torch.autograd.profiler. torch._C._profiler.",
        KindEntry(
            "a profiler records this process while it runs",
            "",
            "write its result (prof.export_chrome_trace(path)), and start a new one after loading",
            one_piece=True,
        ),
    ),
    (
        "torch.jit. torch.jit._script.RecursiveScriptModule torch.jit._script.ScriptModule torch._C.ScriptModule"
        " torch._C.ScriptFunction torch.jit._trace. torch._C.ScriptObject torch.ScriptObject torch.ScriptFunction"
        " torch._C.Graph torch._C.CompilationUnit torch.jit.CompilationUnit torch.ScriptModule",
        KindEntry(
            "scripted and traced code lives in torch's interpreter, and Python's pickle can't reach it",
            "torch.jit.load(path)",
            "write it with torch.jit.save(module, path), or save its state_dict()",
            one_piece=True,
        ),
    ),
    (
        "torch.nn.utils.parametrize.Parametrized*",
        KindEntry(
            "a module with parametrizations (weight_norm, spectral_norm, orthogonal) has a class that was made at"
            " run time",
            "",
            "save its state_dict(), and register the parametrization on a new module before load_state_dict(); or"
            " make it plain: parametrize.remove_parametrizations(module, name)",
            spawn="send the plain module, and register the parametrization inside of the worker",
            send="send its state_dict()",
        ),
    ),
    (
        "torch._dynamo. torch._inductor. torch._functorch. torch.compiler.",
        KindEntry(
            "it is compiled code, or what torch.compile keeps about it, and exists in this process only",
            "torch.compile(self.model)",
            "keep and save the plain module (compiled._orig_mod.state_dict()), and compile again after loading",
            copy="copy the plain module (compiled._orig_mod), and compile the copy",
            spawn="send the plain module, and compile inside of the worker",
            send="send the state_dict() of the plain module",
        ),
    ),
    (
        "torch._dynamo.eval_frame.OptimizedModule",
        KindEntry(
            "a compiled module holds code that torch.compile made in this process",
            "torch.compile(self.model)",
            "save compiled._orig_mod.state_dict(), and call torch.compile again after loading",
            copy="copy the plain module (compiled._orig_mod), and compile the copy",
            spawn="send the plain module (compiled._orig_mod), and compile inside of the worker",
            send="send compiled._orig_mod.state_dict()",
        ),
    ),
    (
        "torch._ops. torch._library.",
        KindEntry(
            "an operator of torch.ops is an entry in this process's dispatcher",
            "torch.ops.<namespace>.<name>",
            'keep its name as text ("aten::add"), and look it up in torch.ops after loading',
            one_piece=True,
        ),
    ),
    (
        "torch._subclasses. torch._subclasses.fake_tensor.FakeTensor torch._C._functorch.",
        KindEntry(
            "a fake tensor has a shape and no data: there is nothing to write",
            "",
            'keep shape, dtype and device, or make the tensor outside of FakeTensorMode (torch.empty on device="meta")',
            one_piece=True,
        ),
    ),
    (
        "torch.finfo torch.iinfo",
        KindEntry(
            "it is a table of limits inside of torch", "torch.finfo(self.dtype)", "keep the dtype", one_piece=True
        ),
    ),
    (
        "torch.memory_format torch.layout torch.qscheme",
        KindEntry(
            "torch.save writes protocol 2, in which this constant of torch has no spelling",
            "",
            'keep its name as text ("channels_last"), and look it up with getattr(torch, name)',
            one_piece=True,
        ),
    ),
    (
        "torch.autograd.function. torch._C._FunctionBase torch._C._functions. torch.autograd.graph.",
        KindEntry(
            "it is a node of the autograd graph of this process",
            "",
            "keep tensors that are detached (.detach()), and let the next forward build the graph",
        ),
    ),
    (
        "torch.utils.hooks.RemovableHandle torch.utils.hooks.",
        KindEntry(
            "it is the handle of a hook, by which the hook is removed in this process",
            "",
            "call .remove() on it, and register the hook again after loading",
        ),
    ),
    ("torch.Tensor torch._tensor.Tensor torch._C.TensorBase torch.nn.parameter.Parameter", TENSOR),
    (
        "torch.storage. torch._C.StorageBase",
        KindEntry(
            "this storage can't be written by itself",
            "",
            "keep a tensor that has this storage",
        ),
    ),
    (
        "torch.classes. torch._classes. torch._C.",
        KindEntry(
            "it is an object of torch's C++ part that lives in this process only",
            "",
            "keep what it was made from",
        ),
    ),
    # trainers of frameworks
    (
        "deepspeed.runtime.engine.DeepSpeedEngine deepspeed.runtime.pipe.engine.PipelineEngine",
        KindEntry(
            "the engine holds process groups, streams and hooks of this process",
            "",
            "let it write itself, on all ranks: engine.save_checkpoint(folder)",
            one_piece=True,
        ),
    ),
    (
        "lightning.pytorch.trainer.trainer.Trainer pytorch_lightning.trainer.trainer.Trainer",
        KindEntry(
            "a Trainer of Lightning is tied to loops, loggers and processes of this run",
            "",
            "let it write itself, on all ranks: trainer.save_checkpoint(path)",
            one_piece=True,
        ),
    ),
    (
        "lightning.fabric.fabric.Fabric lightning_fabric.fabric.Fabric",
        KindEntry(
            "a Fabric of Lightning is tied to the processes of this run",
            "",
            "let it write the state, on all ranks: fabric.save(path, state)",
            one_piece=True,
        ),
    ),
    (
        "accelerate.accelerator.Accelerator accelerate.state.",
        KindEntry(
            "it holds the distributed state of this process",
            "Accelerator()",
            "let it write the state, on all ranks: accelerator.save_state(folder)",
            one_piece=True,
        ),
    ),
    (
        "ray. ray.actor.",
        KindEntry("it is a handle of a running Ray cluster", "", "send the data: ray.get(reference)", one_piece=True),
    ),
    # threads
    (
        "_thread.lock _thread.LockType",
        KindEntry(
            "a lock belongs to the threads of this process",
            "threading.Lock()",
            spawn="take one that processes can share, and pass it as an argument:"
            ' torch.multiprocessing.get_context("spawn").Lock()',
        ),
    ),
    (
        "_thread.RLock threading._RLock",
        KindEntry(
            "a re-entrant lock belongs to the threads of this process",
            "threading.RLock()",
            spawn="take one that processes can share, and pass it as an argument:"
            ' torch.multiprocessing.get_context("spawn").RLock()',
        ),
    ),
    (
        "threading.Condition",
        KindEntry("a condition is built on a lock of this process", "threading.Condition()", one_piece=True),
    ),
    (
        "threading.Event",
        KindEntry(
            "an event is built on a lock of this process",
            "threading.Event()",
            "keep a plain bool (event.is_set())",
            spawn="take one that processes can share, and pass it as an argument:"
            ' torch.multiprocessing.get_context("spawn").Event()',
            one_piece=True,
        ),
    ),
    (
        "threading.Semaphore",
        KindEntry("a semaphore is built on a lock of this process", "threading.Semaphore(n)", one_piece=True),
    ),
    (
        "threading.BoundedSemaphore",
        KindEntry("a semaphore is built on a lock of this process", "threading.BoundedSemaphore(n)", one_piece=True),
    ),
    (
        "threading.Barrier",
        KindEntry("a barrier is built on a lock of this process", "threading.Barrier(n)", one_piece=True),
    ),
    (
        "threading.Timer",
        KindEntry("a timer is a thread of this process", "threading.Timer(seconds, self.method)", one_piece=True),
    ),
    (
        "threading.Thread threading._MainThread threading._DummyThread _thread._ThreadHandle threading._ThreadHandle",
        KindEntry(
            "a thread runs in this process only",
            "threading.Thread(target=self.method, daemon=True)",
            "keep what it works on, and start the thread again after loading",
            one_piece=True,
        ),
    ),
    (
        "_thread._local threading.local _threading_local.local _thread._localdummy",
        KindEntry("threading.local has other contents in each thread of this process", "threading.local()"),
    ),
    (
        "queue.Queue queue.LifoQueue queue.PriorityQueue",
        KindEntry(
            "a queue.Queue is built on locks of this process",
            "queue.Queue()",
            "keep the waiting items as a list",
            spawn="take one that processes can share, and pass it as an argument:"
            ' torch.multiprocessing.get_context("spawn").Queue()',
            one_piece=True,
        ),
    ),
    (
        "_queue.SimpleQueue queue.SimpleQueue queue._PySimpleQueue",
        KindEntry(
            "a SimpleQueue joins threads of this process",
            "queue.SimpleQueue()",
            "keep the waiting items as a list",
            spawn='take one that processes can share: torch.multiprocessing.get_context("spawn").SimpleQueue()',
        ),
    ),
    (
        "concurrent.futures.thread.ThreadPoolExecutor",
        KindEntry(
            "an executor is a set of threads of this process",
            "concurrent.futures.ThreadPoolExecutor(max_workers)",
            one_piece=True,
        ),
    ),
    (
        "concurrent.futures.process.ProcessPoolExecutor concurrent.futures.interpreter.InterpreterPoolExecutor"
        " concurrent.futures.",
        KindEntry(
            "an executor is a set of running processes and the pipes to them",
            "concurrent.futures.ProcessPoolExecutor(max_workers)",
            one_piece=True,
        ),
    ),
    (
        "concurrent.futures._base.Future",
        KindEntry(
            "a future is a result that this process still waits for",
            "",
            "keep its result: future.result()",
            one_piece=True,
        ),
    ),
    (
        "asyncio. _asyncio. uvloop. trio. anyio. uvloop.loop.",
        KindEntry(
            "it belongs to a running event loop of this process",
            "",
            "make it inside of the coroutine that uses it",
            one_piece=True,
        ),
    ),
    # processes
    (
        "subprocess.Popen asyncio.subprocess.Process",
        KindEntry(
            "it is the handle of a running child process",
            "subprocess.Popen(self.command)",
            "keep the command, or its result: subprocess.run(…) gives plain data",
            one_piece=True,
        ),
    ),
    (
        "multiprocessing.process.BaseProcess multiprocessing.process.AuthenticationString"
        " multiprocessing.context.Process multiprocessing.context.SpawnProcess multiprocessing.context.ForkProcess"
        " multiprocessing.context.ForkServerProcess",
        KindEntry(
            "it is a process that this one started, with its secret key",
            "",
            "keep its pid or its name as plain data",
            one_piece=True,
        ),
    ),
    (
        "multiprocessing.synchronize. _multiprocessing.SemLock",
        KindEntry(
            "a lock between processes is inherited by children as they start, and goes no other way",
            'multiprocessing.get_context("spawn").Lock()',
            "pass it to Process(args=…) or to an initializer, not inside of a larger object that is pickled",
            spawn="take it from the context that starts the worker"
            ' (torch.multiprocessing.get_context("spawn").Lock()), and'
            " pass it as an argument of the process",
            one_piece=True,
        ),
    ),
    (
        "multiprocessing.queues.",
        KindEntry(
            "a queue between processes is inherited by children as they start, and goes no other way",
            'multiprocessing.get_context("spawn").Queue()',
            "pass it to Process(args=…) or to an initializer, and keep it out of objects that are saved",
            spawn="take it from the context that starts the worker"
            ' (torch.multiprocessing.get_context("spawn").Queue()), and'
            " pass it as an argument of the process",
            one_piece=True,
        ),
    ),
    (
        "multiprocessing.sharedctypes. multiprocessing.heap.",
        KindEntry(
            "a shared value is inherited by children as they start, and goes no other way",
            'multiprocessing.get_context("spawn").Value("i", 0)',
            "keep the number (value.value), or a tensor in shared memory (tensor.share_memory_())",
            spawn="take it from the context that starts the worker"
            ' (torch.multiprocessing.get_context("spawn").Value("i")), and'
            " pass it as an argument of the process",
            one_piece=True,
        ),
    ),
    (
        "multiprocessing.connection.",
        KindEntry(
            "a pipe's end is an open file of this process",
            "multiprocessing.Pipe()",
            "pass it to Process(args=…) as the child starts",
        ),
    ),
    (
        "multiprocessing.pool.",
        KindEntry("a pool is a set of running workers", "torch.multiprocessing.Pool(processes)", one_piece=True),
    ),
    (
        "multiprocessing.managers.",
        KindEntry("a manager is a server process that this one started", "multiprocessing.Manager()", one_piece=True),
    ),
    # sockets and servers
    (
        "socket.socket _socket.socket ssl.SSLSocket",
        KindEntry(
            "a socket is a connection of this process",
            "socket.create_connection((self.host, self.port))",
            "keep host and port, and connect where it is used",
        ),
    ),
    (
        "ssl. _ssl.",
        KindEntry("it is the state of encrypted connections of this process", "ssl.create_default_context()"),
    ),
    (
        "select. selectors.",
        KindEntry("it watches open files of this process", "selectors.DefaultSelector()", one_piece=True),
    ),
    (
        "http.client. http.server. urllib.request. urllib.response. socketserver. smtplib. ftplib. imaplib. xmlrpc."
        " urllib3. httpx. aiohttp. grpc. zmq. websockets. paramiko. requests. pika. kafka. nats. paho.",
        KindEntry(
            "it holds an open network connection of this process",
            "",
            "keep the address, and connect where it is used",
            one_piece=True,
        ),
    ),
    (
        "boto3. botocore. s3transfer. google.cloud. azure.",
        KindEntry(
            "a cloud client holds connections, locks and classes made at run time",
            'boto3.client("s3")',
            "keep bucket and key, and make one client in each process where it is first used",
            one_piece=True,
        ),
    ),
    # files
    (
        "_io.TextIOWrapper _io.BufferedReader _io.BufferedWriter _io.BufferedRandom _io.BufferedRWPair _io.FileIO"
        " _pyio. codecs.StreamReaderWriter codecs.StreamReader codecs.StreamWriter",
        KindEntry(
            "an open file is a descriptor of this process",
            "open(self.path)",
            "keep its path, and open it where it is read or written",
            spawn="pass the path, and open the file inside of the worker",
            send="send the path if all hosts see the same file system, else the content",
        ),
    ),
    (
        "tempfile. tempfile.SpooledTemporaryFile",
        KindEntry(
            "a temporary file or folder belongs to this process, which deletes it",
            "tempfile.TemporaryDirectory()",
            "keep what it holds, or a path that outlives the process",
            one_piece=True,
        ),
    ),
    (
        "gzip. bz2. lzma. _bz2. _lzma. zlib. zipfile. tarfile. _zstd. compression. zstandard. lz4. zipfile._path.",
        KindEntry(
            "it is an open archive, or a stream that is half read",
            "",
            "keep its path, and open it where it is read",
            spawn="pass the path, and open the archive inside of the worker",
            one_piece=True,
        ),
    ),
    (
        "posix.ScandirIterator nt.ScandirIterator posix.DirEntry nt.DirEntry",
        KindEntry(
            "it is an open listing of a folder",
            "os.listdir(self.folder)",
            "keep names: [entry.name for entry in os.scandir(folder)]",
        ),
    ),
    (
        "_csv.reader _csv.writer _csv.Reader _csv.Writer csv.DictReader csv.DictWriter",
        KindEntry(
            "it reads from, or writes to, an open file", "", "keep the path, or the rows: list(reader)", one_piece=True
        ),
    ),
    (
        "mmap.mmap",
        KindEntry(
            "a mapping of a file is memory of this process",
            "mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)",
            "keep the path, and map the file where it is read",
            spawn="pass the path, and map the file inside of the worker",
        ),
    ),
    (
        "h5py. tables. netCDF4. _netCDF4.",
        KindEntry(
            "an HDF5 file, group or data set is open in this process",
            "h5py.File(self.path)",
            "keep the path, and open the file in each process where it is first read (in __getitem__ of a data set)",
            spawn="pass the path, and open the file inside of the worker",
            one_piece=True,
        ),
    ),
    (
        "lmdb. builtins.Environment builtins.Transaction rocksdb. leveldb. plyvel. dbm. _dbm. _gdbm. shelve.",
        KindEntry(
            "a key-value file is open in this process",
            "lmdb.open(self.path, readonly=True, lock=False)",
            "keep the path, and open it in each process where it is first read",
            spawn="pass the path, and open it inside of the worker",
            one_piece=True,
        ),
    ),
    (
        "pyarrow. cv2. av. decord. torchcodec. imageio. soundfile. rasterio. osgeo. PIL.",
        KindEntry(
            "it is a file or stream that a C library has open in this process",
            "",
            "keep the path, and open it where it is read",
            spawn="pass the path, and open it inside of the worker",
            one_piece=True,
        ),
    ),
    # data bases
    (
        "sqlite3.Connection sqlite3.Cursor sqlite3.Blob sqlite3. _sqlite3.",
        KindEntry(
            "a database connection is an open file with locks of this process",
            "sqlite3.connect(self.path)",
            "keep the path, and connect in each process where it is first used",
            spawn="pass the path, and connect inside of the worker",
        ),
    ),
    (
        "psycopg. psycopg2. psycopg_c. psycopg_binary. psycopg_pool. pymysql. MySQLdb. mysql. mariadb. asyncpg."
        " aiomysql. pymssql."
        " pyodbc. oracledb. cx_Oracle. duckdb. _duckdb. clickhouse_driver. clickhouse_connect. snowflake. pymongo."
        " redis. elasticsearch. cassandra. neo4j. influxdb. peewee. aiosqlite. pyodbc.",
        KindEntry(
            "a database connection is a socket with a session of this process",
            "",
            "keep the address of the database, and connect in each process where it is first used",
            spawn="pass the address, and connect inside of the worker",
            one_piece=True,
        ),
    ),
    (
        "sqlalchemy.",
        KindEntry(
            "an engine or session of SQLAlchemy holds a pool of open connections",
            "sqlalchemy.create_engine(self.url)",
            "keep the URL, and call create_engine in each process where it is first used",
            spawn="pass the URL, and call create_engine inside of the worker",
            one_piece=True,
        ),
    ),
    # logging, progress, trackers
    (
        "logging.Logger logging.RootLogger",
        KindEntry(
            "this logger is not the one that logging.getLogger gives for its name, and only the name could be written",
            "logging.getLogger(self.name)",
            "use logging.getLogger(__name__) at the top of the module instead of a member",
        ),
    ),
    (
        "logging.Handler logging. logging.handlers.",
        KindEntry(
            "a handler of logging holds a lock and an open stream",
            "",
            "keep the path or the name of the logger, and add the handler again after loading",
            one_piece=True,
        ),
    ),
    (
        "loguru. structlog.",
        KindEntry(
            "a logger holds the sinks of this process",
            "loguru.logger",
            "import the logger in the module instead of keeping it as a member",
            one_piece=True,
        ),
    ),
    (
        "tqdm. tqdm.std.tqdm tqdm.asyncio.tqdm_asyncio tqdm.notebook.tqdm_notebook",
        KindEntry(
            "a progress bar writes to the terminal of this process, and holds its lock",
            "tqdm(total=self.total, initial=self.step)",
            "keep the count (bar.n), and make the bar where the loop is",
            one_piece=True,
        ),
    ),
    (
        "rich. rich.progress.Progress rich.live.Live rich.console.Console progressbar. alive_progress. enlighten.",
        KindEntry(
            "a progress display writes to the terminal of this process, from a thread with a lock",
            "rich.progress.Progress()",
            "keep the count, and make the display where the loop is",
            one_piece=True,
        ),
    ),
    (
        "wandb.",
        KindEntry(
            "a run of wandb is tied to a background process of this one",
            'wandb.init(id=self.run_id, resume="allow")',
            "keep run.id as text, and resume the run on rank 0 after loading",
            one_piece=True,
        ),
    ),
    (
        "mlflow. comet_ml. neptune. clearml. aim. swanlab.",
        KindEntry(
            "an experiment tracker holds connections and threads of this process",
            "",
            "keep the id of the run as text, and resume it on rank 0 after loading",
            one_piece=True,
        ),
    ),
    # Python itself
    (
        "builtins.generator",
        KindEntry(
            "a generator is a function that stopped half-way, and its frame can't be written",
            "",
            "keep a list of its items, or the arguments of the function that makes it and how many items were taken",
            copy="copy a list of its items, or make a second generator from the same arguments",
            spawn="pass a list, or what the worker needs to make its own generator",
            send="send a list: list(generator)",
        ),
    ),
    (
        "builtins.coroutine builtins.async_generator builtins.coroutine_wrapper builtins.async_generator_asend",
        KindEntry("a coroutine is a call that stopped half-way", "", "await it and keep the result"),
    ),
    (
        "builtins.frame builtins.traceback",
        KindEntry(
            "it is a piece of a call stack of this process",
            "",
            "keep its text: traceback.format_exc(), or traceback.format_exception(error)",
        ),
    ),
    (
        "builtins.module types.ModuleType",
        KindEntry(
            "a module is code that is loaded in this process",
            "importlib.import_module(self.module_name)",
            "keep its name (module.__name__), or import it at the top of the file",
            spawn="import the module inside of the worker",
        ),
    ),
    (
        "builtins.code builtins.cell builtins.FrameLocalsProxy",
        KindEntry(
            "it is compiled code or a variable of a closure",
            "",
            "keep the function by its import path, or the source as text",
        ),
    ),
    (
        "builtins.mappingproxy",
        KindEntry(
            "a mappingproxy is a view of another dict", "types.MappingProxyType(self.values)", "keep a copy: dict(view)"
        ),
    ),
    (
        "builtins.dict_keys builtins.dict_values builtins.dict_items builtins.odict_keys builtins.odict_values"
        " builtins.odict_items collections.abc.KeysView collections.abc.ValuesView collections.abc.ItemsView",
        KindEntry(
            "it is a view of a dict, without items of its own",
            "",
            "keep a list: list(view)",
            spawn="pass list(view)",
            send="send list(view)",
        ),
    ),
    (
        "builtins.memoryview builtins.managedbuffer",
        KindEntry(
            "a memoryview is a window on memory of another object",
            "",
            "keep the bytes: bytes(view)",
            spawn="pass bytes(view)",
            send="send bytes(view)",
        ),
    ),
    (
        "builtins.property builtins.staticmethod builtins.classmethod functools.cached_property"
        " builtins.member_descriptor"
        " builtins.getset_descriptor builtins.wrapper_descriptor builtins.classmethod_descriptor builtins.super",
        KindEntry(
            "it is a part of a class, and has no import path of its own",
            "",
            "keep the class, or the name of the attribute as text",
        ),
    ),
    (
        "builtins.PyCapsule types.CapsuleType",
        KindEntry("a capsule is a pointer of a C library into this process", "", "keep what it was made from"),
    ),
    (
        "builtins.callable_iterator builtins.anext_awaitable",
        KindEntry(
            "it is an iterator that was begun, over something that can't be written", "", "keep a list of its items"
        ),
    ),
    (
        "itertools.",
        KindEntry(
            "iterators of itertools can't be pickled from Python 3.14 on",
            "",
            "keep a list of the items, or the arguments and how many were taken",
        ),
    ),
    (
        "weakref.ReferenceType weakref.ref weakref.WeakMethod weakref.KeyedRef weakref.ProxyType"
        " weakref.CallableProxyType _weakref.",
        KindEntry(
            "a weak reference is an address in this process",
            "weakref.ref(self.target)",
            "keep the object itself, or a name by which it is found again",
        ),
    ),
    (
        "weakref.WeakKeyDictionary weakref.WeakValueDictionary weakref.WeakSet _weakrefset.WeakSet weakref.finalize",
        KindEntry(
            "a weak collection is made of addresses in this process",
            "weakref.WeakValueDictionary()",
            "keep dict(collection) or list(collection) where the items matter",
            one_piece=True,
        ),
    ),
    (
        "ctypes.CDLL ctypes.PyDLL ctypes.WinDLL ctypes.LibraryLoader ctypes.CDLL.* _ctypes.CFuncPtr _ctypes.PyCFuncPtr",
        KindEntry(
            "a library that ctypes loaded, and its functions, are addresses in this process",
            "ctypes.CDLL(self.library_path)",
            "keep the path of the library, and load it where it is used",
            one_piece=True,
        ),
    ),
    (
        "ctypes. _ctypes. _ctypes._Pointer _ctypes.Array _ctypes.Structure _ctypes.Union _ctypes._SimpleCData"
        " _ctypes._CData",
        KindEntry(
            "a ctypes object with a pointer in it holds an address in this process",
            "",
            "keep what it points to as plain data: bytes(…), or the fields as numbers",
        ),
    ),
    (
        "cffi. _cffi_backend.",
        KindEntry(
            "a cffi object holds addresses in this process", "", "keep what it points to: bytes(ffi.buffer(value))"
        ),
    ),
    (
        "_contextvars. contextvars.",
        KindEntry(
            "a context variable has its value in this thread's context",
            "contextvars.ContextVar(name)",
            "keep its value: variable.get()",
        ),
    ),
    (
        "re.Match _sre. re.Scanner",
        KindEntry(
            "a match of a regular expression points into C data",
            "",
            "keep the groups: match.groups() or match.groupdict()",
        ),
    ),
    (
        "os._Environ",
        KindEntry(
            "os.environ is the live environment of this process",
            "os.environ",
            "keep a copy of what is needed: dict(os.environ), or single variables (mind the credentials in it)",
            one_piece=True,
        ),
    ),
    (
        "random.SystemRandom secrets.SystemRandom",
        KindEntry(
            "SystemRandom draws from the operating system and has no state",
            "random.SystemRandom()",
            "use random.Random(seed) where the draws must be repeated",
        ),
    ),
    (
        "_hashlib. _blake2. _sha1. _sha2. _sha256. _sha512. _sha3. _md5. hmac.",
        KindEntry("a half-fed hash lives in a C library", "hashlib.sha256()", "keep its digest: value.hexdigest()"),
    ),
    (
        "_struct.Struct",
        KindEntry(
            "it is a compiled format of the struct module",
            "struct.Struct(self.format)",
            "keep the format as text: value.format",
        ),
    ),
    (
        "contextlib. contextlib._GeneratorContextManager",
        KindEntry(
            "a context manager that is open holds what it has to close",
            "",
            "open it where it is used: with …",
            one_piece=True,
        ),
    ),
    (
        "functools._lru_cache_wrapper",
        KindEntry(
            "a cached function is written as its import path, and this one has none that leads to it (made inside of a"
            " function or method)",
            "functools.lru_cache(self.method)",
            "put @functools.cache on a function at the top of a module",
        ),
    ),
    (
        "functools.",
        KindEntry("it is bound to a function that has no import path", "", "use functions at the top of a module"),
    ),
    (
        "argparse.",
        KindEntry(
            "a parser of arguments holds functions without an import path",
            "",
            "keep the parsed arguments: vars(parser.parse_args())",
            one_piece=True,
        ),
    ),
    (
        "unittest.mock.",
        KindEntry(
            "every mock has a class of its own, made at run time",
            "",
            "use a small class of the test module, with the attributes that are needed",
            one_piece=True,
        ),
    ),
    (
        "pyexpat. xml. lxml. _elementtree.",
        KindEntry(
            "it is a document or parser of a C library",
            "",
            "keep the text: ElementTree.tostring(element)",
            one_piece=True,
        ),
    ),
    (
        "tkinter. _tkinter. matplotlib. PyQt5. PyQt6. PySide6.",
        KindEntry(
            "it is tied to a window or a canvas of this process",
            "",
            "keep the data that is drawn, or the picture as a file",
            one_piece=True,
        ),
    ),
    # numeric libraries
    (
        "triton.",
        KindEntry(
            "it is a kernel that Triton compiled for the GPU of this process",
            "",
            "keep the function by its import path, and let Triton compile it again",
            one_piece=True,
        ),
    ),
    (
        "numba. llvmlite.",
        KindEntry(
            "it is code that numba compiled in this process",
            "",
            "put @njit on a function at the top of a module",
            one_piece=True,
        ),
    ),
    (
        "cupy. cupy_backends. pycuda.",
        KindEntry("it belongs to a GPU of this process", "", "keep the data on the host: cupy.asnumpy(array)"),
    ),
    (
        "pynvml.",
        KindEntry(
            "it is a handle of NVIDIA's management library",
            "pynvml.nvmlDeviceGetHandleByIndex(index)",
            "keep the UUID of the GPU as text",
        ),
    ),
    (
        "onnxruntime. tensorrt. openvino.",
        KindEntry(
            "an inference session holds a model that is loaded in this process",
            "onnxruntime.InferenceSession(self.path)",
            "keep the path of the model, and open the session where it is used",
            one_piece=True,
        ),
    ),
)

EXACT: dict[str, KindEntry] = {}
PREFIXES: dict[str, KindEntry] = {}


Row = TypeVar("Row", KindEntry, Pitfall)


def _fill(rows: tuple[tuple[str, Row], ...], exact: dict[str, Row], prefixes: dict[str, Row]) -> None:
    """Enter each row under all of its names."""
    for names, row in rows:
        for name in names.split():
            if name.endswith((".", "*")):
                prefixes[name.removesuffix("*")] = row
            else:
                exact[name] = row


_fill(_ROWS, EXACT, PREFIXES)

#: ``grad_fn`` of a tensor: C types without a module of their own.
GRAD_FN = re.compile(r"builtins\.\w+Backward\d*|builtins\.AccumulateGrad|builtins\.\w*GradFn\w*")
GRAD_FN_KIND = PREFIXES["torch.autograd.function."]

#: Bases of classes that are made at run time: such a class is explained as its base.
SHARDED = frozenset(
    {"torch.distributed.fsdp.FSDPModule", "torch.distributed.fsdp._fully_shard._fully_shard.FSDPModule"}
)

#: Packages of Python whose objects are the inner parts of others, without the underscore of their C halves.
PLUMBING = frozenset(
    {
        *("builtins", "types", "operator", "itertools", "functools", "contextlib", "contextvars", "collections", "io"),
        *("thread", "threading", "queue", "weakref", "weakrefset", "logging", "socket", "ssl", "select", "selectors"),
        *("multiprocessing", "concurrent", "asyncio", "pybind11_builtins"),
    }
)

#: What to do about a function or lambda, where the place in the object says what it is for.
PLACES = {
    ".lr_lambdas": "save scheduler.state_dict() and load it into a new LambdaLR; or give LambdaLR an object with"
    " __call__, or a function at the top of a module",
    "default_factory": "use defaultdict(list) or a function at the top of a module as the factory; or store"
    " dict(values)",
    ".collate_fn": "write collate_fn as a function at the top of a module, with functools.partial for what varies",
    ".worker_init_fn": "write worker_init_fn as a function at the top of a module",
}


# what can be pickled and breaks

_ANYWHERE = ("pickle", "torch.save", "collective")
_TO_CHILDREN = ("pickle", "torch.save", "spawn")

_CATCH_ROWS: tuple[tuple[str, Pitfall], ...] = (
    (
        "torch.nn.parallel.distributed.DistributedDataParallel",
        Pitfall(
            "a DistributedDataParallel on the default group loads only where init_process_group was called:"
            " ValueError elsewhere",
            "save what it wraps: ddp.module.state_dict(); to load, build the model, load_state_dict, and wrap it again",
            modes=_TO_CHILDREN,
        ),
    ),
    (
        "torch.distributed.device_mesh.DeviceMesh",
        Pitfall(
            "a device mesh loads with ranks only: its process groups are gone, and get_group() raises RuntimeError",
            "keep shape and names of the dimensions, and call init_device_mesh after init_process_group",
            modes=("pickle", "torch.save", "spawn", "collective"),
        ),
    ),
    (
        "torch.distributed.tensor.DTensor torch.distributed.tensor._api.DTensor torch.distributed._tensor.api.DTensor",
        Pitfall(
            "a DTensor is written as this rank's shard: where it is loaded, its collectives do not work",
            "write it with torch.distributed.checkpoint (dcp.save), or save tensor.full_tensor(), called on all ranks",
            modes=("pickle", "torch.save", "spawn", "collective"),
        ),
    ),
    (
        "torch.distributed.pipelining.stage.PipelineStage torch.distributed.pipelining.stage._PipelineStageBase",
        Pitfall(
            "a pipeline stage loses its process group without a word, and fails at its first send or receive",
            "save stage.submod.state_dict(), and build the stage again after init_process_group",
            modes=_TO_CHILDREN,
        ),
    ),
    (
        "torch.distributed.optim.zero_redundancy_optimizer.ZeroRedundancyOptimizer",
        Pitfall(
            "a ZeroRedundancyOptimizer loses its process group without a word, and step() fails after loading",
            "optimizer.consolidate_state_dict(to=0) on all ranks, then save optimizer.state_dict() on rank 0",
            modes=_TO_CHILDREN,
        ),
    ),
    (
        "torch._dynamo.eval_frame.OptimizedModule",
        Pitfall(
            "a compiled module is written with private parts of this torch: another version, or weights_only, can't"
            " load it",
            "save compiled._orig_mod.state_dict(), and call torch.compile again after loading",
        ),
    ),
    (
        "torch.fx.graph_module.GraphModule",
        Pitfall(
            "a GraphModule is written as generated source, which is traced and run again by the torch that loads it",
            "save its state_dict(), or the program with torch.export.save",
        ),
    ),
    (
        "torch.utils.data.dataloader.DataLoader",
        Pitfall(
            "a DataLoader is written with its whole data set, and the place in the epoch is lost",
            "save epoch and batch number, and make the loader again from its settings",
        ),
    ),
    (
        "torch.utils.data.distributed.DistributedSampler",
        Pitfall(
            "a DistributedSampler is written with rank and world size of this process: every rank that loads it"
            " reads the same shard",
            "save sampler.epoch, make the sampler again on each rank, and call set_epoch",
            modes=_ANYWHERE,
        ),
    ),
    (
        "torch._C.Generator torch.Generator",
        Pitfall(
            "it is the state of a random number generator: all ranks that load one file draw the same numbers",
            "save generator.get_state() for each rank, or seed again with seed + rank after loading",
            "note",
        ),
    ),
    (
        "random.Random numpy.random._generator.Generator numpy.random.mtrand.RandomState",
        Pitfall(
            "it is the state of a random number generator: all ranks that load one file draw the same numbers",
            "keep one state for each rank, or seed again with seed + rank after loading",
            "note",
            once=True,
        ),
    ),
    (
        "numpy.memmap numpy.core.memmap.memmap numpy._core.memmap.memmap",
        Pitfall(
            "a memmap is written by value: every byte of the mapped file goes into the pickle, and the file is"
            " forgotten",
            "keep path, dtype, shape and offset, and open numpy.memmap(path, …) again in __setstate__",
            modes=("pickle", "torch.save", "spawn", "collective"),
        ),
    ),
    (
        "multiprocessing.shared_memory.SharedMemory multiprocessing.shared_memory.ShareableList",
        Pitfall(
            "only the name of the shared memory is written: the memory is gone after a restart, and on any other host",
            "write a copy of its content: bytes(memory.buf)",
            modes=_ANYWHERE,
        ),
    ),
    (
        "tempfile.TemporaryDirectory",
        Pitfall(
            "only the path of the temporary folder is written, and this process deletes the folder at its end",
            "keep what it holds, or a folder that outlives the process",
            modes=_ANYWHERE,
        ),
    ),
    (
        "multiprocessing.managers.BaseProxy",
        Pitfall(
            "a proxy is written as the address of a manager process, which is gone after a restart, and on any"
            " other host",
            "write a copy of the content: dict(proxy) or list(proxy)",
            modes=_ANYWHERE,
        ),
    ),
    (
        "zarr.core.group.Group zarr.core.array.Array zarr.hierarchy.Group zarr.core.Array zarr.storage."
        " fsspec.implementations.local.LocalFileOpener fsspec.core.OpenFile fsspec.spec.AbstractBufferedFile"
        " xarray.backends.file_manager. h5pickle. diskcache. tensorstore. joblib.memory.Memory",
        Pitfall(
            "an open handle is written as its path, and opens that path again where it is loaded: it may be missing"
            " there, or have other content",
            "keep the path relative to a root that each host sets, and open it where it is used",
            modes=_ANYWHERE,
        ),
    ),
    (
        "datasets.arrow_dataset.Dataset",
        Pitfall(
            "a data set that is mapped from Arrow files is written as paths of this host's cache",
            "write it with dataset.save_to_disk(folder on shared storage), and load_from_disk on each host",
            modes=_ANYWHERE,
        ),
    ),
    (
        "cachetools.",
        Pitfall(
            "a cache is written with all that it holds",
            "leave it out in __getstate__, and start with an empty one in __setstate__",
            "note",
        ),
    ),
    (
        "itertools.",
        Pitfall(
            "iterators of itertools can be pickled up to Python 3.13 only, and the place in the iteration goes along",
            "keep a list of the items, or the arguments and how many were taken",
            "note",
        ),
    ),
)

CATCHES: dict[str, Pitfall] = {}
CATCH_PREFIXES: dict[str, Pitfall] = {}
_fill(_CATCH_ROWS, CATCHES, CATCH_PREFIXES)

#: Types where it depends on the object: full name → which look :mod:`.kinds` takes.
LOOKED_INTO = {
    "torch.Tensor": "tensor",
    "torch.nn.parameter.Parameter": "tensor",
    "torch.device": "device",
    "torch.storage.UntypedStorage": "storage",
    "pathlib.PurePath": "path",
    "pathlib._local.PurePath": "path",
    "logging.Logger": "logger",
}
