"""Host and port of an endpoint, split like torchrun does, and what is no single host."""

from __future__ import annotations

import re


def split_endpoint(endpoint: str) -> tuple[str, str | None]:
    """Return host and port of ``HOST:PORT``, ``[V6]:PORT`` or ``HOST`` as torch splits them; the port may be None."""
    endpoint = endpoint.strip()
    if endpoint.startswith("[") and endpoint.endswith("]"):
        return endpoint[1:-1], None
    host, colon, port = endpoint.rpartition(":")
    if not colon:
        return endpoint, None
    return host[1:-1] if len(host) > 1 and host[0] == "[" and host[-1] == "]" else host, port


def is_node_list(text: str) -> bool:
    """Return whether a text is several hosts: ``gpu[01-04]``, ``a,b``, or the words of ``hostname -I``."""
    bare = text.strip()
    return "," in bare or len(bare.split()) > 1 or re.search(r"[^\[]\[[0-9,\-]+\]", bare) is not None
