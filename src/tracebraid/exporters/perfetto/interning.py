"""Texts that packets of a sequence name by numbers: names, categories, names and values of arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tracebraid.exporters.perfetto.content import Arg, ArgKind, Slices
from tracebraid.exporters.perfetto.schema import (
    PACKET,
    InternedField,
    NamedField,
    PacketField,
    SequenceFlag,
)
from tracebraid.wire_format import Bytes, Ints, Varints, bytes_field, encoded, number_field

__all__ = ["Interned"]


class Interned:
    """The numbers of a sequence's texts; 0 is none, as in Perfetto."""

    def __init__(self, slices: Slices) -> None:
        """Number the texts of slices: those of names and categories as they are, those of arguments together."""
        self._names, self._categories = slices.names.distinct, slices.categories.distinct
        self._arg_names = _numbered(arg.name for arg in slices.args)
        self._values = _numbered(text for arg in slices.args for text in arg.distinct)

    def arg_name(self, arg: Arg) -> int:
        """The number of an argument's name."""
        return self._arg_names[arg.name]

    def arg_values(self, arg: Arg) -> Ints:
        """The number of each distinct text of an argument; empty where it has numbers."""
        if arg.kind not in (ArgKind.TEXT, ArgKind.JSON):
            return np.empty(0, dtype=np.int64)
        return np.array([self._values[text] for text in arg.distinct], dtype=np.int64)

    def packet(self, sequence: int) -> bytes:
        """The first packet of a sequence, with all texts; without a time."""
        data = (
            _entries(InternedField.CATEGORIES, self._categories)
            + _entries(InternedField.EVENT_NAMES, self._names)
            + _entries(InternedField.ANNOTATION_NAMES, list(self._arg_names))
            + _entries(InternedField.STRING_VALUES, list(self._values))
        )
        return bytes_field(
            PACKET,
            number_field(PacketField.SEQUENCE_ID, sequence)
            + number_field(PacketField.SEQUENCE_FLAGS, SequenceFlag.INCREMENTAL_STATE_CLEARED)
            + number_field(PacketField.FIRST_PACKET_ON_SEQUENCE, 1)
            + bytes_field(PacketField.INTERNED_DATA, data),
        )


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}


def _entries(field: int, texts: Sequence[str]) -> bytes:
    numbers = Varints(NamedField.IID, np.arange(1, len(texts) + 1))
    return encoded(field, [numbers, Bytes(NamedField.NAME, [text.encode() for text in texts])])
