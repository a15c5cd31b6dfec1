"""The table of what was matched between ranks."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["MATCHED_GROUPS"]

_INT, _FLOAT, _TEXT = Kind.INT, Kind.FLOAT, Kind.TEXT

MATCHED_GROUPS = Table(
    "matched_groups",
    "One row per process group and type of collective; groups in the order of their first collective, of theirs the "
    "type with the most members first.",
    (
        Column("group", _TEXT, "the group: the same text for all ranks"),
        Column("names", _TEXT, "the names that ranks have for it, by `, `; null: they name none"),
        Column("description", _TEXT, "its description; null: unknown"),
        Column("group_size", _INT, "ranks of the group; null: unknown"),
        Column("ranks", _TEXT, "ranks that have such a member: `0-3, 7`"),
        Column(
            "missing",
            _TEXT,
            "ranks of the group that have none; null: there are none, or the group's ranks are unknown",
        ),
        Column("type", _TEXT, "what is communicated (`CollectiveType`); null: unknown"),
        Column("members", _INT, "collectives, sends and receives of all ranks: `matched + unmatched`"),
        Column("matched", _INT, "members that were matched with a member of another rank"),
        Column("unmatched", _INT, "members that were not: `alone + open`"),
        Column("alone", _INT, "of these, members whose group has no other rank that was read"),
        Column(
            "open",
            _INT,
            "of these, members that another rank may have lost, or that nothing tells from others",
        ),
        Column("collectives", _INT, "collectives, or pairs of a send and a receive, that were matched"),
        Column("complete", _INT, "collectives of which all ranks of the group have a member"),
        Column("by_sequence", _INT, "collectives that numbers matched"),
        Column("by_order", _INT, "collectives that the order of equal members matched"),
        Column("by_alignment", _INT, "collectives that an alignment of different windows matched"),
        Column("by_time", _INT, "collectives of which the times had to decide"),
        Column("disagreeing", _INT, "collectives whose members differ in type, size or element type"),
        Column("confidence", _FLOAT, "the least confidence of a match, 0 to 1; null: there is none"),
    ),
)
