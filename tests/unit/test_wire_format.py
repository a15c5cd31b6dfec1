from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

from tracebraid.exporters.perfetto.schema import (
    PACKET,
    AnnotationField,
    CounterField,
    CounterUnit,
    EventField,
    EventType,
    InternedField,
    NamedField,
    Ordering,
    PacketField,
    ProcessField,
    SequenceFlag,
    ThreadField,
    TrackField,
)
from tracebraid.wire_format import (
    Bytes,
    Constant,
    Fixed64s,
    Message,
    Part,
    Scattered,
    Varints,
    bytes_field,
    encoded,
    number_field,
)

_INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [0, 1, 127, 128, 2**14 - 1, 2**14, 2**56, 2**62, -1]
)
_DESCRIPTORS = {
    PacketField: "TracePacket",
    InternedField: "InternedData",
    EventField: "TrackEvent",
    AnnotationField: "DebugAnnotation",
    TrackField: "TrackDescriptor",
    ProcessField: "ProcessDescriptor",
    ThreadField: "ThreadDescriptor",
    CounterField: "CounterDescriptor",
}
_OTHER_NAMES = {
    (InternedField, "CATEGORIES"): "event_categories",
    (InternedField, "ANNOTATION_NAMES"): "debug_annotation_names",
    (InternedField, "STRING_VALUES"): "debug_annotation_string_values",
    (PacketField, "SEQUENCE_ID"): "trusted_packet_sequence_id",
    (ProcessField, "NAME"): "process_name",
    (ProcessField, "LABELS"): "process_labels",
    (ProcessField, "SORT_INDEX"): "legacy_sort_index",
    (ThreadField, "NAME"): "thread_name",
    (ThreadField, "SORT_INDEX"): "legacy_sort_index",
}


def test_every_field_has_the_number_of_perfettos_schema() -> None:
    messages = schema.DESCRIPTOR.message_types_by_name
    for fields, message in _DESCRIPTORS.items():
        for field in fields:
            name = _OTHER_NAMES.get((fields, field.name), field.name.lower())
            assert messages[message].fields_by_name[name].number == field, (message, name)
    assert messages["Trace"].fields_by_name["packet"].number == PACKET


def test_every_enum_has_the_values_of_perfettos_schema() -> None:
    event, track = schema.TrackEvent, schema.TrackDescriptor
    assert [getattr(event, f"TYPE_{kind.name}") for kind in EventType] == list(EventType)
    assert [getattr(schema.TracePacket, f"SEQ_{flag.name}") for flag in SequenceFlag] == list(SequenceFlag)
    assert [getattr(schema.CounterDescriptor, f"UNIT_{unit.name}") for unit in CounterUnit] == list(
        CounterUnit
    )
    assert track.EXPLICIT == Ordering.EXPLICIT
    for name in ("EventCategory", "EventName", "DebugAnnotationName", "InternedString"):
        fields = schema.DESCRIPTOR.message_types_by_name[name].fields
        assert sorted(field.number for field in fields) == sorted(NamedField)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(_INT64, st.text(max_size=20), st.floats(allow_nan=False), st.lists(_INT64, max_size=3))
    )
)
def test_messages_are_what_protobuf_writes(rows: list[tuple[int, str, float, list[int]]]) -> None:
    """Integers of all sizes, texts, doubles, and a nested message that repeats."""
    count = len(rows)
    nested = [(row, value) for row, (_, _, _, values) in enumerate(rows) for value in values]
    annotations = Message(
        EventField.DEBUG_ANNOTATIONS,
        [
            Constant(number_field(AnnotationField.NAME_IID, 300), len(nested)),
            Varints(AnnotationField.INT_VALUE, np.array([value for _, value in nested], dtype=np.int64)),
        ],
    )
    event: list[Part] = [
        Varints(EventField.COUNTER_VALUE, np.array([row[0] for row in rows], dtype=np.int64)),
        Bytes(23, [row[1].encode() for row in rows]),
        Fixed64s(EventField.DOUBLE_COUNTER_VALUE, np.array([row[2] for row in rows], dtype=np.float64)),
        Scattered(np.array([row for row, _ in nested], dtype=np.int64), annotations, count),
    ]
    found = schema.Trace.FromString(encoded(PACKET, [Message(PacketField.TRACK_EVENT, event)]))
    expected = schema.Trace()
    for number, text, real, values in rows:
        made = expected.packet.add().track_event
        made.counter_value, made.name, made.double_counter_value = number, text, real
        for value in values:
            made.debug_annotations.add(name_iid=300, int_value=value)
    assert found == expected


@given(_INT64, st.text())
def test_single_fields_are_what_protobuf_writes(number: int, text: str) -> None:
    event = number_field(EventField.COUNTER_VALUE, number) + bytes_field(23, text.encode())
    found = schema.TrackEvent.FromString(event)
    assert (found.counter_value, found.name) == (number, text)
