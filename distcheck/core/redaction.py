"""Mask credentials in texts, by the name that they follow and by their own form.

:func:`mask` is for values where they are collected (variables, command lines). :func:`mask_all` masks all
texts of a report, of facts or of a record before they are written, so that a script, a log or an exception with a
credential is covered too. Digests, commits and paths stay as they are.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from .model import Fix, Unavailable

Value = TypeVar("Value")

MASK = "***"


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern, compiled when it is first used: to compile all of them takes a tenth of a short run."""
    return re.compile(pattern)


#: Words in the name of a variable or an option whose value is a credential.
_NAME = (
    r"(?i)(?:^|[_\-.])(?:[A-Z]*TOKEN|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|WANDB[_-]?KEY|CREDENTIALS?|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY|"
    r"AUTH|COOKIE|SESSION[_-]?KEY|JWT|BEARER|SIGNATURE|SECRET[_-]?KEY)(?:$|[_\-.\d])"
)
#: The last word of such a name in running text, source code and URLs.
_WORD = (
    r"(?:token|secret|passwo?r?d|passphrase|credentials?|(?:api|access|account|private|secret|wandb|session)[_-]?key)"
)
# The patterns must need linear time for any text. So each begins at the begin of a word, or has a bound.
#: ``scheme://user:password@host``, to the last @ of the authority. In the second form the password has a slash. If a
#: number follows the colon, it is a port, and the @ belongs to a path: ``https://host:443/image@v1``.
_USERINFO = r"""(?<=://)(?:[^\s/?#"'<>\\]{0,256}@|[^\s/:@?#"'\[]{0,64}:(?!\d{1,5}(?![^\s/?#"']))[^\s"'<>@]{0,256}@)(?=[^\s/@])"""
#: ``user:password@host`` without a scheme. The password has a letter, and a digit or a sign. The host has a domain or a
#: port, or is an address. An image with a digest is none, and no mail address after a word like author.
_USER_AT_HOST = (
    r"""(?i)(?<![\w/@:.+\-])((?!(?:mailto|to|cc|from|e?-?mail|author|maintainer|by|sips?|xmpp|acct)\b:)[a-z_][\w.+\-]{0,63}:)"""
    r"""(?=[^\s/@:]{0,64}[a-z])(?=[^\s/@:]{0,64}[^\sa-z/@:])[^\s/@:"'<>,;|()\[\]{}$]{6,64}"""
    r"""(?=@(?!sha\d|md5)(?:localhost\b|\d{1,3}(?:\.\d{1,3}){3}\b|[a-z\d][\w\-]{0,62}(?:\.[\w\-]{1,63}){0,9}(?::\d{2,5}\b|\.[a-z]{2,})))"""
)
#: The published forms of credentials: AWS, GitHub, GitLab, Hugging Face, OpenAI, Anthropic, NVIDIA, Docker, Slack,
#: SendGrid, Google, PyPI, npm, Stripe, W&B, JSON web tokens, private keys. In their full length they are masked inside
#: of words too; shorter, at the begin of a word only ("task-…" holds no key of OpenAI's), or where a text was cut.
_FORMS = (
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[\s\S]*?-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[\s\S]*)|"
    r"A[KS]IA[0-9A-Z]{16}|gh[pousr]_[0-9A-Za-z]{30,}|github_pat_\w{22,}|gl(?:pat|ptt|dt|rt|cbt)-[\w-]{20,}|"
    r"hf_(?=[0-9a-z]*[A-Z])[0-9A-Za-z]{30,}|sk-(?:proj|ant|svcacct|admin|or)-[\w-]{20,}|sk-(?=[A-Za-z]*\d)[0-9A-Za-z]{32,}|"
    r"nvapi-[\w-]{40,}|dckr_[po]at_[\w-]{20,}|xox[a-z]-[\w-]{10,}|xapp-\d-[\w-]{10,}|SG\.[\w-]{16,}\.[\w-]{16,}|"
    r"AIza[\w-]{35}|ya29\.[\w-]{20,}|pypi-AgE[\w-]{32,}|npm_[0-9A-Za-z]{36}|[rs]k_live_[0-9A-Za-z]{20,}|wandb_v\d_\w{20,}|"
    r"eyJ[\w-]{10,300}\.eyJ[\w-]{8,}(?:\.[\w-]*)?|"
    r"(?<![\w.\-])(?:A[KS]IA[0-9A-Z]{12,}|gh[pousr]_[0-9A-Za-z]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|"
    r"hf_[0-9A-Za-z]{16,}|sk-(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{16,}|nvapi-[\w-]{16,}|dckr_pat_[\w-]{8,}|"
    r"SG\.[\w-]{8,}\.[\w-]{8,}|xox[abposr]-[\w-]{8,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|pypi-(?=\w*[A-Z])[\w-]{32,}|"
    r"eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?)|"
    r"(?<![A-Za-z])(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|nvapi-|xox[a-z]-|A[KS]IA|wandb_v\d_)[\w-]{5,40}(?=…|\.\.\.)"
)
#: ``Authorization: …`` and ``Bearer …``.
_HEADER = (
    r"""(?i)(\bauthorization["']?\s*[:=]\s*["']?(?:(?:basic|bearer|token|digest|negotiate)\s+)?|"""
    r"""\bbearer\s+(?=[^\s"']*\d)(?=[^\s"']{12}))[^\s"',;]+"""
)
#: What is no credential: a variable, a placeholder, a mask, a number, a truth value.
_NO_VALUE = r"(?![$<{%\[*]|\d{1,5}(?:\.\d*)?(?![\w.])|(?:true|false|none|null)\b)"
#: ``--api-key=value``, and ``--api-key value`` if the value has a digit: a sentence may continue after an option.
_OPTION = (
    rf"""(?i)((?<![\w-])--?[\w-]*{_WORD}(?:=|\s+(?=["']|[^\s"'\-][^\s"']*\d))["']?){_NO_VALUE}[^\s"'\-][^\s"']{{3,}}"""
)
#: ``"password": "value"``, ``api_key=value``: letters and digits, and no expression (``token=tokenizer.eos_token``).
_ASSIGNED = (
    rf"""(?i)((?<![\w.\-])[\w.\-]*{_WORD}(?:\\?["'])?\]?\s*[:=]\s*)(?:((?:\\?["']){_NO_VALUE}(?=[^"'\s]*\d)[^"'\s]{{6,}})|"""
    rf"""{_NO_VALUE}(?=[^\s"',;&]{{0,256}}\d)(?=\d*[a-z_\-])[\w+/=~!@#%^*\-]{{6,}}(?![\w.(\[]))"""
)
#: Keys and signatures in the query of a URL.
_QUERY = (
    rf"""(?i)([?&;](?:[\w\-]*{_WORD}|sig|signature|key|auth|x-(?:amz|goog)-(?:credential|signature))=)"""
    r"""[^&\s"'<>]{6,}"""
)
#: Commands that take a credential without its name.
_LOGIN = (
    r"(\bwandb login\s+(?:-[\w-]+\s+)*|\bsshpass\s+-p\s*|\bdocker login\b[^;&|\n]{0,100}?\s-p\s*|"
    r"\bcurl\b[^;&|\n]{0,100}?\s(?:-u|--user|-U|--proxy-user)[\s=]+[^\s:=][^\s:]*:)(?![$\-])[^\s;&|]+"
)
#: ``key=value``, or ``key: value`` with a blank, where the key names a credential; a bare colon parts paths.
_PAIR = (
    r"(?i)(?<![\w/.\-])([\w.\-]*(?:token|secret|passwo?r?d|passphrase|credential|api[_-]?key|access[_-]?key|account[_-]?key|"
    r"private[_-]?key)\s*(?:=\s*|:\s+)|bearer\s+)[^\s,;&|]+"
)
#: A proxy without a scheme: ``user:password@host``.
_PROXY = r"^(?![a-z]+://)[^/@\s:]*:[^@\s]*@"
#: Letters and digits without a break, as long as an md5 sum in hex or longer, both kinds: a key rather than a word.
_OPAQUE = r"(?<![\w/+.\-])(?=[\w+\-]*\d)(?=[\w+\-]*[A-Za-z])[\w+]{32,}=*(?![\w/+.\-])"
#: base64 as long as a secret key of AWS (40 characters) or longer. A line of a private key has 64 characters.
_BASE64 = r"(?<![0-9A-Za-z+/])[0-9A-Za-z+/]{40,}={0,2}"
#: A word in a name without breaks, such as each of ``ImageNet12``.
_PART = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+"
#: What precedes a digest, a commit or a job's number.
_DIGEST = r"(?i)(?:sha-?\d+|md5|digest|checksum|hash|commit|revision|rev|run_?id|uuid)\W{0,4}$"
#: In each text in which a pattern finds something, there is one of these, in lower case.
_IN_FORMS = (
    "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "_pat_", "_oat_", "glpat-", "glptt-", "gldt-", "glrt-",
    "glcbt-", "hf_", "sk-", "k_live_", "nvapi-", "xox", "xapp-", "sg.", "aiza", "ya29.", "pypi-", "npm_", "wandb",
    "eyj", "private key",
)  # fmt: skip
_IN_WORDS = ("token", "secret", "passw", "passphrase", "credential", "key")
#: What is masked behind its name, with what must be in the text.
_NAMED = (
    (_HEADER, ("authorization", "bearer")),
    (_OPTION, _IN_WORDS),
    (_QUERY, (*_IN_WORDS, "sig", "auth")),
    (_LOGIN, ("wandb", " login", "sshpass", "curl")),
)
#: Longer texts are not kept in the cache, in characters.
_CACHED = 500


def names_a_credential(name: str) -> bool:
    """Return whether the value of a variable or option with this name must not be shown."""
    return _compiled(_NAME).search(name.lstrip("-")) is not None


def mask(text: str, *, name: str = "") -> str:
    """Return the text with everything masked that has the form of a credential.

    :param name: the name of the variable or option that holds it; for some names the whole value goes
    """
    if name and text and names_a_credential(name):
        return MASK
    text = mask_forms(text)
    if name.lower().endswith("_proxy"):
        text = _compiled(_PROXY).sub(MASK + "@", text)
    text = _compiled(_PAIR).sub(lambda match: match[1] + MASK, text)
    return _compiled(_OPAQUE).sub(lambda match: match[0] if _is_hash(match) else MASK, text)


def mask_forms(text: str) -> str:
    """Return the text with credentials masked that show their form or follow their name with a value of that form.

    Names alone hide nothing: ``MAX_TOKEN=8`` and ``pad_token=tokenizer.eos_token`` stay.
    """
    return _masked(text) if len(text) <= _CACHED else _masked.__wrapped__(text)


@functools.lru_cache(maxsize=4096)
def _masked(text: str) -> str:
    if "://" in text:
        text = _compiled(_USERINFO).sub(MASK + "@", text)
    if "@" in text:
        text = _compiled(_USER_AT_HOST).sub(lambda match: match[1] + MASK, text)
    lower = text.lower()
    if any(hint in lower for hint in _IN_FORMS):
        text = _compiled(_FORMS).sub(MASK, text)
    for pattern, hints in _NAMED:
        if any(hint in lower for hint in hints):
            text = _compiled(pattern).sub(lambda match: match[1] + MASK, text)
    if any(hint in lower for hint in _IN_WORDS):
        text = _compiled(_ASSIGNED).sub(_mask_assigned, text)
    return (
        _compiled(_BASE64).sub(lambda match: MASK if _is_random(match) else match[0], text) if len(text) >= 40 else text
    )


def _mask_assigned(match: re.Match[str]) -> str:
    quote = "" if match[2] is None else match[2][: 1 + match[2].startswith("\\")]
    return match[1] + quote + MASK


def _follows_digest_name(match: re.Match[str]) -> bool:
    """Return whether a match follows the name of a digest, as in ``revision=…`` and ``image@sha256:…``."""
    return _compiled(_DIGEST).search(match.string[max(0, match.start() - 20) : match.start()]) is not None


def _is_hash(match: re.Match[str]) -> bool:
    """Return whether a match is a commit or a digest by the word before it."""
    after_at = match.string.startswith("@", match.start() - 1) and match.start() > 0
    return re.fullmatch(r"[0-9a-f]+", match[0]) is not None and (after_at or _follows_digest_name(match))


def _is_random(match: re.Match[str]) -> bool:
    """Return whether base64 is random: its kinds of characters change as in a random text, not as in words and paths.

    In random base64, 62 % of the neighbors are of another kind (capital, small letter, digit).
    """
    kinds = ["A" if char.isupper() else "a" if char.islower() else "0" for char in match[0] if char.isalnum()]
    if not {"A", "a"} <= set(kinds) or _follows_digest_name(match):
        return False
    # the words of a path are longer than those of random letters, which change their kind after two
    words = _compiled(_PART).findall(match[0]) if "/" in match[0] else ()
    if sum(map(len, words)) > 2.8 * len(words):
        return False
    changes = sum(kind != before for before, kind in itertools.pairwise(kinds))
    return changes >= (0.35 if "0" in kinds else 0.42) * len(kinds)


def mask_all(value: Value) -> Value:
    """Return a report, a finding, facts or plain values with :func:`mask_forms` in all texts.

    A command of a fix that holds a credential is dropped, because it would not work as printed; so are its edits.
    """
    return cast(Value, _without(value))


def _without(value: Any) -> Any:
    if value is None or isinstance(value, (int, float)):  # most members of a finding
        return value
    if isinstance(value, str):
        return mask_forms(value) if type(value) is str else value
    if isinstance(value, Fix):
        shown = _members(value)
        same = shown.command == value.command and shown.edits == value.edits
        return shown if same else shown._replace(command=None, edits=())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _members(value)
    if isinstance(value, Mapping):
        return {_without(key): _without(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        shown = type(value)(_without(part) for part in value)
        return value if shown == value else shown
    if isinstance(value, Unavailable):
        why = mask_forms(value.why)
        return value if why == value.why else type(value)(why)
    return value


def _members(value: Any) -> Any:
    """Return a named tuple with masked members; the same one if nothing changes."""
    shown = [_without(part) for part in value]
    return value if shown == list(value) else type(value)._make(shown)


#: Options of curl and wget whose value is ``user:password``; a number after the colon is a group, as in Docker's.
_USER_OPTIONS = frozenset({"-u", "--user", "-U", "--proxy-user"})


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command line without credentials: ``["--api-key", "x", "--token=y"]`` keeps neither x nor y."""
    masked: list[str] = []
    before = ""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        user, colon, password = argument.partition(":")
        if before.startswith("-") and "=" not in before and names_a_credential(before):
            masked.append(MASK)
            # a value that begins with a dash is no option
            before = ""
            continue
        if before in _USER_OPTIONS and colon and not password.isdecimal():
            masked.append(f"{mask(user)}:{MASK}")
        elif option.startswith("-") and names_a_credential(option):
            masked.append(option + equals + (MASK if equals else ""))
        else:
            masked.append(option + equals + mask(value, name=option) if equals else mask(argument))
        before = argument
    return tuple(masked)
