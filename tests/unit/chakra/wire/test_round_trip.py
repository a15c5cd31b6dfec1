"""Columns to bytes and back: both are Chakra's own, as the protobuf package reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tracebraid.chakra.wire.frames import open_frames
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.reading import read_rank
from tracebraid.chakra.wire.writing import rank_bytes, write_rank
from tracebraid.errors import ArgumentError, NotATraceError, OutputError
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.schema.chakra import CHAKRA_NODES

NODES = CHAKRA_NODES.conform(
    pl.DataFrame(
        {
            "node_id": [7, 3, 2**40],
            "name": ["matmul", "gradients Ü", ""],
            "type": ["COMP_NODE", "COMM_COLL_NODE", "COMM_SEND_NODE"],
            "start_time_micros": [None, 5, None],
            "duration_micros": [100, 0, 3],
            "is_cpu_op": [True, False, None],
            "comm_type": [None, "ALL_REDUCE", None],
            "comm_size": [None, 1 << 20, 8],
            "comm_dst": [None, None, 1],
            "comm_tag": [None, None, 4],
            "pg_name": [None, "2", None],
            "num_ops": [1 << 50, None, None],
            "tensor_size": [0, None, None],
            "shapes": ["[[2,3]]", None, None],
            "inputs": [None, '{"values":"[1]","types":"[\\"Int\\"]"}', None],
            "outputs": ['{"shapes":"[[2]]"}', None, None],
            "attributes": [
                '{"rf_id":5,"share":0.5,"op_schema":"","few":{"int32_list":[]},"raw":{"bytes_val":"AP8="},"flag":true}',
                '{"comm_size":{"type":"uint64_val"},"twice":[1,{"sint32_val":-3}]}',
                '{"infinite":{"double_val":"-Infinity"},"with":{"int64_val":3,"doc_string":"why"},"none":{}}',
            ],
        }
    ),
    fill_missing=True,
)
RANK = ChakraRank(
    0,
    "0.0.4",
    (("schema", "1.1.1"), ("pid", 12), ("share", 0.5), ("shrunk", True)),
    NODES,
    NodeDeps(np.array([0, 0, 1, 3]), np.array([7, 7, 3])),
    NodeDeps(np.array([0, 1, 1, 1]), np.array([3])),
)


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def parsed(path: Path) -> list[object]:
    """The nodes of a file as protobuf reads them, each message in the bytes that it would write."""
    found = []
    for batch in open_frames(path).batches():
        for row, (start, stop) in enumerate(zip(batch.messages.start, batch.messages.stop, strict=True)):
            kind = messages().node if batch.first + row else messages().metadata
            found.append(kind.FromString(batch.data[start:stop]))
            assert found[-1].SerializeToString() == batch.data[start:stop]
    return found


@pytest.mark.parametrize("name", ["job.3.et", "job.3.et.gz"])
def test_a_rank_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    size_bytes = write_rank(tmp_path / name, RANK)
    assert size_bytes == (tmp_path / name).stat().st_size
    found = read_rank(tmp_path / name)
    assert (found.rank, found.version, found.findings) == (3, "0.0.4", ())
    assert tuple(found.attributes) == tuple(RANK.attributes)
    assert_frame_equal(plain(found.nodes), plain(NODES))
    for deps, expected in ((found.data_deps, RANK.data_deps), (found.ctrl_deps, RANK.ctrl_deps)):
        assert deps.first.tolist() == expected.first.tolist()
        assert deps.node_id.tolist() == expected.node_id.tolist()
    assert b"".join(rank_bytes(found)) == b"".join(rank_bytes(RANK))


def test_protobuf_reads_what_simulators_ask_for(tmp_path: Path) -> None:
    write_rank(tmp_path / "a.0.et", RANK)
    _, first, second, third = parsed(tmp_path / "a.0.et")
    kinds = [{item.name: item.WhichOneof("value") for item in node.attr} for node in (first, second, third)]
    assert kinds[0]["is_cpu_op"] == "bool_val"
    assert kinds[0]["tensor_size"] == "uint64_val"
    assert kinds[1]["comm_type"] == "int64_val"
    assert kinds[1]["pg_name"] == "string_val"
    assert kinds[1]["comm_size"] == "uint64_val", "the type that the file had is kept"
    assert kinds[2]["comm_size"] == "int64_val"
    assert kinds[2]["comm_dst"] == kinds[2]["comm_tag"] == "int32_val"
    assert list(third.data_deps) == [7, 3]
    assert third.id == 2**40
    assert first.inputs.shapes == "[[2,3]]"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("type", "COMPUTE"),
        ("comm_type", "ALLREDUCE"),
        ("comm_tag", 2**31),
        ("duration_micros", -1),
        ("tensor_size", -1),
        ("attributes", '{"a":{"int65_val":1}}'),
        ("attributes", '{"a":{"int32_val":"x"}}'),
        ("attributes", "[1]"),
        ("inputs", '{"kinds":"x"}'),
    ],
)
def test_what_fits_no_field_is_refused_and_nothing_is_written(
    tmp_path: Path, column: str, value: object
) -> None:
    dtype = NODES.schema[column]
    wrong = NODES.with_columns(pl.lit(value).cast(dtype).alias(column))
    with pytest.raises(ArgumentError):
        write_rank(tmp_path / "a.0.et", ChakraRank(0, "0.0.4", (), wrong, RANK.data_deps, RANK.ctrl_deps))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.0.et").write_bytes(b"mine")
    with pytest.raises(OutputError):
        write_rank(tmp_path / "a.0.et", RANK)
    assert (tmp_path / "a.0.et").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"schema": "1.1.1", "nodes": []}', b"\x05hello", b"\xff" * 40]
)
def test_what_is_no_et_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.0.et").write_bytes(content)
    with pytest.raises(NotATraceError):
        read_rank(tmp_path / "a.0.et")
