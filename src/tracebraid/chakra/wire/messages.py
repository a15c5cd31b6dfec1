"""Chakra's messages as classes of the `protobuf` package, built from the schema's text when they are first used."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from msgspec import Struct

from tracebraid.errors import ArgumentError
from tracebraid.extras import Extra, missing_extra

SCHEMA = """
syntax = "proto3";
package ChakraProtoMsg;

enum NodeType {
  INVALID_NODE = 0;   METADATA_NODE = 1;   MEM_LOAD_NODE = 2;   MEM_STORE_NODE = 3;
  COMP_NODE = 4;      COMM_SEND_NODE = 5;  COMM_RECV_NODE = 6;  COMM_COLL_NODE = 7;
}

enum CollectiveCommType {
  ALL_REDUCE = 0;  REDUCE = 1;      ALL_GATHER = 2;      GATHER = 3;                SCATTER = 4;
  BROADCAST = 5;   ALL_TO_ALL = 6;  REDUCE_SCATTER = 7;  REDUCE_SCATTER_BLOCK = 8;  BARRIER = 9;
}

message GlobalMetadata {
  string version = 1;
  repeated AttributeProto attr = 2;
}

message Node {
  uint64 id = 1;
  string name = 2;
  NodeType type = 3;
  repeated uint64 ctrl_deps = 4;
  repeated uint64 data_deps = 5;
  uint64 start_time_micros = 6;
  uint64 duration_micros = 7;
  IOInfo inputs = 8;
  IOInfo outputs = 9;
  repeated AttributeProto attr = 10;
}

message IOInfo {
  string values = 1;
  string shapes = 2;
  string types = 3;
}

message AttributeProto {
  string name = 1;
  string doc_string = 2;
  oneof value {
    double double_val = 3;      DoubleList double_list = 4;
    float float_val = 5;        FloatList float_list = 6;
    int32 int32_val = 7;        Int32List int32_list = 8;
    int64 int64_val = 9;        Int64List int64_list = 10;
    uint32 uint32_val = 11;     Uint32List uint32_list = 12;
    uint64 uint64_val = 13;     Uint64List uint64_list = 14;
    sint32 sint32_val = 15;     Sint32List sint32_list = 16;
    sint64 sint64_val = 17;     Sint64List sint64_list = 18;
    fixed32 fixed32_val = 19;   Fixed32List fixed32_list = 20;
    fixed64 fixed64_val = 21;   Fixed64List fixed64_list = 22;
    sfixed32 sfixed32_val = 23; Sfixed32List sfixed32_list = 24;
    sfixed64 sfixed64_val = 25; Sfixed64List sfixed64_list = 26;
    bool bool_val = 27;         BoolList bool_list = 28;
    string string_val = 29;     StringList string_list = 30;
    bytes bytes_val = 31;       BytesList bytes_list = 32;
  }
}

message DoubleList { repeated double values = 1; }
message FloatList { repeated float values = 1; }
message Int32List { repeated int32 values = 1; }
message Int64List { repeated int64 values = 1; }
message Uint32List { repeated uint32 values = 1; }
message Uint64List { repeated uint64 values = 1; }
message Sint32List { repeated sint32 values = 1; }
message Sint64List { repeated sint64 values = 1; }
message Fixed32List { repeated fixed32 values = 1; }
message Fixed64List { repeated fixed64 values = 1; }
message Sfixed32List { repeated sfixed32 values = 1; }
message Sfixed64List { repeated sfixed64 values = 1; }
message BoolList { repeated bool values = 1; }
message StringList { repeated string values = 1; }
message BytesList { repeated bytes values = 1; }
"""
"""`protoc` takes it; `messages` builds classes from it."""


_BLOCK = re.compile(r"(enum|message) (\w+) \{((?:[^{}]|\{[^{}]*\})*)\}")
"""A message may hold one block more, its `oneof`."""
_FIELD = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")
_MEMBER = re.compile(r"(\w+) = (\d+);")
_ONEOF = re.compile(r"oneof (\w+) \{(.*?)\}", re.S)
_SCALARS = {
    *("double", "float", "bool", "string", "bytes"),
    *(f"{kind}{bits}" for kind in ("int", "uint", "sint", "fixed", "sfixed") for bits in (32, 64)),
}
_PACKAGE = "ChakraProtoMsg"
_FILE = "tracebraid/chakra.proto"


class Messages(Struct, frozen=True):
    """Classes of messages, and what they raise for bytes that are none.

    Args:
        metadata: `GlobalMetadata`.
        node: `Node`.
        attribute: `AttributeProto`.
        io_info: `IOInfo`.
        error: what parsing raises.
        to_json: a message as an object of JSON, in protobuf's form.
        of_json: fills an empty message from such an object, and returns it.
        json_error: what that raises.
    """

    metadata: Any
    node: Any
    attribute: Any
    io_info: Any
    error: type[Exception]
    to_json: Callable[[Any], dict[str, Any]]
    of_json: Callable[[dict[str, Any], Any], Any]
    json_error: type[Exception]


@cache
def messages() -> Messages:
    """The classes; they are in a pool of their own, beside those of a Chakra that is installed."""
    try:
        from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.json_format import MessageToDict, ParseDict
        from google.protobuf.json_format import ParseError as JsonError
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass
    except ImportError as error:
        raise missing_extra(Extra.CHAKRA) from error
    file = FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    blocks = _BLOCK.findall(SCHEMA)
    enums = {name for kind, name, _ in blocks if kind == "enum"}
    for kind, name, body in blocks:
        if kind == "enum":
            enum = file.enum_type.add(name=name)
            for member, number in _MEMBER.findall(body):
                enum.value.add(name=member, number=int(number))
            continue
        message = file.message_type.add(name=name)
        choice = _ONEOF.search(body)
        if choice:
            message.oneof_decl.add(name=choice[1])
        for repeated, type_name, field_name, number in _FIELD.findall(body):
            field = message.field.add(name=field_name, number=int(number))
            field.label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
            if type_name in _SCALARS:
                field.type = Field.Type.Value(f"TYPE_{type_name.upper()}")
            else:
                field.type_name = f".{_PACKAGE}.{type_name}"
                field.type = Field.TYPE_ENUM if type_name in enums else Field.TYPE_MESSAGE
            if choice and f" {field_name} = " in choice[2]:
                field.oneof_index = 0
    pool = DescriptorPool()
    pool.Add(file)
    names = ("GlobalMetadata", "Node", "AttributeProto", "IOInfo")
    metadata, node, attribute, io_info = (
        GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in names
    )
    return Messages(metadata, node, attribute, io_info, DecodeError, MessageToDict, ParseDict, JsonError)


TYPE_ONLY = "type"
"""The key of an object that says only the type of an attribute whose value stands in a column."""

_PLAIN: dict[str, type] = {"int64_val": int, "double_val": float, "bool_val": bool, "string_val": str}
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def kind_of(attribute: Any) -> str | None:
    """Return the member with the value of an attribute, such as `int64_val`; None if none has."""
    kind: str | None = attribute.WhichOneof("value")
    return kind


def value_of(attribute: Any) -> object:
    """An attribute without its name."""
    kind = kind_of(attribute)
    if kind is None:
        return {"doc_string": attribute.doc_string} if attribute.doc_string else {}
    held = getattr(attribute, kind)
    value = [_plain(item) for item in held.values] if kind.endswith("_list") else _plain(held)
    if not attribute.doc_string and type(value) is _PLAIN.get(kind):
        return value
    return {kind: value} | ({"doc_string": attribute.doc_string} if attribute.doc_string else {})


def attributes_of(name: str, value: object) -> Iterator[Any]:
    """Return the messages of a value of `value_of`; for a list one for each item."""
    for item in value if isinstance(value, list) else [value]:
        try:
            yield _attribute(name, item)
        except (TypeError, ValueError, AttributeError) as error:
            raise ArgumentError(f"the attribute {name!r} cannot be written as {item!r}: {error}") from None


def _attribute(name: str, value: object) -> Any:
    attribute = messages().attribute(name=name)
    kind = next((kind for kind, plain in _PLAIN.items() if type(value) is plain), None)
    members = {kind: value} if kind else value
    if not isinstance(members, dict):
        raise TypeError("it is not an integer, number, boolean, text or object")
    for member, content in members.items():
        if member == "doc_string":
            attribute.doc_string = content
        elif member.endswith("_list"):
            held = getattr(attribute, member)
            held.SetInParent()
            held.values.extend(_held(member, item) for item in content)
        else:
            setattr(attribute, member, _held(member, content))
    return attribute


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _held(member: str, value: Any) -> Any:
    if member.startswith("bytes"):
        return base64.b64decode(value, validate=True)
    if member.startswith(("double", "float")) and isinstance(value, str):
        return _NOT_FINITE[value]
    return value
