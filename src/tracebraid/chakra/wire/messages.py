"""Chakra's messages as classes of the `protobuf` package, built from the schema's text when they are first used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from tracebraid.chakra.wire.schema import SCHEMA
from tracebraid.errors import MissingLibraryError

__all__ = ["Messages", "messages"]

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


@dataclass(frozen=True)
class Messages:
    """Classes of messages, and what they raise for bytes that are none.

    Args:
        metadata: `GlobalMetadata`.
        node: `Node`.
        attribute: `AttributeProto`.
        io_info: `IOInfo`.
        error: what parsing raises.
    """

    metadata: Any
    node: Any
    attribute: Any
    io_info: Any
    error: type[Exception]


@cache
def messages() -> Messages:
    """The classes; they are in a pool of their own, beside those of a Chakra that is installed.

    Raises:
        MissingLibraryError: protobuf is not installed.
    """
    try:
        from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass
    except ImportError as error:
        raise MissingLibraryError(
            "Chakra's .et files need protobuf, which is not installed here. "
            "Install it with: pip install 'tracebraid[chakra]'"
        ) from error
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
    return Messages(metadata, node, attribute, io_info, DecodeError)
