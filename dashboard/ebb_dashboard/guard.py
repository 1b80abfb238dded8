"""Access control of the server.

The page is served on this machine only. A browser of this machine also runs pages of others, which
must neither read from the server (DNS rebinding: their name suddenly leads to 127.0.0.1, but the
request still has it as `Host`) nor send orders to it (requests of other origins have theirs as
`Origin`).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Host names of accepted requests; any port, because a tunnel may have another."""
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Rules for the browser: only what comes from us runs, nothing becomes HTML by way of a string,
and no other page may frame it."""


def new_token() -> str:
    """Token that allows orders: 128 random bits."""
    return secrets.token_urlsafe(16)


def refused(headers: Mapping[str, str]) -> str | None:
    """Why a request is refused before anything else is checked; none: it is not."""
    host = headers.get("Host", "")
    if _name(host) not in LOOPBACK:
        return "this page is for browsers of this machine: ask for 127.0.0.1, localhost or [::1]"
    origin = headers.get("Origin")
    if origin is not None and origin != f"http://{host}":
        return "a page of another origin asked"
    return None


def may_control(headers: Mapping[str, str], token: str) -> bool:
    """Whether a request comes from a page that was opened with the token."""
    given = headers.get("Authorization", "").encode("latin-1", "replace")
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def _name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
