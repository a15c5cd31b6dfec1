"""Rows of the page's tables: in order, found, copied, shortened."""

from __future__ import annotations

import csv
import io
import random
from typing import Any

import polars as pl

from tests.deno import evaluated
from tests.unit.reports.page.test_cells import header_of
from tracebraid.reports.page.data_block import data_block

START_NS = 1_700_000_000_123_456_789
NAMES = [
    None,
    "b10",
    "b9",
    "B9",
    "a",
    "",
    "=1+1",
    "+x",
    "-x",
    "@x",
    "\tx",
    "\rx",
    'q"q',
    "c,c",
    "n\nn",
    "host-late",
]
MOST = 30


def frame() -> pl.DataFrame:
    rng = random.Random(4)
    rows = 200
    return pl.DataFrame(
        {
            "name": [rng.choice(NAMES) for _ in range(rows)],
            "cause": [rng.choice(["host-late", "queued", None]) for _ in range(rows)],
            "count": pl.Series([rng.choice([None, 1, 2, 10, -3]) for _ in range(rows)], dtype=pl.Int64),
            "ratio": [rng.choice([None, 0.25, 1e-9, -2.0]) for _ in range(rows)],
            "ts_ns": [1000 * row for row in range(rows)],
            "is_bound": [rng.choice([True, False, None]) for _ in range(rows)],
            "ranks": [[row, row + 1] for row in range(rows)],
        }
    )


def run(script: str, **values: Any) -> Any:
    """A script with `frame`, `columns` and the values as `input`."""
    table = frame()
    head = (
        'import { frameOf } from "tracebraid/data_block.js";\n'
        'import { finder, ordered } from "tracebraid/table/order.js";\n'
        'import { csv, tsv } from "tracebraid/table/delimited.js";\n'
        "const frame = await frameOf(input.block);\nconst { columns } = input;\n"
        "const all = ordered(frame, columns, null);\n"
    )
    return evaluated(
        head + script,
        {"block": data_block(table), "columns": header_of(table), "start": str(START_NS), **values},
    )


def test_numbers_are_ordered_as_numbers_with_null_last() -> None:
    table = frame().with_row_index("row")
    sorts = [(name, down) for name in ("count", "ratio", "is_bound") for down in (False, True)]
    found = run(
        "output = input.sorts.map(([name, isDescending]) => [...ordered(frame, columns, { name, isDescending })]);",
        sorts=sorts,
    )
    assert found == [
        table.sort(name, descending=down, nulls_last=True, maintain_order=True)["row"].to_list()
        for name, down in sorts
    ]


def test_texts_are_ordered_as_they_are_shown() -> None:
    script = """output = ["name", "cause"].map((name) => [false, true].map((isDescending) =>
      [...ordered(frame, columns, { name, isDescending })].map((row) => frame.columns[name][row])));"""
    (names, _), (causes, reversed_causes) = run(script)
    known = [name for name in names if name is not None]
    assert names[len(known) :] == [None] * (len(names) - len(known))
    assert known.index("b9") < known.index("b10")
    # Shown as "between kernels" and "host was late".
    first = [cause for cause in causes if cause is not None]
    assert list(dict.fromkeys(first)) == ["queued", "host-late"]
    assert list(dict.fromkeys(reversed_causes)) == ["host-late", "queued", None]


def test_rows_are_found_by_what_they_show() -> None:
    table = frame()
    sought = ["HOST WAS", "b9", "\\t", "no such text", " "]
    found = run(
        "const find = finder(frame, columns); output = input.sought.map((text) => find(text, all).length);",
        sought=sought,
    )
    names = table["name"].fill_null("")
    assert found == [
        table.filter(pl.col("cause") == "host-late").height,
        names.str.to_lowercase().str.contains("b9").sum(),
        names.str.contains("\t").sum(),
        0,
        table.height,
    ]


def test_csv_holds_all_values_and_no_formula() -> None:
    table = frame()
    text = run("output = csv(frame, columns, all, BigInt(input.start));")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for row, expected in zip(rows, table.to_dicts(), strict=True):
        name = expected["name"] or ""
        assert row["name"] == (f"'{name}" if name[:1] in tuple("=+-@\t\r") and name else name)
        assert row["count"] == ("" if expected["count"] is None else str(expected["count"]))
        assert (float(row["ratio"]) if row["ratio"] else None) == expected["ratio"]
        assert int(row["ts_ns"]) == expected["ts_ns"] + START_NS
        assert row["is_bound"] == {None: "", True: "true", False: "false"}[expected["is_bound"]]


def test_a_copied_text_stays_in_its_cell() -> None:
    lines = run("output = tsv(frame, columns, all.slice(0, 50), 0n);").splitlines()
    assert len(lines) == 51
    assert {line.count("\t") for line in lines} == {frame().width - 1}


def test_short_forms_differ_where_names_do() -> None:
    stem = "void at::native::vectorized_elementwise_kernel<4, at::native::"
    names = [f"{stem}{op}, std::array<char*, 2>>(int, std::array)" for op in ("add", "mul", "sub", "div")]
    names += [f"gemm_{size}_" + "x" * 60 + "_relu" for size in (64, 128)] + ["short", "😀" * 40, "y" * 10_000]
    found = evaluated(
        f'import {{ shortForms }} from "tracebraid/table/shorten.js"; output = [...shortForms(input, {MOST})];',
        names,
    )
    short = dict(found)
    assert set(short) == {name for name in names if len(name.encode("utf-16-le")) // 2 > MOST}
    assert len(set(short.values())) == len(short)
    assert max(len(text) for text in short.values()) <= MOST
    for text in short.values():
        text.encode("utf-8")
