"""The tables of `docs/chakra_collectives.md` are those of the code."""

from __future__ import annotations

from pathlib import Path

from tracebraid.exporters.chakra.plan.communication_mapping import ASTRA_SIM_LEAST_BYTES, MAPPINGS, Mapping
from tracebraid.model.chakra.codes import AloneReason, CollectiveCommType
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.sentences import ALONE_REASONS

DOC = Path(__file__).resolve().parents[4] / "docs" / "chakra_collectives.md"


def rows_under(heading: str) -> list[str]:
    """The rows of the first table under a heading."""
    lines = DOC.read_text().split(f"## {heading}\n")[1].splitlines()
    table = [
        line
        for line in lines[: next(n for n, line in enumerate(lines) if line.startswith("## "))]
        if line[:1] == "|"
    ]
    return table[2:]


def row_of(mapping: Mapping) -> str:
    def became(comm_type: CollectiveCommType | None) -> str:
        direction = "SEND" if mapping.type is CollectiveType.SEND else "RECV"
        return f"`COMM_{direction}_NODE`" if comm_type is None else f"`{comm_type.name}`"

    columns = (became(mapping.comm_type), became(mapping.astra_sim), mapping.rule.value, mapping.why)
    return f"| `{mapping.type.value}` | {' | '.join(columns)} |"


def test_the_table_of_types_is_that_of_the_code() -> None:
    assert rows_under("Types and bytes") == [row_of(mapping) for mapping in MAPPINGS]
    assert f"for ASTRA-sim {ASTRA_SIM_LEAST_BYTES}:" in DOC.read_text()


def test_the_table_of_reasons_is_that_of_the_code() -> None:
    rows = [f"| `alone.{reason.value}` | {ALONE_REASONS[reason]} |" for reason in AloneReason]
    assert rows_under("What is simulated alone") == rows
