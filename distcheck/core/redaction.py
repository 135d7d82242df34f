"""Mask credentials in texts before any other code sees them.

Texts are masked where they are collected (variables, command lines). So no report, facts file or traceback can hold a
credential.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"

#: Words in the name of a variable or an option whose value is a credential.
_NAME = re.compile(
    r"(?:^|[_\-.])(?:[A-Z]*TOKEN|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|WANDB[_-]?KEY|CREDENTIALS?|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY|"
    r"AUTH|COOKIE|SESSION[_-]?KEY|JWT|BEARER|SIGNATURE|SECRET[_-]?KEY)(?:$|[_\-.\d])",
    re.IGNORECASE,
)
#: ``scheme://user:password@host``: all text before the last @ of the authority part.
_USERINFO = re.compile(r"(?<=://)[^\s@]*@(?=[^\s/])")
#: The published forms of credentials: AWS, GitHub, GitLab, Hugging Face, OpenAI, NVIDIA, Docker, Slack, Google, PyPI,
#: JSON web tokens. Each begins a word: "task-…" holds no key of OpenAI's.
_FORMS = re.compile(
    r"(?<![\w.\-])(?:A[KS]IA[0-9A-Z]{12,}|gh[pousr]_[0-9A-Za-z]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|"
    r"hf_[0-9A-Za-z]{16,}|sk-(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{16,}|nvapi-[\w-]{16,}|dckr_pat_[\w-]{8,}|"
    r"SG\.[\w-]{8,}\.[\w-]{8,}|xox[abposr]-[\w-]{8,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|pypi-(?=\w*[A-Z])[\w-]{32,}|"
    r"eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*)"
)
#: ``key=value``, or ``key: value`` with a blank, where the key names a credential; a bare colon parts paths.
_PAIR = re.compile(
    r"(?i)(?<![\w/])([\w.\-]*(?:token|secret|passwo?r?d|passphrase|credential|api[_-]?key|access[_-]?key|account[_-]?key|"
    r"private[_-]?key)\s*(?:=\s*|:\s+)|bearer\s+)[^\s,;&|]+"
)
#: A proxy without a scheme: ``user:password@host``.
_PROXY = re.compile(r"^(?![a-z]+://)[^/@\s]*:[^@\s]*@")
#: Letters and digits without a break, as long as an md5 sum in hex or longer, both kinds: a key rather than a word.
_OPAQUE = re.compile(r"(?<![\w/+.\-])(?=[\w+=\-]*\d)(?=[\w+=\-]*[A-Za-z])[\w+=]{32,}(?![\w/+.\-])")


def names_a_credential(name: str) -> bool:
    """Return whether the value of a variable or option with this name must not be shown."""
    return _NAME.search(name.lstrip("-")) is not None


def mask(text: str, *, name: str = "") -> str:
    """Return the text with everything masked that has the form of a credential.

    :param name: the name of the variable or option that holds it; for some names the whole value goes
    """
    if name and text and names_a_credential(name):
        return MASK
    text = _USERINFO.sub(MASK + "@", text)
    if name.lower().endswith("_proxy"):
        text = _PROXY.sub(MASK + "@", text)
    text = _FORMS.sub(MASK, text)
    text = _PAIR.sub(lambda match: match[1] + MASK, text)
    return _OPAQUE.sub(MASK, text)


def mask_forms(text: str) -> str:
    """Return the text with published forms of credentials masked, but not values that only their names give away."""
    return _FORMS.sub(MASK, _USERINFO.sub(MASK + "@", text))


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command line without credentials: ``["--api-key", "x", "--token=y"]`` keeps neither x nor y."""
    masked: list[str] = []
    hide_next = False
    for argument in arguments:
        if hide_next:
            masked.append(MASK)
            hide_next = False
            continue
        option, equals, value = argument.partition("=")
        if option.startswith("-") and names_a_credential(option):
            masked.append(option + equals + (MASK if equals else ""))
            hide_next = not equals
        else:
            masked.append(option + equals + mask(value, name=option) if equals else mask(argument))
            hide_next = False
    return tuple(masked)
