"""Which importable things are harmless in a pickle, which are not, and why.

A thing is *inert* if calling it with any inert arguments, and writing any state into what it gives, can do no harm: no
file, no process, no host, no code, no import of something else; at most memory is wasted. The list is closed under use:
what an inert thing may call is an argument, and every importable argument is named by the stream and judged here as
well. That is why ``copyreg._reconstructor`` or ``collections.defaultdict`` can be on it, and why one dangerous name is
enough for a whole file. What is on no list is *dangerous* where it belongs to Python's standard library (deny-lists
have holes, and the library is large), and *unvouched* where it is code of others: nobody here has read it. The tables
are data, so that the answer depends on the bytes of a file, not on what is installed. Sources: the documentation and
the code of CPython 3.10 to 3.14, numpy 1.26 and 2.4, torch 2.13, scipy 1.14, joblib 1.4; ``sys.stdlib_module_names`` of
CPython 3.10 to 3.13, the libraries of 3.6 to 3.9 and of 2.7, What's New in Python 3.14.
"""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from functools import lru_cache
from typing import NamedTuple

from .trace import Global


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Each line: a module, and what of it is inert. A group begins with the reason, after a number sign.
_INERT = """\
# a value of Python's own
builtins Ellipsis NotImplemented bool bytearray bytes complex dict float frozenset int list object range set slice
builtins str tuple
# an exception, as a value: it is made, not raised
builtins ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError
builtins BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError
builtins ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError EncodingWarning EnvironmentError
builtins Exception ExceptionGroup FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit
builtins IOError ImportError ImportWarning IndentationError IndexError InterruptedError IsADirectoryError KeyError
builtins KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError
builtins NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError ProcessLookupError
builtins PythonFinalizationError RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning
builtins StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError
builtins TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError
builtins UnicodeWarning UserWarning ValueError Warning ZeroDivisionError
copy Error
queue Empty Full
decimal Clamped ConversionSyntax DecimalException DivisionByZero DivisionImpossible DivisionUndefined FloatOperation
decimal Inexact InvalidContext InvalidOperation Overflow Rounded Subnormal Underflow
json.decoder JSONDecodeError
# a member of an enumeration, or a mark
http HTTPMethod HTTPStatus
inspect BoundArguments Parameter Signature _ParameterKind _empty
signal Handlers Sigmasks Signals
socket AddressFamily AddressInfo MsgFlag SocketKind
dataclasses _HAS_DEFAULT_FACTORY_CLASS _MISSING_TYPE
# a function of numbers
math acos asin atan ceil copysign cos cosh degrees erf exp expm1 fabs floor fmod hypot isclose isfinite isinf isnan log
math log10 log1p log2 radians sin sinh sqrt tan tanh trunc
# a type for annotations
typing Any Callable ClassVar Dict Final FrozenSet Generic Iterable Iterator List Literal Mapping Optional Sequence Set
typing Tuple Type Union
# a function of texts
posixpath basename dirname join normpath split splitext
ntpath basename dirname join normpath split splitext
# bytes or text in memory
_io BytesIO StringIO
io BytesIO StringIO
# a result or a setting, as a value
calendar Calendar TextCalendar
os stat_result terminal_size
statistics NormalDist
string Formatter Template
textwrap TextWrapper
urllib.parse DefragResult DefragResultBytes ParseResult ParseResultBytes SplitResult SplitResultBytes
# text to bytes
_codecs encode
# makes an instance of a class that the file names too
copyreg __newobj__ __newobj_ex__ _reconstructor
# a container; what a defaultdict calls for a missing key is an argument
collections ChainMap Counter OrderedDict UserDict UserList UserString defaultdict deque
array _array_reconstructor array
types SimpleNamespace
argparse Namespace
# a date or a time
datetime date datetime time timedelta timezone tzinfo
time struct_time
zoneinfo ZoneInfo ZoneInfo._unpickle
# a number
decimal Context Decimal DecimalTuple
fractions Fraction
random Random
# an identifier or an address, as text
uuid SafeUUID UUID
ipaddress IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network
# a path, as text: nothing is opened
pathlib Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath
pathlib._local Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath
# a regular expression, compiled
re _compile
# an array, a number or a type of numpy
numpy bool bool_ byte bytes_ cdouble character clongdouble complex128 complex256 complex64 complexfloating csingle
numpy datetime64 double dtype flexible float128 float16 float32 float64 floating generic half inexact int16 int32
numpy int64 int8 int_ intc integer intp long longdouble longlong matrix ndarray number object_ rec.recarray recarray
numpy record short signedinteger single str_ timedelta64 ubyte uint uint16 uint32 uint64 uint8 uintc uintp ulong
numpy ulonglong unsignedinteger ushort void
numpy._core._internal _convert_to_stringdtype_kwargs
numpy.core._internal _reconstruct
numpy._core.multiarray _reconstruct scalar
numpy._core.numeric _frombuffer
numpy.core.multiarray _reconstruct scalar
numpy.core.numeric _frombuffer
numpy.dtypes BoolDType ByteDType BytesDType CLongDoubleDType Complex128DType Complex64DType DateTime64DType
numpy.dtypes Float16DType Float32DType Float64DType Int16DType Int32DType Int64DType Int8DType IntDType LongDType
numpy.dtypes LongDoubleDType LongLongDType ObjectDType ShortDType StrDType StringDType TimeDelta64DType UByteDType
numpy.dtypes UInt16DType UInt32DType UInt64DType UInt8DType UIntDType ULongDType ULongLongDType UShortDType
numpy.dtypes VoidDType
numpy.ma MaskedArray
numpy.ma.core MaskedArray MaskedConstant _mareconstruct
numpy.matrixlib.defmatrix matrix
numpy.rec recarray
numpy.core.records recarray record
# a random generator of numpy
numpy.random Generator MT19937 PCG64 PCG64DXSM Philox RandomState SFC64 SeedSequence
numpy.random._generator Generator
numpy.random._mt19937 MT19937
numpy.random._pcg64 PCG64 PCG64DXSM
numpy.random._philox Philox
numpy.random._pickle __bit_generator_ctor __generator_ctor __randomstate_ctor
numpy.random._sfc64 SFC64
numpy.random.bit_generator SeedSequence SeedlessSeedSequence __pyx_unpickle_SeedSequence
numpy.random.mtrand RandomState
# a sparse matrix of scipy
scipy.sparse bsr_array bsr_matrix coo_array coo_matrix csc_array csc_matrix csr_array csr_matrix dia_array
scipy.sparse dia_matrix dok_array dok_matrix lil_array lil_matrix
scipy.sparse._bsr bsr_array bsr_matrix
scipy.sparse._coo coo_array coo_matrix
scipy.sparse._csc csc_array csc_matrix
scipy.sparse._csr csr_array csr_matrix
scipy.sparse._dia dia_array dia_matrix
scipy.sparse._dok dok_array dok_matrix
scipy.sparse._lil lil_array lil_matrix
scipy.sparse.bsr bsr_matrix
scipy.sparse.coo coo_matrix
scipy.sparse.csc csc_matrix
scipy.sparse.csr csr_matrix
scipy.sparse.dia dia_matrix
scipy.sparse.dok dok_matrix
scipy.sparse.lil lil_matrix
# says where joblib finds an array in the same file
joblib.numpy_pickle NumpyArrayWrapper
# a value of torch
torch Generator finfo iinfo layout memory_format
torch._C Generator _VariableFunctionsClass
torch._tensor _rebuild_from_type
torch._utils _rebuild_sparse_csr_tensor _rebuild_xla_tensor
torch.amp.grad_scaler GradScaler OptState _MultiDeviceReplicator _refresh_per_optimizer_state
torch.cuda.amp.grad_scaler GradScaler OptState _refresh_per_optimizer_state
torch.nn.backends.thnn _get_thnn_function_backend
torch.nn.parameter Buffer Parameter UninitializedBuffer UninitializedParameter
torch.nn.utils.rnn PackedSequence PackedSequence_
torch.storage _StorageBase
torch.utils.data.dataset ConcatDataset Subset TensorDataset
# a wrapper of torch
torch.nn.parallel.data_parallel DataParallel
torch.nn.utils.spectral_norm SpectralNorm
torch.nn.utils.weight_norm WeightNorm
# a function of tensors
torch.nn.functional binary_cross_entropy binary_cross_entropy_with_logits celu cross_entropy dropout elu gelu glu
torch.nn.functional hardshrink hardsigmoid hardswish hardtanh huber_loss kl_div l1_loss leaky_relu log_softmax
torch.nn.functional logsigmoid mish mse_loss nll_loss normalize prelu relu relu6 rrelu selu sigmoid silu
torch.nn.functional smooth_l1_loss softmax softmin softplus softshrink softsign tanh tanhshrink threshold
torch._C _VariableFunctionsClass.celu _VariableFunctionsClass.dropout _VariableFunctionsClass.log_softmax
torch._C _VariableFunctionsClass.relu _VariableFunctionsClass.relu_ _VariableFunctionsClass.rrelu
torch._C _VariableFunctionsClass.selu _VariableFunctionsClass.sigmoid _VariableFunctionsClass.softmax
torch._C _VariableFunctionsClass.tanh
# what a distributed checkpoint says about its tensors
torch.distributed.checkpoint.metadata BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex StorageMeta
torch.distributed.checkpoint.metadata TensorProperties TensorStorageMetadata _MEM_FORMAT_ENCODING
torch.distributed.checkpoint.filesystem _StorageInfo _StoragePrefix
torch.distributed.checkpoint.hf_storage _HFStorageInfo
torch.distributed._shard.metadata ShardMetadata
torch.distributed._shard.sharded_tensor.metadata MEM_FORMAT_ENCODING ShardedTensorMetadata TensorProperties
torch.distributed._shard.sharding_spec.chunk_sharding_spec ChunkShardingSpec
torch.distributed._mesh_layout _FlatLayout _MeshLayout
torch.distributed.device_mesh DeviceMesh
torch.distributed.tensor DTensor
torch.distributed.tensor._dtensor_spec DTensorSpec ShardOrderEntry TensorMeta
torch.distributed.tensor.placement_types Partial Replicate Shard _StridedShard
torch.distributed._tensor.placement_types DTensorSpec Replicate Shard TensorMeta _Partial
torch.nested._internal.nested_tensor NestedTensor _rebuild_njt
torch._dynamo.decorators _DimRange
torch.distributed._serialization _Entry"""

# Names in `torch.nn.modules` that are there because the modules import them.
_NO_LAYERS = _words(
    "Any Callable Enum Generic Iterable Iterator List Literal Mapping Module Optional OrderedDict Sequence Set Size "
    "T Tensor Tuple TypeVar Union Self Final NamedTuple Protocol ParamSpec Concatenate Parameter Function Future "
    "RemovableHandle ProcessGroup Device Number Real SymInt"
)

# Of the standard library, and neither harmless nor harmful by themselves: they keep or pass on something callable.
_NEUTRAL = """\
functools.partial keeps a call that its user makes later
builtins.iter may call what it is given
builtins.print calls methods of what it is given, and prints it
builtins.reversed calls a method of what it is given
builtins.enumerate calls a method of what it is given
builtins.zip calls a method of what it is given
builtins.abs calls a method of what it is given
builtins.all calls methods of what it is given
builtins.any calls methods of what it is given
builtins.len calls a method of what it is given
builtins.max calls what it is given
builtins.min calls what it is given
builtins.round calls a method of what it is given
builtins.sorted calls what it is given
builtins.sum calls methods of what it is given
builtins.str.lower is a function of texts
builtins.str.split is a function of texts
builtins.str.strip is a function of texts
builtins.str.upper is a function of texts
builtins.type can make new classes
logging.getLogger gives a logger that other code uses too
_operator.add calls a method of what it is given
_operator.and_ calls a method of what it is given
_operator.eq calls a method of what it is given
_operator.floordiv calls a method of what it is given
_operator.ge calls a method of what it is given
_operator.gt calls a method of what it is given
_operator.le calls a method of what it is given
_operator.lt calls a method of what it is given
_operator.mod calls a method of what it is given
_operator.mul calls a method of what it is given
_operator.ne calls a method of what it is given
_operator.neg calls a method of what it is given
_operator.not_ calls a method of what it is given
_operator.or_ calls a method of what it is given
_operator.sub calls a method of what it is given
_operator.truediv calls a method of what it is given
_operator.xor calls a method of what it is given
itertools.chain gives values when it is asked for them, perhaps without end
itertools.chain.from_iterable gives values when it is asked for them, perhaps without end
itertools.combinations gives values when it is asked for them, perhaps without end
itertools.compress gives values when it is asked for them, perhaps without end
itertools.count gives values when it is asked for them, perhaps without end
itertools.cycle gives values when it is asked for them, perhaps without end
itertools.islice gives values when it is asked for them, perhaps without end
itertools.permutations gives values when it is asked for them, perhaps without end
itertools.product gives values when it is asked for them, perhaps without end
itertools.repeat gives values when it is asked for them, perhaps without end
itertools.zip_longest gives values when it is asked for them, perhaps without end
operator.add calls a method of what it is given
operator.and_ calls a method of what it is given
operator.eq calls a method of what it is given
operator.floordiv calls a method of what it is given
operator.ge calls a method of what it is given
operator.gt calls a method of what it is given
operator.le calls a method of what it is given
operator.lt calls a method of what it is given
operator.mod calls a method of what it is given
operator.mul calls a method of what it is given
operator.ne calls a method of what it is given
operator.neg calls a method of what it is given
operator.not_ calls a method of what it is given
operator.or_ calls a method of what it is given
operator.sub calls a method of what it is given
operator.truediv calls a method of what it is given
operator.xor calls a method of what it is given
operator.itemgetter makes a function that looks items up
_operator.getitem looks up what it is given
operator.getitem looks up what it is given
types.GenericAlias keeps a class that whoever uses it makes instances of"""

#: Modules of the standard library of some Python from 2.7 to 3.14, the top level of each.
STANDARD_LIBRARY = _words(
    """
BaseHTTPServer Bastion CGIHTTPServer MimeWriter SimpleHTTPServer __future__ _abc _aix_support _android_support _ast
_ast_unparse _asyncio _bisect _blake2 _bootlocale _bootsubprocess _bz2 _codecs _codecs_cn _codecs_hk _codecs_iso2022
_codecs_jp _codecs_kr _codecs_tw _collections _collections_abc _colorize _compat_pickle _compression _contextvars
_crypt _csv _ctypes _ctypes_test _curses _curses_panel _datetime _dbm _decimal _dummy_thread _elementtree
_frozen_importlib _frozen_importlib_external _functools _gdbm _hashlib _heapq _hmac _hotshot _imp _interpchannels
_interpqueues _interpreters _io _ios_support _json _locale _lsprof _lzma _markupbase _md5 _msi _multibytecodec
_multiprocessing _opcode _opcode_metadata _operator _osx_support _overlapped _pickle _posixshmem _posixsubprocess
_py_abc _py_warnings _pydatetime _pydecimal _pyio _pylong _pyrepl _queue _random _remote_debugging _scproxy _sha1
_sha2 _sha256 _sha3 _sha512 _signal _sitebuiltins _socket _sqlite3 _sre _ssl _stat _statistics _string _strptime
_struct _suggestions _symtable _sysconfig _testbuffer _testcapi _testimportmultiple _testinternalcapi
_testlimitedcapi _testmultiphase _thread _threading_local _tkinter _tokenize _tracemalloc _tstring _types _typing
_uuid _warnings _weakref _weakrefset _winapi _wmi _xxsubinterpreters _zoneinfo _zstd abc aifc annotationlib
antigravity argparse array ast asynchat asyncio asyncore atexit audiodev audioop base64 bdb binascii binhex bisect
bsddb builtins bz2 cPickle cProfile cStringIO calendar cgi cgitb chunk cmath cmd code codecs codeop collections
colorsys compileall compression concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes curses
dataclasses datetime dbm decimal difflib dircache dis distutils dl doctest dummy_threading email encodings ensurepip
enum errno exceptions faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools future_builtins gc
genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac hotshot html htmllib http idlelib
ihooks imaplib imghdr imp importlib imputil inspect io ipaddress itertools json keyword lib2to3 linecache
linuxaudiodev locale logging lzma macpath macurl2path mailbox mailcap marshal math mhlib mimetools mimetypes mimify
mmap modulefinder msilib msvcrt multifile multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode
operator optparse os os2emxpath ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib popen2
poplib posix posixfile posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue
quopri random re readline reprlib resource rexec rfc822 rlcompleter runpy sched secrets select selectors sgmllib
shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre sre_compile sre_constants
sre_parse ssl stat statistics statvfs string stringold stringprep strop struct subprocess sunau sunaudio symtable
sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this threading time timeit tkinter toaiff
token tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu
uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmllib xmlrpc zipapp zipfile zipimport
zlib zoneinfo
"""
)

# What to say of the best-known ones: module or full name, and what it does. The longest that fits counts.
_REASONS = """\
os acts on files and processes of the machine
os.system runs a shell command
os.popen runs a shell command
os.exec starts a program
os.spawn starts a program
os.posix_spawn starts a program
os.remove deletes files
os.unlink deletes files
os.environ changes the environment of the process
os.putenv changes the environment of the process
posix acts on files and processes of the machine
posix.system runs a shell command
posix.popen runs a shell command
posix.exec starts a program
nt acts on files and processes of the machine
nt.system runs a shell command
subprocess starts a program
_posixsubprocess starts a program
popen2 starts a program
builtins.eval runs text as Python code
builtins.exec runs text as Python code
builtins.execfile runs a file as Python code
builtins.compile turns text into code
builtins.__import__ imports whatever it is told to
builtins.open opens a file
builtins.file opens a file
builtins.input reads from the terminal
builtins.getattr reaches into other objects
builtins.setattr changes other objects
builtins.delattr changes other objects
builtins.vars reaches into other objects
builtins.globals reaches into the running program
builtins.locals reaches into the running program
builtins.map calls what it is given
builtins.filter calls what it is given
builtins.apply calls what it is given
builtins.breakpoint starts a debugger
builtins.help starts a pager
builtins.exit ends the process
builtins.quit ends the process
io opens files
_io opens files
codecs opens files or unpacks data
importlib imports whatever it is told to
_frozen_importlib imports whatever it is told to
imp imports whatever it is told to
pkgutil imports whatever it is told to
zipimport imports code out of an archive
runpy runs a module or a file as a program
code runs text as Python code
codeop turns text into code
timeit runs text as Python code
profile runs text as Python code
cProfile runs text as Python code
trace runs text as Python code
doctest runs text as Python code
bdb runs text as Python code
pdb runs text as Python code
idlelib runs text as Python code
pydoc imports modules and starts servers and programs
lib2to3 runs code of its own choice
pickle unpickles other data, with no check at all
_pickle unpickles other data, with no check at all
shelve unpickles other data, with no check at all
marshal loads compiled code
types makes functions or modules out of code
operator reaches into other objects and calls their methods
_operator reaches into other objects and calls their methods
functools makes or calls functions
ctypes loads a shared library and calls into it
_ctypes loads a shared library and calls into it
inspect reaches into the running program
gc reaches into the running program
sys changes the running interpreter
site changes the running interpreter
atexit has code run at the end of the process
signal changes how the process takes signals
threading starts threads
_thread starts threads
multiprocessing starts processes
concurrent starts threads or processes
asyncio starts programs or connects to hosts
pty starts a program
webbrowser starts a program
platform may start a program
cgitb writes files
ensurepip installs packages
venv writes files and starts programs
distutils runs compilers and other programs
socket connects to other hosts
ssl connects to other hosts
http connects to other hosts
urllib connects to other hosts
urllib2 connects to other hosts
ftplib connects to other hosts
smtplib connects to other hosts
poplib connects to other hosts
imaplib connects to other hosts
telnetlib connects to other hosts
nntplib connects to other hosts
xmlrpc connects to other hosts
socketserver listens for other hosts
wsgiref listens for other hosts
shutil copies, moves or deletes files
tempfile writes files
pathlib acts on files
fileinput opens files
linecache opens files
mmap opens files
sqlite3 opens files and loads extensions
dbm opens files
tarfile opens files
zipfile opens files
gzip opens files
bz2 opens files
lzma opens files
logging opens files or connects to hosts
logging.config imports and calls whatever it is told to
configparser opens files
copyreg changes how objects are pickled
_aix_support starts a program
_osx_support starts a program
_pyrepl runs text as Python code
uuid starts a program
winreg changes the registry
_winapi starts a program
msilib writes files
itertools makes functions of others run
antigravity starts a browser"""

# Code of others that is known to run, load or fetch other code: a module with all that is in it, or one name of it.
_HARMFUL = """\
IPython runs text as Python code
ipykernel runs text as Python code
jupyter_client starts programs
notebook starts programs
bpython runs text as Python code
ptpython runs text as Python code
xonsh runs shell commands
pip installs packages
setuptools runs compilers and other programs
_distutils_hack changes how modules are imported
pkg_resources imports whatever it is told to
importlib_metadata imports whatever it is told to
six gives access to exec and to moved modules
future gives access to exec and to moved modules
past runs text as Python code
pytest runs files as programs
_pytest runs files as programs
py starts programs
nose runs files as programs
dill makes functions out of code and unpickles other data
_dill makes functions out of code and unpickles other data
cloudpickle makes functions out of code
pyspark.cloudpickle makes functions out of code
pyspark.serializers unpickles other data
ray.cloudpickle makes functions out of code
ray.pickle makes functions out of code
jsonpickle makes objects of whatever classes it is told to
pickle5 unpickles other data, with no check at all
zodbpickle unpickles other data, with no check at all
compress_pickle unpickles other data, with no check at all
klepto unpickles other data, with no check at all
multiprocess starts processes
pathos starts processes
execnet runs code in other processes
billiard starts processes
celery calls whatever it is told to
twisted reaches into other objects and starts programs
gevent starts programs or connects to hosts
eventlet starts programs or connects to hosts
paramiko runs commands on other hosts
fabric runs commands on other hosts
invoke runs shell commands
plumbum runs shell commands
pexpect runs shell commands
sh runs shell commands
docker starts containers
git starts programs
psutil acts on processes
cffi loads a shared library and calls into it
_cffi_backend loads a shared library and calls into it
pyximport compiles and loads code
Cython compiles and loads code
numba compiles code
llvmlite compiles code
win32api acts on files and processes of the machine
win32com starts programs
pythoncom starts programs
wmi starts programs
requests connects to other hosts
urllib3 connects to other hosts
httpx connects to other hosts
aiohttp connects to other hosts
boto3 connects to other hosts
botocore connects to other hosts
yaml makes objects of whatever classes it is told to
ruamel makes objects of whatever classes it is told to
jinja2 runs templates as code
mako runs templates as code
hydra imports and calls whatever it is told to
asteval runs text as Python code
numexpr runs text as code
sympy.parsing runs text as Python code
sympy.core.sympify runs text as Python code
sympy.utilities.lambdify runs text as Python code
sympy.sympify runs text as Python code
sympy.lambdify runs text as Python code
transformers.dynamic_module_utils downloads and runs code
transformers.pipeline downloads models
joblib.load unpickles another file, with no check at all
joblib.numpy_pickle.load unpickles another file, with no check at all
joblib.numpy_pickle.load_temporary_memmap unpickles another file, with no check at all
joblib.numpy_pickle_utils opens files
joblib.memory runs and caches functions
joblib.parallel starts processes
joblib.externals makes functions out of code
joblib._store_backends opens files
sklearn.externals makes functions out of code
sklearn.utils._testing runs code of tests
pandas.eval runs text as Python code
pandas.read_ opens files
pandas.io opens files
pandas.compat.pickle_compat unpickles other data
pandas.core.computation runs text as Python code
numpy.testing runs text as Python code
numpy.f2py runs compilers
numpy.distutils runs compilers and other programs
numpy.ctypeslib loads a shared library
numpy.load opens files and may unpickle them
numpy.lib.npyio opens files and may unpickle them
numpy.lib._npyio_impl opens files and may unpickle them
numpy.lib.format opens files and may unpickle them
numpy.lib._datasource opens files and connects to hosts
numpy.lib.utils runs text as Python code
numpy.lib._utils_impl reads and imports code
numpy.DataSource opens files and connects to hosts
numpy.memmap opens a file, or creates and empties it
numpy.core.memmap opens a file, or creates and empties it
numpy._core.memmap opens a file, or creates and empties it
numpy.fromfile opens a file
numpy.core.records.fromfile opens a file
numpy._core.records.fromfile opens a file
numpy.rec.fromfile opens a file
numpy.fromregex opens a file
numpy.genfromtxt opens a file
numpy.loadtxt opens a file
numpy.save writes a file
numpy.savetxt writes a file
numpy.savez writes a file
numpy.savez_compressed writes a file
numpy.core.multiarray.fromfile opens a file
numpy._core.multiarray.fromfile opens a file
scipy.io opens files
torch.load unpickles another file
torch.save writes a file
torch.from_file opens a file
torch._C._VariableFunctionsClass.from_file opens a file
torch.serialization.load unpickles another file
torch.serialization.save writes a file
torch.serialization._load unpickles other data
torch.serialization._legacy_load unpickles other data
torch.serialization._legacy_save writes a file
torch.serialization._save writes a file
torch.serialization.add_safe_globals takes the guard away from later loads
torch.serialization._open_ opens a file
torch.storage._load_from_bytes unpickles the bytes that it is given, with no check at all
torch.storage.UntypedStorage.from_file opens a file
torch.storage.UntypedStorage._ maps memory of other processes
torch.storage.TypedStorage.from_file opens a file
torch.hub downloads and runs code
torch.package runs code out of an archive
torch.jit compiles or loads programs
torch.export loads programs
torch._export loads programs
torch.fx turns text into code and runs it
torch._dynamo compiles and runs code
torch._inductor compiles and runs code
torch._functorch compiles and runs code
torch._numpy.testing runs text as Python code
torch._sources reads and parses code
torch._utils._import_dotted_name imports whatever it is told to
torch._utils_internal reaches into the running program
torch._ops loads a shared library
torch.ops loads a shared library
torch._classes loads a shared library
torch.classes loads a shared library
torch.library changes what operations of torch do
torch._weights_only_unpickler unpickles other data, or takes the guard away from later loads
torch.utils.cpp_extension compiles and loads C++ code
torch.utils._cpp_extension_versioner compiles and loads C++ code
torch.utils.cpp_backtrace loads a shared library
torch.utils.collect_env runs shell commands
torch.utils.bottleneck runs files as programs
torch.utils.benchmark compiles and runs code
torch.utils.model_zoo downloads files and unpickles them
torch.utils._config_module unpickles other data
torch.utils.data.datapipes opens files and unpickles them
torch.utils.tensorboard writes files
torch.utils.hipify writes files
torch.multiprocessing starts processes or maps memory of others
torch.testing runs code of tests
torch.distributed.rpc calls functions in other processes
torch.distributed.nn calls functions in other processes
torch.distributed.run starts programs
torch.distributed.launch starts programs
torch.distributed.launcher starts programs
torch.distributed.elastic starts programs or connects to hosts
torch.distributed.distributed_c10d unpickles what other processes send
torch.onnx writes files
torchvision.io opens files
torchaudio.load opens files
tensorflow.io opens files
tensorflow.keras.models loads programs
keras.models loads programs
keras.saving loads programs
keras.src.saving loads programs
mlflow unpickles other files"""

# Python's own tests start programs; `test` alone may be a package of the user.
_TESTS_OF_PYTHON = ("test.support.", "test.libregrtest.", "test.regrtest.", "test.test_", "test.autotest.")

# Last names of functions that run, load or import what they are given, in whatever package they turn up.
_NOTORIOUS = _words(
    "CDLL LoadLibrary Popen __import__ _new_shared_fd_cpu _new_shared_filename_cpu _set_from_file _write_file "
    "check_call check_output eval exec exec_ exec_module execfile execl execle execlp execv execve execvp execvpe "
    "fork_exec from_file fromfile getoutput getstatusoutput import_module load_library load_module popen popen2 "
    "popen3 popen4 posix_spawn read_pickle run_command run_module run_path runcode runsource runstring safe_eval "
    "spawnl spawnle spawnlp spawnv spawnve spawnvp startfile system tofile unpickle unsafe_load"
)
# Modules that other modules import and that nobody means to keep in a file: fetching one is a step to what is in it.
_STEPS = _words(
    "_io _posixsubprocess _thread asyncio builtins code codecs concurrent ctypes functools gc importlib inspect io "
    "marshal multiprocessing nt os pathlib pickle pkgutil posix pty runpy shutil socket subprocess sys tempfile "
    "threading timeit types urllib webbrowser"
)


class Trust(NamedTuple):
    """What is known about an importable thing."""

    #: ``inert``, ``unvouched`` or ``dangerous``
    kind: str
    #: what it does, as a clause that follows *it* (``runs a shell command``), or why it is on its list
    why: str


def python3_name(what: Global) -> Global:
    """The name in Python 3 of what Python 2, or pickle's protocols up to 2, call otherwise (``__builtin__.xrange``)."""
    module, name = what
    if module == "exceptions":
        return Global("builtins", "Exception" if name == "StandardError" else name)
    if found := NAME_MAPPING.get((module, name)):
        return Global(*found)
    return Global(IMPORT_MAPPING[module], name) if module in IMPORT_MAPPING else what


@lru_cache(maxsize=4096)
def standing(what: Global) -> Trust:
    """Whether a thing is inert, unvouched or dangerous, and why, whatever torch thinks of it."""
    module, name = python3_name(what)
    parts = name.split(".")
    if (module, name) in _inert():
        return Trust("inert", _inert()[module, name])
    if not name:  # the stream ends within it: all that would happen is an import
        return _standing_of_module(module)
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        return Trust("dangerous", "has a name that no program gives to anything")
    if neutral := _neutral().get(f"{module}.{name}"):
        return Trust("unvouched", neutral)
    root = module.partition(".")[0]
    if root in STANDARD_LIBRARY or f"{module}.".startswith(_TESTS_OF_PYTHON):
        return Trust("dangerous", _longest(_reasons(), f"{module}.{name}") or _FROM_THE_LIBRARY)
    if any(part.startswith("__") and part.endswith("__") for part in parts):
        return Trust("dangerous", "reaches into the inside of an object")
    for step in parts[:-1]:
        if step in STANDARD_LIBRARY or step == step.lower():
            return Trust("dangerous", f"goes through {step} of {module} to something else")
    if parts[-1] in _STEPS:
        return Trust("dangerous", f"takes the module {parts[-1]} out of {module}")
    if harm := _longest(_harms(), f"{module}.{name}"):
        return Trust("dangerous", harm)
    if reason := _inert_by_pattern(module, name):
        return Trust("inert", reason)
    if parts[-1] in _NOTORIOUS:
        return Trust("dangerous", "is called like a function that runs or loads what it is given")
    if module in ("__main__", "__mp_main__"):
        return Trust("unvouched", "is from the script that wrote the file")
    if root in ("torch", "numpy"):
        return Trust("unvouched", f"is a part of {root} that is not known to be harmless")
    return Trust("unvouched", f"is code of the package {root}")


_FROM_THE_LIBRARY = "is a part of Python's standard library that is not known to be harmless"


def _standing_of_module(module: str) -> Trust:
    if any(module == known for known, _ in _inert()):
        return Trust("inert", "is a module of which something is known to be harmless")
    return standing(Global(module, "_"))


def _inert_by_pattern(module: str, name: str) -> str | None:
    """Families of classes: layers, optimizers, schedulers and result types of torch."""
    if module.startswith("torch.nn.modules.") and module.count(".") == 3:
        if name.isalnum() and name[0].isupper() and name not in _NO_LAYERS:
            return "a layer of torch"
        if module == "torch.nn.modules.module" and name == "Module":
            return "a layer of torch"
    if module.startswith("torch.optim.") and name.isalnum() and name[0].isupper() and name not in _NO_LAYERS:
        return "an optimizer or scheduler of torch"
    if module.startswith("torch.distributions.") and name.isalnum() and name[0].isupper() and name not in _NO_LAYERS:
        return "a distribution of torch"
    if module == "torch.return_types" and name.islower() and name.isidentifier():
        return "a value of torch"
    return None


@lru_cache(maxsize=1)
def _inert() -> dict[tuple[str, str], str]:
    from .torch_globals import rules_for

    found: dict[tuple[str, str], str] = {}
    for path in rules_for(None).allowed:
        module, _, name = path.rpartition(".")
        found[module, name] = "torch allows it by itself"
    why = ""
    for line in _INERT.splitlines():
        if line.startswith("# "):
            why = line[2:]
            continue
        module, *names = line.split()
        for name in names:
            found[module, name] = why
    return found


@lru_cache(maxsize=1)
def _neutral() -> dict[str, str]:
    return _table(_NEUTRAL)


@lru_cache(maxsize=1)
def _reasons() -> dict[str, str]:
    return _table(_REASONS)


@lru_cache(maxsize=1)
def _harms() -> dict[str, str]:
    return _table(_HARMFUL)


def _table(lines: str) -> dict[str, str]:
    return {name: why for line in lines.splitlines() for name, _, why in [line.partition(" ")]}


#: No entry of the tables is longer: a hostile name of a million characters costs no more than another.
_LONGEST_ENTRY = 64


def _longest(table: dict[str, str], path: str) -> str | None:
    """What a table says of a full name: of itself, or of the longest module around it.

    Entries that end inside of a name (``os.exec``, ``pandas.read_``) stand for all names that begin so.
    """
    end = min(len(path), _LONGEST_ENTRY)
    last = path.rpartition(".")[0]
    while end > 0:
        if found := table.get(path[:end]):
            return found
        end = end - 1 if end > len(last) + 1 else path.rfind(".", 0, end)
    return None
