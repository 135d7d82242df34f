"""Builds ``distcheck.pyz``: distcheck and its pure-Python dependencies in one zip that Python runs.

The libraries are those installed for the Python that runs this, their Python sources only; ``tools/one_file.txt`` has
the versions for a release. With ``--compiled`` it also holds the parser of shell, for the Python and the kind of system
that built it. The same sources give the same bytes: entries are sorted, and carry the time in
SOURCE_DATE_EPOCH (else 1980) and one mode. With ``--bytecode`` it starts three to five times as fast on the Python that
built it, is three times as large, and runs on all others as before.
"""

from __future__ import annotations

import argparse
import configparser
import importlib.metadata
import io
import os
import py_compile
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHEBANG = b"#!/usr/bin/env python3\n"
#: The libraries by distribution, with what of each is taken; PyYAML also has a package for code of long ago.
LIBRARIES = {
    "click": ("click/",),
    "tabulate": ("tabulate/", "tabulate.py"),
    "pathspec": ("pathspec/",),
    "nvidia-ml-py": ("pynvml.py",),
    "PyYAML": ("yaml/",),
    "tomli": ("tomli/",),
}
#: Compiled libraries, and where they are in the file: distcheck adds this folder to Python's path, after all others.
COMPILED = {"tree-sitter": ("tree_sitter/",), "tree-sitter-bash": ("tree_sitter_bash/",)}
COMPILED_FOLDER = "compiled/"
#: A zip knows no earlier time, and none later than this.
_FIRST_TIME, _LAST_TIME = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
#: An ordinary file that all may read, in the high half of a zip's attributes.
_ATTRIBUTES = 0o100644 << 16
_UNIX = 3


class BuildError(Exception):
    """The file can't be built; the text names what is missing and the command to type."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", "-o", type=Path, default=ROOT / "dist" / "distcheck.pyz")
    parser.add_argument("--bytecode", action="store_true", help="for this Python, in addition to the sources")
    parser.add_argument("--compiled", action="store_true", help="with the parser of shell, for this Python and system")
    options = parser.parse_args()
    output: Path = options.output
    try:
        data = build(os.environ.get("SOURCE_DATE_EPOCH"), bytecode=options.bytecode, compiled=options.compiled)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(data)
        output.chmod(0o755)
    except BuildError as error:
        print(f"build_pyz: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"build_pyz: {error.filename or output}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{output}: {len(data) / 1e6:.1f} MB")
    return 0


def build(epoch: str | None = None, *, bytecode: bool = False, compiled: bool = False) -> bytes:
    """The whole file.

    :param epoch: seconds since 1970 for all entries, as text; None for the first time that a zip knows
    :param compiled: with the libraries of COMPILED
    """
    when = _time_of(epoch)
    files: dict[str, bytes] = {
        "__main__.py": (ROOT / "tools" / "one_file_main.py").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        **own_files(),
    }
    notices = []
    for name, wanted in LIBRARIES.items():
        library, notice = _library(name, wanted)
        files.update(library)
        notices.append(notice)
    for name, wanted in COMPILED.items() if compiled else ():
        library, notice = _library(name, wanted, (".py", ".so"))
        files.update(
            (path if path.startswith("licenses/") else COMPILED_FOLDER + path, data) for path, data in library.items()
        )
        notices.append(notice)
    files["licenses/README.txt"] = "".join(notices).encode()
    if bytecode:
        files.update(_compiled(files))
    made = io.BytesIO()
    made.write(SHEBANG)
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, when)
            # a Python without zlib can still run the first file, which prints that
            entry.compress_type = zipfile.ZIP_STORED if name == "__main__.py" else zipfile.ZIP_DEFLATED
            entry.create_system = _UNIX
            entry.external_attr = _ATTRIBUTES
            archive.writestr(entry, data, compresslevel=9)
    return made.getvalue()


def _time_of(epoch: str | None) -> tuple[int, int, int, int, int, int]:
    if epoch is None:
        return _FIRST_TIME
    try:
        found = time.gmtime(int(epoch))
    except (ValueError, OverflowError, OSError):
        raise BuildError(f"SOURCE_DATE_EPOCH is {epoch!r}; expected seconds since 1970") from None
    return min(max((*found[:5], min(found.tm_sec, 58)), _FIRST_TIME), _LAST_TIME)


def own_files() -> Mapping[str, bytes]:
    """The package, with the data that setup.cfg names."""
    package = ROOT / "distcheck"
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    patterns = setup["options.package_data"]["distcheck"].split()
    paths = {path for pattern in ("**/*.py", *patterns) for path in package.glob(pattern) if path.is_file()}
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}


def _compiled(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The bytecode of all modules; another Python ignores it by its version number."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source.py"), Path(folder, "source.pyc")
        for name, data in files.items():
            if name.endswith(".py") and name != "__main__.py":
                source.write_bytes(data)
                # a source in a zip does not change, and its time is no time: nothing is compared when it is loaded
                py_compile.compile(
                    str(source),
                    str(target),
                    name,
                    doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
                found[f"{name}c"] = target.read_bytes()
    return found


def _library(name: str, wanted: tuple[str, ...], suffixes: tuple[str, ...] = (".py",)) -> tuple[dict[str, bytes], str]:
    """The files and licences of one library, and the lines about it in the zip's README."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(f"{name} is not installed for {sys.executable}; pip install -r tools/one_file.txt") from None
    sources: dict[str, bytes] = {}
    licences: dict[str, bytes] = {}
    for path in distribution.files or ():
        text = path.as_posix()
        if text.startswith(wanted) and path.suffix in suffixes:
            sources[text] = Path(str(path.locate())).read_bytes()
        elif ".dist-info/" in text and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE")):
            licences[path.name] = Path(str(path.locate())).read_bytes()
    if not sources:
        raise BuildError(f"{name} {distribution.version} has no {' or '.join(wanted)}; name its modules in LIBRARIES")
    if not licences:
        licences["LICENSE"] = "".join(_terms_at_the_top(name, sources)).encode()
    folder = f"licenses/{name}-{distribution.version}"
    return (
        {**sources, **{f"{folder}/{file}": data for file, data in licences.items()}},
        f"{name} {distribution.version}: {_terms(distribution.metadata)}\n",
    )


def _terms(metadata: importlib.metadata.PackageMetadata) -> str:
    """Return the name of a library's licence, as its metadata give it in one of three fields."""
    for field in ("License-Expression", "License"):
        for text in metadata.get_all(field) or ():
            if "\n" not in text:
                return str(text)
    kinds = (line for line in metadata.get_all("Classifier") or () if line.startswith("License ::"))
    return next((line.rpartition(":: ")[2] for line in kinds), "see the file next to it")


def _terms_at_the_top(name: str, sources: Mapping[str, bytes]) -> Iterator[str]:
    """The comment that a module begins with, where a library has its licence there."""
    found = False
    for line in sources[min(sources)].decode("utf-8").splitlines(keepends=True):
        if not line.startswith("#"):
            break
        found = found or "copyright" in line.lower()
        yield line.lstrip("# ") or "\n"
    if not found:
        raise BuildError(f"{name} comes without a licence; it can't be handed on")


if __name__ == "__main__":
    sys.exit(main())
