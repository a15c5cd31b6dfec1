"""Does an address lead to this machine?"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

__all__ = ["is_loopback"]


def is_loopback(url: str) -> bool:
    """Whether the host of a URL is this machine, by its address or as `localhost`."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
