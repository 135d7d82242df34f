"""Host and port of an endpoint, split like torchrun does."""

from __future__ import annotations


def split_endpoint(endpoint: str) -> tuple[str, str | None]:
    """Return host and port of ``HOST:PORT``, ``[V6]:PORT`` or ``HOST`` as torch splits them; the port may be None."""
    endpoint = endpoint.strip()
    if endpoint.startswith("[") and endpoint.endswith("]"):
        return endpoint[1:-1], None
    host, colon, port = endpoint.rpartition(":")
    if not colon:
        return endpoint, None
    return host[1:-1] if len(host) > 1 and host[0] == "[" and host[-1] == "]" else host, port
