"""Results of the shell and of some programs: arithmetic, ``${X%.*}``, ``dirname``, ``seq``.

None stands for everything else. Nothing is run.
"""

from __future__ import annotations

import ast
import re
from fnmatch import translate

_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
#: Commands with a computed result, and those of ``cd … && pwd``.
COMPUTED = frozenset({"echo", "dirname", "basename", "realpath", "readlink", "seq", "cd", "pwd"})
#: Limit of numbers from ``seq`` and ``{0..9}``.
MAX_NUMBERS = 4096


def unescaped(text: str) -> str:
    """Return the text of ``$'…'`` (bash 5.2, "ANSI-C Quoting"), without the rarer escapes."""
    return re.sub(r"\\(.)", lambda match: _ANSI.get(match[1], match[1]), text, flags=re.DOTALL)


def changed(text: str, rest: str) -> str | None:
    """Return the result of ``${X%.*}`` and similar, or None if unsupported."""
    if rest in ("^^", ",,"):
        return text.upper() if rest == "^^" else text.lower()
    match = re.fullmatch(r"(%%|%|##|#)(.*)", rest, re.DOTALL)
    if match and len(text) <= 4096:
        pattern = re.compile(translate(match[2].replace("\\", "")))
        longest = len(match[1]) == 2
        if match[1][0] == "%":
            cuts = range(len(text) + 1) if longest else range(len(text), -1, -1)
            return next((text[:cut] for cut in cuts if pattern.match(text[cut:])), text)
        cuts = range(len(text), -1, -1) if longest else range(len(text) + 1)
        return next((text[cut:] for cut in cuts if pattern.match(text[:cut])), text)
    match = re.fullmatch(r"(//|/)([\w.,: -]+)/([\w.,: -]*)", rest)
    if match:
        return text.replace(match[2], match[3], -1 if match[1] == "//" else 1)
    return None


def computed(words: list[str]) -> str | None:
    """Return the output of a command that depends only on its words, or None."""
    program, arguments = words[0], [word for word in words[1:] if word != "--"]
    if program == "echo" and arguments and not arguments[0].startswith("-"):
        return " ".join(arguments)
    if program == "dirname" and len(arguments) == 1:
        return arguments[0].rstrip("/").rpartition("/")[0] or ("/" if arguments[0].startswith("/") else ".")
    if program == "basename" and arguments:
        name = arguments[0].rstrip("/").rpartition("/")[2]
        return name.removesuffix(arguments[1]) if len(arguments) == 2 else name
    if program in ("realpath", "readlink"):
        paths = [word for word in arguments if not word.startswith("-")]
        return paths[0] if len(paths) == 1 else None
    if program == "seq" and 1 <= len(arguments) <= 3 and all(re.fullmatch(r"-?[0-9]{1,6}", word) for word in arguments):
        numbers = [int(word) for word in arguments]
        first = numbers[0] if len(numbers) > 1 else 1
        step = numbers[1] if len(numbers) == 3 else 1
        if step and abs((numbers[-1] - first) // step) < MAX_NUMBERS:
            return "\n".join(str(number) for number in range(first, numbers[-1] + (1 if step > 0 else -1), step))
    return None


def calculated(text: str) -> int | None:
    """Return the result of integer arithmetic, or None; operators that differ between C and Python are skipped."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    number = _worth(tree)
    return number if number is not None and abs(number) < 2**63 else None


def _worth(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _worth(node.operand)
        return None if inner is None else -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp):
        left, right = _worth(node.left), _worth(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        # division in the shell truncates towards zero
        if isinstance(node.op, (ast.Div, ast.Mod)) and right:
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if isinstance(node.op, ast.Div) else left - right * quotient
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _worth(node.left), _worth(node.comparators[0])
        if left is None or right is None:
            return None
        kinds: dict[type, bool] = {
            ast.Lt: left < right, ast.LtE: left <= right, ast.Gt: left > right,
            ast.GtE: left >= right, ast.Eq: left == right, ast.NotEq: left != right,
        }  # fmt: skip
        verdict = kinds.get(type(node.ops[0]))
        return None if verdict is None else int(verdict)
    return None
