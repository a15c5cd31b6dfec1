"""Counters as packets."""

from __future__ import annotations

from tracebraid.exporters.perfetto.content import Counter
from tracebraid.exporters.perfetto.schema import PACKET, EventField, EventType, PacketField
from tracebraid.wire_format import (
    Constant,
    Fixed64s,
    Message,
    Part,
    Varints,
    encoded,
    number_field,
)

__all__ = ["counter_packets"]


def counter_packets(counter: Counter, uuid: int, sequence: int, origin_ns: int) -> bytes:
    """A packet for each change of a counter.

    Args:
        counter: the counter.
        uuid: that of its track.
        sequence: id of the packet sequence.
        origin_ns: is taken off all times.
    """
    count = len(counter.ts_ns)
    head = number_field(EventField.TYPE, EventType.COUNTER) + number_field(EventField.TRACK_UUID, uuid)
    value: Part
    if counter.values.dtype.kind == "f":
        value = Fixed64s(EventField.DOUBLE_COUNTER_VALUE, counter.values.astype(float))
    else:
        value = Varints(EventField.COUNTER_VALUE, counter.values.astype(int))
    sequence_id = Constant(number_field(PacketField.SEQUENCE_ID, sequence), count)
    times = Varints(PacketField.TIMESTAMP, counter.ts_ns - origin_ns)
    event = Message(PacketField.TRACK_EVENT, [Constant(head, count), value])
    return encoded(PACKET, [sequence_id, times, event])
