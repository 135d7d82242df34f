"""Split the text of ``bash -c '…'`` into simple commands, without a shell.

It handles quotes, continuation lines, comments, operators and redirections. Nothing is expanded: ``$X``, ``${X:-8}``,
``$(…)`` and backticks stay in the word, and :func:`has_expansion` finds them. Syntax is not checked: an unclosed quote
ends with the text.
"""

from __future__ import annotations

import re

#: Words before a command inside a compound command (bash 5.2, "Reserved Words").
_KEYWORDS = frozenset({"!", "{", "}", "if", "then", "elif", "else", "while", "until", "do", "coproc"})

# Patterns are texts in this package: most commands need none, and compiling all takes 5 ms at start. This one matches
# an expansion of bash, a backtick, or a placeholder of a template (Jinja, Helm).
_EXPANSION = r"\$[A-Za-z0-9_{(@*#?!$]|`|\{\{"
_WHOLE_EXPANSION = r"(?s)\$(?:\w+|[@*]|\{[^{}]*\}|\(.*\))|`[^`]*`"
_BACKSLASH_IN_DOUBLE_QUOTES = frozenset('$`"\\\n')


def has_expansion(text: str) -> bool:
    """Return whether the text holds something that only the running shell (or a template) knows."""
    return ("$" in text or "`" in text or "{{" in text) and re.search(_EXPANSION, text) is not None


def is_expansion(word: str) -> bool:
    """Return whether the word is exactly one variable or substitution: it can become several words, or none."""
    return word.startswith(("$", "`")) and re.fullmatch(_WHOLE_EXPANSION, word) is not None


def split_commands(text: str) -> list[list[str]]:
    """Return the simple commands of a shell text in order, each as its words without redirections.

    The operators between them (``;``, ``&&``, ``||``, ``|``, ``&``, a line end, brackets) are not distinguished.
    """
    commands: list[list[str]] = [[]]
    position = 0
    skip_word = False  # the next word is the target of a redirection
    while position < len(text):
        char = text[position]
        if char in " \t\r":
            position += 1
        elif text.startswith("\\\n", position):
            position += 2
        elif char == "#":
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif text.startswith(("&>", ">", "<"), position):
            # A file descriptor directly before it was read as a word of digits: 2>&1.
            if (
                char != "&"
                and position
                and text[position - 1].isdigit()
                and commands[-1]
                and commands[-1][-1].isdigit()
            ):
                commands[-1].pop()
            position = _end_of_redirection(text, position)
            skip_word = True
        elif char in ";&|()\n":
            position += 1
            skip_word = False
            commands.append([])
        else:
            word, position = _word(text, position)
            if not skip_word:
                commands[-1].append(word)
            skip_word = False
    return [words for words in map(_without_keywords, commands) if words]


def quote_unexpanded(word: str) -> str:
    """Return the word quoted for a shell, with its expansions left active."""
    if re.fullmatch(r"[\w@%+=:,./${}\[\]*-]+", word):
        return word
    parts: list[str] = []
    position = 0
    while position < len(word):
        if word[position] in "$`":
            end = _end_of_expansion(word, position)
            parts.append(word[position:end])
            position = end
        else:
            parts.append("\\" + word[position] if word[position] in '"\\' else word[position])
            position += 1
    return f'"{"".join(parts)}"'


def _without_keywords(words: list[str]) -> list[str]:
    start = 0
    while start < len(words) and words[start] in _KEYWORDS:
        start += 1
    return words[start:]


def _end_of_redirection(text: str, position: int) -> int:
    end = position
    while end < len(text) and text[end] in "<>&|-":
        end += 1
    return end


def _word(text: str, start: int) -> tuple[str, int]:
    """Return the word that begins at ``start``, without quotes, and the offset after it."""
    parts: list[str] = []
    position = start
    while position < len(text):
        char = text[position]
        if char in " \t\r\n;&|()<>":
            break
        if char == "'":
            end = text.find("'", position + 1)
            end = len(text) if end < 0 else end
            parts.append(text[position + 1 : end])
            position = end + 1
        elif char == '"':
            inner, position = _double_quoted(text, position + 1)
            parts.append(inner)
        elif char == "\\":
            if text[position + 1 : position + 2] != "\n":
                parts.append(text[position + 1 : position + 2])
            position += 2
        elif char in "$`" or text.startswith("{{", position):
            end = _end_of_expansion(text, position)
            parts.append(text[position:end])
            position = end
        else:
            parts.append(char)
            position += 1
    return "".join(parts), max(position, start + 1)


def _double_quoted(text: str, start: int) -> tuple[str, int]:
    parts: list[str] = []
    position = start
    while position < len(text):
        char = text[position]
        if char == '"':
            return "".join(parts), position + 1
        if char == "\\" and text[position + 1 : position + 2] in _BACKSLASH_IN_DOUBLE_QUOTES:
            if text[position + 1 : position + 2] != "\n":
                parts.append(text[position + 1 : position + 2])
            position += 2
        elif char in "$`":
            end = _end_of_expansion(text, position)
            parts.append(text[position:end])
            position = end
        else:
            parts.append(char)
            position += 1
    return "".join(parts), position


def _end_of_expansion(text: str, start: int) -> int:
    """Return the offset after a variable, ``${…}``, ``$(…)``, a pair of backticks or ``{{…}}``."""
    for opening, closing in (("`", "`"), ("{{", "}}")):
        if text.startswith(opening, start):
            end = text.find(closing, start + len(opening))
            return len(text) if end < 0 else end + len(closing)
    bracket = text[start + 1 : start + 2]
    if bracket not in ("(", "{"):
        return start + 1
    depth = 0
    for position in range(start + 1, len(text)):
        depth += (text[position] == bracket) - (text[position] == {"(": ")", "{": "}"}[bracket])
        if depth == 0:
            return position + 1
    return len(text)
