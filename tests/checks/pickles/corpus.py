"""Files of every class that a scanner has to tell apart, each with the verdict that is expected of it.

The labels were worked out from what pickle, numpy, joblib and torch do with such bytes, before any judge of ours had seen
them. Every payload is harmless, and none of these files is ever loaded. A case with several words is one where the
format itself leaves it open (cut *and* refused, say); none of them includes *safe* unless *safe* is right as well.
"""

from __future__ import annotations

import array
import bz2
import collections
import datetime
import decimal
import enum
import fractions
import gzip
import io
import json
import lzma
import pathlib
import pickle
import random
import struct
import tarfile
import uuid
import zipfile
import zlib
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from .assembly import (
    COMMAND,
    ELEMENT,
    MAGIC,
    Member,
    build,
    call,
    checkpoint,
    get,
    group,
    items,
    joblib_array,
    legacy,
    legacy_tar,
    legacy_tensor,
    mapping,
    name,
    new,
    npy,
    numpy_objects,
    octets,
    ordered,
    plain,
    put,
    safetensors,
    shell,
    short,
    stacked,
    storage,
    tarred,
    tensor,
    text,
    torch_members,
    torch_zip,
    whole,
    zipped,
)

SAFE, LISTING, DANGEROUS, MALFORMED, INCOMPLETE = "safe", "needs-allow-listing", "dangerous", "malformed", "incomplete"
#: Nobody can load it, or should.
UNFIT = (DANGEROUS, MALFORMED, INCOMPLETE)
#: It can't be read whole; what can be read is harmless.
BROKEN = (MALFORMED, INCOMPLETE)


class Case(NamedTuple):
    """A file and what is expected of it."""

    name: str
    make: Callable[[], bytes]
    #: any of these
    words: tuple[str, ...]
    #: the weights_only answer, where it matters
    weights_only: str | None = None
    #: codes of findings besides those that the word brings with it
    codes: tuple[str, ...] = ()


def _case(
    name: str,
    make: Callable[[], bytes] | bytes,
    words: str | tuple[str, ...],
    weights_only: str | None = None,
    codes: tuple[str, ...] = (),
) -> Case:
    maker = (lambda: make) if isinstance(make, bytes) else make
    return Case(name, maker, (words,) if isinstance(words, str) else words, weights_only, codes)


# ----------------------------------------------------------------------------------------------- dangerous

#: module and attribute of what runs code, reads or writes files, loads other pickles, opens connections or changes the
#: interpreter: of the standard library, of today and of Python 2, and of packages that are found beside torch.
GADGETS = """
os system | os popen | os execv | os execvp | os spawnl | os spawnvp | os posix_spawn | os remove | os unlink | os rename
os rmdir | os removedirs | os putenv | os kill | os open | os startfile | os chmod | os fork | os _exit | os fdopen
posix system | posix popen | posix execv | nt system | nt startfile | posix posix_spawn | os.path exists
subprocess Popen | subprocess run | subprocess call | subprocess check_call | subprocess check_output | subprocess getoutput
subprocess getstatusoutput | builtins eval | builtins exec | builtins compile | builtins __import__ | builtins open
builtins getattr | builtins setattr | builtins delattr | builtins globals | builtins locals | builtins vars | builtins input
builtins breakpoint | builtins map | builtins filter | builtins memoryview | builtins help | builtins exit
__builtin__ eval | __builtin__ execfile | __builtin__ apply | __builtin__ reduce | __builtin__ file | __builtin__ reload
__builtin__ raw_input | __builtin__ __import__ | commands getoutput | commands getstatusoutput | popen2 popen3
itertools imap | itertools starmap | itertools accumulate | itertools.filterfalse __call__
runpy run_path | runpy run_module | runpy _run_code | importlib import_module | importlib reload | importlib __import__
importlib._bootstrap _gcd_import | importlib.machinery SourceFileLoader | importlib.util spec_from_file_location
_frozen_importlib _load_unlocked | _imp create_dynamic | imp load_source | imp load_dynamic | zipimport zipimporter
pkgutil resolve_name | pkgutil get_data | pkgutil find_loader | pydoc locate | pydoc pipepager | pydoc tempfilepager
pydoc safeimport | pydoc browse | pty spawn | code interact | code InteractiveInterpreter | code InteractiveConsole
codeop compile_command | timeit timeit | timeit repeat | timeit main | timeit Timer | profile run | profile runctx
cProfile run | cProfile runctx | cProfile Profile.runctx | trace Trace.runctx | pdb run | pdb runeval | pdb Pdb | pdb main
bdb Bdb.run | bdb Bdb.runeval | bdb Bdb | doctest debug_script | doctest debug_src | doctest testfile | doctest script_from_examples
ensurepip bootstrap | ensurepip _run_pip | ensurepip _bootstrap | pip main | pip._internal main | pip._internal.cli.main main
pip._internal.utils.subprocess call_subprocess | venv create | venv EnvBuilder | setuptools setup | setuptools.sandbox run_setup
distutils.core run_setup | distutils.spawn spawn | distutils.file_util write_file | distutils.dir_util remove_tree
idlelib.autocomplete AutoComplete.fetch_completions | idlelib.autocomplete AutoComplete.get_entity | idlelib.pyshell ModifiedInterpreter.runcode
idlelib.calltip get_entity | idlelib.debugobj ObjectTreeItem.SetText | idlelib.run Executive.runcode | idlelib.util fix_x11_paste
lib2to3.pgen2.grammar Grammar.loads | lib2to3.pgen2.pgen ParserGenerator.make_label | lib2to3.pgen2.driver load_grammar
asyncio.unix_events _UnixSubprocessTransport._start | asyncio create_subprocess_shell | asyncio create_subprocess_exec
asyncio run | asyncio.base_events BaseEventLoop._run_once | asyncio.subprocess create_subprocess_shell | asyncio.events Handle._run
logging FileHandler | logging.config dictConfig | logging.config fileConfig | logging.config listen | logging.config _resolve
logging.config DictConfigurator | logging.config BaseConfigurator.resolve | logging.config BaseConfigurator.ext_convert | logging.handlers SocketHandler | logging.handlers SMTPHandler | logging.handlers RotatingFileHandler
logging basicConfig | _aix_support _read_cmd_output | _aix_support aix_platform | _osx_support _read_output | _osx_support _find_build_tool
_osx_support compiler_fixup | imaplib IMAP4_stream | uuid _get_command_stdout | uuid getnode | uuid _popen
_pyrepl.pager pipe_pager | _pyrepl.pager tempfile_pager | _pyrepl.main interactive_console | ctypes CDLL | ctypes PyDLL
ctypes.util find_library | ctypes.util _get_soname | ctypes.util _findSoname_ldconfig | ctypes string_at | ctypes memmove | ctypes CFUNCTYPE
_ctypes dlopen | _ctypes call_function | _ctypes PyObj_FromPtr | multiprocessing Process | multiprocessing Pool | multiprocessing.util spawnv_passfds
multiprocessing.util Finalize | multiprocessing.popen_fork Popen | multiprocessing.popen_spawn_posix Popen | multiprocessing.process BaseProcess.run
multiprocessing.connection Client | multiprocessing.connection Listener | multiprocessing.managers BaseManager.connect
multiprocessing.managers RebuildProxy | multiprocessing.reduction rebuild_connection | multiprocessing.reduction ForkingPickler.loads | multiprocessing.resource_tracker ensure_running
multiprocessing.spawn import_main_path | multiprocessing.spawn _main | multiprocessing.pool mapstar | multiprocessing.shared_memory SharedMemory | multiprocessing.heap Arena
concurrent.futures ProcessPoolExecutor | concurrent.futures.process _process_worker | concurrent.futures.thread _WorkItem.run
socketserver TCPServer | socketserver ForkingMixIn.process_request | socket socket | socket create_connection | socket create_server | _socket socket
http.server HTTPServer | http.client HTTPConnection | urllib.request urlopen | urllib.request urlretrieve | urllib2 urlopen
urllib.request FancyURLopener.open | xmlrpc.client ServerProxy | smtplib SMTP | ftplib FTP | poplib POP3 | nntplib NNTP
telnetlib Telnet | ssl get_server_certificate | webbrowser open | webbrowser GenericBrowser | webbrowser BackgroundBrowser | antigravity fly
test.support.script_helper assert_python_ok | test.support.script_helper spawn_python | test.support.os_helper unlink | test.support run_in_subinterp
test.support.import_helper import_module | test.support.bytecode_helper BytecodeTestCase | unittest main | unittest.mock _importer | unittest.mock _get_target
unittest.loader TestLoader.loadTestsFromName | unittest.util _common_shorten_repr | shutil rmtree | shutil move | shutil copyfile | shutil make_archive
shutil unpack_archive | shutil chown | tempfile mkstemp | tempfile NamedTemporaryFile | io open | io FileIO | io open_code | _io open | _io FileIO
io TextIOWrapper | codecs open | codecs register | fileinput FileInput | fileinput input | linecache getlines | linecache updatecache
zipfile ZipFile | zipfile PyZipFile | tarfile open | tarfile TarFile.extractall | sqlite3 connect | _sqlite3 enable_load_extension
dbm open | dbm.dumb open | shelve open | shelve DbfilenameShelf | pickle loads | pickle load | pickle _loads | pickle Unpickler
_pickle loads | _pickle Unpickler | cPickle loads | pickle _Unpickler.load | pickletools optimize | marshal loads | marshal load
types FunctionType | types CodeType | types MethodType | types LambdaType | types new_class | types DynamicClassAttribute | types coroutine
functools reduce | functools partialmethod | functools cached_property | functools singledispatchmethod | functools cmp_to_key | _functools reduce
operator attrgetter | operator methodcaller | operator call | operator setitem | operator delitem | operator iadd | operator concat | _operator attrgetter | _operator methodcaller
weakref finalize | atexit register | atexit _run_exitfuncs | signal signal | signal raise_signal | signal setitimer
sys settrace | sys setprofile | sys exit | sys addaudithook | sys _getframe | sys modules | sys path | sys setrecursionlimit | sys exc_info | sys __dict__
faulthandler _sigsegv | faulthandler _stack_overflow | gc get_objects | gc get_referrers | inspect getattr_static | inspect currentframe | inspect getsource
threading Thread | threading Timer | threading settrace | threading Thread.run | _thread start_new_thread | thread start_new_thread | sched scheduler.run
contextlib ExitStack | contextlib contextmanager | contextlib.ExitStack callback | rlcompleter Completer.attr_matches | rlcompleter Completer | cmd Cmd.cmdloop
site main | site addsitedir | site execsitecustomize | site execusercustomize | site addpackage | sysconfig _init_posix | sysconfig get_config_vars
tkinter Tk | tkinter Tcl | _tkinter create | turtle Turtle | turtledemo.__main__ DemoWindow | dataclasses make_dataclass | dataclasses _create_fn
collections namedtuple | enum EnumMeta.__call__ | typing get_type_hints | typing ForwardRef._evaluate | typing _eval_type | typing NamedTuple
annotationlib ForwardRef.evaluate | string Formatter.get_field | string Formatter.vformat | statistics _coerce | pstats Stats | tracemalloc start
mmap mmap | resource setrlimit | syslog syslog | readline read_init_file | readline set_completer | fcntl ioctl | termios tcsetattr | pwd getpwall | grp getgrall
zipapp create_archive | compileall compile_dir | py_compile compile | modulefinder ModuleFinder.run_script | modulefinder ReplacePackage | pyclbr readmodule
mailcap findmatch | mailbox mbox | netrc netrc | getpass getpass | platform popen | platform _syscmd_file | platform _syscmd_ver
uu decode | bz2 BZ2File | bz2 open | gzip open | gzip GzipFile | lzma open | gettext translation | gettext c2py | locale setlocale
argparse FileType | argparse ArgumentParser.parse_args | optparse OptionParser.parse_args | configparser ConfigParser.read | ast literal_eval | ast parse | symtable symtable
crypt crypt | cgi FieldStorage | cgitb enable | wsgiref.simple_server make_server | xml.sax parse | xml.etree.ElementTree parse | xml.dom.minidom parse
plistlib load | json load | csv reader | sunau open | wave open | aifc open | asyncore dispatcher | asynchat async_chat | smtpd SMTPServer
random _os.system | hashlib file_digest | curses wrapper | curses initscr | encodings search_function | encodings.idna ToASCII
_bootsubprocess Popen | _posixsubprocess fork_exec | _winapi CreateProcess | winreg CreateKey | msvcrt open_osfhandle | _xxsubinterpreters run_string | _interpreters exec | _testcapi run_in_subinterp | _testinternalcapi test_config
copy _reconstruct | copyreg pickle | copyreg add_extension | copyreg constructor | abc ABCMeta.register | nturl2path url2pathname
tomllib load | concurrent.interpreters create | compression.zstd open | sre_compile compile | sre_parse parse | _strptime _strptime
"""

#: The same for packages beside torch, where a published finding or their own manual says that it runs what it is given.
FOREIGN = """
torch load | torch.serialization load | torch.jit load | torch.hub load | torch.hub _load_local | torch.storage _load_from_bytes
torch.utils.cpp_extension load | torch.utils.cpp_extension load_inline | torch.ops load_library | torch.classes load_library | torch._ops _Ops.load_library
torch.utils._config_module load_config | torch.utils.collect_env run | torch.utils.collect_env run_and_read_all | torch.utils.bottleneck.__main__ run_cprofile | torch.utils.bottleneck.__main__ run_autograd_prof
torch.jit.unsupported_tensor_ops execWrapper | torch._dynamo.guards GuardBuilder.get | torch.fx.experimental.symbolic_shapes ShapeEnv.evaluate_guards_expression
torch.utils.data.datapipes.utils.decoder basichandlers | torch._inductor.codecache PyCodeCache.load | torch.package PackageImporter | torch.multiprocessing spawn
torch.serialization os.system | torch._utils _import_dotted_name | torch.fx.graph_module _forward_from_src | torch.fx.graph_module reduce_graph_module | torch.fx.graph_module _exec_with_source
torch.distributed.launcher.api launch_agent | torch.testing._internal.common_utils run_tests | torch.onnx export | torch save | torch from_file
numpy load | numpy.lib.npyio load | numpy fromfile | numpy memmap | numpy save | numpy savetxt | numpy ndarray.tofile | numpy.testing rundocs | numpy.testing._private.utils runstring
numpy.f2py compile | numpy.f2py.crackfortran getlincoef | numpy.f2py.crackfortran myeval | numpy.f2py.crackfortran param_eval | numpy.ctypeslib load_library | numpy.distutils.exec_command exec_command
numpy.lib.format read_array | numpy.core.records fromfile | numpy.lib.npyio loadtxt | numpy os.system
pandas read_pickle | pandas eval | pandas.io.pickle read_pickle | joblib load | joblib.numpy_pickle load | cloudpickle loads | cloudpickle.cloudpickle _make_function | cloudpickle.cloudpickle subimport
dill loads | dill._dill _create_function | dill._dill _import_module | dill._dill _create_code | dill._dill _eval_repr | sympy sympify
"""


def _gadget(number: int, module: str, attribute: str) -> bytes:
    """A gadget in one of the ways in which a file can name it, by turns."""
    way = number % 5
    if way == 0:
        return whole(shell("name", module, attribute))
    if way == 1:
        return pickle_4(shell("stacked", module, attribute))
    if way == 2:
        return whole(shell("inst", module, attribute), protocol=None)
    if way == 3:
        return checkpoint({"weight": tensor(), "extra": shell("name", module, attribute)}, {"0": bytes(24)})
    return whole(items(plain(1), name(module, attribute)))


def pickle_4(fragment: bytes) -> bytes:
    """A pickle of protocol 4 with one right frame."""
    body = fragment + b"."
    return b"\x80\x04\x95" + struct.pack("<Q", len(body)) + body


def _gadgets(table: str) -> list[Case]:
    rows = [row.split() for line in table.strip().splitlines() for row in line.split("|")]
    return [
        _case(f"gadget-{module}.{attribute}", partial(_gadget, number, module, attribute), DANGEROUS)
        for number, (module, attribute) in enumerate(rows)
    ]


ECHO = text(COMMAND)
EVIL = whole(shell())
GOOD = {"layer.weight": tensor("0"), "layer.bias": tensor("1", shape=(2,))}
STORAGES = {"0": bytes(24), "1": bytes(8)}
GOOD_PICKLE = whole(mapping(GOOD))
DATA = pickle.dumps({"epoch": 3, "lr": [0.1, 0.01]}, 2)


def _frame(content: bytes) -> bytes:
    """FRAME, and what is in it."""
    return b"\x95" + struct.pack("<Q", len(content)) + content


def _stacks() -> dict[str, bytes]:
    """Programs that reach a dangerous call in a roundabout way; each is the whole pickle."""
    os_ = put(text("os"), 0) + b"0"
    system = put(text("system"), 1) + b"0"
    echo = group(ECHO)
    namespace = call(name("argparse", "Namespace"))
    module_os = name("torch", "os")
    return {
        "inst": whole(shell("inst")),
        "obj": whole(shell("obj")),
        "newobj": whole(new(name("subprocess", "Popen"), ECHO)),
        "newobj-ex": whole(name("subprocess", "Popen") + group(ECHO) + mapping({"shell": plain(True)}) + b"\x92", 4),
        "newobj-from-memo": whole(put(name("subprocess", "Popen"), 5) + b"0" + get(5) + echo + b"\x81"),
        "stack-global": pickle_4(shell("stacked")),
        "stack-global-short": pickle_4(short("os") + short("system") + b"\x93" + echo + b"R"),
        "stack-global-names-from-memo": whole(os_ + system + get(0) + get(1) + b"\x93" + echo + b"R", 4),
        "stack-global-long-memo": whole(
            put(text("os"), 70_000) + b"0" + put(text("system"), 70_001) + b"0" + get(70_000) + get(70_001) + b"\x93" + echo + b"R", 4,
        ),
        "stack-global-memoize": whole(short("os") + b"\x94" + b"0" + short("system") + b"\x94" + b"0h\0h\1\x93" + echo + b"R", 4),
        "stack-global-by-dup": whole(text("code") + b"2" + b"0" + text("interact") + b"\x93)R", 4),
        "stack-global-pop-mark": whole(text("os") + b"(" + plain(1) + plain(2) + b"1" + text("system") + b"\x93" + echo + b"R", 4),
        "stack-global-old-strings": whole(b"S'os'\n" + b"S'system'\n" + b"\x93" + echo + b"R", 4),
        "stack-global-escaped-strings": whole(b"S'\\x6f\\x73'\n" + b'S"sys\\164em"\n' + b"\x93" + echo + b"R", 4),
        "stack-global-escaped-unicode": whole(b"V\\u006f\\u0073\n" + b"Vsyst\\u0065m\n" + b"\x93" + echo + b"R", 4),
        "stack-global-short-binstring": whole(b"U\x02os" + b"U\x06system" + b"\x93" + echo + b"R", 4),
        "stack-global-binstring": whole(b"T\x02\0\0\0os" + b"T\x06\0\0\0system" + b"\x93" + echo + b"R", 4),
        "stack-global-long-unicode": whole(b"\x8d" + struct.pack("<Q", 2) + b"os" + short("system") + b"\x93" + echo + b"R", 4),
        "stack-global-computed-module": whole(call(name("builtins", "str"), text("os")) + text("system") + b"\x93" + echo + b"R", 4),
        "stack-global-computed-name": whole(text("os") + call(name("_codecs", "encode"), text("fystem"), text("rot13")) + b"\x93" + echo + b"R", 4),
        "stack-global-joined": whole(call(stacked("builtins", "str.join"), text(""), items(text("o"), text("s"))) + text("system") + b"\x93" + echo + b"R", 4),
        "stack-global-from-tuple": whole(group(text("os")) + text("system") + b"\x93" + echo + b"R", 4),
        "memo-overwritten": whole(put(text("math"), 0) + b"0" + put(text("os"), 0) + b"0" + get(0) + text("system") + b"\x93" + echo + b"R", 4),
        "memo-of-function": whole(put(name("os", "system"), 9) + b"0" + plain(1) + b"0" + get(9) + echo + b"R"),
        "memo-text-forms": whole(b"cos\nsystem\np300\n0g300\n(S'" + COMMAND.encode() + b"'\ntR", None),
        "memo-of-arguments": whole(put(echo, 3) + b"0" + name("os", "system") + get(3) + b"R"),
        "result-popped": whole(shell() + b"0" + plain({"a": 1})),
        "result-popped-by-mark": whole(b"(" + shell() + b"1" + plain({"a": 1})),
        "under-the-result": whole(shell() + plain({"a": 1})),
        "in-a-key": whole(mapping([(shell(), plain(1))])),
        "in-a-tuple": whole(group(plain(1), group(shell()))),
        "in-a-set": whole(b"\x8f(" + shell() + b"\x90", 4),
        "in-a-frozenset": whole(b"(" + shell() + b"\x91", 4),
        "in-a-list-by-append": whole(b"]" + shell() + b"a"),
        "in-a-dict-opcode": whole(b"(" + text("a") + shell() + b"d"),
        "in-a-list-opcode": whole(b"(" + shell() + b"l"),
        "in-state": whole(build(namespace, mapping({"x": shell()}))),
        "in-arguments": whole(call(name("collections", "OrderedDict"), items(group(text("a"), shell())))),
        "in-a-persistent-id": whole(shell() + b"Q"),
        "named-only": whole(name("os", "system")),
        "named-then-popped": whole(name("antigravity", "fly") + b"0N"),
        "call-of-a-call": whole(call(call(name("operator", "attrgetter"), text("system")), call(name("importlib", "import_module"), text("os")))),
        "call-of-a-method-caller": whole(call(call(name("operator", "methodcaller"), text("write_text"), ECHO), call(name("pathlib", "Path"), text("x")))),
        "call-of-a-partial": whole(call(call(name("functools", "partial"), name("os", "system"), ECHO))),
        "call-of-an-inert-result": whole(call(call(name("argparse", "Namespace")), ECHO)),
        "call-of-a-dictionary": whole(plain({}) + echo + b"R"),
        "call-of-a-string": whole(text("os.system") + echo + b"R"),
        "call-of-a-persistent-id": whole(plain("function") + b"Q" + echo + b"R"),
        "call-of-an-extension": whole(b"\x82\x01" + echo + b"R"),
        "extension-1": whole(b"\x82\xf0"),
        "extension-2": whole(b"\x83\xf0\x01"),
        "extension-4": whole(b"\x84\xf0\x01\0\0"),
        "extension-as-class": whole(b"\x82\x07" + b")\x81"),
        "build-on-a-class": whole(build(name("collections", "OrderedDict"), mapping({"__reduce__": plain(1)}))),
        "build-on-a-function": whole(build(name("torch._utils", "_rebuild_tensor_v2"), mapping({"__code__": plain(1)}))),
        "build-on-a-function-slots": whole(build(name("torch._utils", "_rebuild_tensor_v2"), group(b"N", mapping({"__code__": plain(1)})))),
        "build-on-a-module": whole(build(name("torch", "serialization"), mapping({"load": plain(1)}))),
        "build-on-a-module-of-the-library": whole(build(name("collections", "abc"), mapping({"x": plain(1)}))),
        "build-on-numpy-class": whole(build(name("numpy", "ndarray"), mapping({"tofile": plain(1)}))),
        "build-with-setstate-then-call": whole(build(build(namespace, mapping({"__setstate__": name("os", "system")})), ECHO)),
        "build-with-setstate-of-inert": whole(
            build(
                build(namespace, mapping({"__setstate__": name("builtins", "list")})),
                call(name("builtins", "range"), plain(10**11)),
            )
        ),
        "build-sets-class": whole(build(namespace, group(b"N", mapping({"__class__": name("code", "InteractiveConsole")})))),
        "setitem-on-environment": whole(name("os", "environ") + b"(" + text("LD_PRELOAD") + text("x") + b"u"),
        "setitem-on-modules": whole(name("sys", "modules") + text("json") + plain(1) + b"s"),
        "setitem-through-an-allowed-module": whole(stacked("collections", "_sys.modules") + text("json") + plain(1) + b"s", 4),
        "append-to-path": whole(name("sys", "path") + text("/tmp") + b"a"),
        "append-to-a-class": whole(name("collections", "OrderedDict") + text("x") + b"a"),
        "additems-on-a-global": whole(name("collections", "Counter") + b"(" + plain(1) + b"\x90", 4),
        "dotted-torch": whole(call(stacked("torch", "serialization.os.system"), ECHO), 4),
        "dotted-torch-serialization": whole(call(name("torch.serialization", "os.system"), ECHO), 4),
        "dotted-torch-in-a-zip": torch_zip(whole(call(stacked("torch._utils", "sys.modules"), ECHO), 4)),
        "dotted-collections": whole(stacked("collections.abc", "sys.modules"), 4),
        "dotted-collections-private": whole(stacked("collections", "_sys.modules"), 4),
        "dotted-init-globals": whole(stacked("argparse", "Namespace.__init__.__globals__"), 4),
        "dotted-subclasses": whole(call(stacked("collections", "OrderedDict.__base__.__subclasses__")), 4),
        "dotted-path-writes": whole(call(stacked("pathlib", "Path.write_text"), call(name("pathlib", "Path"), text("x")), ECHO), 4),
        "dotted-path-removes": whole(call(stacked("pathlib", "PosixPath.unlink"), call(name("pathlib", "Path"), text("x"))), 4),
        "dotted-numpy-tofile": whole(call(stacked("numpy", "ndarray.tofile"), numpy_objects(), text("x")), 4),
        "dotted-main": whole(call(stacked("__main__", "os.system"), ECHO), 4),
        "dotted-datetime": whole(stacked("datetime", "datetime.__class__.__base__"), 4),
        "dotted-unknown-package": whole(call(stacked("package.module", "os.system"), ECHO), 4),
        "module-as-a-value": whole(name("torch", "os")),
        "module-of-the-library-as-a-value": whole(name("collections", "_sys")),
        "getattr-chain": whole(call(call(name("builtins", "getattr"), call(name("builtins", "getattr"), name("torch", "serialization"), text("os")), text("system")), ECHO)),
        "getattr-python-2": whole(call(call(name("__builtin__", "getattr"), module_os, text("system")), ECHO)),
        "getattr-of-inert-class": whole(call(call(name("builtins", "getattr"), name("pathlib", "Path"), text("write_text")), call(name("pathlib", "Path"), text("x")), ECHO)),
        "getattr-computed": whole(call(name("builtins", "getattr"), name("argparse", "Namespace"), call(name("builtins", "str"), text("__init__")))),
        "getattr-of-instance": whole(call(name("builtins", "getattr"), namespace, text("__init__"))),
        "getattr-with-default": whole(call(name("builtins", "getattr"), name("torch", "serialization"), text("os"), plain(1))),
        "getattr-by-inst": whole(b"(" + name("torch", "serialization") + text("os") + b"i__builtin__\ngetattr\n", None),
        "reconstructor": whole(call(name("copyreg", "_reconstructor"), name("code", "InteractiveConsole"), name("builtins", "object"), b"N")),
        "reconstructor-base": whole(call(name("copyreg", "_reconstructor"), name("subprocess", "Popen"), name("subprocess", "Popen"), ECHO)),
        "reconstructor-python-2": whole(call(name("copy_reg", "_reconstructor"), name("subprocess", "Popen"), name("__builtin__", "object"), b"N")),
        "newobj-function": whole(call(name("copyreg", "__newobj__"), name("subprocess", "Popen"), ECHO)),
        "reduce-and-partial": whole(call(name("functools", "reduce"), name("os", "system"), items(ECHO, plain(1)))),
        "partial-as-a-factory": whole(call(name("collections", "defaultdict"), call(name("functools", "partial"), name("os", "system"), ECHO))),
        "partial-by-state": whole(build(new(name("functools", "partial"), name("builtins", "list")), group(name("os", "system"), group(ECHO), plain({}), plain({})))),
        "factory": whole(call(name("collections", "defaultdict"), name("builtins", "eval"))),
        "mapped": whole(call(name("builtins", "list"), call(name("builtins", "map"), name("os", "system"), items(ECHO)))),
        "partial-of-getattr": whole(call(name("functools", "partial"), name("builtins", "getattr"), name("torch", "serialization"), text("os"))),
        # the flags of a numpy type say whether its bytes are pointers to objects
        "numpy-object-flags": whole(
            call(
                name("numpy", "ndarray"),
                plain((1,)),
                build(
                    call(name("numpy", "dtype"), text("O8"), plain(False), plain(True)),
                    group(plain(3), text("|"), *[b"N"] * 3, plain(-1), plain(-1), plain(0)),
                ),
                plain(b"AAAAAAAA"),
            )
        ),
        "new-class": whole(call(name("builtins", "type"), text("C"), group(name("builtins", "object")), mapping({"__setstate__": name("os", "system")}))),
        "nested-pickle": whole(call(name("pickle", "loads"), plain(EVIL))),
        "nested-pickle-bytes": whole(call(stacked("_pickle", "loads"), octets(EVIL)), 4),
        "nested-torch-bytes": whole(call(name("torch.storage", "_load_from_bytes"), plain(legacy(mapping({"a": shell()}), ())))),
        "nested-marshal": whole(call(call(name("types", "FunctionType"), call(name("marshal", "loads"), octets(b"c")), plain({})))),
        "python-2-inst": b"(S'" + COMMAND.encode() + b"'\nios\nsystem\n.",
        "python-2-reduce": b"cposix\nsystem\np0\n(S'" + COMMAND.encode() + b"'\np1\ntp2\nRp3\n.",
        "python-2-eval": b"c__builtin__\neval\n(V1\ntR.",
        "protocol-1": whole(shell(), None),
        "protocol-3": whole(shell(), 3),
        "protocol-5": whole(call(stacked("os", "system"), ECHO), 5),
        "two-protocols": b"\x80\x02\x80\x04" + shell("stacked") + b"\x80\x02.",
        "two-frames": b"\x80\x04\x95" + struct.pack("<Q", len(shell("stacked"))) + shell("stacked") + b"\x95" + struct.pack("<Q", 1) + b".",
        # CPython's unpickler, reading a file, drops what is left of a frame when an argument crosses its end: here it
        # finds ``subprocess`` where others find ``torch.nn.modules.subprocess``, and ``os.system`` where others find text
        "frame-cuts-a-name": b"\x80\x04" + _frame(b"ctorch.nn.modules.") + b"subprocess\nPopen\n" + group(ECHO) + b"R.",
        "frame-cuts-a-line": b"\x80\x04" + _frame(b"cmy_project\nno_") + b"system\n" + group(ECHO) + b"R.",
        "frame-cuts-a-string": b"\x80\x04" + _frame(b"X" + struct.pack("<I", 40) + b"A" * 10) + b"B" * 30 + b"0N." + b"C" * 7 + shell() + b".",
        "frame-too-short": b"\x80\x04\x95" + struct.pack("<Q", 4) + shell("stacked") + b".",
        "no-frame": whole(shell("stacked"), 4),
        "then-garbage": b"\x80\x02" + shell() + b"\xff\xfe garbage",
        "then-nothing": b"\x80\x02" + shell(),
        "then-underflow": b"\x80\x02" + shell() + b"00" + b"RRR.",
        "then-missing-memo": b"\x80\x02" + shell() + get(77) + b".",
        "then-cut-string": b"\x80\x02" + shell() + b"X\xff\0\0\0abc",
        "then-unknown-protocol": b"\x80\x02" + shell() + b"\x80\x63.",
        "after-another": DATA + EVIL,
        "after-two-others": DATA + DATA + pickle_4(shell("stacked")),
        "after-garbage-free-zeros": whole(plain(1)) + EVIL + bytes(16),
        "after-odd-integers": b"I0x1F\n0I 12 \n0I1_0\n0I01\n0I00\n0I-0\n0" + shell() + b".",
        "after-odd-longs": b"L0x1fL\n0L-5\n0L1_000L\n0L 7L\n0L0L\n0" + shell() + b".",
        "after-odd-floats": b"Fnan\n0F-inf\n0F1e5\n0F1.\n0" + shell() + b".",
        # the unpickler in C stops at the blank, the one in Python does not
        "after-a-padded-float": b"F 1.5\n0" + shell() + b".",
        # C takes numbers up to a zero byte
        "after-an-integer-with-zero": b"I1\0\n0" + shell() + b".",
        "after-a-float-with-zero": b"F1\0x\n0" + shell() + b".",
        "after-a-long-with-blank": b"L1 L\n0" + shell() + b".",
        "after-an-odd-number-and-stop": b"\x80\x04L1\0L\n." + whole(shell("stacked"), 4),
        "after-long-opcodes": b"\x80\x02\x8a\x00" + b"0" + b"\x8b\x04\0\0\0\x01\x02\x03\x04" + b"0" + shell() + b".",
        "after-odd-strings": b"S''\n0S\"it's\"\n0S'a\\'b'\n0V\n0V\\\\u0041\n0" + shell() + b".",
        "after-many-opcodes": whole(b"N0" * 100_000 + shell()),
        "after-a-long-string": whole(text("x" * 300_000) + b"0" + shell()),
        "after-deep-nesting": whole(b"]" * 50_000 + shell() + b"a" * 50_000),
        "after-buffers": whole(b"\x97\x980" + shell(), 5),
        "bytearray-opcode": whole(b"\x96" + struct.pack("<Q", 3) + b"abc0" + shell(), 5),
        "long-name": whole(name("os", "system" + "x" * 100_000)),
        "empty-module-name": whole(name("", "system")),
    }  # fmt: skip


def _containers() -> dict[str, Callable[[], bytes]]:
    """The payload in every kind of container, also in odd ones."""
    evil_values = {**GOOD, "extra": shell()}
    evil = whole(mapping(evil_values))
    members = torch_members(evil, STORAGES)
    good = torch_members(GOOD_PICKLE, STORAGES)

    def with_zipfile(mode: int) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", mode) as archive:
            for member in members:
                archive.writestr(member.name, member.content)
        return out.getvalue()

    def compressed_tar(mode: str) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode) as archive:
            entry = tarfile.TarInfo("folder/model.pkl")
            entry.size = len(EVIL)
            archive.addfile(entry, io.BytesIO(EVIL))
        return out.getvalue()

    def tar_and_pickle() -> bytes:
        # the name of the first member, which stands in front, is a program
        return tarred([("cos\nsystem\n(S'" + COMMAND + "'\ntR.", b""), ("readme", b"hello")])

    def npz(content: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("a.npy", npy(struct.pack("<d", 1.0), "'<f8'"))
            archive.writestr("b.npy", npy(content))
        return out.getvalue()

    distcp = torch_zip(evil, STORAGES) + torch_zip(GOOD_PICKLE, STORAGES) + torch_zip(GOOD_PICKLE, STORAGES)
    lightning = whole(mapping({"state_dict": mapping(GOOD), "hyper_parameters": mapping({"fn": name("os", "system")})}))
    objects = build(ordered(), mapping({"_metadata": shell()}))
    return {
        "zip": lambda: torch_zip(evil, STORAGES),
        "zip-metadata": lambda: torch_zip(whole(objects), {}),
        "zip-hyper-parameters": lambda: torch_zip(lightning, STORAGES),
        "zip-stacked": lambda: torch_zip(pickle_4(shell("stacked"))),
        "zip-storage-class": lambda: torch_zip(
            whole(group(text("storage"), name("os", "system"), text("0"), text("cpu"), plain(6)) + b"Q"), STORAGES
        ),
        "zip-storage-class-by-name": lambda: torch_zip(
            whole(group(text("storage"), name("os", "StorageX.system"), text("0"), text("cpu"), plain(6)) + b"Q"), STORAGES
        ),
        "zip-rebuild-from-type": lambda: torch_zip(
            whole(call(name("torch._tensor", "_rebuild_from_type_v2"), name("os", "system"), name("torch", "Tensor"), group(ECHO), plain({})))
        ),
        "zip-wrong-crc": lambda: torch_zip(evil, STORAGES, crc=1),
        "zip-encryption-flag": lambda: torch_zip(evil, STORAGES, flags=1),
        "zip-encryption-flag-central-only": lambda: torch_zip(evil, STORAGES, flags=1, local_flags=0),
        "zip-encryption-flag-local-only": lambda: torch_zip(evil, STORAGES, local_flags=1),
        "zip-strong-encryption-flag": lambda: torch_zip(evil, STORAGES, flags=0x41),
        "zip-patch-flag": lambda: torch_zip(evil, STORAGES, flags=0x20),
        "zip-local-name": lambda: torch_zip(evil, STORAGES, local_name="archive/data.txt"),
        "zip-local-name-empty": lambda: torch_zip(evil, STORAGES, local_name=""),
        "zip-unknown-method": lambda: torch_zip(evil, STORAGES, method=99),
        "zip-deflated": lambda: torch_zip(evil, STORAGES, deflate=True),
        "zip-by-zipfile": lambda: with_zipfile(zipfile.ZIP_STORED),
        "zip-by-zipfile-deflated": lambda: with_zipfile(zipfile.ZIP_DEFLATED),
        "zip-by-zipfile-bz2": lambda: with_zipfile(zipfile.ZIP_BZIP2),
        "zip-by-zipfile-lzma": lambda: with_zipfile(zipfile.ZIP_LZMA),
        "zip-capitals": lambda: zipped([Member("archive/DATA.PKL", evil), *members[1:]]),
        "zip-twice-first": lambda: zipped([members[0], *good]),
        "zip-twice-last": lambda: zipped([*good, members[0]]),
        "zip-twice-capitals": lambda: zipped([Member("archive/Data.pkl", evil), *good]),
        "zip-two-tops": lambda: zipped([*good, Member("other/data.pkl", evil)]),
        "zip-two-tops-first": lambda: zipped([Member("other/data.pkl", evil), *good]),
        "zip-at-the-root": lambda: zipped([Member("data.pkl", evil), Member("version", b"3\n")]),
        "zip-backslash": lambda: zipped([Member("archive\\data.pkl", evil), Member("archive\\version", b"3\n")]),
        "zip-dots": lambda: zipped([Member("archive/../archive/data.pkl", evil), *good]),
        "zip-other-name": lambda: zipped([*good, Member("archive/extra.bin", EVIL)]),
        "zip-no-extension": lambda: zipped([Member("weights", EVIL)]),
        "zip-hidden-member": lambda: zipped([Member("archive/data.pkl", evil, hidden=True), *good]),
        "zip-comment": lambda: zipped(members, comment=b"PK\5\6" + bytes(18)),
        "zip-two-directories": lambda: zipped(members, suffix=zipped(good)),
        "zip-two-directories-last": lambda: zipped(good, suffix=zipped(members)),
        "zip-junk-in-front": lambda: zipped(members, prefix=b"#!/bin/sh\n"),
        "zip-junk-behind": lambda: zipped(members, suffix=bytes(100)),
        "zip-pickle-in-front": lambda: zipped(good, prefix=EVIL),
        "zip-pickle-in-front-without-stop": lambda: zipped(good, prefix=EVIL[:-1]),
        "zip-legacy-in-front": lambda: legacy(mapping({"a": shell()}), ()) + zipped(good),
        "zip-in-a-zip": lambda: zipped([Member("models/model.pt", torch_zip(evil, STORAGES))]),
        "zip-in-a-torch-zip": lambda: zipped([*good, Member("archive/extra/inner.pt", torch_zip(evil, STORAGES))]),
        "zip-cut-off-directory": lambda: torch_zip(evil, STORAGES)[:-60],
        "zip-cut-off-end": lambda: torch_zip(evil, STORAGES)[:-22],
        "zip-cut-after-pickle": lambda: torch_zip(evil, STORAGES)[: 64 + len(evil) + 40],
        "zip-appended-in-member": lambda: torch_zip(GOOD_PICKLE + EVIL, STORAGES),
        "torchscript-data": lambda: zipped(
            [Member("net/data.pkl", evil), Member("net/constants.pkl", whole(b")")), Member("net/version", b"3\n")]
        ),
        "torchscript-constants": lambda: zipped(
            [Member("net/data.pkl", GOOD_PICKLE), Member("net/constants.pkl", EVIL), Member("net/version", b"3\n")]
        ),
        "torchscript-debug": lambda: zipped(
            [*good, Member("archive/constants.pkl", whole(b")")), Member("archive/code/a.py.debug_pkl", EVIL)]
        ),
        "torch-package": lambda: zipped(
            [Member("p/.data/version", b"6\n"), Member("p/.data/extern_modules", b"os\n"), Member("p/model/model.pkl", EVIL)]
        ),
        "legacy-object": lambda: legacy(mapping({"a": legacy_tensor(), "b": shell()})),
        "legacy-magic": lambda: legacy(mapping({"a": legacy_tensor()}), magic=whole(shell() + b"0" + plain(MAGIC))),
        "legacy-magic-called": lambda: legacy(mapping({"a": legacy_tensor()}), magic=EVIL),
        "legacy-version": lambda: legacy(mapping({"a": legacy_tensor()}), version=whole(shell() + b"0" + plain(1001))),
        "legacy-system": lambda: legacy(mapping({"a": legacy_tensor()}), system=whole(mapping({"x": shell()}))),
        "legacy-keys": lambda: legacy(mapping({"a": legacy_tensor()}), key_list=whole(items(shell()))),
        "legacy-module-source": lambda: legacy(
            mapping({"a": group(text("module"), name("os", "system"), text("f.py"), text("source")) + b"Q"}), ()
        ),
        "legacy-protocol-0": lambda: legacy(
            mapping({"a": shell("inst")}), (), magic=b"L119547037146038801333356L\n.", version=b"I1001\n.", system=b"(dp0\n."
        ),
        "legacy-gzip": lambda: gzip.compress(legacy(mapping({"b": shell()}), ()), mtime=0),
        "legacy-appended": lambda: legacy(mapping({"a": plain(1)}), ()) + EVIL,
        "legacy-tar-pickle": lambda: legacy_tar(content=mapping({"weight": shell()})),
        "legacy-tar-head": lambda: legacy_tar(head=whole(shell())),
        "legacy-tar-arguments": lambda: legacy_tar(arguments=whole(group(plain(7), text("cpu"), shell()))),
        "legacy-tar-views": lambda: legacy_tar(views=whole(items(shell()))),
        "legacy-tar-tensors": lambda: legacy_tar(tensors=whole(plain(1)) + whole(group(plain(8), plain(7), shell()))),
        "distcp-first": lambda: distcp,
        "distcp-last": lambda: torch_zip(GOOD_PICKLE, STORAGES) + torch_zip(evil, STORAGES),
        "gzip": lambda: gzip.compress(EVIL, mtime=0),
        "gzip-twice": lambda: gzip.compress(gzip.compress(EVIL, mtime=0), mtime=0),
        "gzip-second-member": lambda: gzip.compress(DATA, mtime=0) + gzip.compress(EVIL, mtime=0),
        "gzip-cut": lambda: gzip.compress(EVIL, mtime=0)[:-8],
        "gzip-wrong-sum": lambda: gzip.compress(EVIL, mtime=0)[:-8] + bytes(8),
        "gzip-of-zip": lambda: gzip.compress(torch_zip(evil, STORAGES), mtime=0),
        "bz2": lambda: bz2.compress(EVIL),
        "xz": lambda: lzma.compress(EVIL),
        "lzma": lambda: lzma.compress(EVIL, format=lzma.FORMAT_ALONE),
        "zlib": lambda: zlib.compress(EVIL),
        "zlib-best": lambda: zlib.compress(EVIL, 9),
        "gzip-cut-early": lambda: gzip.compress(EVIL + random.Random(1).randbytes(5000), mtime=0)[:-2000],
        "tar": lambda: tarred([("readme.txt", b"hello"), ("model.pkl", EVIL)]),
        "tar-of-zip": lambda: tarred([("model.pt", torch_zip(evil, STORAGES))]),
        "tar-gz": lambda: compressed_tar("w:gz"),
        "tar-xz": lambda: compressed_tar("w:xz"),
        "tar-and-pickle": tar_and_pickle,
        "npy": lambda: npy(whole(numpy_objects(shell()), 3)),
        "npy-bare": lambda: npy(EVIL),
        "npy-version-2": lambda: npy(EVIL, version=2),
        "npy-version-3": lambda: npy(EVIL, version=3),
        "npy-record": lambda: npy(EVIL, "[('a', '<i4'), ('b', '|O')]"),
        "npy-nested-record": lambda: npy(EVIL, "[('a', [('b', 'O', (2,))])]"),
        "npy-short-kind": lambda: npy(EVIL, "'O'"),
        "npz": lambda: npz(EVIL),
        "npz-object": lambda: npz(whole(numpy_objects(plain(1), shell()), 3)),
        "joblib": lambda: whole(mapping({"a": joblib_array("f8", (2,), bytes(16)), "b": shell()}), 4),
        "joblib-before": lambda: whole(mapping({"b": shell(), "a": joblib_array("f8", (2,), bytes(16))}), 4),
        "joblib-objects": lambda: whole(mapping({"a": joblib_array("O8", (1,), EVIL)}), 4),
        "joblib-array-holds-pickle": lambda: whole(
            mapping({"a": joblib_array("f8", (2,), bytes(8) + b"........"), "b": shell("stacked")}), 4
        ),
        "joblib-lies-about-its-array": lambda: whole(
            mapping({"a": joblib_array("f8", (400,), shell() + b"."), "b": plain(1)}), 4
        ),
        "joblib-number-with-object-flags": lambda: whole(
            mapping({"a": joblib_array("f8", (len(EVIL) // 8 + 1,), EVIL + bytes(8), flags=63), "b": plain(1)}), 4
        ),
        "joblib-zlib": lambda: zlib.compress(whole(mapping({"b": shell()}), 4), 3),
        "named-safetensors": lambda: EVIL,
        "safetensors-then-pickle": lambda: struct.pack("<Q", 0x2058) + b'{"' + b" " * 27 + shell() + b"." + b" " * 8300,
        "text-and-pickle": lambda: b"(S'version https://git-lfs.github.com/spec/v1'\n0" + shell("inst") + b".",
        "metadata-of-distributed-checkpoint": lambda: pickle_4(
            build(new(stacked("torch.distributed.checkpoint.metadata", "Metadata")), mapping({"planner_data": shell("stacked")}))
        ),
        "sklearn-like": lambda: whole(
            build(new(stacked("sklearn.linear_model._base", "LinearRegression")), mapping({"fn": shell("stacked")})), 4
        ),
        "numpy-objects": lambda: whole(numpy_objects(plain(1), shell())),
        "numpy-scalar": lambda: whole(call(name("numpy.core.multiarray", "scalar"), shell(), plain(b"12345678"))),
    }  # fmt: skip


def _exhausting() -> dict[str, bytes]:
    """Inert names with arguments that take all memory or time; never called here."""
    # a tuple of twice a tuple of twice …: its hash is never done
    tower = put(group(plain(1)), 0)
    for index in range(60):
        tower += put(get(index) + b"\x86", index + 1)
    return {
        "memo-far": whole(b"Nr\xff\xff\xff\xff"),
        "memo-far-as-text": b"Np4000000000\n.",
        "long-of-digits": b"L" + b"9" * 200_000 + b"L\n.",
        "integer-of-digits": b"I" + b"9" * 200_000 + b"\n.",
        "by-an-old-name": whole(call(name("__builtin__", "list"), call(name("__builtin__", "xrange"), plain(10**11)))),
        "by-inst": whole(b"(" + call(name("builtins", "range"), plain(10**11)) + b"i__builtin__\nlist\n"),
        "by-newobj": whole(call(name("copyreg", "__newobj__"), name("fractions", "Fraction"), text("1e999999999"))),
        "by-reconstructor": whole(
            call(
                name("copyreg", "_reconstructor"),
                name("builtins", "tuple"),
                name("builtins", "tuple"),
                call(name("builtins", "range"), plain(10**11)),
            )
        ),
        "fraction-of-long-text": whole(call(name("fractions", "Fraction"), text("0" * 300 + "1e999999999"))),
        "list-of-repeat": whole(call(name("builtins", "list"), call(name("itertools", "repeat"), plain(0)))),
        "deque-of-count": whole(call(name("collections", "deque"), call(name("itertools", "count")), plain(0))),
        "bytes-of-repeat": whole(call(name("builtins", "bytes"), call(name("itertools", "repeat"), plain(0)))),
        "torch-size-of-range": whole(call(name("torch", "Size"), call(name("builtins", "range"), plain(10**11)))),
        "list-of-range": whole(call(name("builtins", "list"), call(name("builtins", "range"), plain(10**11)))),
        "set-of-range": whole(call(name("builtins", "set"), call(name("builtins", "range"), plain(10**11)))),
        "bytearray-of-a-number": whole(call(name("builtins", "bytearray"), plain(10**12))),
        "bytes-of-a-number": whole(call(name("builtins", "bytes"), plain(10**12))),
        "fraction-of-an-exponent": whole(call(name("fractions", "Fraction"), text("1e999999999"))),
        "integer-of-a-decimal": whole(call(name("builtins", "int"), call(name("decimal", "Decimal"), text("1e999999999")))),
        "deque-of-range": whole(call(name("collections", "deque"), call(name("builtins", "range"), plain(10**11)))),
        "key-of-towering-tuples": whole(b"}" + tower + plain(1) + b"s"),
        "set-of-towering-tuples": whole(call(name("builtins", "set"), items(tower))),
        "counter-of-range": whole(call(name("collections", "Counter"), call(name("builtins", "range"), plain(10**11)))),
    }  # fmt: skip


#: Where every reader we know of stops before the payload.
_UNREADABLE = dict.fromkeys(
    (
        "stack-global-from-tuple",
        "empty-module-name",
        "after-buffers",
        "zip-unknown-method",
        "zip-hidden-member",
        "zip-comment",
    ),
    UNFIT,
)


def dangerous() -> list[Case]:
    """Files that do harm when they are loaded."""
    cases = _gadgets(GADGETS) + _gadgets(FOREIGN)
    cases += [
        _case(f"stack-{label}", content, _UNREADABLE.get(label, DANGEROUS)) for label, content in _stacks().items()
    ]
    cases += [_case(f"in-{label}", make, _UNREADABLE.get(label, DANGEROUS)) for label, make in _containers().items()]
    cases += [_case(f"exhausting-{label}", content, UNFIT) for label, content in _exhausting().items()]
    return cases


# -------------------------------------------------------------------------------------------------- benign


class _Colour(enum.Enum):
    RED = 1


def _renamed(content: bytes, old: bytes, new_name: bytes) -> bytes:
    """A pickle of ours, of protocol 2 at most, as if its class stood in another module."""
    assert old in content
    return content.replace(old, new_name)


def _plain_values() -> dict[str, Any]:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    generator = random.Random(3)
    return {
        "numbers": [0, 1, -1, 255, 256, 2**31, -(2**63), 2**200, 1.5, -0.0, float("inf"), float("nan"), True, False, None],
        "huge-integer": 2**5000,
        "complex": 1 + 2j,
        "strings": ["", "a" * 300, "ü€😀", "\ud800", "line\nbreak", "\x1b[31mred", "\0"],
        "bytes": [b"", b"abc", bytes(range(256)), b"x" * 300],
        "bytearray": bytearray(b"abc"),
        "containers": {"a": [1, (2, 3), {4}, frozenset({5})], (1, 2): {}, "e": ((), [], {}, set())},
        "dangerous-words": {"os.system": 1, "eval": "exec", "subprocess.Popen": ["__import__('os')"], "cos\nsystem\n": 2},
        "pickle-text": ["cos\nsystem\n(S'ls'\ntR.", EVIL, "\x80\x02cposix\nsystem"],
        "builtin-types": [int, float, str, list, dict, set, bytes, object, type(None), complex],
        "ranges": [range(3), slice(1, 2), Ellipsis, NotImplemented],
        "ordered": collections.OrderedDict(a=1),
        "defaultdict": collections.defaultdict(list, a=[1]),
        "counter": collections.Counter("abca"),
        "deque": collections.deque([1, 2], maxlen=5),
        "datetime": [moment, moment.date(), moment.time(), datetime.timedelta(3), datetime.timezone.utc],
        "decimal": [decimal.Decimal("1.5"), fractions.Fraction(1, 3)],
        "uuid": uuid.UUID(int=5),
        "path": [pathlib.PurePosixPath("/a/b"), pathlib.PureWindowsPath("c:/a")],
        "namespace": [Namespace(lr=0.1, layers=[1, 2]), SimpleNamespace(a=1)],
        "array": [array.array("d", [1.0, 2.0]), array.array("i", [1])],
        "random-state": generator.getstate(),
        "exception": [ValueError("bad", 3), KeyError("x"), OSError(2, "no")],
        "shared": [[1]] * 5,
        "deep": _deep(200),
        "many-integers": list(range(20_000)),
        "many-records": [{"id": number, "name": str(number)} for number in range(2000)],
    }  # fmt: skip


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def _circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _torch_values() -> list[Case]:
    """Torch zips put together by hand, with what ``torch.load(weights_only=True)`` of torch 2.13 says to them."""
    ok = partial(_case, words=SAFE, weights_only="accept")
    kinds = [
        "Float",
        "Double",
        "Half",
        "BFloat16",
        "Long",
        "Int",
        "Short",
        "Char",
        "Byte",
        "Bool",
        "ComplexFloat",
        "ComplexDouble",
    ]
    cases = [
        ok(f"torch-{kind.lower()}", partial(_one_tensor, f"{kind}Storage")) for kind in kinds
    ]  # fmt: skip
    parameter = call(name("torch._utils", "_rebuild_parameter"), tensor(), plain(True), ordered())
    group_0 = {"lr": 0.1, "betas": (0.9, 0.999), "params": [0], "weight_decay": 0, "foreach": None}
    state = mapping([(plain(0), mapping({"step": tensor("1", shape=()), "exp_avg": tensor("0")}))])
    optimizer = mapping({"state": state, "param_groups": plain([group_0])})
    metadata = build(
        ordered(GOOD), mapping({"_metadata": ordered({"": plain({"version": 1}), "layer": plain({"version": 1})})})
    )
    big = {f"layer{number}.weight": tensor(str(number), shape=(1,)) for number in range(300)}
    dtypes = items(name("torch", "float32"), name("torch", "bfloat16"), name("torch", "int64"), name("torch", "bool"))
    cases += [
        ok("torch-state-dict", lambda: checkpoint(GOOD, STORAGES)),
        ok("torch-state-dict-metadata", lambda: torch_zip(whole(metadata), STORAGES)),
        ok("torch-parameter", lambda: checkpoint({"p": parameter}, {"0": bytes(24)})),
        ok("torch-optimizer", lambda: checkpoint({"model": mapping(GOOD), "optimizer": optimizer, "epoch": plain(3)}, STORAGES)),
        ok("torch-shared-storage", lambda: checkpoint({"a": tensor("0"), "b": tensor("0")}, {"0": bytes(24)})),
        ok("torch-many", lambda: checkpoint(big, {str(number): bytes(4) for number in range(300)})),
        ok("torch-dtypes", lambda: checkpoint({"d": dtypes})),
        ok("torch-size", lambda: checkpoint({"s": call(name("torch", "Size"), group(plain(2), plain(3)))})),
        ok("torch-device", lambda: checkpoint({"d": call(name("torch", "device"), text("cpu"))})),
        ok("torch-set", lambda: checkpoint({"s": call(name("__builtin__", "set"), items(plain(1), plain(2)))})),
        ok("torch-set-3", lambda: checkpoint({"s": call(name("builtins", "set"), items(plain(1)))})),
        ok("torch-bytes", lambda: checkpoint({"b": plain(b"\x00\xff")})),
        ok("torch-bytearray", lambda: checkpoint({"b": call(name("__builtin__", "bytearray"), text("abc"), text("latin-1"))})),
        ok("torch-complex", lambda: checkpoint({"c": call(name("__builtin__", "complex"), plain(1.0), plain(2.0))})),
        ok("torch-counter", lambda: checkpoint({"c": call(name("collections", "Counter"), mapping({"a": plain(1)}))})),
        ok("torch-empty", lambda: torch_zip(whole(b"}"))),
        ok("torch-list", lambda: torch_zip(whole(items(tensor(), plain(1))), {"0": bytes(24)})),
        ok("torch-dangerous-keys", lambda: checkpoint({"os.system": tensor(), "eval": plain("exec"), "cos\nsystem\n(": plain(1)}, {"0": bytes(24)})),
        ok("torch-pickle-in-text", lambda: checkpoint({"a": plain("cos\nsystem\n(S'ls'\ntR."), "b": plain(EVIL)})),
        ok("torch-storage-holds-pickle", lambda: checkpoint({"a": tensor(kind="ByteStorage", shape=(len(EVIL),))}, {"0": EVIL})),
        ok("torch-storage-holds-zip", lambda: checkpoint({"a": tensor(kind="ByteStorage", shape=(30,))}, {"0": b"PK\3\4" + bytes(26)})),
        ok("torch-escapes-in-keys", lambda: checkpoint({"\x1b[31m\x07\n\r": tensor(), "\u202e": plain(1)}, {"0": bytes(24)})),
        ok("torch-integer-of-200-bits", lambda: checkpoint({"n": plain(2**200)})),
        ok("torch-deflated", lambda: torch_zip(GOOD_PICKLE, STORAGES, deflate=True)),
        ok("torch-other-top", lambda: torch_zip(GOOD_PICKLE, STORAGES, top="best model (1)")),
        ok("torch-without-byteorder", lambda: zipped([each for each in torch_members(GOOD_PICKLE, STORAGES) if "byteorder" not in each.name])),
        ok("torch-quantized", lambda: checkpoint({"q": call(name("torch._utils", "_rebuild_qtensor"), storage("0", "QInt8Storage", count=6), plain(0), plain((2, 3)), plain((3, 1)), group(name("torch", "per_tensor_affine"), plain(0.5), plain(0)), plain(False), ordered())}, {"0": bytes(6)})),
        ok("torch-sparse", lambda: checkpoint({"s": call(name("torch._utils", "_rebuild_sparse_tensor"), call(name("torch.serialization", "_get_layout"), text("torch.sparse_coo")), group(tensor("0", "LongStorage", shape=(1, 2)), tensor("1", shape=(2,)), call(name("torch", "Size"), plain((3,))), plain(True)))}, {"0": bytes(16), "1": bytes(8)})),
        ok("torch-meta", lambda: checkpoint({"m": call(name("torch._utils", "_rebuild_meta_tensor_no_storage"), name("torch", "float32"), plain((2,)), plain((1,)), plain(False))})),
        _case("torch-on-gpus", lambda: checkpoint({"a": tensor("0", location="cuda:3"), "b": tensor("1", location="cuda:0", shape=(2,))}, STORAGES), SAFE, "accept", ("DC613",)),
        _case("torch-wrapped-ddp", lambda: checkpoint({f"module.{key}": value for key, value in GOOD.items()}, STORAGES), SAFE, "accept", ("DC614",)),
        _case("torch-wrapped-compile", lambda: checkpoint({f"_orig_mod.{key}": value for key, value in GOOD.items()}, STORAGES), SAFE, "accept", ("DC614",)),
        _case("torch-dtensor", lambda: checkpoint({"d": call(name("torch.distributed.tensor", "DTensor"), tensor())}, {"0": bytes(24)}), (SAFE, LISTING), "import"),
        # allow-listed by hand
        _case("torch-namespace", lambda: checkpoint({"args": build(new(name("argparse", "Namespace")), mapping({"lr": plain(0.1)}))}), LISTING, "allowlist"),
        _case("torch-path", lambda: checkpoint({"p": call(name("pathlib", "PosixPath"), text("/"), text("a"))}), LISTING, "allowlist"),
        _case("torch-datetime", lambda: checkpoint({"t": call(name("datetime", "datetime"), plain(b"\x07\xea\x01\x02\x03\x04\x05\0\0\0"))}), LISTING, "allowlist"),
        _case("torch-timedelta", lambda: checkpoint({"t": call(name("datetime", "timedelta"), plain(1), plain(2), plain(3))}), LISTING, "allowlist"),
        _case("torch-numpy-array", lambda: checkpoint({"a": numpy_objects(plain(1))}), LISTING, "allowlist"),
        _case("torch-dataclass", lambda: checkpoint({"c": build(new(name("my_project.config", "Config")), mapping({"lr": plain(0.1)}))}), LISTING, "allowlist"),
        _case("torch-frozenset", lambda: checkpoint({"f": call(name("__builtin__", "frozenset"), items(plain(1)))}), LISTING, "allowlist"),
        _case("torch-defaultdict", lambda: checkpoint({"h": call(name("collections", "defaultdict"), name("__builtin__", "list")) + text("loss") + plain([1.0]) + b"s"}), LISTING, "never"),
        _case("torch-defaultdict-empty", lambda: checkpoint({"h": call(name("collections", "defaultdict"), name("__builtin__", "list"))}), LISTING, "allowlist"),
        _case("torch-deque", lambda: checkpoint({"h": call(name("collections", "deque"), b")", plain(5)) + b"(" + plain(1) + plain(2) + b"e"}), LISTING, "never"),
        _case("torch-protocol-4", lambda: torch_zip(pickle_4(mapping([(short("a"), plain(1))]))), LISTING, "never"),
        _case("torch-huge-integer", lambda: torch_zip(pickle.dumps({"n": 2**5000}, 2)), LISTING, "never"),
        _case("torch-nested-class", lambda: checkpoint({"c": new(call(name("__builtin__", "getattr"), name("my_project", "Outer"), text("Inner")))}), LISTING),
        _case("torch-module", lambda: torch_zip(whole(build(new(name("torch.nn.modules.linear", "Linear")), mapping({"training": plain(True), "_parameters": ordered({"weight": tensor()})}))), {"0": bytes(24)}), LISTING, "allowlist", ("DC615",)),
        _case("torch-own-module", lambda: torch_zip(whole(build(new(name("my_project.models", "Net")), mapping({"training": plain(True), "_modules": ordered()})))), LISTING, "allowlist", ("DC615",)),
        _case("torch-ddp", lambda: torch_zip(whole(build(new(name("torch.nn.parallel.distributed", "DistributedDataParallel")), mapping({"module": plain(1)})))), LISTING),
        _case("torch-lightning", lambda: checkpoint({"state_dict": mapping(GOOD), "hyper_parameters": build(new(name("pytorch_lightning.utilities.parsing", "AttributeDict")), mapping({"lr": plain(0.1)}))}, STORAGES), LISTING),
        _case("torch-main-class", lambda: checkpoint({"c": build(new(name("__main__", "Config")), mapping({"lr": plain(1)}))}), LISTING, "allowlist"),
        _case("torch-exception", lambda: checkpoint({"e": call(name("exceptions", "ValueError"), text("x"))}), LISTING, "allowlist"),
        _case("legacy", lambda: legacy(mapping({"weight": legacy_tensor()})), SAFE, "accept"),
        _case("legacy-gpu", lambda: legacy(mapping({"weight": legacy_tensor(location="cuda:1")})), SAFE, "accept", ("DC613",)),
        _case("legacy-empty", lambda: legacy(b"}", ()), SAFE, "accept"),
        _case("legacy-namespace", lambda: legacy(mapping({"args": build(new(name("argparse", "Namespace")), mapping({"lr": plain(0.1)}))}), ()), LISTING, "allowlist"),
        _case("legacy-module-source", lambda: legacy(group(text("module"), name("my_project", "Net"), text("net.py"), text("class Net: pass")) + b"Q" + b")\x81", ()), LISTING, "never"),
        _case("legacy-with-storage-bytes-of-pickle", lambda: legacy(mapping({"w": legacy_tensor()}), storages=struct.pack("<q", 6) + EVIL[:24]), SAFE, "accept"),
        _case("legacy-tar", legacy_tar, LISTING, "never"),
        _case("torchscript", lambda: zipped([Member("net/data.pkl", whole(build(new(name("__torch__", "Net")), mapping({"w": plain(1)})))), Member("net/code/__torch__.py", b"class Net(Module):\n  pass\n"), Member("net/constants.pkl", whole(b")")), Member("net/version", b"3\n")]), LISTING, "never"),
        _case("distcp", lambda: torch_zip(GOOD_PICKLE, STORAGES) + torch_zip(whole(tensor()), {"0": bytes(24)}), SAFE),
    ]  # fmt: skip
    return cases


def _one_tensor(kind: str) -> bytes:
    return checkpoint({"weight": tensor(kind=kind)}, {"0": bytes(6 * ELEMENT[kind])})


def benign() -> list[Case]:
    """Files that do no harm. Those that name code of others are to be allow-listed, not called dangerous."""
    cases = []
    for label, value in _plain_values().items():
        for protocol in (0, 2, 4) if len(str(value)) < 5000 else (2, 4):
            cases.append(_case(f"plain-{label}-{protocol}", partial(pickle.dumps, value, protocol), SAFE))
    thing = whole(build(new(name("my_project.models", "Thing")), mapping({"a": plain(1)})))
    record = whole(call(name("my_project", "Point"), plain(1), plain(2)))
    doubles = struct.pack("<2d", 1.0, 2.0)

    def npz() -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("a.npy", npy(doubles, "'<f8'", "(2,)"))
            archive.writestr("b.npy", npy(bytes(8), "'<i8'"))
        return out.getvalue()

    dcp = "torch.distributed.checkpoint.metadata"
    properties = build(
        new(stacked(dcp, "TensorProperties")),
        group(stacked("torch", "float32"), call(stacked(dcp, "_MEM_FORMAT_ENCODING"), plain(0)), plain(False)),
    )
    chunk = build(
        new(stacked(dcp, "ChunkStorageMetadata")), mapping({"offsets": call(stacked("torch", "Size"), items(plain(0)))})
    )
    rows = mapping(
        {
            "w": build(
                new(stacked(dcp, "TensorStorageMetadata")), mapping({"properties": properties, "chunks": items(chunk)})
            )
        }
    )
    file_row = build(
        new(stacked("torch.distributed.checkpoint.filesystem", "_StorageInfo")),
        mapping({"relative_path": text("__0_0.distcp")}),
    )
    metadata = pickle_4(
        build(new(stacked(dcp, "Metadata")), mapping({"state_dict_metadata": rows, "storage_data": items(file_row)}))
    )
    cases += _torch_values()
    cases += [
        _case("plain-circle", lambda: pickle.dumps(_circle(), 2), SAFE),
        _case("plain-protocol-5", lambda: pickle.dumps({"a": bytearray(b"x"), "b": b"y" * 70_000}, 5), SAFE),
        _case("plain-protocol-1", lambda: pickle.dumps([1, "a", 2.5, (1, 2)], 1), SAFE),
        _case("plain-protocol-3", lambda: pickle.dumps({"a": b"bytes"}, 3), SAFE),
        _case("plain-two-pickles", lambda: DATA + pickle.dumps([1, 2], 4), SAFE),
        _case("plain-python-2", b"(dp0\nS'a'\np1\nI01\nsS'b'\np2\nL12345678901234567890L\nsS'c'\np3\nF1.5\nsV\\u20ac\np4\n(lp5\ns.", SAFE),
        _case("plain-old-class-of-others", b"(imy_project\nThing\np0\n(dp1\nS'a'\np2\nI1\nsb.", LISTING),
        _case("plain-class-of-others", thing, LISTING),
        _case("plain-record-of-others", record, LISTING),
        _case("plain-class-of-main", whole(build(new(name("__main__", "Thing")), mapping({"a": plain(1)}))), LISTING),
        _case("plain-protocol-0-class-of-others", whole(call(name("copy_reg", "_reconstructor"), name("my_project", "Thing"), name("__builtin__", "object"), b"N"), None), LISTING),
        _case("plain-nested-class-of-others", whole(new(stacked("my_project", "Outer.Inner")), 4), LISTING),
        _case("plain-nested-class-by-getattr", whole(new(call(name("__builtin__", "getattr"), name("my_project", "Outer"), text("Inner")))), LISTING),
        _case("plain-function-of-others", whole(name("my_project.functions", "collate")), LISTING),
        _case("plain-homoglyph", whole(call(stacked("\u043es", "system"), ECHO), 4), (LISTING, DANGEROUS)),
        _case("plain-enum-of-others", _renamed(pickle.dumps(_Colour.RED, 2), f"{__name__}\n_Colour".encode(), b"my_project\nColour"), LISTING),
        _case("numpy-objects", whole(numpy_objects(plain(1), plain("a"))), SAFE),
        _case("numpy-array", whole(build(call(name("numpy.core.multiarray", "_reconstruct"), name("numpy", "ndarray"), plain((0,)), plain(b"b")), group(plain(1), plain((2,)), call(name("numpy", "dtype"), text("f8"), plain(False), plain(True)), plain(False), plain(doubles)))), SAFE),
        _case("numpy-array-new-names", whole(build(call(name("numpy._core.multiarray", "_reconstruct"), name("numpy", "ndarray"), plain((0,)), plain(b"b")), group(plain(1), plain((2,)), call(name("numpy", "dtype"), text("f8"), plain(False), plain(True)), plain(False), plain(doubles)))), SAFE),
        _case("numpy-scalar", whole(call(name("numpy.core.multiarray", "scalar"), call(name("numpy", "dtype"), text("f8"), plain(False), plain(True)), plain(b"12345678"))), SAFE),
        _case("numpy-generator", whole(call(name("numpy.random._pickle", "__randomstate_ctor"), text("MT19937"))), SAFE),
        _case("npy", lambda: npy(doubles, "'<f8'", "(2,)"), SAFE),
        _case("npy-version-3", lambda: npy(doubles, "'<f8'", "(2,)", version=3), SAFE),
        _case("npy-record", lambda: npy(bytes(12), "[('a', '<i4'), ('b', '<f8')]"), SAFE),
        _case("npy-text", lambda: npy("ab".encode("utf-32-le"), "'<U2'"), SAFE),
        _case("npy-objects", lambda: npy(whole(numpy_objects(plain(1)), 3)), SAFE),
        _case("npz", npz, SAFE),
        _case("safetensors", safetensors, SAFE),
        _case("safetensors-metadata", lambda: safetensors(b'{"__metadata__":{"format":"pt"},"os.system":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'), SAFE),
        _case("safetensors-holds-pickle", lambda: safetensors(b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (len(EVIL), len(EVIL)), EVIL), SAFE),
        _case("safetensors-empty", lambda: safetensors(b"{}", b""), SAFE),
        _case("joblib", lambda: whole(mapping({"a": joblib_array("f8", (2,), doubles), "b": plain(1)}), 4), SAFE),
        # joblib reads the array as data; ``pickle.load`` would run it
        _case("joblib-array-holds-pickle", lambda: whole(mapping({"a": joblib_array("u1", (len(EVIL),), EVIL), "b": plain(1)}), 4), (SAFE, DANGEROUS)),
        _case("joblib-objects", lambda: whole(mapping({"a": joblib_array("O8", (1,), whole(numpy_objects(plain(1)), 4))}), 4), SAFE),
        _case("joblib-zlib", lambda: zlib.compress(whole(mapping({"a": joblib_array("f8", (2,), doubles)}), 4), 3), SAFE),
        _case("joblib-sklearn", lambda: whole(build(new(stacked("sklearn.linear_model._base", "LinearRegression")), mapping({"coef_": joblib_array("f8", (2,), doubles), "_sklearn_version": plain("1.5")})), 4), LISTING),
        _case("gzip", lambda: gzip.compress(DATA, mtime=0), SAFE),
        _case("bz2", lambda: bz2.compress(DATA), SAFE),
        _case("xz", lambda: lzma.compress(DATA), SAFE),
        _case("zlib", lambda: zlib.compress(DATA), SAFE),
        _case("gzip-of-torch", lambda: gzip.compress(checkpoint(GOOD, STORAGES), mtime=0), (SAFE, LISTING)),
        _case("tar-of-pickles", lambda: tarred([("a.pkl", DATA), ("b.pkl", DATA), ("readme.txt", b"hello")]), SAFE),
        _case("tar-of-torch", lambda: tarred([("model.pt", checkpoint(GOOD, STORAGES))]), SAFE),
        _case("zip-of-torch", lambda: zipped([Member("model.pt", checkpoint(GOOD, STORAGES)), Member("readme.md", b"# hello\n")]), SAFE),
        _case("zip-of-pickles", lambda: zipped([Member("a.pkl", DATA, deflate=True), Member("b.bin", DATA)]), SAFE),
        _case("distributed-metadata", metadata, SAFE),
    ]  # fmt: skip
    return cases


# ----------------------------------------------------------------------------------------------- malformed


def _cut(make: Callable[[], bytes], share: float) -> bytes:
    content = make()
    return content[: int(len(content) * share)]


def malformed() -> list[Case]:
    """Files that can't be read as what they are, or that readers read in different ways. Their content is harmless."""
    good = partial(checkpoint, GOOD, STORAGES)
    members = torch_members(GOOD_PICKLE, STORAGES)
    old = partial(legacy, mapping({"weight": legacy_tensor()}))
    data = partial(pickle.dumps, {"a": list(range(300)), "b": "text" * 20, "c": [1.5, (2, 3)]})
    cuts: list[tuple[str, Callable[[], bytes], tuple[float, ...]]] = [
        ("torch", good, (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.995)),
        ("legacy", old, (0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97)),
        ("pickle-2", partial(data, 2), (0.001, 0.1, 0.5, 0.9, 0.999)),
        ("pickle-4", partial(data, 4), (0.001, 0.1, 0.5, 0.9, 0.999)),
        ("pickle-0", partial(data, 0), (0.1, 0.5, 0.9, 0.999)),
        ("npy", lambda: npy(bytes(800), "'<f8'", "(100,)"), (0.005, 0.05, 0.5, 0.99)),
        ("safetensors", lambda: safetensors(content=bytes(24)), (0.05, 0.4, 0.9)),
        ("gzip", lambda: gzip.compress(random.Random(2).randbytes(10) + data(2), mtime=0), (0.3, 0.8)),
        ("tar", lambda: tarred([("a.pkl", data(2))]), (0.03, 0.07)),
    ]
    cases = [
        _case(f"cut-{label}-{share}", partial(_cut, make, share), BROKEN)
        for label, make, shares in cuts
        for share in shares
    ]
    header = b"\x80\x02"
    rows: dict[str, bytes] = {
        "empty": b"",
        "one-byte": b"\x80",
        "protocol-only": header,
        "stop-only": b".",
        "no-stop": header + plain([1, 2]),
        "nothing-to-stop-with": header + b".",
        "underflow": header + b"0.",
        "reduce-on-nothing": header + b"R.",
        "tuple-without-mark": header + plain(1) + b"t.",
        "mark-left": header + b"(.",
        "odd-items": header + b"}(" + plain(1) + b"u.",
        "missing-memo": header + get(5) + b".",
        "missing-long-memo": header + get(100_000) + b".",
        "unknown-opcode": header + b"\xff.",
        "unknown-protocol": b"\x80\x09N.",
        "string-length-lies": header + b"X\xff\xff\xff\x7fabc.",
        "string-length-lies-8": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"abc.",
        "bytes-length-lies-8": b"\x80\x04\x8e" + struct.pack("<Q", 2**63 - 1) + b"abc.",
        "bytearray-length-lies": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"abc.",
        "long-length-lies": header + b"\x8b" + struct.pack("<i", 2**31 - 1) + b"\1.",
        "long-length-negative": header + b"\x8b" + struct.pack("<i", -1) + b".",
        "binstring-length-negative": b"T" + struct.pack("<i", -5) + b"abc.",
        "frame-lies": b"\x80\x04\x95" + struct.pack("<Q", 2**50) + b"N.",
        "bad-text": header + b"X\x02\0\0\0\xff\xfe.",
        "bad-integer": b"Iabc\n.",
        "bad-float": b"Fabc\n.",
        "bad-long": b"Labc\n.",
        "bad-quotes": b"S'abc\n.",
        "line-without-end": b"I12",
        "global-without-end": b"ccollections",
        "append-to-a-number": header + plain(1) + plain(2) + b"a.",
        "setitem-on-a-number": header + plain(1) + plain(2) + plain(3) + b"s.",
        "persistent-id-in-a-pickle": header + plain("0") + b"Q.",
        "persistent-id-of-text": b"P0\n.",
        "random-bytes": random.Random(5).randbytes(4000),
        "zeros": bytes(4096),
        "ones": b"\xff" * 4096,
        "text": b"Dear reader,\nthis is no model.\n",
        "lfs-pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 438012345\n",
        "html": b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body></body></html>\n",
        "html-lower": b"\n<html><body>Sign in</body></html>",
        "json": json.dumps({"error": "Repository not found"}).encode(),
        "xml": b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
        "zip-signature-only": b"PK\3\4",
        "zip-empty": b"PK\5\6" + bytes(18),
        "safetensors-length-lies": safetensors(length=10**12),
        "safetensors-bad-json": safetensors(b'{"weight":'),
        "safetensors-range-lies": safetensors(b'{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,2400]}}'),
        "npy-bad-header": b"\x93NUMPY\1\0\x20\0" + b"{'descr': __import__('os')}     \n",
        "npy-version-9": b"\x93NUMPY\x09\0\x20\0" + bytes(40),
        "gzip-of-nothing": gzip.compress(b"", mtime=0),
        "gzip-of-text": gzip.compress(b"hello", mtime=0),
    }
    words = dict.fromkeys(rows, BROKEN) | {
        "persistent-id-in-a-pickle": UNFIT,
        "persistent-id-of-text": UNFIT,
        "zip-empty": (MALFORMED, SAFE),  # an archive like any other, though there is nothing in it
    }
    cases += [_case(f"broken-{label}", content, words[label]) for label, content in rows.items()]
    bad_crc = zipped([members[0]._replace(crc=1), *members[1:]])
    cases += [
        _case("zip-wrong-crc", bad_crc, MALFORMED, "accept"),
        _case("zip-local-name", lambda: torch_zip(GOOD_PICKLE, STORAGES, local_name="archive/data.txt"), MALFORMED, "accept"),
        _case("zip-capitals", lambda: zipped([Member("archive/DATA.PKL", GOOD_PICKLE), *members[1:]]), (MALFORMED, SAFE), "accept"),
        _case("zip-twice", lambda: zipped([*members, members[0]]), MALFORMED, "accept"),
        _case("zip-encryption-flag", lambda: torch_zip(GOOD_PICKLE, STORAGES, flags=1), BROKEN, "never"),
        _case("zip-unknown-method", lambda: torch_zip(GOOD_PICKLE, STORAGES, method=99), BROKEN, "never"),
        _case("zip-two-tops", lambda: zipped([*members, Member("other/data.pkl", GOOD_PICKLE)]), MALFORMED, "never"),
        _case("zip-at-the-root", lambda: zipped([Member("data.pkl", GOOD_PICKLE), Member("data/0", bytes(24)), Member("version", b"3\n")]), (MALFORMED, LISTING)),
        _case("zip-backslash", lambda: zipped([Member("archive\\data.pkl", whole(plain(1))), Member("archive\\version", b"3\n")]), (MALFORMED, LISTING)),
        _case("zip-without-version", lambda: zipped([each for each in members if not each.name.endswith("/version")]), MALFORMED, "never"),
        _case("zip-without-pickle", lambda: zipped(members[1:]), MALFORMED),
        _case("zip-storage-missing", lambda: zipped([each for each in members if each.name != "archive/data/1"]), MALFORMED, "never"),
        _case("zip-storage-short", lambda: checkpoint(GOOD, {"0": bytes(24), "1": bytes(3)}), (MALFORMED, SAFE)),
        _case("zip-junk-in-front", lambda: zipped(members, prefix=b"\xffjunk"), MALFORMED),
        _case("zip-directory-lies", lambda: good().replace(b"PK\1\2", b"PK\1\3"), MALFORMED),
        _case("zip-size-lies", lambda: torch_zip(GOOD_PICKLE, STORAGES, stated_size=len(GOOD_PICKLE) // 2), BROKEN),
        _case("zip-size-huge", lambda: torch_zip(GOOD_PICKLE, STORAGES, stated_size=2**31), BROKEN),
        _case("torch-cut-pickle", lambda: torch_zip(GOOD_PICKLE[:-20], STORAGES), MALFORMED, "never"),
        _case("legacy-wrong-magic", lambda: legacy(mapping({"a": plain(1)}), (), magic=whole(plain(MAGIC + 1))), (MALFORMED, LISTING, SAFE)),
        _case("legacy-wrong-version", lambda: legacy(mapping({"a": plain(1)}), (), version=whole(plain(1002))), MALFORMED, "never"),
        _case("plain-then-garbage", DATA + b"\xff\xfe\xfd garbage", BROKEN),
    ]  # fmt: skip
    return cases


def every() -> list[Case]:
    """All cases that need nothing but Python."""
    return dangerous() + benign() + malformed()
