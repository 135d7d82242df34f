"""Configurations of DeepSpeed in JSON: what they say, with places; :mod:`.configurations` judges what they mean."""

from __future__ import annotations

from .fragments import Fragment
from .json_text import read_json
from .model import Configured, LaunchFile, LookUp, Scalar

#: Under this name stand the keys that are given more than once, as one text with commas between: an error to DeepSpeed.
REPEATED = "repeated keys"


def read_deepspeed(path: str, text: str, look_up: LookUp | None = None) -> LaunchFile:
    """Everything that a configuration says. Never raises.

    :param look_up: not asked, since a configuration names no file that is read with it
    """
    fragment = Fragment(text, path)
    got = read_json(fragment)
    values = dict(got.values)
    for name, span in got.repeated:
        before = values.get(REPEATED)
        shown = name if before is None else f"{before.value}, {name}"
        values[REPEATED] = Scalar(shown, span if before is None else before.span)
    configured = Configured("deepspeed", fragment.span(0, len(text)), values)
    return LaunchFile(
        path,
        "deepspeed",
        configurations=(configured,) if got.values or got.repeated else (),
        comments=got.comments,
        problems=got.problems,
    )
