"""What is read of an `.et` file is what the protobuf package reads, whatever bytes the file holds."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.reading import read_rank
from tracebraid.chakra.wire.writing import rank_bytes
from tracebraid.errors import InputError
from tracebraid.model.chakra.codes import NodeType
from tracebraid.wire_format import number_field

_UINT64 = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 127, 128, 2**31, 2**32, 2**63 - 1, 2**63])
_TEXT = st.text(max_size=8)
_NAMES = st.sampled_from(
    ["comm_size", "is_cpu_op", "comm_type", "pg_name", "comm_tag", "tensor_size", "rf_id", ""]
)
_INT32, _INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_UINT32 = st.integers(0, 2**32 - 1)
_OF_TYPE = {
    "double": st.floats(),
    "float": st.floats(width=32),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _INT32),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), _INT64),
    **dict.fromkeys(("uint32", "fixed32"), _UINT32),
    **dict.fromkeys(("uint64", "fixed64"), _UINT64),
    "bool": st.booleans(),
    "string": _TEXT,
    "bytes": st.binary(max_size=6),
}


@st.composite
def attributes(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(sorted(_OF_TYPE)))
    attribute = messages().attribute(name=draw(_NAMES), doc_string=draw(st.just("") | _TEXT))
    form = draw(st.sampled_from(["value", "value", "list", "none"]))
    if form == "value":
        setattr(attribute, f"{kind}_val", draw(_OF_TYPE[kind]))
    elif form == "list":
        held = getattr(attribute, f"{kind}_list")
        held.SetInParent()
        held.values.extend(draw(st.lists(_OF_TYPE[kind], max_size=3)))
    return attribute


@st.composite
def io_infos(draw: st.DrawFn) -> Any:
    return messages().io_info(values=draw(_TEXT), shapes=draw(_TEXT), types=draw(_TEXT))


@st.composite
def nodes(draw: st.DrawFn) -> Any:
    node = messages().node(
        id=draw(_UINT64),
        name=draw(_TEXT),
        type=draw(st.integers(1, 9)),
        ctrl_deps=draw(st.lists(_UINT64, max_size=3)),
        data_deps=draw(st.lists(_UINT64, max_size=3)),
        start_time_micros=draw(_UINT64),
        duration_micros=draw(_UINT64),
        attr=draw(st.lists(attributes(), max_size=4)),
    )
    for member in ("inputs", "outputs"):
        if draw(st.booleans()):
            getattr(node, member).CopyFrom(draw(io_infos()))
    return node


def framed(contents: list[bytes]) -> bytes:
    """Each behind its length."""
    return b"".join(number_field(0, len(content))[1:] + content for content in contents)


def signed(bits: int) -> int:
    return bits - (1 << 64) if bits >= 1 << 63 else bits


def read(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.0.et")
        path.write_bytes(content)
        return read_rank(path)


@settings(deadline=None, max_examples=30)
@given(st.lists(nodes(), max_size=4), st.lists(attributes(), max_size=2))
def test_columns_hold_what_protobuf_reads(written: list[Any], of_file: list[Any]) -> None:
    metadata = messages().metadata(version="0.0.4", attr=of_file)
    found = read(framed([message.SerializeToString() for message in (metadata, *written)]))
    assert [name for name, _ in found.attributes] == [attribute.name for attribute in of_file]
    names = {kind.value: kind.name for kind in NodeType}
    rows = found.nodes.to_dicts()
    assert len(rows) == len(written)
    for row, node in zip(rows, written, strict=True):
        assert row["node_id"] == signed(node.id)
        assert row["name"] == node.name
        assert row["type"] == names.get(node.type, str(node.type))
        assert (row["duration_micros"] or 0) == max(0, signed(node.duration_micros))
        assert (row["shapes"] or "") == node.inputs.shapes
    for deps, member in ((found.data_deps, "data_deps"), (found.ctrl_deps, "ctrl_deps")):
        expected = [signed(item) for node in written for item in getattr(node, member)]
        assert deps.node_id.tolist() == expected
    again = read(b"".join(rank_bytes(found)))
    assert again.nodes.equals(found.nodes.with_columns(pl.col("duration_micros").fill_null(0)))


@settings(deadline=None, max_examples=60)
@given(st.lists(nodes(), min_size=1, max_size=3), st.data())
def test_damage_loses_no_node_that_protobuf_still_reads(written: list[Any], data: st.DataObject) -> None:
    contents = [bytearray(node.SerializeToString()) for node in written]
    wanted = data.draw(st.integers(0, len(contents) - 1))
    for _ in range(data.draw(st.integers(1, 4))):
        if contents[wanted]:
            at = data.draw(st.integers(0, len(contents[wanted]) - 1))
            contents[wanted][at] = data.draw(st.integers(0, 255))
    found = read(framed([b"\n\x050.0.4", *map(bytes, contents)]))
    kept = []
    for content in contents:
        try:
            kept.append(messages().node.FromString(bytes(content)))
        except messages().error:
            continue
    assert found.nodes["node_id"].to_list() == [signed(node.id) for node in kept]
    assert found.nodes["name"].to_list() == [node.name for node in kept]
    assert found.data_deps.node_id.tolist() == [signed(item) for node in kept for item in node.data_deps]
    assert bool(found.findings) >= (len(kept) < len(written))


@settings(deadline=None, max_examples=80)
@given(st.binary(max_size=60) | st.lists(st.binary(max_size=20), max_size=5).map(framed))
def test_no_bytes_raise_anything_else_than_an_error_that_names_the_file(content: bytes) -> None:
    with contextlib.suppress(InputError):
        assert read(content).rank == 0
