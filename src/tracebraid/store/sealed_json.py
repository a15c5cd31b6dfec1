"""JSON files that prove to be whole: a hash of the content stands before it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tracebraid.errors import InputError
from tracebraid.store.layout import FORMAT_VERSION

__all__ = ["read_sealed", "sealed", "sha256_of"]

T = TypeVar("T", bound=msgspec.Struct)

_HEAD, _BETWEEN, _TAIL = b'{"sha256":"', b'",\n"content":', b"}\n"
_DIGITS = 64
_START = len(_HEAD) + _DIGITS + len(_BETWEEN)
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


def read_sealed(path: Path, kind: type[T]) -> tuple[T, bytes]:
    """The content of a file, and its bytes.

    Raises:
        InputError: it is not there, is damaged, or of a newer version of the format.
    """
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        raise InputError(str(path), "this file of the store is not there", _AGAIN) from None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or error})"
        raise InputError(str(path), problem, "Check the file and its rights") from None
    text = whole[_START : -len(_TAIL)]
    stated = whole[len(_HEAD) : len(_HEAD) + _DIGITS]
    if not whole.startswith(_HEAD) or sha256_of(text).encode() != stated:
        raise InputError(str(path), "this file of the store is damaged", _AGAIN)
    value: Any = json.loads(text)
    version = value.get("format") if isinstance(value, dict) else None
    if isinstance(version, int) and version > FORMAT_VERSION:
        problem = (
            f"this store is of format {version}, and this version of Tracebraid reads up to {FORMAT_VERSION}"
        )
        raise InputError(str(path), problem, "Install a newer version, or pack the traces again")
    try:
        return msgspec.convert(value, kind), whole
    except msgspec.ValidationError as error:
        raise InputError(str(path), f"this file of the store is damaged ({error})", _AGAIN) from None
