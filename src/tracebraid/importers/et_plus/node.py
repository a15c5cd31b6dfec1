"""A node of an ET+ file, of all forms."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from tracebraid.model.collectives.names import type_of
from tracebraid.model.units import NS_PER_US

__all__ = ["EtPlusNode", "row_of", "waits_of"]

_PARAM_COMMS = "record_param_comms"
_ELEMENT_BYTES = {
    **dict.fromkeys(("double", "float64", "long", "int64", "long int", "complexfloat", "complex64"), 8),
    **dict.fromkeys(("float", "float32", "int", "int32"), 4),
    **dict.fromkeys(("half", "float16", "bfloat16", "short", "int16", "c10::half", "c10::bfloat16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8", "unsigned char"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("complexdouble", "complex128"), 16),
}
"""Of the types that PyTorch names in attributes of collectives, in lower case."""
_TENSOR_MEMBERS = 6
"""A tensor in an Execution Trace: its id, storage, offset, number of elements, bytes of an element, device."""
_MOST_NESTED = 4
"""Lists of lists of tensors that are gone into."""
_INT64 = 2**63
_Id = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64 - 1)]


class _Attribute(msgspec.Struct):
    name: str = ""
    value: Any = None


class _Values(msgspec.Struct):
    values: msgspec.Raw = msgspec.Raw()
    shapes: msgspec.Raw = msgspec.Raw()


class EtPlusNode(msgspec.Struct):
    """A node; members that a form does not have are absent."""

    id: _Id
    name: str = ""
    ctrl_deps: int | None = None
    parent: int | None = None
    ts: float | None = None
    dur: float | None = None
    inclusive_dur: float | None = None
    exclusive_dur: float | None = None
    cat: str | None = None
    stream: Any = None
    tid: Any = None
    pg_name: Any = None
    inter_thread_dep: int | None = None
    sync_dep: list[int] | int | None = None
    inputs: msgspec.Raw = msgspec.Raw()
    outputs: msgspec.Raw = msgspec.Raw()
    input_shapes: msgspec.Raw = msgspec.Raw()
    attrs: list[_Attribute] = []


def row_of(node: EtPlusNode) -> tuple[Any, ...]:
    """The node as a row of `ET_PLUS_NODES`."""
    attrs = {attribute.name: attribute.value for attribute in node.attrs}
    parent = node.ctrl_deps if node.ctrl_deps is not None else node.parent
    inclusive = node.inclusive_dur if node.inclusive_dur is not None else node.dur
    exclusive = node.exclusive_dur if node.exclusive_dur is not None else inclusive
    is_timed = node.ts is not None and inclusive is not None
    inputs, shapes = _values(node.inputs)
    pg_name = node.pg_name if node.pg_name is not None else attrs.get("pg_name")
    in_bytes, out_bytes = _bytes(node, attrs, inputs)
    return (
        node.id,
        node.name,
        None if parent == node.id else _int(parent),
        _ns(node.ts) if is_timed else None,
        _ns(inclusive) if is_timed else None,
        _ns(exclusive) if is_timed else None,
        node.cat,
        _int(node.stream),
        _int(attrs.get("tid", node.tid)),
        _shapes(bytes(node.input_shapes) or shapes),
        _text(attrs.get("collective_name")),
        _text(pg_name),
        _int(attrs.get("pg_size")),
        in_bytes,
        out_bytes,
        _int(attrs.get("dst_rank", attrs.get("src_rank"))),
    )


def waits_of(node: EtPlusNode) -> list[tuple[int, int]]:
    """The node, and those that it waits for beside its parent; no node has an id beyond int64."""
    sync = node.sync_dep if isinstance(node.sync_dep, list) else [node.sync_dep]
    waits = map(_int, (node.inter_thread_dep, *sync))
    return [(node.id, other) for other in waits if other is not None]


def _values(inputs: msgspec.Raw) -> tuple[bytes, bytes]:
    """The texts of values and shapes: members of an object, or the list itself of a flat node."""
    text = bytes(inputs)
    if not text.startswith(b"{"):
        return text, b""
    members = msgspec.json.decode(text, type=_Values)
    return bytes(members.values), bytes(members.shapes)


def _bytes(node: EtPlusNode, attrs: dict[str, Any], inputs: bytes) -> tuple[int | None, int | None]:
    """What a communication gives and gets, by its attributes, or by its tensors."""
    element = _ELEMENT_BYTES.get(str(attrs.get("dtype", "")).lower())
    counts = _int(attrs.get("in_msg_nelems")), _int(attrs.get("out_msg_nelems"))
    if element is not None and any(counts):
        given, got = (None if count is None else _int(count * element) for count in counts)
        return given, got
    if node.name != _PARAM_COMMS and type_of(node.name) is None:
        return None, None
    return _tensor_bytes(inputs), _tensor_bytes(_values(node.outputs)[0])


def _tensor_bytes(text: bytes) -> int | None:
    """Bytes of all tensors in a list of values; None: it has none."""
    try:
        values = msgspec.json.decode(text) if text else None
    except (msgspec.MsgspecError, RecursionError):
        return None
    total, found = 0, False
    level: list[Any] = [values]
    for _ in range(_MOST_NESTED):
        level = [item for items in level if isinstance(items, list) for item in items]
        tensors = [item for item in level if _is_tensor(item)]
        found = found or bool(tensors)
        total += sum(item[3] * item[4] for item in tensors)
        level = [item for item in level if not _is_tensor(item)]
    return total if found and total < _INT64 else None


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == _TENSOR_MEMBERS
        and all(isinstance(member, int) and member >= 0 for member in value[3:5])
        and isinstance(value[5], str)
    )


def _ns(micros: float | None) -> int:
    """Whole ns; a float64 of µs since 1970 has a quarter of a µs."""
    value = micros or 0.0
    return round(value * NS_PER_US) if abs(value) < _INT64 / NS_PER_US else 0


def _shapes(text: bytes) -> str | None:
    return text.decode() if text.strip(b" []") else None


def _int(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and -_INT64 <= value < _INT64 else None


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)
