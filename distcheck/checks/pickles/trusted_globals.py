"""Which importable names are harmless in a pickle, which are not, and why.

A global is *benign* if it can do no harm when it is called with benign arguments and any state is written into the
result. It then opens no file, starts no process, contacts no host, runs no code and imports nothing. At most it wastes
memory. Whatever a benign global may call is an argument, and each importable argument is judged here too. So
``copyreg._reconstructor`` and ``collections.defaultdict`` can be on the list, and one dangerous name is enough for a
file.

A name on no list is *dangerous* if it belongs to Python's standard library, since deny-lists have gaps. It is
*untrusted* if it belongs to another package. The tables are data, so the verdict depends on the bytes of a file and
not on what is installed.

Sources: documentation and code of CPython 3.10 to 3.14, numpy 1.26 and 2.4, torch 2.13, scipy 1.14, joblib 1.4;
``sys.stdlib_module_names`` of CPython 3.10 to 3.13; the libraries of 3.6 to 3.9 and of 2.7; What's New in Python 3.14.
"""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from .trace import Global


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Each line: a module, and what of it is benign. A group begins with the reason, after a number sign.
_BENIGN = """\
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
# an abstract class, which makes no objects
collections.abc AsyncGenerator AsyncIterable AsyncIterator Awaitable ByteString Callable Collection Container
collections.abc Coroutine Generator Hashable ItemsView Iterable Iterator KeysView Mapping MappingView MutableMapping
collections.abc MutableSequence MutableSet Reversible Sequence Set Sized ValuesView
abc ABC
contextlib AbstractAsyncContextManager AbstractContextManager
numbers Complex Integral Number Rational Real
os PathLike
# a feature of Python, as a value
__future__ _Feature absolute_import annotations barry_as_FLUFL division generator_stop generators nested_scopes
__future__ print_function unicode_literals with_statement
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
# states where joblib finds an array in the same file
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
# what a distributed checkpoint states about its tensors
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

# Classes of torch by the package that they are in, whichever module of it holds them; torch 2.13.
_LAYERS = _words(
    """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d
    AdaptiveMaxPool2d AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss
    BatchNorm1d BatchNorm2d BatchNorm3d Bilinear CELU CTCLoss ChannelShuffle CircularPad1d CircularPad2d
    CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d Container Conv1d Conv2d Conv3d ConvTranspose1d
    ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss CrossMapLRN2d Dropout
    Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag FeatureAlphaDropout Flatten Fold
    FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU GRUCell GaussianNLLLoss GroupNorm Hardshrink
    Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d InstanceNorm2d
    InstanceNorm3d KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell LayerNorm LazyBatchNorm1d
    LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d
    LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LeakyReLU Linear
    LinearCrossEntropyLoss LocalResponseNorm LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1d MaxPool2d
    MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish Module ModuleDict ModuleList MultiLabelMarginLoss
    MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss NLLLoss2d
    NonDynamicallyQuantizableLinear PReLU PairwiseDistance ParameterDict ParameterList PixelShuffle
    PixelUnshuffle PoissonNLLLoss RMSNorm RNN RNNBase RNNCell RNNCellBase RReLU ReLU ReLU6 ReflectionPad1d
    ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU Sequential SiLU
    Sigmoid SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign SyncBatchNorm
    Tanh Tanhshrink Threshold Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
    TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss Unflatten Unfold Upsample
    UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d
    """
)
_OPTIMIZERS = _words(
    """
    ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax AveragedModel ChainedScheduler ConstantLR
    CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LBFGS LRScheduler LambdaLR LinearLR
    MultiStepLR MultiplicativeLR Muon NAdam OneCycleLR Optimizer PolynomialLR RAdam RMSprop ReduceLROnPlateau
    Rprop SGD SWALR SequentialLR SparseAdam StepLR
    """
)
_DISTRIBUTIONS = _words(
    """
    AbsTransform AffineTransform Bernoulli Beta Binomial CatTransform Categorical Cauchy Chi2 ComposeTransform
    Constraint ConstraintRegistry ContinuousBernoulli CorrCholeskyTransform CumulativeDistributionTransform
    Dirichlet Distribution ExpRelaxedCategorical ExpTransform Exponential ExponentialFamily FisherSnedecor Gamma
    GeneralizedPareto Geometric Gumbel HalfCauchy HalfNormal Independent IndependentTransform InverseGamma
    Kumaraswamy LKJCholesky Laplace LogNormal LogisticNormal LogitRelaxedBernoulli LowRankMultivariateNormal
    LowerCholeskyTransform MixtureSameFamily MixtureSameFamilyConstraint Multinomial MultivariateNormal
    NegativeBinomial Normal OneHotCategorical OneHotCategoricalStraightThrough Pareto Poisson
    PositiveDefiniteTransform PowerTransform RelaxedBernoulli RelaxedOneHotCategorical ReshapeTransform
    SigmoidTransform SoftmaxTransform SoftplusTransform StackTransform StickBreakingTransform StudentT
    TanhTransform Transform TransformedDistribution Uniform VonMises Weibull Wishart
    """
)
# Types of what functions of torch return.
_RESULTS = _words(
    """
    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fused_moving_avg_obs_fq_helper _linalg_det
    _linalg_det_out _linalg_eigh _linalg_eigh_out _linalg_slogdet _linalg_slogdet_out _linalg_solve_ex
    _linalg_solve_ex_out _linalg_svd _linalg_svd_out _lu_with_info _scaled_dot_product_cudnn_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _unpack_dual aminmax aminmax_out cummax cummax_out cummin
    cummin_out frexp frexp_out geqrf geqrf_out histogram histogram_out histogramdd kthvalue kthvalue_out
    linalg_cholesky_ex linalg_cholesky_ex_out linalg_eig linalg_eig_out linalg_eigh linalg_eigh_out
    linalg_inv_ex linalg_inv_ex_out linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_factor_ex_out
    linalg_ldl_factor_out linalg_lstsq linalg_lstsq_out linalg_lu linalg_lu_factor linalg_lu_factor_ex
    linalg_lu_factor_ex_out linalg_lu_factor_out linalg_lu_out linalg_qr linalg_qr_out linalg_slogdet
    linalg_slogdet_out linalg_solve_ex linalg_solve_ex_out linalg_svd linalg_svd_out lu_unpack lu_unpack_out max
    max_out median median_out min min_out mode mode_out nanmedian nanmedian_out qr qr_out slogdet slogdet_out
    sort sort_out svd svd_out topk topk_out triangular_solve triangular_solve_out
    """
)

# Of the standard library, and neither harmless nor harmful by themselves: they keep or pass on something callable.
_NEUTRAL = """\
# keeps a call that its user makes later
functools.partial
# may call what it is given
builtins.iter
# calls methods of what it is given, and prints it
builtins.print
# calls a method of what it is given
builtins.reversed builtins.enumerate builtins.zip builtins.abs builtins.len builtins.round _operator.add
_operator.and_ _operator.eq _operator.floordiv _operator.ge _operator.gt _operator.le _operator.lt _operator.mod
_operator.mul _operator.ne _operator.neg _operator.not_ _operator.or_ _operator.sub _operator.truediv _operator.xor
operator.add operator.and_ operator.eq operator.floordiv operator.ge operator.gt operator.le operator.lt
operator.mod operator.mul operator.ne operator.neg operator.not_ operator.or_ operator.sub operator.truediv
operator.xor
# calls methods of what it is given
builtins.all builtins.any builtins.sum
# calls what it is given
builtins.max builtins.min builtins.sorted
# is a function of texts
builtins.str.lower builtins.str.split builtins.str.strip builtins.str.upper
# can make new classes
builtins.type
# gives a logger that other code uses too
logging.getLogger
# gives values on request, perhaps without end
itertools.chain itertools.chain.from_iterable itertools.combinations itertools.compress itertools.count
itertools.cycle itertools.islice itertools.permutations itertools.product itertools.repeat itertools.zip_longest
# makes a function that gets items
operator.itemgetter
# gets an item of what it is given
_operator.getitem operator.getitem
# keeps a class, of which its user makes instances
types.GenericAlias"""

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

# What the best-known ones do, by module or full name. The longest match counts.
_REASONS = """\
# acts on files and processes of the machine
os posix nt
# runs a shell command
os.system os.popen posix.system posix.popen nt.system
# starts a program
os.exec os.spawn os.posix_spawn posix.exec subprocess _posixsubprocess popen2 pty webbrowser _aix_support
_osx_support uuid _winapi
# deletes files
os.remove os.unlink
# changes the environment of the process
os.environ os.putenv
# runs text as Python code
builtins.eval builtins.exec code timeit profile cProfile trace doctest bdb pdb idlelib _pyrepl
# runs a file as Python code
builtins.execfile
# turns text into code
builtins.compile codeop
# imports whatever it is given
builtins.__import__ importlib _frozen_importlib imp pkgutil
# opens a file
builtins.open builtins.file
# reads from the terminal
builtins.input
# reaches into other objects
builtins.getattr builtins.vars
# changes other objects
builtins.setattr builtins.delattr
# reaches into the running program
builtins.globals builtins.locals inspect gc
# calls what it is given
builtins.map builtins.filter builtins.apply
# starts a debugger
builtins.breakpoint
# starts a pager
builtins.help
# ends the process
builtins.exit builtins.quit
# opens files
io _io fileinput linecache mmap dbm tarfile zipfile gzip bz2 lzma configparser
# opens files or unpacks data
codecs
# imports code out of an archive
zipimport
# runs a module or a file as a program
runpy
# imports modules and starts servers and programs
pydoc
# runs code of its own choice
lib2to3
# unpickles other data, with no check at all
pickle _pickle shelve
# loads compiled code
marshal
# makes functions or modules out of code
types
# reaches into other objects and calls their methods
operator _operator
# makes or calls functions
functools
# loads a shared library and calls into it
ctypes _ctypes
# changes the running interpreter
sys site
# has code run at the end of the process
atexit
# changes how the process takes signals
signal
# starts threads
threading _thread
# starts processes
multiprocessing
# starts threads or processes
concurrent
# starts programs or connects to hosts
asyncio
# may start a program
platform
# writes files
cgitb tempfile msilib
# installs packages
ensurepip
# writes files and starts programs
venv
# runs compilers and other programs
distutils
# connects to other hosts
socket ssl http urllib urllib2 ftplib smtplib poplib imaplib telnetlib nntplib xmlrpc
# listens for other hosts
socketserver wsgiref
# copies, moves or deletes files
shutil
# acts on files
pathlib
# opens files and loads extensions
sqlite3
# opens files or connects to hosts
logging
# imports and calls whatever it is given
logging.config
# changes how objects are pickled
copyreg
# changes the registry
winreg
# makes functions of others run
itertools
# starts a browser
antigravity"""

# Code of others that is known to run, load or fetch other code: a module with all that is in it, or one name of it.
_HARMFUL = """\
# runs text as Python code
IPython ipykernel bpython ptpython past asteval sympy.parsing sympy.core.sympify sympy.utilities.lambdify
sympy.sympify sympy.lambdify pandas.eval pandas.core.computation numpy.testing numpy.lib.utils torch._numpy.testing
# starts programs
jupyter_client notebook py git win32com pythoncom wmi torch.distributed.run torch.distributed.launch
torch.distributed.launcher
# runs shell commands
xonsh invoke plumbum pexpect sh torch.utils.collect_env
# installs packages
pip
# runs compilers and other programs
setuptools numpy.distutils
# changes how modules are imported
_distutils_hack
# imports whatever it is given
pkg_resources importlib_metadata torch._utils._import_dotted_name
# gives access to exec and to moved modules
six future
# runs files as programs
pytest _pytest nose torch.utils.bottleneck
# makes functions out of code and unpickles other data
dill _dill
# makes functions out of code
cloudpickle pyspark.cloudpickle ray.cloudpickle ray.pickle joblib.externals sklearn.externals
# unpickles other data
pyspark.serializers pandas.compat.pickle_compat torch.serialization._load torch.serialization._legacy_load
torch.utils._config_module
# makes objects of any class that it is given
jsonpickle yaml ruamel
# unpickles other data, with no check at all
pickle5 zodbpickle compress_pickle klepto
# starts processes
multiprocess pathos billiard joblib.parallel
# runs code in other processes
execnet
# calls whatever it is given
celery
# reaches into other objects and starts programs
twisted
# starts programs or connects to hosts
gevent eventlet torch.distributed.elastic
# runs commands on other hosts
paramiko fabric
# starts containers
docker
# acts on processes
psutil
# loads a shared library and calls into it
cffi _cffi_backend
# compiles and loads code
pyximport Cython
# compiles code
numba llvmlite
# acts on files and processes of the machine
win32api
# connects to other hosts
requests urllib3 httpx aiohttp boto3 botocore
# runs templates as code
jinja2 mako
# imports and calls whatever it is given
hydra
# runs text as code
numexpr
# downloads and runs code
transformers.dynamic_module_utils torch.hub
# downloads models
transformers.pipeline
# unpickles another file, with no check at all
joblib.load joblib.numpy_pickle.load joblib.numpy_pickle.load_temporary_memmap
# opens files
joblib.numpy_pickle_utils joblib._store_backends pandas.read_ pandas.io scipy.io torchvision.io torchaudio.load
tensorflow.io
# runs and caches functions
joblib.memory
# runs code of tests
sklearn.utils._testing torch.testing
# runs compilers
numpy.f2py
# loads a shared library
numpy.ctypeslib torch._ops torch.ops torch._classes torch.classes torch.utils.cpp_backtrace
# opens files and may unpickle them
numpy.load numpy.lib.npyio numpy.lib._npyio_impl numpy.lib.format
# opens files and connects to hosts
numpy.lib._datasource numpy.DataSource
# reads and imports code
numpy.lib._utils_impl
# opens a file, or creates and empties it
numpy.memmap numpy.core.memmap numpy._core.memmap
# opens a file
numpy.fromfile numpy.core.records.fromfile numpy._core.records.fromfile numpy.rec.fromfile numpy.fromregex
numpy.genfromtxt numpy.loadtxt numpy.core.multiarray.fromfile numpy._core.multiarray.fromfile torch.from_file
torch._C._VariableFunctionsClass.from_file torch.serialization._open_ torch.storage.UntypedStorage.from_file
torch.storage.TypedStorage.from_file
# writes a file
numpy.save numpy.savetxt numpy.savez numpy.savez_compressed torch.save torch.serialization.save
torch.serialization._legacy_save torch.serialization._save
# unpickles another file
torch.load torch.serialization.load
# takes the guard away from later loads
torch.serialization.add_safe_globals torch.serialization.safe_globals fickling.hook fickling.context
# is a part of a scanner of pickles, which no data needs
fickling picklescan modelscan modelaudit distcheck
# unpickles the bytes that it is given, with no check at all
torch.storage._load_from_bytes
# maps memory of other processes
torch.storage.UntypedStorage._
# runs code out of an archive
torch.package
# compiles or loads programs
torch.jit
# loads programs
torch.export torch._export tensorflow.keras.models keras.models keras.saving keras.src.saving
# turns text into code and runs it
torch.fx
# compiles and runs code
torch._dynamo torch._inductor torch._functorch torch.utils.benchmark
# reads and parses code
torch._sources
# reaches into the running program
torch._utils_internal
# changes what operations of torch do
torch.library
# unpickles other data, or takes the guard away from later loads
torch._weights_only_unpickler
# compiles and loads C++ code
torch.utils.cpp_extension torch.utils._cpp_extension_versioner
# downloads files and unpickles them
torch.utils.model_zoo
# opens files and unpickles them
torch.utils.data.datapipes
# writes files
torch.utils.tensorboard torch.utils.hipify torch.onnx
# starts processes or maps memory of others
torch.multiprocessing
# calls functions in other processes
torch.distributed.rpc torch.distributed.nn
# unpickles what other processes send
torch.distributed.distributed_c10d
# unpickles other files
mlflow"""

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
# Modules that other modules import and that no file needs: fetching one is a step to its contents.
_STEPS = _words(
    "_io _posixsubprocess _thread asyncio builtins code codecs concurrent ctypes functools gc importlib inspect io "
    "marshal multiprocessing nt os pathlib pickle pkgutil posix pty runpy shutil socket subprocess sys tempfile "
    "threading timeit types urllib webbrowser"
)


class Trust(NamedTuple):
    """What is known about an importable thing."""

    #: ``benign``, ``untrusted`` or ``dangerous``
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
def trust_of(what: Global) -> Trust:
    """Whether a thing is benign, untrusted or dangerous, and why, whatever torch thinks of it."""
    module, name = python3_name(what)
    parts = name.split(".")
    if (module, name) in _benign():
        return Trust("benign", _benign()[module, name])
    if not name:  # the stream ends within it: all that would happen is an import
        return _trust_of_module(module)
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        return Trust("dangerous", "has a name that no program gives to anything")
    if neutral := _by_name(_NEUTRAL).get(f"{module}.{name}"):
        return Trust("untrusted", neutral)
    root = module.partition(".")[0]
    if root in STANDARD_LIBRARY or f"{module}.".startswith(_TESTS_OF_PYTHON):
        return Trust("dangerous", _longest(_by_name(_REASONS), f"{module}.{name}") or _FROM_THE_LIBRARY)
    if any(part.startswith("__") and part.endswith("__") for part in parts):
        return Trust("dangerous", "reaches into the inside of an object")
    for step in parts[:-1]:
        if step in STANDARD_LIBRARY or step == step.lower():
            return Trust("dangerous", f"goes through {step} of {module} to something else")
    if parts[-1] in _STEPS:
        return Trust("dangerous", f"takes the module {parts[-1]} out of {module}")
    if harm := _longest(_by_name(_HARMFUL), f"{module}.{name}"):
        return Trust("dangerous", harm)
    if reason := _benign_by_package(module, name):
        return Trust("benign", reason)
    if parts[-1] in _NOTORIOUS:
        return Trust("dangerous", "is called like a function that runs or loads what it is given")
    if module in ("__main__", "__mp_main__"):
        return Trust("untrusted", "is from the script that wrote the file")
    if root in ("torch", "numpy"):
        return Trust("untrusted", f"is a part of {root} that is not known to be harmless")
    return Trust("untrusted", f"is code of the package {root}")


_FROM_THE_LIBRARY = "is a part of Python's standard library that is not known to be harmless"


def _trust_of_module(module: str) -> Trust:
    if any(module == known for known, _ in _benign()):
        return Trust("benign", "is a module of which something is known to be harmless")
    return trust_of(Global(module, "_"))


def _benign_by_package(module: str, name: str) -> str | None:
    """Return what a class of torch is that newer and older versions keep in other modules of one package."""
    if module.startswith("torch.nn.modules.") and module.count(".") == 3 and name in _LAYERS:
        return "a layer of torch"
    if module.startswith("torch.optim.") and name in _OPTIMIZERS:
        return "an optimizer or scheduler of torch"
    if module.startswith("torch.distributions.") and name in _DISTRIBUTIONS:
        return "a distribution of torch"
    if module == "torch.return_types" and name in _RESULTS:
        return "a value of torch"
    return None


@lru_cache(maxsize=1)
def _benign() -> dict[tuple[str, str], str]:
    from .torch_globals import rules_for

    found: dict[tuple[str, str], str] = {}
    for path in rules_for(None).allowed:
        module, _, name = path.rpartition(".")
        found[module, name] = "torch allows it by itself"
    for why, (module, *names) in _groups(_BENIGN):
        for name in names:
            found[module, name] = why
    return found


@lru_cache(maxsize=3)
def _by_name(groups: str) -> dict[str, str]:
    """Return the reason of each full name of a table."""
    return {name: why for why, words in _groups(groups) for name in words}


def _groups(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each line of a table as words, with the reason of its group."""
    why = ""
    for line in text.splitlines():
        if line.startswith("# "):
            why = line[2:]
        else:
            yield why, line.split()


#: No entry of the tables is longer: a hostile name of a million characters costs no more than another.
_LONGEST_ENTRY = 64


def _longest(table: dict[str, str], path: str) -> str | None:
    """What a table states of a full name: of itself, or of the longest module around it.

    Entries that end inside of a name (``os.exec``, ``pandas.read_``) stand for all names that begin so.
    """
    end = min(len(path), _LONGEST_ENTRY)
    last = path.rpartition(".")[0]
    while end > 0:
        if found := table.get(path[:end]):
            return found
        end = end - 1 if end > len(last) + 1 else path.rfind(".", 0, end)
    return None
