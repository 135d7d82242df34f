"""The texts of all files of a run: whether code or a configuration names something, in files that are not linked too.

Nothing is read before the first question. Comments and definitions do not count as uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: Bytes of one repository that are searched; a name in a larger one counts as used.
_MOST = 64_000_000
#: Bytes of a file that are searched: larger ones are data.
_LARGEST = 2_000_000


class ProjectTexts:
    """Answers whether a name is used in a repository.

    :param reads: the repository of each file, and what returns its bytes; raises OSError
    """

    def __init__(self, reads: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
        self._reads: dict[str, list[Callable[[], bytes]]] = {}
        for repository, read in reads:
            self._reads.setdefault(repository, []).append(read)
        self._texts: dict[str, bytes | None] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def uses(self, repository: str, name: str) -> bool:
        """Return whether a file of a repository names something, other than to define it."""
        key = (repository, name)
        if key not in self._known:
            text = self._text(repository)
            self._known[key] = text is None or _is_used(text, name.encode())
        return self._known[key]

    def _text(self, repository: str) -> bytes | None:
        if repository not in self._texts:
            parts: list[bytes] = []
            size = 0
            for read in self._reads.get(repository, ()):
                try:
                    data = read()
                except OSError:
                    continue
                if len(data) <= _LARGEST:
                    parts.append(data)
                    size += len(data)
                if size > _MOST:
                    break
            self._texts[repository] = None if size > _MOST else b"\n".join(parts)
        return self._texts[repository]


def _is_used(text: bytes, name: bytes) -> bool:
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if not (_is_of_word(text[start - 1 : start]) or _is_of_word(text[end : end + 1])):
            before = text[text.rfind(b"\n", 0, start) + 1 : start]
            if b"#" not in before and before.split()[-1:] not in ([b"def"], [b"class"]):
                return True
        start = text.find(name, end)
    return False


def _is_of_word(char: bytes) -> bool:
    return char.isalnum() or char == b"_"
