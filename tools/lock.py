"""Pin what the environments of tox install, by version and hash: ``tox -e lock [-- --upgrade]``.

    python tools/lock.py [--upgrade]     # write the locks again; needs the network, uv and tox
    python tools/lock.py --installed F   # exit with 1 unless all that this Python has installed is in F

A lock holds what the environments with that lock as their constraints need, on each Python and system. uv refuses a
file whose hash is not in it. It would install what no lock names without a hash, so each environment verifies that
there is no such package before its first command.
"""

from __future__ import annotations

import argparse
import configparser
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What `.ci/run` installs with pip.
TOX_LOCK = "tools/lock_tox.txt"
#: The oldest Python that is supported.
PYTHON = "3.10"
#: What an environment has that is not from a lock: distcheck itself.
OWN = "distcheck"
#: What is also taken from a folder of wheels: builds of the same version, whose hashes the index does not have.
OTHER_BUILDS = ("torch",)
_HEADER = "# Made by: tox -e lock\n"
_PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^ ;\\]+)(?P<rest>[^\n]*(?:\n[ \t]+[^\n]*)*)", re.MULTILINE)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions, not those of the locks")
    parser.add_argument("--installed", type=Path, metavar="F")
    options = parser.parse_args()
    if options.installed is not None:
        return verify(options.installed)
    for lock, needs in sorted(wanted().items()):
        write(lock, needs, upgrade=options.upgrade)
    write(TOX_LOCK, requires(), upgrade=options.upgrade)
    return 0


def normal(name: str) -> str:
    """The name of a distribution as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, set[str]]:
    """Return the versions that a lock has of each distribution."""
    found: dict[str, set[str]] = defaultdict(set)
    for match in _PIN.finditer(text):
        found[normal(match["name"])].add(match["version"])
    return found


def verify(lock: Path) -> int:
    """Print what is installed here and not in a lock; return the exit status."""
    known = pins(lock.read_text(encoding="utf-8"))
    strangers = []
    for found in importlib.metadata.distributions():
        name, version = normal(found.metadata["Name"]), found.version
        # a build of the same version has a label of its own, and its hash stands with the others
        if name != OWN and not {version, version.partition("+")[0]} & known.get(name, set()):
            strangers.append(f"{name} {version}")
    for stranger in sorted(strangers):
        print(f"{stranger} is installed, and not in {lock.name}: tox -e lock", file=sys.stderr)
    return int(bool(strangers))


def wanted() -> dict[str, list[str]]:
    """Return the requirements of the environments of tox.ini by the lock that constrains them."""
    names = run("tox", "list", "--no-desc", "-q").split()
    keys = ("deps", "constraints", "extras", "skip_install", "base_python")
    text = run("tox", "config", "--format", "json", "-e", ",".join(names), "-k", *keys)
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg", encoding="utf-8")
    found: dict[str, list[str]] = {}
    for settings in json.loads(text)["env"].values():
        (lock,) = settings["constraints"]
        needs = ["setuptools"]  # builds distcheck
        for line in settings["deps"]:
            needs += of_file(ROOT / line.removeprefix("-r ")) if line.startswith("-r ") else [line]
        if not settings["skip_install"]:
            needs += metadata["options"]["install_requires"].splitlines()
            for extra in settings["extras"]:
                needs += metadata["options.extras_require"][extra].splitlines()
        versions = [re.findall(r"\d+", name) for name in settings["base_python"] if "." in name]
        oldest = min(tuple(map(int, version)) for version in versions) if versions else None
        found.setdefault(lock, []).extend(since(line, oldest) for line in needs if line.strip())
    return found


def of_file(path: Path) -> list[str]:
    """Return the requirements of a file, without hashes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.rstrip(" \\") for line in lines if line and not line.startswith(("#", " "))]


def since(line: str, python: tuple[int, ...] | None) -> str:
    """Return a requirement of environments that have this Python or a newer one."""
    if python is None:
        return line
    requirement, _, marker = line.partition(";")
    mine = f"python_version >= '{python[0]}.{python[1]}'"
    return f"{requirement}; {mine} and ({marker.strip()})" if marker else f"{requirement}; {mine}"


def requires() -> list[str]:
    """Return the requirements of tox.ini itself."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "tox.ini", encoding="utf-8")
    return settings["tox"]["requires"].splitlines()


def write(lock: str, needs: list[str], *, upgrade: bool) -> None:
    """Resolve requirements for all Pythons and systems, and write versions and hashes."""
    path = ROOT / lock
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    words = ["--universal", "--python-version", PYTHON, "--generate-hashes", "--no-annotate", "--no-header"]
    words += ["--output-file", lock, *["--upgrade"] * upgrade]
    text = "\n".join(dict.fromkeys(needs)) + "\n"
    # from the index alone: a lock must not depend on what lies on this machine
    alone = {name: value for name, value in os.environ.items() if name not in ("UV_FIND_LINKS", "UV_CONSTRAINT")}
    run("uv", "pip", "compile", "--quiet", *words, "-", text=text, environment=alone)
    path.write_text(_HEADER + with_builds(path.read_text(encoding="utf-8"), before), encoding="utf-8")
    print(f"{lock}: {len(pins(path.read_text(encoding='utf-8')))} distributions")


def with_builds(text: str, before: str) -> str:
    """Add the hashes of other builds of a version (``2.13.0+cpu``), which the index does not have.

    They are those of the wheels in UV_FIND_LINKS, and those that the lock had for the same version.
    """
    builds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for match in _PIN.finditer(before):
        if normal(match["name"]) in OTHER_BUILDS:
            builds[normal(match["name"]), match["version"]].update(_HASH.findall(match["rest"]))
    for folder in os.environ.get("UV_FIND_LINKS", "").replace(",", " ").split():
        for wheel in Path(folder).glob("*+*.whl") if Path(folder).is_dir() else ():
            name, version = wheel.name.split("-")[:2]
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            builds[normal(name), version.partition("+")[0]].add(f"sha256:{digest}")

    def more(match: re.Match[str]) -> str:
        known = set(_HASH.findall(match["rest"]))
        extra = builds[normal(match["name"]), match["version"]] - known
        return match[0] + "".join(f" \\\n    --hash={each}" for each in sorted(extra))

    return _PIN.sub(more, text)


def run(*command: str, text: str | None = None, environment: dict[str, str] | None = None) -> str:
    """Return what a module of this Python prints."""
    words = [sys.executable, "-m", *command]
    return subprocess.run(
        words, cwd=ROOT, input=text, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
