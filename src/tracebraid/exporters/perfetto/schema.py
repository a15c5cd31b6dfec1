"""Numbers of the fields of Perfetto's protobuf that are written, as `perfetto_trace.proto` has them."""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "PACKET",
    "AnnotationField",
    "CounterField",
    "CounterUnit",
    "EventField",
    "EventType",
    "InternedField",
    "NamedField",
    "Ordering",
    "PacketField",
    "ProcessField",
    "SequenceFlag",
    "ThreadField",
    "TrackField",
]

PACKET = 1
"""`Trace.packet`."""


class PacketField(IntEnum):
    """`TracePacket`."""

    TIMESTAMP = 8
    SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TRACK_DESCRIPTOR = 60
    FIRST_PACKET_ON_SEQUENCE = 87


class SequenceFlag(IntEnum):
    """`TracePacket.SequenceFlags`."""

    INCREMENTAL_STATE_CLEARED = 1
    NEEDS_INCREMENTAL_STATE = 2


class InternedField(IntEnum):
    """`InternedData`."""

    CATEGORIES = 1
    EVENT_NAMES = 2
    ANNOTATION_NAMES = 3
    STRING_VALUES = 29


class NamedField(IntEnum):
    """`EventCategory`, `EventName`, `DebugAnnotationName` and `InternedString` alike."""

    IID = 1
    NAME = 2


class EventField(IntEnum):
    """`TrackEvent`."""

    CATEGORY_IIDS = 3
    DEBUG_ANNOTATIONS = 4
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    COUNTER_VALUE = 30
    DOUBLE_COUNTER_VALUE = 44
    FLOW_IDS = 47


class EventType(IntEnum):
    """`TrackEvent.Type`."""

    SLICE_BEGIN = 1
    SLICE_END = 2
    INSTANT = 3
    COUNTER = 4


class AnnotationField(IntEnum):
    """`DebugAnnotation`."""

    NAME_IID = 1
    BOOL_VALUE = 2
    INT_VALUE = 4
    DOUBLE_VALUE = 5
    STRING_VALUE_IID = 17


class TrackField(IntEnum):
    """`TrackDescriptor`."""

    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT_UUID = 5
    COUNTER = 8
    CHILD_ORDERING = 11
    SIBLING_ORDER_RANK = 12


class Ordering(IntEnum):
    """`TrackDescriptor.ChildTracksOrdering`."""

    EXPLICIT = 3


class ProcessField(IntEnum):
    """`ProcessDescriptor`."""

    PID = 1
    SORT_INDEX = 3
    NAME = 6
    LABELS = 8


class ThreadField(IntEnum):
    """`ThreadDescriptor`."""

    PID = 1
    TID = 2
    SORT_INDEX = 3
    NAME = 5


class CounterField(IntEnum):
    """`CounterDescriptor`."""

    UNIT = 3
    UNIT_NAME = 6


class CounterUnit(IntEnum):
    """`CounterDescriptor.Unit`."""

    COUNT = 2
    SIZE_BYTES = 3
