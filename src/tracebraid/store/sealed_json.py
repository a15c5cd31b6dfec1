"""JSON files that prove to be whole: a hash of the content stands before it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tracebraid.errors import InputError
from tracebraid.store.layout import FORMAT_VERSION
from tracebraid.store.stored_file import stored_bytes

__all__ = ["read_sealed", "sealed", "sha256_of"]

T = TypeVar("T", bound=msgspec.Struct)

_HEAD, _BETWEEN, _TAIL = b'{"sha256":"', b'",\n"content":', b"}\n"
_DIGITS = 64
_START = len(_HEAD) + _DIGITS + len(_BETWEEN)
_LONG_NUMBER = re.compile(rb"[:,\[]-?\d{19}")
_AGAIN = "Pack it again: tracebraid pack PATH -o STORE"


def sha256_of(content: bytes) -> str:
    """The hash of a file's content, as manifests have it."""
    return hashlib.sha256(content).hexdigest()


def sealed(content: msgspec.Struct) -> bytes:
    """The bytes of the file of some content; the same content gives the same bytes.

    Texts may hold what no UTF-8 can encode, such as names of files: the standard library escapes it.
    """
    text = json.dumps(msgspec.to_builtins(content), separators=(",", ":")).encode()
    return _HEAD + sha256_of(text).encode() + _BETWEEN + text + _TAIL


def read_sealed(path: Path, kind: type[T], check: Callable[[T], None] | None = None) -> tuple[T, bytes]:
    """The content of a file, and its bytes.

    Args:
        path: the file.
        kind: what it holds.
        check: raises ValueError where that does not hold together.

    Raises:
        InputError: it is not there, is damaged, or of a newer version of the format.
    """
    try:
        whole = stored_bytes(path)
    except FileNotFoundError:
        raise InputError(str(path), "this file of the store is not there", _AGAIN) from None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or error})"
        raise InputError(str(path), problem, "Check the file and its rights") from None
    text = whole[_START : -len(_TAIL)]
    stated = whole[len(_HEAD) : len(_HEAD) + _DIGITS]
    if not whole.startswith(_HEAD) or sha256_of(text).encode() != stated:
        raise InputError(str(path), "this file of the store is damaged", _AGAIN)
    try:
        # Python reads integers of any length; columns hold 64 bits.
        value: Any = json.loads(text, parse_int=_int64 if _LONG_NUMBER.search(text) else None)
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"this file of the store is damaged ({error})", _AGAIN) from None
    version = value.get("format") if isinstance(value, dict) else None
    if isinstance(version, int) and version > FORMAT_VERSION:
        problem = (
            f"this store is of format {version}, and this version of Tracebraid reads up to {FORMAT_VERSION}"
        )
        raise InputError(str(path), problem, "Install a newer version, or pack the traces again")
    try:
        content = msgspec.convert(value, kind)
        if check is not None:
            check(content)
        return content, whole
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise InputError(str(path), f"this file of the store is damaged ({error})", _AGAIN) from None


def _int64(digits: str) -> int:
    number = int(digits)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{digits[:20]} is no integer of 64 bits")
    return number
