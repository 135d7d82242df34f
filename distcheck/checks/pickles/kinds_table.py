"""The tables behind :mod:`.kinds`: what is known about types of objects, by their names.

Behavior was observed with Python 3.11 and torch 2.13. Where versions differ, one entry has several names. An entry is
the full names of types, then one line for each field. A name that ends with a dot or a star is a prefix.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar


class KindEntry(NamedTuple):
    """What is known about types that can't be pickled."""

    #: one sentence without a full stop, which can follow the path of a member
    why: str
    #: the expression that creates such an object again
    recreate: str = ""
    #: what is better than to drop it
    instead: str = ""
    #: ``unpicklable`` or ``process-group``
    kind: str = "unpicklable"
    #: the fix for copy.deepcopy, for a spawned process, for an object collective, where it is not the usual one
    copy: str = ""
    spawn: str = ""
    send: str = ""
    #: pickling fails in its inner parts, which are no concern of a user
    opaque: bool = False


class Pitfall(NamedTuple):
    """Why an object that can be pickled is of no use afterwards, or only on this machine."""

    why: str
    fix: str
    #: ``breaks``, or ``note`` where it is only worth knowing
    kind: str = "breaks"
    modes: tuple[str, ...] = ("pickle", "torch.save")
    #: report it only for the first object of a type with this reason
    once: bool = False
    #: no other object of this type has another pitfall, so the others need no check
    final: bool = False


_KINDS = """\
# torch.distributed
torch._C._distributed_c10d.ProcessGroup torch._C._distributed_c10d.ProcessGroup* torch._C._distributed_c10d.Backend
  torch._C._distributed_c10d.Backend* torch._C._distributed_c10d._ProcessGroupWrapper
  torch.distributed.distributed_c10d.ProcessGroup torch.distributed.distributed_c10d.ProcessGroup*
  torch.distributed.distributed_c10d.Backend torch.distributed.distributed_c10d.Backend*
  torch.distributed.distributed_c10d._ProcessGroupWrapper
why: a process group is a set of live connections between running processes, which no file and no copy can hold
recreate: dist.new_group(ranks)
instead: keep its ranks (dist.get_process_group_ranks(group)), and call dist.new_group(ranks) on every rank after
  init_process_group
kind: process-group
copy: copy before the group is attached, or give the class a __deepcopy__ that hands the same group on:
  memo[id(self.group)] = self.group
spawn: call init_process_group inside of the worker, with the rank that it is given, and make the group there
send: send the list of ranks, and let every rank call dist.new_group(ranks)

torch._C._distributed_c10d.Work torch._C._distributed_c10d._Work torch._C._distributed_c10d._WorkNCCL
  torch._C._distributed_c10d.FutureWork torch._C._distributed_c10d.FakeWork torch.distributed.distributed_c10d.Work
  torch.distributed.distributed_c10d._Work torch.distributed.distributed_c10d._WorkNCCL
  torch.distributed.distributed_c10d.FutureWork torch.distributed.distributed_c10d.FakeWork
why: it is the handle of a collective that runs in this process
instead: call .wait() on it and let it go (set it to None) before anything is written
kind: process-group
copy: call .wait() on it and set it to None before copying
spawn: wait for it here, and pass the result
send: wait for it here, and send the result

torch._C._distributed_c10d.Store torch._C._distributed_c10d.TCPStore torch._C._distributed_c10d.FileStore
  torch._C._distributed_c10d.HashStore torch._C._distributed_c10d.PrefixStore
  torch._C._distributed_c10d._ControlCollectives torch.distributed.distributed_c10d.Store
  torch.distributed.distributed_c10d.TCPStore torch.distributed.distributed_c10d.FileStore
  torch.distributed.distributed_c10d.HashStore torch.distributed.distributed_c10d.PrefixStore
  torch.distributed.distributed_c10d._ControlCollectives
why: a store is an open connection to the job's key-value server
recreate: dist.TCPStore(host, port, world_size, is_master)
instead: keep its host and port (or the path of a FileStore), and connect again where it is used
kind: process-group
copy: copy before the store is attached, or hand the same store on: memo[id(self.store)] = self.store
spawn: pass host and port, and connect inside of the worker
send: every rank has the job's store already; send the keys

torch._C._distributed_c10d. torch.distributed.distributed_c10d.
why: it belongs to the running process group of this process
instead: make it again after init_process_group
kind: process-group

torch.nn.parallel.distributed.DistributedDataParallel
why: this DistributedDataParallel has its own process group, or the default group no longer exists, and it refuses
  to be pickled
instead: save what it wraps, ddp.module.state_dict(), and wrap the model again after init_process_group
kind: process-group
copy: copy what it wraps (copy.deepcopy(ddp.module)), and wrap the copy
spawn: send the plain module, and wrap it inside of the worker after init_process_group
send: send ddp.module.state_dict() on the CPU

torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel
  torch.distributed.fsdp.FullyShardedDataParallel
why: an FSDP module holds only this rank's shards, and the process group that gathers them
instead: save its state with torch.distributed.checkpoint (dcp.save) or with FSDP.state_dict_type(…) on all ranks
copy: copy the module before it is wrapped
spawn: send the plain module, and shard it inside of the worker
send: gather the state (get_model_state_dict with full_state_dict=True), and send that
opaque: yes

torch.distributed.fsdp.FSDPModule torch.distributed.fsdp._fully_shard._fully_shard.FSDPModule
  torch.distributed.fsdp._fully_shard._fsdp_init.*
why: fully_shard gave the module a class that was made at run time, and its state is spread over the ranks
instead: save its state on all ranks: get_model_state_dict(model) with torch.distributed.checkpoint (dcp.save)
copy: copy the module before fully_shard(module) is called
spawn: send the plain module, and call fully_shard inside of the worker
send: gather the state (get_model_state_dict with full_state_dict=True), and send that
opaque: yes

torch.distributed.fsdp.
why: it is the bookkeeping of FSDP about this rank's shards
instead: save the state through torch.distributed.checkpoint

torch.distributed.device_mesh.DeviceMesh
why: a device mesh leads to the process groups of this job
recreate: init_device_mesh("cuda", shape)
instead: keep its shape and the names of its dimensions, and call init_device_mesh after init_process_group
kind: process-group
spawn: pass its shape, and call init_device_mesh inside of the worker
send: send its shape; every rank makes its own mesh

torch.distributed.tensor.DTensor torch.distributed.tensor._api.DTensor torch.distributed._tensor.api.DTensor
why: a DTensor is one rank's shard, and its mesh leads to the process groups of this job
instead: save it with torch.distributed.checkpoint, or save tensor.full_tensor() (a collective: on all ranks)
copy: copy its shard: tensor.to_local().clone()
spawn: send tensor.full_tensor() on the CPU, and distribute it inside of the worker
send: send tensor.to_local()

torch.distributed.rpc. torch._C._distributed_rpc.
why: it is a reference of torch's RPC, which counts who holds it and may travel in RPC messages only
instead: send the value: rref.to_here()

# torch: devices and autograd
torch.Stream torch.cuda.streams.Stream torch.cuda.streams.ExternalStream torch._C._CudaStreamBase
  torch._utils._CudaStreamBase torch.xpu.streams.Stream torch._C.Stream torch_npu.npu.streams.Stream
why: a stream is a queue of work on a GPU of this process
recreate: torch.cuda.Stream()
spawn: make the stream inside of the worker: torch.cuda.Stream()

torch.Event torch.cuda.streams.Event torch._C._CudaEventBase torch._utils._CudaEventBase torch.xpu.streams.Event
  torch_npu.npu.streams.Event
why: an event is a mark in the queue of a GPU of this process
recreate: torch.cuda.Event(enable_timing=True)
instead: keep the time that it measured (start.elapsed_time(end)) as a number

torch.cuda.graphs.CUDAGraph torch._C._CUDAGraph torch._utils._CUDAGraph torch.cuda.memory.MemPool torch._C._MemPool
why: it is a recording of work, or memory, on a GPU of this process
recreate: torch.cuda.CUDAGraph()
instead: capture the graph again after loading, once the tensors are on the GPU

torch._C.Generator torch.Generator torch.mtia.Generator
why: this torch can't pickle a random number generator
recreate: torch.Generator()
instead: keep generator.get_state(), a tensor, and call set_state() on a new torch.Generator()

torch.futures.Future torch.jit.Future torch.Future torch._C.Future
why: a future is a result that this process still waits for
instead: wait for it, and keep the result: future.wait()

torch.utils.data.dataloader._BaseDataLoaderIter torch.utils.data.dataloader._SingleProcessDataLoaderIter
  torch.utils.data.dataloader._MultiProcessingDataLoaderIter
why: the iterator of a DataLoader is tied to the workers and queues of this process
recreate: iter(self.loader)
instead: keep the epoch and the number of batches done, and call iter(loader) again

torch.utils.data.
why: it is the inner part of a DataLoader of this process
instead: make the loader again from dataset and settings; keep epoch and batch number

torch.utils.tensorboard. tensorboardX. tensorboard.summary. torch.utils.tensorboard.writer.SummaryWriter
  tensorboardX.writer.SummaryWriter
why: a summary writer holds an open event file and the thread that writes it
recreate: SummaryWriter(self.log_dir, purge_step=self.step)
instead: keep log_dir and the step, and open the writer on rank 0 after loading
spawn: open the writer inside of the worker that logs, with the path as argument
opaque: yes

torch.profiler. torch.autograd.profiler. torch._C._profiler.
why: a profiler records this process while it runs
instead: write its result (prof.export_chrome_trace(path)), and start a new one after loading
opaque: yes

torch.jit. torch.jit._script.RecursiveScriptModule torch.jit._script.ScriptModule torch._C.ScriptModule
  torch._C.ScriptFunction torch.jit._trace. torch._C.ScriptObject torch.ScriptObject torch.ScriptFunction
  torch._C.Graph torch._C.CompilationUnit torch.jit.CompilationUnit torch.ScriptModule
why: scripted and traced code lives in torch's interpreter, and Python's pickle can't reach it
recreate: torch.jit.load(path)
instead: write it with torch.jit.save(module, path), or save its state_dict()
opaque: yes

torch.nn.utils.parametrize.Parametrized*
why: a module with parametrizations (weight_norm, spectral_norm, orthogonal) has a class that was made at run time
instead: save its state_dict(), and register the parametrization on a new module before load_state_dict(); or make it
  plain: parametrize.remove_parametrizations(module, name)
spawn: send the plain module, and register the parametrization inside of the worker
send: send its state_dict()

torch._dynamo. torch._inductor. torch._functorch. torch.compiler.
why: it is compiled code, or what torch.compile keeps about it, and exists in this process only
recreate: torch.compile(self.model)
instead: keep and save the plain module (compiled._orig_mod.state_dict()), and compile again after loading
copy: copy the plain module (compiled._orig_mod), and compile the copy
spawn: send the plain module, and compile inside of the worker
send: send the state_dict() of the plain module

torch._dynamo.eval_frame.OptimizedModule
why: a compiled module holds code that torch.compile made in this process
recreate: torch.compile(self.model)
instead: save compiled._orig_mod.state_dict(), and call torch.compile again after loading
copy: copy the plain module (compiled._orig_mod), and compile the copy
spawn: send the plain module (compiled._orig_mod), and compile inside of the worker
send: send compiled._orig_mod.state_dict()

torch._ops. torch._library.
why: an operator of torch.ops is an entry in this process's dispatcher
recreate: torch.ops.<namespace>.<name>
instead: keep its name as text ("aten::add"), and get it from torch.ops after loading
opaque: yes

torch._subclasses. torch._subclasses.fake_tensor.FakeTensor torch._C._functorch.
why: a fake tensor has a shape and no data: there is nothing to write
instead: keep shape, dtype and device, or make the tensor outside of FakeTensorMode (torch.empty on device="meta")
opaque: yes

torch.finfo torch.iinfo
why: it is a table of limits inside of torch
recreate: torch.finfo(self.dtype)
instead: keep the dtype
opaque: yes

torch.memory_format torch.layout torch.qscheme
why: torch.save writes protocol 2, which can't express this constant of torch
instead: keep its name as text ("channels_last"), and get it with getattr(torch, name)
opaque: yes

torch.autograd.function. torch._C._FunctionBase torch._C._functions. torch.autograd.graph.
why: it is a node of the autograd graph of this process
instead: keep tensors that are detached (.detach()), and let the next forward build the graph

torch.utils.hooks.RemovableHandle torch.utils.hooks.
why: it is the handle of a hook, by which the hook is removed in this process
instead: call .remove() on it, and register the hook again after loading

torch.Tensor torch._tensor.Tensor torch._C.TensorBase torch.nn.parameter.Parameter
why: a tensor

torch.storage. torch._C.StorageBase
why: this storage can't be written by itself
instead: keep a tensor that has this storage

torch.classes. torch._classes. torch._C.
why: it is an object of torch's C++ part that lives in this process only
instead: keep what it was made from

# trainers of frameworks
deepspeed.runtime.engine.DeepSpeedEngine deepspeed.runtime.pipe.engine.PipelineEngine
why: the engine holds process groups, streams and hooks of this process
instead: let it write itself, on all ranks: engine.save_checkpoint(folder)
opaque: yes

lightning.pytorch.trainer.trainer.Trainer pytorch_lightning.trainer.trainer.Trainer
why: a Trainer of Lightning is tied to loops, loggers and processes of this run
instead: let it write itself, on all ranks: trainer.save_checkpoint(path)
opaque: yes

lightning.fabric.fabric.Fabric lightning_fabric.fabric.Fabric
why: a Fabric of Lightning is tied to the processes of this run
instead: let it write the state, on all ranks: fabric.save(path, state)
opaque: yes

accelerate.accelerator.Accelerator accelerate.state.
why: it holds the distributed state of this process
recreate: Accelerator()
instead: let it write the state, on all ranks: accelerator.save_state(folder)
opaque: yes

ray. ray.actor.
why: it is a handle of a running Ray cluster
instead: send the data: ray.get(reference)
opaque: yes

# threads
_thread.lock _thread.LockType
why: a lock belongs to the threads of this process
recreate: threading.Lock()
spawn: take one that processes can share, and pass it as an argument:
  torch.multiprocessing.get_context("spawn").Lock()

_thread.RLock threading._RLock
why: a re-entrant lock belongs to the threads of this process
recreate: threading.RLock()
spawn: take one that processes can share, and pass it as an argument:
  torch.multiprocessing.get_context("spawn").RLock()

threading.Condition
why: a condition is built on a lock of this process
recreate: threading.Condition()
opaque: yes

threading.Event
why: an event is built on a lock of this process
recreate: threading.Event()
instead: keep a plain bool (event.is_set())
spawn: take one that processes can share, and pass it as an argument:
  torch.multiprocessing.get_context("spawn").Event()
opaque: yes

threading.Semaphore
why: a semaphore is built on a lock of this process
recreate: threading.Semaphore(n)
opaque: yes

threading.BoundedSemaphore
why: a semaphore is built on a lock of this process
recreate: threading.BoundedSemaphore(n)
opaque: yes

threading.Barrier
why: a barrier is built on a lock of this process
recreate: threading.Barrier(n)
opaque: yes

threading.Timer
why: a timer is a thread of this process
recreate: threading.Timer(seconds, self.method)
opaque: yes

threading.Thread threading._MainThread threading._DummyThread _thread._ThreadHandle threading._ThreadHandle
why: a thread runs in this process only
recreate: threading.Thread(target=self.method, daemon=True)
instead: keep what it works on, and start the thread again after loading
opaque: yes

_thread._local threading.local _threading_local.local _thread._localdummy
why: threading.local has other contents in each thread of this process
recreate: threading.local()

queue.Queue queue.LifoQueue queue.PriorityQueue
why: a queue.Queue is built on locks of this process
recreate: queue.Queue()
instead: keep the waiting items as a list
spawn: take one that processes can share, and pass it as an argument:
  torch.multiprocessing.get_context("spawn").Queue()
opaque: yes

_queue.SimpleQueue queue.SimpleQueue queue._PySimpleQueue
why: a SimpleQueue joins threads of this process
recreate: queue.SimpleQueue()
instead: keep the waiting items as a list
spawn: take one that processes can share: torch.multiprocessing.get_context("spawn").SimpleQueue()

concurrent.futures.thread.ThreadPoolExecutor
why: an executor is a set of threads of this process
recreate: concurrent.futures.ThreadPoolExecutor(max_workers)
opaque: yes

concurrent.futures.process.ProcessPoolExecutor concurrent.futures.interpreter.InterpreterPoolExecutor
  concurrent.futures.
why: an executor is a set of running processes and the pipes to them
recreate: concurrent.futures.ProcessPoolExecutor(max_workers)
opaque: yes

concurrent.futures._base.Future
why: a future is a result that this process still waits for
instead: keep its result: future.result()
opaque: yes

asyncio. _asyncio. uvloop. trio. anyio. uvloop.loop.
why: it belongs to a running event loop of this process
instead: make it inside of the coroutine that uses it
opaque: yes

# processes
subprocess.Popen asyncio.subprocess.Process
why: it is the handle of a running child process
recreate: subprocess.Popen(self.command)
instead: keep the command, or its result: subprocess.run(…) gives plain data
opaque: yes

multiprocessing.process.BaseProcess multiprocessing.process.AuthenticationString multiprocessing.context.Process
  multiprocessing.context.SpawnProcess multiprocessing.context.ForkProcess multiprocessing.context.ForkServerProcess
why: it is a process that this one started, with its secret key
instead: keep its pid or its name as plain data
opaque: yes

multiprocessing.synchronize. _multiprocessing.SemLock
why: a lock between processes is inherited by children as they start, and goes no other way
recreate: multiprocessing.get_context("spawn").Lock()
instead: pass it to Process(args=…) or to an initializer, not inside of a larger object that is pickled
spawn: take it from the context that starts the worker (torch.multiprocessing.get_context("spawn").Lock()), and pass
  it as an argument of the process
opaque: yes

multiprocessing.queues.
why: a queue between processes is inherited by children as they start, and goes no other way
recreate: multiprocessing.get_context("spawn").Queue()
instead: pass it to Process(args=…) or to an initializer, and keep it out of objects that are saved
spawn: take it from the context that starts the worker (torch.multiprocessing.get_context("spawn").Queue()), and pass
  it as an argument of the process
opaque: yes

multiprocessing.sharedctypes. multiprocessing.heap.
why: a shared value is inherited by children as they start, and goes no other way
recreate: multiprocessing.get_context("spawn").Value("i", 0)
instead: keep the number (value.value), or a tensor in shared memory (tensor.share_memory_())
spawn: take it from the context that starts the worker (torch.multiprocessing.get_context("spawn").Value("i")), and
  pass it as an argument of the process
opaque: yes

multiprocessing.connection.
why: a pipe's end is an open file of this process
recreate: multiprocessing.Pipe()
instead: pass it to Process(args=…) as the child starts

multiprocessing.pool.
why: a pool is a set of running workers
recreate: torch.multiprocessing.Pool(processes)
opaque: yes

multiprocessing.managers.
why: a manager is a server process that this one started
recreate: multiprocessing.Manager()
opaque: yes

# sockets and servers
socket.socket _socket.socket ssl.SSLSocket
why: a socket is a connection of this process
recreate: socket.create_connection((self.host, self.port))
instead: keep host and port, and connect where it is used

ssl. _ssl.
why: it is the state of encrypted connections of this process
recreate: ssl.create_default_context()

select. selectors.
why: it watches open files of this process
recreate: selectors.DefaultSelector()
opaque: yes

http.client. http.server. urllib.request. urllib.response. socketserver. smtplib. ftplib. imaplib. xmlrpc. urllib3.
  httpx. aiohttp. grpc. zmq. websockets. paramiko. requests. pika. kafka. nats. paho.
why: it holds an open network connection of this process
instead: keep the address, and connect where it is used
opaque: yes

boto3. botocore. s3transfer. google.cloud. azure.
why: a cloud client holds connections, locks and classes made at run time
recreate: boto3.client("s3")
instead: keep bucket and key, and make one client in each process where it is first used
opaque: yes

# files
_io.TextIOWrapper _io.BufferedReader _io.BufferedWriter _io.BufferedRandom _io.BufferedRWPair _io.FileIO _pyio.
  codecs.StreamReaderWriter codecs.StreamReader codecs.StreamWriter
why: an open file is a descriptor of this process
recreate: open(self.path)
instead: keep its path, and open it where it is read or written
spawn: pass the path, and open the file inside of the worker
send: send the path if all hosts see the same file system, else the content

tempfile. tempfile.SpooledTemporaryFile
why: a temporary file or folder belongs to this process, which deletes it
recreate: tempfile.TemporaryDirectory()
instead: keep what it holds, or a path that outlives the process
opaque: yes

gzip. bz2. lzma. _bz2. _lzma. zlib. zipfile. tarfile. _zstd. compression. zstandard. lz4. zipfile._path.
why: it is an open archive, or a stream that is half read
instead: keep its path, and open it where it is read
spawn: pass the path, and open the archive inside of the worker
opaque: yes

posix.ScandirIterator nt.ScandirIterator posix.DirEntry nt.DirEntry
why: it is an open listing of a folder
recreate: os.listdir(self.folder)
instead: keep names: [entry.name for entry in os.scandir(folder)]

_csv.reader _csv.writer _csv.Reader _csv.Writer csv.DictReader csv.DictWriter
why: it reads from, or writes to, an open file
instead: keep the path, or the rows: list(reader)
opaque: yes

mmap.mmap
why: a mapping of a file is memory of this process
recreate: mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
instead: keep the path, and map the file where it is read
spawn: pass the path, and map the file inside of the worker

h5py. tables. netCDF4. _netCDF4.
why: an HDF5 file, group or data set is open in this process
recreate: h5py.File(self.path)
instead: keep the path, and open the file in each process where it is first read (in __getitem__ of a data set)
spawn: pass the path, and open the file inside of the worker
opaque: yes

lmdb. builtins.Environment builtins.Transaction rocksdb. leveldb. plyvel. dbm. _dbm. _gdbm. shelve.
why: a key-value file is open in this process
recreate: lmdb.open(self.path, readonly=True, lock=False)
instead: keep the path, and open it in each process where it is first read
spawn: pass the path, and open it inside of the worker
opaque: yes

pyarrow. cv2. av. decord. torchcodec. imageio. soundfile. rasterio. osgeo. PIL.
why: it is a file or stream that a C library has open in this process
instead: keep the path, and open it where it is read
spawn: pass the path, and open it inside of the worker
opaque: yes

# data bases
sqlite3.Connection sqlite3.Cursor sqlite3.Blob sqlite3. _sqlite3.
why: a database connection is an open file with locks of this process
recreate: sqlite3.connect(self.path)
instead: keep the path, and connect in each process where it is first used
spawn: pass the path, and connect inside of the worker

psycopg. psycopg2. psycopg_c. psycopg_binary. psycopg_pool. pymysql. MySQLdb. mysql. mariadb. asyncpg. aiomysql.
  pymssql. pyodbc. oracledb. cx_Oracle. duckdb. _duckdb. clickhouse_driver. clickhouse_connect. snowflake. pymongo.
  redis. elasticsearch. cassandra. neo4j. influxdb. peewee. aiosqlite. pyodbc.
why: a database connection is a socket with a session of this process
instead: keep the address of the database, and connect in each process where it is first used
spawn: pass the address, and connect inside of the worker
opaque: yes

sqlalchemy.
why: an engine or session of SQLAlchemy holds a pool of open connections
recreate: sqlalchemy.create_engine(self.url)
instead: keep the URL, and call create_engine in each process where it is first used
spawn: pass the URL, and call create_engine inside of the worker
opaque: yes

# logging, progress, trackers
logging.Logger logging.RootLogger
why: this logger is not the one that logging.getLogger gives for its name, and only the name could be written
recreate: logging.getLogger(self.name)
instead: use logging.getLogger(__name__) at the top of the module instead of a member

logging.Handler logging. logging.handlers.
why: a handler of logging holds a lock and an open stream
instead: keep the path or the name of the logger, and add the handler again after loading
opaque: yes

loguru. structlog.
why: a logger holds the sinks of this process
recreate: loguru.logger
instead: import the logger in the module instead of keeping it as a member
opaque: yes

tqdm. tqdm.std.tqdm tqdm.asyncio.tqdm_asyncio tqdm.notebook.tqdm_notebook
why: a progress bar writes to the terminal of this process, and holds its lock
recreate: tqdm(total=self.total, initial=self.step)
instead: keep the count (bar.n), and make the bar where the loop is
opaque: yes

rich. rich.progress.Progress rich.live.Live rich.console.Console progressbar. alive_progress. enlighten.
why: a progress display writes to the terminal of this process, from a thread with a lock
recreate: rich.progress.Progress()
instead: keep the count, and make the display where the loop is
opaque: yes

wandb.
why: a run of wandb is tied to a background process of this one
recreate: wandb.init(id=self.run_id, resume="allow")
instead: keep run.id as text, and resume the run on rank 0 after loading
opaque: yes

mlflow. comet_ml. neptune. clearml. aim. swanlab.
why: an experiment tracker holds connections and threads of this process
instead: keep the id of the run as text, and resume it on rank 0 after loading
opaque: yes

# Python itself
builtins.generator
why: a generator is a function that stopped half-way, and its frame can't be written
instead: keep a list of its items, or the arguments of the function that makes it and how many items were taken
copy: copy a list of its items, or make a second generator from the same arguments
spawn: pass a list, or what the worker needs to make its own generator
send: send a list: list(generator)

builtins.coroutine builtins.async_generator builtins.coroutine_wrapper builtins.async_generator_asend
why: a coroutine is a call that stopped half-way
instead: await it and keep the result

builtins.frame builtins.traceback
why: it is a piece of a call stack of this process
instead: keep its text: traceback.format_exc(), or traceback.format_exception(error)

builtins.module types.ModuleType
why: a module is code that is loaded in this process
recreate: importlib.import_module(self.module_name)
instead: keep its name (module.__name__), or import it at the top of the file
spawn: import the module inside of the worker

builtins.code builtins.cell builtins.FrameLocalsProxy
why: it is compiled code or a variable of a closure
instead: keep the function by its import path, or the source as text

builtins.mappingproxy
why: a mappingproxy is a view of another dict
recreate: types.MappingProxyType(self.values)
instead: keep a copy: dict(view)

builtins.dict_keys builtins.dict_values builtins.dict_items builtins.odict_keys builtins.odict_values
  builtins.odict_items collections.abc.KeysView collections.abc.ValuesView collections.abc.ItemsView
why: it is a view of a dict, without items of its own
instead: keep a list: list(view)
spawn: pass list(view)
send: send list(view)

builtins.memoryview builtins.managedbuffer
why: a memoryview is a window on memory of another object
instead: keep the bytes: bytes(view)
spawn: pass bytes(view)
send: send bytes(view)

builtins.property builtins.staticmethod builtins.classmethod functools.cached_property builtins.member_descriptor
  builtins.getset_descriptor builtins.wrapper_descriptor builtins.classmethod_descriptor builtins.super
why: it is a part of a class, and has no import path of its own
instead: keep the class, or the name of the attribute as text

builtins.PyCapsule types.CapsuleType
why: a capsule is a pointer of a C library into this process
instead: keep what it was made from

builtins.callable_iterator builtins.anext_awaitable
why: it is an iterator that was begun, over something that can't be written
instead: keep a list of its items

itertools.
why: iterators of itertools can't be pickled from Python 3.14 on
instead: keep a list of the items, or the arguments and how many were taken

weakref.ReferenceType weakref.ref weakref.WeakMethod weakref.KeyedRef weakref.ProxyType weakref.CallableProxyType
  _weakref.
why: a weak reference is an address in this process
recreate: weakref.ref(self.target)
instead: keep the object itself, or a name by which it is found again

weakref.WeakKeyDictionary weakref.WeakValueDictionary weakref.WeakSet _weakrefset.WeakSet weakref.finalize
why: a weak collection is made of addresses in this process
recreate: weakref.WeakValueDictionary()
instead: keep dict(collection) or list(collection) where the items matter
opaque: yes

ctypes.CDLL ctypes.PyDLL ctypes.WinDLL ctypes.LibraryLoader ctypes.CDLL.* _ctypes.CFuncPtr _ctypes.PyCFuncPtr
why: a library that ctypes loaded, and its functions, are addresses in this process
recreate: ctypes.CDLL(self.library_path)
instead: keep the path of the library, and load it where it is used
opaque: yes

ctypes. _ctypes. _ctypes._Pointer _ctypes.Array _ctypes.Structure _ctypes.Union _ctypes._SimpleCData _ctypes._CData
why: a ctypes object with a pointer in it holds an address in this process
instead: keep what it points to as plain data: bytes(…), or the fields as numbers

cffi. _cffi_backend.
why: a cffi object holds addresses in this process
instead: keep what it points to: bytes(ffi.buffer(value))

_contextvars. contextvars.
why: a context variable has its value in this thread's context
recreate: contextvars.ContextVar(name)
instead: keep its value: variable.get()

re.Match _sre. re.Scanner
why: a match of a regular expression points into C data
instead: keep the groups: match.groups() or match.groupdict()

os._Environ
why: os.environ is the live environment of this process
recreate: os.environ
instead: keep a copy of what is needed: dict(os.environ), or single variables (mind the credentials in it)
opaque: yes

random.SystemRandom secrets.SystemRandom
why: SystemRandom draws from the operating system and has no state
recreate: random.SystemRandom()
instead: use random.Random(seed) where the draws must be repeated

_hashlib. _blake2. _sha1. _sha2. _sha256. _sha512. _sha3. _md5. hmac.
why: a half-fed hash lives in a C library
recreate: hashlib.sha256()
instead: keep its digest: value.hexdigest()

_struct.Struct
why: it is a compiled format of the struct module
recreate: struct.Struct(self.format)
instead: keep the format as text: value.format

contextlib. contextlib._GeneratorContextManager
why: a context manager that is open holds what it has to close
instead: open it where it is used: with …
opaque: yes

functools._lru_cache_wrapper
why: a cached function is written as its import path, and this one has none that leads to it (made inside of a
  function or method)
recreate: functools.lru_cache(self.method)
instead: put @functools.cache on a function at the top of a module

functools.
why: it is bound to a function that has no import path
instead: use functions at the top of a module

argparse.
why: a parser of arguments holds functions without an import path
instead: keep the parsed arguments: vars(parser.parse_args())
opaque: yes

unittest.mock.
why: every mock has a class of its own, made at run time
instead: use a small class of the test module, with the attributes that are needed
opaque: yes

pyexpat. xml. lxml. _elementtree.
why: it is a document or parser of a C library
instead: keep the text: ElementTree.tostring(element)
opaque: yes

tkinter. _tkinter. matplotlib. PyQt5. PyQt6. PySide6.
why: it is tied to a window or a canvas of this process
instead: keep the data that is drawn, or the picture as a file
opaque: yes

# numeric libraries
triton.
why: it is a kernel that Triton compiled for the GPU of this process
instead: keep the function by its import path, and let Triton compile it again
opaque: yes

numba. llvmlite.
why: it is code that numba compiled in this process
instead: put @njit on a function at the top of a module
opaque: yes

cupy. cupy_backends. pycuda.
why: it belongs to a GPU of this process
instead: keep the data on the host: cupy.asnumpy(array)

pynvml.
why: it is a handle of NVIDIA's management library
recreate: pynvml.nvmlDeviceGetHandleByIndex(index)
instead: keep the UUID of the GPU as text

onnxruntime. tensorrt. openvino.
why: an inference session holds a model that is loaded in this process
recreate: onnxruntime.InferenceSession(self.path)
instead: keep the path of the model, and open the session where it is used
opaque: yes
"""

# What can be pickled, and breaks later.
_PITFALLS = """\
torch.nn.parallel.distributed.DistributedDataParallel
why: a DistributedDataParallel on the default group loads only where init_process_group was called: ValueError
  elsewhere
fix: save what it wraps: ddp.module.state_dict(); to load, build the model, load_state_dict, and wrap it again
modes: pickle torch.save spawn

torch.distributed.device_mesh.DeviceMesh
why: a device mesh loads with ranks only: its process groups are missing, and get_group() raises RuntimeError
fix: keep shape and names of the dimensions, and call init_device_mesh after init_process_group
modes: pickle torch.save spawn collective

torch.distributed.tensor.DTensor torch.distributed.tensor._api.DTensor torch.distributed._tensor.api.DTensor
why: a DTensor is written as this rank's shard: where it is loaded, its collectives do not work
fix: write it with torch.distributed.checkpoint (dcp.save), or save tensor.full_tensor(), called on all ranks
modes: pickle torch.save spawn collective

torch.distributed.pipelining.stage.PipelineStage torch.distributed.pipelining.stage._PipelineStageBase
why: a pipeline stage loses its process group without a message, and fails at its first send or receive
fix: save stage.submod.state_dict(), and build the stage again after init_process_group
modes: pickle torch.save spawn

torch.distributed.optim.zero_redundancy_optimizer.ZeroRedundancyOptimizer
why: a ZeroRedundancyOptimizer loses its process group without a message, and step() fails after loading
fix: optimizer.consolidate_state_dict(to=0) on all ranks, then save optimizer.state_dict() on rank 0
modes: pickle torch.save spawn

torch._dynamo.eval_frame.OptimizedModule
why: a compiled module is written with private parts of this torch: another version, or weights_only, can't load it
fix: save compiled._orig_mod.state_dict(), and call torch.compile again after loading

torch.fx.graph_module.GraphModule
why: a GraphModule is written as generated source, which is traced and run again by the torch that loads it
fix: save its state_dict(), or the program with torch.export.save

torch.utils.data.dataloader.DataLoader
why: a DataLoader is written with its whole data set, and the position in the epoch is lost
fix: save epoch and batch number, and make the loader again from its settings

torch.utils.data.distributed.DistributedSampler
why: a DistributedSampler is written with rank and world size of this process: every rank that loads it reads the same
  shard
fix: save sampler.epoch, make the sampler again on each rank, and call set_epoch
modes: pickle torch.save collective

torch._C.Generator torch.Generator
why: it is the state of a random number generator: all ranks that load one file draw the same numbers
fix: save generator.get_state() for each rank, or seed again with seed + rank after loading
kind: note

random.Random numpy.random._generator.Generator numpy.random.mtrand.RandomState
why: it is the state of a random number generator: all ranks that load one file draw the same numbers
fix: keep one state for each rank, or seed again with seed + rank after loading
kind: note
once: yes

numpy.memmap numpy.core.memmap.memmap numpy._core.memmap.memmap
why: a memmap is written by value: every byte of the mapped file goes into the pickle, and the file is forgotten
fix: keep path, dtype, shape and offset, and open numpy.memmap(path, …) again in __setstate__
modes: pickle torch.save spawn collective

multiprocessing.shared_memory.SharedMemory multiprocessing.shared_memory.ShareableList
why: only the name of the shared memory is written: the memory does not exist after a restart, or on another host
fix: write a copy of its content: bytes(memory.buf)
modes: pickle torch.save collective

tempfile.TemporaryDirectory
why: only the path of the temporary folder is written, and this process deletes the folder at its end
fix: keep what it holds, or a folder that outlives the process
modes: pickle torch.save collective

multiprocessing.managers.BaseProxy
why: a proxy is written as the address of a manager process, which does not exist after a restart, or on another host
fix: write a copy of the content: dict(proxy) or list(proxy)
modes: pickle torch.save collective

zarr.core.group.Group zarr.core.array.Array zarr.hierarchy.Group zarr.core.Array zarr.storage.
  fsspec.implementations.local.LocalFileOpener fsspec.core.OpenFile fsspec.spec.AbstractBufferedFile
  xarray.backends.file_manager. h5pickle. diskcache. tensorstore. joblib.memory.Memory
why: an open handle is written as its path, and opens that path again where it is loaded: it may be missing there, or
  have other content
fix: keep the path relative to a root that each host sets, and open it where it is used
modes: pickle torch.save collective

datasets.arrow_dataset.Dataset
why: a data set that is mapped from Arrow files is written as paths of this host's cache
fix: write it with dataset.save_to_disk(folder on shared storage), and load_from_disk on each host
modes: pickle torch.save collective

cachetools.
why: a cache is written with all that it holds
fix: drop it in __getstate__, and start with an empty one in __setstate__
kind: note

itertools.
why: iterators of itertools can be pickled up to Python 3.13 only, and the position in the iteration is kept
fix: keep a list of the items, or the arguments and how many were taken
kind: note
"""

_Entry = TypeVar("_Entry", KindEntry, Pitfall)


def _parse(text: str, entry: type[_Entry]) -> tuple[dict[str, _Entry], dict[str, _Entry]]:
    """Return the entries by exact name, and by prefix."""
    exact: dict[str, _Entry] = {}
    prefixes: dict[str, _Entry] = {}
    joined = re.sub(r"\n +", " ", re.sub(r"(?m)^# .*\n", "", text))
    for block in joined.strip().split("\n\n"):
        names, *lines = block.split("\n")
        fields: dict[str, Any] = {}
        for line in lines:
            field, _, value = line.partition(": ")
            fields[field] = tuple(value.split()) if field == "modes" else value == "yes" or value
        row = entry(**fields)
        for name in names.split():
            if name.endswith((".", "*")):
                prefixes[name.removesuffix("*")] = row
            else:
                exact[name] = row
    return exact, prefixes


EXACT, PREFIXES = _parse(_KINDS, KindEntry)
PITFALLS, PITFALL_PREFIXES = _parse(_PITFALLS, Pitfall)

#: Whether and why a tensor can't be pickled depends on the tensor.
TENSOR = EXACT["torch.Tensor"]
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

#: The fix for a function or lambda whose path shows its purpose.
FUNCTION_FIXES = {
    ".lr_lambdas": "save scheduler.state_dict() and load it into a new LambdaLR; or give LambdaLR an object with"
    " __call__, or a function at the top of a module",
    "default_factory": "use defaultdict(list) or a function at the top of a module as the factory; or store"
    " dict(values)",
    ".collate_fn": "write collate_fn as a function at the top of a module, with functools.partial for what varies",
    ".worker_init_fn": "write worker_init_fn as a function at the top of a module",
}

#: Types where it depends on the object: full name → the check of :mod:`.kinds`.
INSPECTED = {
    "torch.Tensor": "tensor",
    "torch.nn.parameter.Parameter": "tensor",
    "torch.device": "device",
    "torch.storage.UntypedStorage": "storage",
    "pathlib.PurePath": "path",
    "pathlib._local.PurePath": "path",
    "logging.Logger": "logger",
}
