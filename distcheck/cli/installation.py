"""What CI installs to get this copy of distcheck, by where this copy came from (PEP 610).

It reads where the running package lies and its ``direct_url.json``. It installs nothing and writes nothing.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from distcheck.core.patterns import lazy
from distcheck.core.resources import PACKAGE

#: What stays as it is between double quotes, in a shell as in YAML.
_PLAIN = lazy(r"distcheck(?:==| @ )[^\s\"'$`\\]+|\.(?:/[\w ./+-]+)?")
#: The folder of a repository that keeps a copy which CI can't install from elsewhere.
FOLDER = ".distcheck"


class Installation(NamedTuple):
    """What stands in a CI file."""

    #: what pip installs; empty where the program runs from a file
    requirement: str
    #: what starts distcheck
    program: str = "distcheck"
    #: a file that the repository needs: its path there, and the file to copy
    path: str | None = None
    source: str | None = None
    #: what is left to do by hand, in one sentence
    note: str | None = None
    #: pre-commit can install the requirement: it is no path, which it would read from another folder
    anywhere: bool = True


def find(repository: str, version: str) -> Installation:
    """How CI of this repository gets the copy of distcheck that runs now."""
    package = PACKAGE
    above = os.path.dirname(package)
    if os.path.isfile(above):
        return _one_file(repository, above)
    # an editable installation, or a checkout on PYTHONPATH
    if os.path.isfile(os.path.join(above, "setup.cfg")):
        return _folder(repository, above, version)
    return of_direct_url(repository, version, _direct_url(above))


def of_direct_url(repository: str, version: str, direct: dict[str, Any] | None) -> Installation:
    """The same for an installed package.

    :param direct: what ``direct_url.json`` holds; {} where it can't be read, None without one (from an index)
    """
    found = _of_direct_url(repository, version, direct)
    return found if _PLAIN.fullmatch(found.requirement) else _by_hand(version, None)


def _of_direct_url(repository: str, version: str, direct: dict[str, Any] | None) -> Installation:
    if direct is None:
        return Installation(f"distcheck=={version}")
    try:
        url = urlsplit(str(direct.get("url", "")))
        port = "" if url.port is None else f":{url.port}"
    except ValueError:
        return _by_hand(version, None)
    vcs = direct.get("vcs_info")
    if isinstance(vcs, dict):
        return _commit(url, port, vcs, direct.get("subdirectory"), version)
    path = unquote(url.path) if url.scheme == "file" else ""
    if path and "dir_info" in direct:
        return _folder(repository, path, version)
    if path:
        return _archive_file(repository, path, version)
    if url.scheme not in ("http", "https") or _private(url):
        return _by_hand(version, None)
    digest = _sha256(direct.get("archive_info"))
    return Installation(f"distcheck @ {url.scheme}://{_host(url, port)}{url.path}{f'#sha256={digest}' * bool(digest)}")


def _direct_url(folder: str) -> dict[str, Any] | None:
    from importlib.metadata import distributions

    for found in distributions(name="distcheck", path=[folder]):
        text = found.read_text("direct_url.json")
        if text is None:
            # an egg, as `pip install .` of an old pip makes it, does not show where it came from
            return None if found.read_text("METADATA") is not None else {}
        try:
            read = json.loads(text)
        except ValueError:
            return {}
        return read if isinstance(read, dict) else {}
    return {}


def _commit(url: SplitResult, port: str, vcs: dict[str, Any], subdirectory: object, version: str) -> Installation:
    kind, commit = vcs.get("vcs"), vcs.get("commit_id")
    if not kind or not commit:
        return _by_hand(version, None)
    # the name in ssh://git@host is no credential, and the host wants it
    user = f"{url.username}@" if url.scheme == "ssh" and url.username and url.password is None else ""
    below = f"#subdirectory={subdirectory}" if subdirectory else ""
    address = f"{kind}+{url.scheme}://{user}{_host(url, port)}{url.path}@{commit}{below}"
    if url.scheme == "file":
        return _by_hand(version, address)
    if url.scheme not in ("http", "https", "ssh"):
        return _by_hand(version, None)
    login = None
    if _private(url) and not user:
        login = "give CI access to the repository of distcheck: the credentials in its address were removed"
    return Installation(f"distcheck @ {address}", note=login)


def _private(url: SplitResult) -> bool:
    """The address holds what may be a credential: a user, or a query (signed addresses, tokens)."""
    return "@" in url.netloc or bool(url.query)


def _host(url: SplitResult, port: str) -> str:
    host = url.hostname or ""
    return f"[{host}]{port}" if ":" in host else f"{host}{port}"


def _sha256(archive: object) -> str | None:
    if not isinstance(archive, dict):
        return None
    hashes = archive.get("hashes")
    if isinstance(hashes, dict) and hashes.get("sha256"):
        return str(hashes["sha256"])
    name, _, digest = str(archive.get("hash", "")).partition("=")
    return digest if name == "sha256" else None


def _folder(repository: str, source: str, version: str) -> Installation:
    inside = _inside(repository, source)
    return _by_hand(version, source) if inside is None else Installation(inside, anywhere=False)


def _archive_file(repository: str, source: str, version: str) -> Installation:
    """A wheel, or a source archive."""
    inside = _inside(repository, source)
    if inside is not None and os.path.isfile(source):
        return Installation(inside, anywhere=False)
    if not os.path.isfile(source):
        return _by_hand(version, None)
    path = f"{FOLDER}/{os.path.basename(source)}"
    return Installation(f"./{path}", path=path, source=source, anywhere=False)


def _one_file(repository: str, source: str) -> Installation:
    inside = _inside(repository, source)
    path = f"{FOLDER}/distcheck.pyz" if inside is None else inside.removeprefix("./")
    program = f"python3 {shlex.quote(path)}"
    return Installation("", program, None if inside else path, None if inside else source, anywhere=False)


def _by_hand(version: str, source: str | None) -> Installation:
    """A wheel that must be put into the repository first.

    :param source: what pip can make it of; None where that is not known
    """
    path = f"{FOLDER}/distcheck-{version}-py3-none-any.whl"
    note = f"put the wheel of this distcheck at {path}, and commit it: CI can't reach what this copy was installed from"
    if source is not None:
        command = f"python -m pip wheel --no-deps --wheel-dir {FOLDER} {shlex.quote(source)}"
        note = f"type this in the repository and commit {path}: CI can't reach {source}\n{command}"
    return Installation(f"./{path}", note=note, anywhere=False)


def _inside(repository: str, source: str) -> str | None:
    """The path below the repository, as pip takes it; None for what is elsewhere or in a repository of its own."""
    root, folder = os.path.realpath(repository), os.path.realpath(source)
    below = os.path.relpath(folder, root)
    path = "." if below == os.curdir else "./" + below.replace(os.sep, "/")
    if below == os.pardir or below.startswith(os.pardir + os.sep) or not _PLAIN.fullmatch(path):
        return None
    while folder != root:
        if os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = os.path.dirname(folder)
    return path
