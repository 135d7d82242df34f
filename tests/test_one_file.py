"""``distcheck.pyz``: what is in it, that it runs on bare ground, and what it says where Python is too old."""

from __future__ import annotations

import ast
import glob
import json
import os
import pickle
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import distcheck
from distcheck.cli import prolog_guard, prolog_words

ROOT = Path(__file__).parent.parent
LIBRARIES = ("click", "nvidia-ml-py", "pathspec", "PyYAML", "tabulate", "tomli")
COMPILED = ("tree-sitter", "tree-sitter-bash")
JOB = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
srun torchrun --nnodes=2 --nproc_per_node=8 train.py
"""
TRAIN = """\
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
node_rank = dist.get_rank() // 8
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
    - name: main
      image: train
      command: [torchrun, --nproc-per-node=8, train.py]
      resources: {limits: {nvidia.com/gpu: 4}}
"""
LOG = "RuntimeError: environment variable RANK expected, but not set\n"
PYPROJECT = '[tool.distcheck]\nignore = ["DC743"]\n'
#: Pythons that are too old, where a version manager or the system has them.
OLD = sorted(
    {
        found
        for name in ("2.7", "3.5", "3.6", "3.7", "3.8", "3.9")
        for found in (
            *glob.glob(os.path.expanduser(f"~/.pyenv/versions/{name}.*/bin/python{name}")),
            *(path for path in (f"/usr/bin/python{name}", f"/usr/local/bin/python{name}") if os.path.exists(path)),
        )
    }
)
#: Starts a reader in a fresh Python, as a process with threads does.
FRESH = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from distcheck.core import isolation
from distcheck.checks.host.limits import read_limits
from distcheck.core.registry import readers
from distcheck.core.world import World
assert isolation.__file__.startswith(sys.argv[1]), isolation.__file__
isolation.may_fork = lambda: False
reader = next(reader for reader in readers().values() if reader.function is read_limits)
print(isolation.start(reader, [World({})]).result())
"""


def build(target: Path, *options: str, **environ: str) -> Path:
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "build_pyz.py"), "--output", str(target), *options],
        capture_output=True, text=True, timeout=120, check=False, cwd=target.parent,
        env={"PATH": os.environ["PATH"], **environ},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return target


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("one file") / "distcheck.pyz")


@pytest.fixture(scope="session")
def base_python() -> str:
    """The Python below a virtual environment, whose libraries are the standard ones."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with something of each kind that can be read."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "copy.py").write_text(TRAIN)
    (tmp_path / "state.pkl").write_bytes(pickle.dumps({"step": 1}))
    (tmp_path / "bad.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    return tmp_path


def run(
    command: Sequence[str | Path], folder: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=90, check=False, cwd=folder,
        env=dict(environ or {}), stdin=subprocess.DEVNULL,
    )  # fmt: skip


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    return report


# the zip


def test_the_same_sources_give_the_same_bytes(pyz: Path, tmp_path: Path) -> None:
    again = build(tmp_path / "again.pyz", TZ="Asia/Tokyo", PYTHONHASHSEED="7", LC_ALL="C")
    assert again.read_bytes() == pyz.read_bytes()


def test_the_time_is_that_of_the_sources(tmp_path: Path) -> None:
    dated = build(tmp_path / "dated.pyz", SOURCE_DATE_EPOCH="1764547200", TZ="Asia/Tokyo")
    with zipfile.ZipFile(dated) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2025, 12, 1, 0, 0, 0)}


def test_a_time_that_is_none_is_said(tmp_path: Path) -> None:
    done = run(
        [sys.executable, ROOT / "tools/build_pyz.py", "-o", tmp_path / "x"], tmp_path, {"SOURCE_DATE_EPOCH": "today"}
    )
    assert (done.returncode, done.stderr) == (
        2,
        "build_pyz: SOURCE_DATE_EPOCH is 'today'; expected seconds since 1970\n",
    )
    assert not (tmp_path / "x").exists()


def test_a_place_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    done = run([sys.executable, ROOT / "tools/build_pyz.py", "-o", tmp_path], tmp_path)
    assert (done.returncode, done.stderr) == (2, f"build_pyz: {tmp_path}: Is a directory\n")


def test_it_holds_the_whole_package_and_nothing_for_one_machine(pyz: Path) -> None:
    with zipfile.ZipFile(pyz) as archive:
        names = archive.namelist()
    package = ROOT / "distcheck"
    wanted = {
        str(path.relative_to(ROOT))
        for path in package.rglob("*")
        if path.suffix in (".py", ".md", ".json", ".jsonl", ".txt", ".typed") or path.name == "py.typed"
    }
    assert wanted <= set(names)
    assert {name.partition("/")[0] for name in names} == {
        "LICENSE", "__main__.py", "click", "distcheck", "licenses", "pathspec", "pynvml.py", "tabulate", "tomli", "yaml",
    }  # fmt: skip
    code = [name for name in names if name.partition("/")[0] not in ("licenses", "LICENSE", "distcheck")]
    assert all(name.endswith(".py") for name in code)
    assert names == sorted(names)


def test_each_library_comes_with_its_licence(pyz: Path) -> None:
    with zipfile.ZipFile(pyz) as archive:
        listed = archive.read("licenses/README.txt").decode().splitlines()
        terms = {name: archive.read(name).decode() for name in archive.namelist() if name.startswith("licenses/")}
    assert sorted(line.split()[0] for line in listed) == sorted(LIBRARIES)
    assert all(line.partition(": ")[2] for line in listed)
    for library in LIBRARIES:
        texts = [text for name, text in terms.items() if name.startswith(f"licenses/{library}-")]
        assert texts
        assert any("copyright" in text.lower() or "mozilla public license" in text.lower() for text in texts), library


def test_versions_for_a_release_are_pinned() -> None:
    text = (ROOT / "tools/one_file.txt").read_text().replace("\\\n", "")
    pinned = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert sorted(words[0].partition("==")[0] for words in pinned) == sorted((*LIBRARIES, *COMPILED))
    for requirement, *hashes in pinned:
        assert requirement.partition("==")[2]
        assert hashes, requirement
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), requirement


@pytest.mark.slow
def test_bytecode_is_for_the_python_that_made_it(tmp_path: Path, base_python: str) -> None:
    """This Python runs it, and another one runs the sources."""
    pyz = build(tmp_path / "fast.pyz", "--bytecode")
    code = (
        f"import sys; sys.path.insert(0, {str(pyz)!r})\n"
        "from distcheck.cli.main import main; from distcheck.core import resources\n"
        "size = len(resources.read_shipped('distcheck.rules', 'pages/DC101.md'))\n"
        "print(main.__code__.co_filename, resources.__file__, size)"
    )
    compiled, file, size = run([base_python, "-I", "-S", "-c", code], tmp_path).stdout.split()
    assert (compiled, file) == ("distcheck/cli/main.py", f"{pyz}/distcheck/core/resources.pyc")
    assert int(size) == (ROOT / "distcheck/rules/pages/DC101.md").stat().st_size
    others = [
        found for found in glob.glob(os.path.expanduser("~/.pyenv/versions/3.1?.*/bin/python")) if _is_other(found)
    ]
    for other in others[:1]:
        compiled, file, _ = run([other, "-I", "-S", "-c", code], tmp_path).stdout.split()
        assert (compiled, file) == (f"{pyz}/distcheck/cli/main.py", f"{pyz}/distcheck/core/resources.py")


def _is_other(python: str) -> bool:
    return f"/{sys.version_info[0]}.{sys.version_info[1]}." not in python


# a Python that is too old


def test_this_python_would_hear_it_if_it_were_too_old(tmp_path: Path) -> None:
    """Also where no old Python is: the first file, asking for a Python that nobody has."""
    text = (ROOT / "tools/one_file_main.py").read_text(encoding="utf-8")
    assert text.count("OLDEST = (3, 10)") == 1
    (tmp_path / "__main__.py").write_text(text.replace("OLDEST = (3, 10)", "OLDEST = (99, 0)"), encoding="utf-8")
    asking = {"PATH": str(tmp_path / "empty")}
    done = run([sys.executable, tmp_path, "env"], tmp_path, asking)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("distcheck needs Python 99.0 or newer, and this is Python ")
    assert done.stderr.count("\n") == 1
    done = run([sys.executable, tmp_path, "env", "--profile", "prolog"], tmp_path, asking)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("distcheck prolog: NOT CHECKED: it needs Python 99.0 or newer; this is ")


def test_the_first_file_is_in_the_words_of_old_pythons() -> None:
    tree = ast.parse((ROOT / "tools/one_file_main.py").read_text(encoding="utf-8"))
    new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFunctionDef, ast.Nonlocal, ast.Starred, ast.Match)
    assert not [node for node in ast.walk(tree) if isinstance(node, new)]
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        assert function.returns is None
        assert not function.args.kwonlyargs
        assert all(argument.annotation is None for argument in function.args.args)
    (needed,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "OLDEST"
    ]
    assert f"python_requires = >={'.'.join(map(str, needed))}\n" in (ROOT / "setup.cfg").read_text(encoding="utf-8")


@pytest.mark.parametrize("python", OLD or [pytest.param("", marks=pytest.mark.skip("no old Python is here"))])
def test_a_python_that_is_too_old_hears_what_to_type(pyz: Path, tmp_path: Path, python: str) -> None:
    version = run([python, "-c", "import platform; print(platform.python_version())"], tmp_path).stdout.strip()
    here = f"distcheck needs Python 3.10 or newer, and this is Python {version} ({python})"
    # a name that is in PATH and does not run is no Python
    for name, content in (("python3.13", "#!/bin/sh\nexit 127\n"), ("python3.14", "")):
        broken = tmp_path / name
        broken.write_text(content)
        broken.chmod(0o755)
    (tmp_path / "python3.15").mkdir()
    done = run([python, pyz, "env", "--nproc-per-node=8", "two words"], tmp_path, {"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"{here}, and PATH has none: load or install one (module load python, conda, uv), then type: "
        f"python3.12 '{pyz}' env --nproc-per-node=8 'two words'\n"
    )
    (tmp_path / "python3.11").symlink_to("/bin/true")
    done = run([python, pyz, "pickle", "two\nlines"], tmp_path, {"PATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (2, f"{here}; type: python3.11 '{pyz}' ...\n")


@pytest.mark.parametrize("python", OLD or [pytest.param("", marks=pytest.mark.skip("no old Python is here"))])
def test_a_python_that_is_too_old_drains_no_node(pyz: Path, tmp_path: Path, python: str) -> None:
    for words, environ in ((["--profile", "prolog"], {}), ([], {"DISTCHECK_ENV_PROFILE": "prolog"})):
        done = run([python, pyz, "env", *words], tmp_path, environ)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith("distcheck prolog: NOT CHECKED: it needs Python 3.10 or newer; this is ")
        assert done.stderr.count("\n") == 1
        assert len(done.stderr) <= prolog_words.LONGEST_LINE + 1
    # no other profile fails open
    assert run([python, pyz, "ci", "--profile", "ci"], tmp_path).returncode == 2
    for words, status in (([], 2), (["--profile=prolog"], 0)):
        closed = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", python, pyz, "env", *words]
        assert run(closed, tmp_path).returncode == status


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (["env"], None),
        (["env"], "prolog"),
        (["env", "--profile", "prolog"], None),
        (["--foo", "env", "--profile=Prologue", "-x"], None),
        (["env", "--profile", "ci"], "prolog"),
        (["env", "--profile"], None),
        (["env", "--", "torchrun", "--profile", "prolog"], None),
        (["ci", "--profile", "prolog"], "prolog"),
        ([], "prolog"),
    ],
)
def test_the_first_file_knows_a_prologue_as_the_package_does(words: list[str], variable: str | None) -> None:
    first = runpy.run_path(str(ROOT / "tools" / "one_file_main.py"), run_name="first")
    assert first["LONGEST_LINE"] == prolog_words.LONGEST_LINE
    environ = {} if variable is None else {"DISTCHECK_ENV_PROFILE": variable}
    assert first["is_prologue"](words, environ) == prolog_guard.is_prolog(words, environ)


# a file that is not whole


def without(pyz: Path, target: Path, *names: str) -> Path:
    with zipfile.ZipFile(pyz) as whole, zipfile.ZipFile(target, "w") as part:
        for entry in whole.infolist():
            if not entry.filename.startswith(names):
                part.writestr(entry, whole.read(entry))
    return target


@pytest.mark.parametrize(
    "missing", ["distcheck/__init__.py", "distcheck/cli/fast_path.py", "distcheck/rules/", "click/"]
)
def test_a_file_that_is_not_whole_says_so_and_drains_no_node(
    pyz: Path, tmp_path: Path, missing: str, base_python: str
) -> None:
    part = without(pyz, tmp_path / "part.pyz", missing)
    done = run([base_python, "-I", "-S", part, "env"], tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("distcheck: this file is not whole for this Python: ")
    assert done.stderr.count("\n") == 1
    done = run([base_python, "-I", "-S", part, "env", "--profile", "prolog"], tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith("distcheck prolog: NOT CHECKED: ")
    assert len(done.stderr) <= prolog_words.LONGEST_LINE + 1


def test_a_python_without_zlib_is_told(pyz: Path, tmp_path: Path, base_python: str) -> None:
    start = "import sys, runpy; sys.modules['zlib'] = None; sys.argv = sys.argv[1:]; "
    start += "runpy.run_path(sys.argv[0], run_name='__main__')"
    for words, status in (([], 2), (["--profile", "prolog"], 0)):
        done = run([base_python, "-I", "-S", "-c", start, pyz, "env", *words], tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1)
        assert "zlib not a" in done.stderr


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the parser of shell."""
    pytest.importorskip("tree_sitter_bash")
    return build(tmp_path_factory.mktemp("compiled") / "distcheck.pyz", "--compiled")


@pytest.mark.skipif(sys.platform != "linux", reason="loads compiled libraries from memory, as only Linux does")
@pytest.mark.slow
def test_with_the_compiled_parser_it_reads_shell_and_leaves_no_file(
    compiled: Path, tmp_path: Path, base_python: str
) -> None:
    (tmp_path / "job.sbatch").write_text(JOB)
    (tmp_path / "home").mkdir()
    bare = [base_python, "-I", "-S", compiled, "lint", "--no-cache", "--output-format", "json", "job.sbatch"]
    report = report_of(run(bare, tmp_path, {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "home")}))
    assert [one["code"] for one in report["findings"]] == ["DC106", "DC419", "DC805"]
    assert report["not_checked"] == []
    assert not any((tmp_path / "home").iterdir())
    # another Python has other compiled modules, and is not stopped by these
    others = [
        found for found in glob.glob(os.path.expanduser("~/.pyenv/versions/3.1?.*/bin/python")) if _is_other(found)
    ]
    for other in others[:1]:
        done = run([other, *bare[1:]], tmp_path)
        assert (done.returncode, "build_pyz.py --compiled" in done.stdout) == (2, True)


@pytest.mark.slow
def test_the_compiled_parser_comes_with_its_licence_and_after_what_is_installed(compiled: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(compiled) as archive:
        names = archive.namelist()
    for library in COMPILED:
        assert any(name.startswith(f"licenses/{library}-") for name in names)
    assert build(tmp_path / "again.pyz", "--compiled").read_bytes() == compiled.read_bytes()
    code = (
        f"import sys; sys.path.insert(0, {str(compiled)!r})\n"
        "from distcheck.checks.launch_files.shell_grammar import why_missing\n"
        "assert why_missing() is None; print(sys.modules['tree_sitter'].__file__)"
    )
    assert not run([sys.executable, "-c", code], tmp_path).stdout.startswith(str(compiled))


# on bare ground


@pytest.mark.slow
def test_the_commands_without_site_packages(pyz: Path, project: Path, base_python: str) -> None:
    """As on a node where nothing was installed: isolated, no site-packages, no HOME, no PATH."""
    (project / "run.sh").write_text("torchrun --nproc_per_node=8 --nnodes=2 train.py\n")
    bare = [base_python, "-I", "-S", pyz]
    env = report_of(run([*bare, "env", "--output-format", "json", "--save-facts", "a.json"], project))
    assert env["summary"]["error"] == 0
    lint = report_of(run([*bare, "lint", "--output-format", "json", "."], project))
    found = {(one["code"], one["where"]["path"]) for one in lint["findings"]}
    # the YAML is read, .gitignore is heeded (pathspec), pyproject.toml is read (tomli on Python 3.10)
    assert found == {("DC201", "train.py"), ("DC301", "pod.yaml"), ("DC320", "pod.yaml")}
    (said,) = lint["not_checked"]
    assert said["what"] == "the shell in run.sh"
    assert said["why"].startswith("tree-sitter does not import (No module named 'tree_sitter'); build this file with ")
    assert "build_pyz.py --compiled" in said["why"]
    log = report_of(run([*bare, "log", "--output-format", "json", "train.log"], project))
    assert [one["code"] for one in log["findings"]] == ["DC101"]
    assert run([*bare, "pickle", "bad.pkl"], project).returncode == 1
    page = run([*bare, "explain", "environment variable RANK expected, but not set"], project).stdout
    assert "# DC101 " in page
    same = run([*bare, "diff", "a.json", "a.json"], project)
    assert (same.returncode, same.stderr) == (0, "")
    started = run([*bare, "run", "--no-preflight", "--", "/bin/echo", "started"], project)
    assert (started.returncode, started.stdout) == (0, "started\n")
    wrong = run([*bare, "nothing"], project)
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (2, False)


@pytest.mark.slow
def test_it_finds_what_the_installed_one_finds(pyz: Path, project: Path) -> None:
    """Beside the installed libraries, with YAML read by Python in place of C: the same report."""
    (project / "run.sh").write_text("torchrun --nproc_per_node=8 --nnodes=2 train.py\n")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from distcheck.cli.fast_path import main; main()"
    reports = [
        report_of(run([sys.executable, *start, "lint", "--output-format", "json", "."], project))
        for start in ([pyz], ["-c", code])
    ]
    assert reports[0]["findings"] == reports[1]["findings"]
    assert reports[0]["not_checked"] == reports[1]["not_checked"] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts a process of its own")
def test_a_reader_in_a_fresh_python_comes_from_the_zip(pyz: Path, tmp_path: Path, base_python: str) -> None:
    done = run([base_python, "-I", "-S", "-c", FRESH, pyz], tmp_path)
    assert done.stderr == ""
    assert done.stdout.startswith("Limits(")


def test_it_starts_by_its_name_by_a_relative_path_and_as_a_module(pyz: Path, tmp_path: Path) -> None:
    shutil.copy(pyz, tmp_path / "distcheck.pyz")
    path = {"PATH": os.path.dirname(sys.executable)}
    said = f"distcheck, version {distcheck.__version__}\n"
    if sys.platform != "win32":
        environ = {"PATH": f"{path['PATH']}:{os.defpath}"}
        assert run(["./distcheck.pyz", "--version"], tmp_path, environ).stdout == said
    assert run([sys.executable, "distcheck.pyz", "--version"], tmp_path, path).stdout == said
    module = {**path, "PYTHONPATH": str(pyz)}
    assert run([sys.executable, "-m", "distcheck", "--version"], tmp_path, module).stdout == said
    assert run([sys.executable, "-m", "distcheck.collective", "--help"], tmp_path, module).returncode == 0


@pytest.mark.torch
@pytest.mark.slow
def test_the_smoke_test_runs_from_the_zip_under_torchrun(pyz: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, "-m", "distcheck.collective", "--backend", "gloo", "--quick", "-q"],
        capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(pyz)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


#: Mounts a root of libraries only, with nothing that can be written, and runs a command there without a variable.
BARE = """
set -e
root=$1 proc=$2 inputs=$3; shift 3
mount -t tmpfs none "$root"
for folder in $FOLDERS; do
    if [ -L "$folder" ]; then
        ln -s "$(readlink "$folder")" "$root$folder"
    else
        mkdir -p "$root$folder"
        mount --bind "$folder" "$root$folder"
        mount -o remount,bind,ro "$root$folder"
    fi
done
cp -r "$inputs" "$root/inputs"
if [ "$proc" = proc ]; then mkdir "$root/proc"; mount -t proc none "$root/proc"; fi
mount -o remount,ro "$root"
exec env -i "$CHROOT" "$root" "$@"
"""


@pytest.mark.root
@pytest.mark.skipif(sys.platform != "linux", reason="makes mounts of Linux")
@pytest.mark.parametrize("proc", ["proc", "no proc"])
@pytest.mark.slow
def test_in_a_bare_and_read_only_root(
    compiled: Path, project: Path, tmp_path_factory: pytest.TempPathFactory, proc: str, base_python: str
) -> None:
    """No HOME, no PATH, no /tmp, no /etc, no /sys, not a byte that can be written."""
    system = "/usr/sbin:/usr/bin:/sbin:/bin"
    programs = {name: shutil.which(name, path=system) for name in ("unshare", "chroot", "env", "bash", "mount")}
    if None in programs.values():
        pytest.skip(f"needs {', '.join(programs)}")
    unshare, bash = str(programs["unshare"]), str(programs["bash"])
    if subprocess.run([unshare, "--mount", "true"], capture_output=True, timeout=30, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    prefix = sys.base_prefix if sys.base_prefix != "/usr" else "/usr/bin"
    folders = [path for path in ("/usr/lib", "/usr/lib64", "/lib", "/lib64", prefix) if os.path.exists(path)]
    shutil.copy(compiled, project / "distcheck.pyz")
    environ = {"FOLDERS": " ".join(folders), "CHROOT": str(programs["chroot"]), "PATH": system}

    (project / "job.sbatch").write_text(JOB)

    def inside(*words: str) -> subprocess.CompletedProcess[str]:
        root = tmp_path_factory.mktemp("root")
        # the mounts end with the processes of their namespace
        space = [unshare, "--mount", "--propagation", "private", bash, "-c", BARE, bash, str(root), proc, str(project)]
        return run([*space, base_python, "-I", "-S", "/inputs/distcheck.pyz", *words], project, environ)

    report = report_of(inside("env", "--output-format", "json"))
    assert report["summary"]["error"] == 0
    assert any("/sys" in one["why"] for one in report["not_checked"])
    assert not any(one["code"].startswith("DC9") for one in report["findings"])
    # no /dev/null either
    prologue = inside("env", "--profile", "prolog")
    assert prologue.returncode == 0
    assert prologue.stderr.startswith("distcheck prolog: NOT CHECKED: no NVIDIA driver: ")
    job = inside("lint", "--output-format", "json", "/inputs/job.sbatch")
    if proc == "no proc":
        # the reason, and no success
        assert (job.returncode, json.loads(job.stdout)["findings"]) == (2, [])
        assert "on Linux only, with /proc" in job.stdout
        return
    # the script that it starts is checked, too
    assert {one["code"] for one in json.loads(job.stdout)["findings"]} == {"DC106", "DC419", "DC201", "DC805"}
    assert inside("pickle", "/inputs/state.pkl").returncode == 0
    small = inside("ci", "--parts", "lint", "--budget", "30s", "/inputs/train.py")
    assert small.returncode == 0, small.stderr
    assert "DC201" in small.stdout
    refused = inside("env", "--save-facts", "/facts.json")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
