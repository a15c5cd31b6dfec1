"""An Execution Trace in columns, `.arrow.zip`, read into an `ExecutionTrace`."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl

from tracebraid.child_process.worker import Parent, Worker, limit_memory
from tracebraid.errors import NotATraceError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.compression import RATIO_AT_MOST, unpacked_at_most_bytes
from tracebraid.filesystem.interface import file_object
from tracebraid.filesystem.paths import text_of
from tracebraid.importers.execution_trace.tables import Recorded, assemble, collectives_of, is_collective
from tracebraid.importers.json_stream.header import members_of
from tracebraid.model.column import Kind, Table
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding, FindingCase, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.op_schema import HEADER, RECORDED_TABLES, RECORDED_TENSOR_USES, member_of
from tracebraid.model.schema import ET_EXTRA_ATTRS, ET_NODES, ET_VALUES
from tracebraid.model.text_bytes import refuse_repeated_texts

_SERVE = "tracebraid.importers.execution_trace.arrow:serve"
_SECONDS_AT_MOST = 300
"""A file that takes longer is refused; 100 MB of columns take about a second."""
_MEMORY_BYTES = 3 << 29
"""Memory of the trial in addition to the files: polars' own 200 MB, and decoded small files."""
_MEMORY_OVER_FILES = 20
"""Memory that the trial may take for a byte of the files: columns of recordings are compressed up to 8 times."""
_SURVIVED = b""
"""The reply of the trial: all files were decoded, or one was refused by an error of its own."""


def survives_decoding(contents: Iterable[bytes]) -> bool:
    """Return whether Arrow files can be decoded, or refused, without ending the process that does.

    Also true if no process can be started.
    """
    contents = list(contents)
    try:
        # One thread decodes small files as fast as many, which take memory each.
        trial = Worker.start(_SERVE, str(len(contents)), threads=1, quiet=True)
    except OSError:
        return True
    try:
        for content in contents:
            trial.send(content)
        return trial.receive(_SECONDS_AT_MOST) is not None
    except OSError:
        # It is gone, or takes too long.
        return False
    finally:
        trial.close()


def serve(replies_fd: str, folder: str, count: str) -> None:
    """Decode in a child as many files as come in, down to each value, and reply if that did not end the child."""
    parent = Parent(replies_fd, folder)
    contents = [parent.receive() for _ in range(int(count))]
    limit_memory(_MEMORY_BYTES + _MEMORY_OVER_FILES * sum(map(len, contents)))
    try:
        for content in contents:
            frame = pl.read_ipc(io.BytesIO(content))
            frame.with_columns(pl.col(pl.Categorical).cast(pl.String)).hash_rows()
    except (pl.exceptions.PolarsError, OSError):
        pass
    except BaseException:  # noqa: BLE001 - polars panics with one.
        # A normal exit could hang after a panic.
        os._exit(1)
    parent.reply(_SURVIVED)


_COPY_AGAIN = "Copy it again, or capture it again"
_ANY_JSON = msgspec.json.Decoder(msgspec.Raw)
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,  # names and texts in no encoding, offsets before the start of the file
    struct.error,
    NotImplementedError,  # an unknown compression
    RuntimeError,  # a password; JSON that is nested too deep
    msgspec.MsgspecError,
)


def read_et_arrow(path: str | Path) -> ExecutionTrace:
    """Read an Execution Trace in columns."""
    file = file_system_of(text_of(path)).open(text_of(path))
    name = file.path
    try:
        with zipfile.ZipFile(file_object(file)) as archive:
            _refuse_expanding(archive, name, file.size_bytes)
            recorded = _recorded(archive, name)
    except KeyError as error:
        raise NotATraceError(
            name, f"it is no Execution Trace in columns ({error.args[0]})", _COPY_AGAIN
        ) from None
    except _DAMAGE as error:
        raise NotATraceError(name, f"it is damaged ({error})", _COPY_AGAIN) from None
    return replace(assemble(recorded), size_bytes=file.size_bytes)


def _refuse_expanding(archive: zipfile.ZipFile, path: str, size_bytes: int) -> None:
    """Reject an archive whose members state a far larger size; no more than that is read of them."""
    names = (HEADER, *map(member_of, RECORDED_TABLES))
    infos = [archive.getinfo(name) for name in names]
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in infos):
        raise NotATraceError(path, "its members have a compression that no recorder uses", _COPY_AGAIN)
    whole_bytes = sum(info.file_size for info in infos)
    if whole_bytes > unpacked_at_most_bytes(size_bytes):
        problem = f"its members unpack to more than {RATIO_AT_MOST} times its size, to {whole_bytes:,} bytes"
        raise NotATraceError(path, problem, _COPY_AGAIN)


def _recorded(archive: zipfile.ZipFile, path: str) -> Recorded:
    header = members_of(archive.read(HEADER))
    if header is None or not header.is_whole:
        raise NotATraceError(path, f"it is damaged: {HEADER} in it cannot be read", _COPY_AGAIN)
    contents = {table.name: archive.read(member_of(table)) for table in RECORDED_TABLES}
    if not survives_decoding(contents.values()):
        raise NotATraceError(path, "it is damaged: a table in it cannot be decoded", _COPY_AGAIN)
    tables = {table.name: _table(contents[table.name], table, path) for table in RECORDED_TABLES}
    refuse_repeated_texts(tables.values(), sum(map(len, contents.values())))
    return _checked(path, header.members, tables)


def _checked(path: str, header: dict[str, object], tables: dict[str, pl.DataFrame]) -> Recorded:
    """The tables with each node once, and with no row of a node that is not there."""
    nodes = tables.pop(ET_NODES.name)
    first = nodes.filter(pl.col("node_id").is_not_null() & pl.col("name").is_not_null())
    nodes_once = first.unique("node_id", keep="first", maintain_order=True)
    repeated = first.filter(
        first.get_column("node_id").is_duplicated() & ~first.get_column("node_id").is_first_distinct()
    )
    known = nodes_once.get_column("node_id").implode()
    counts = {name: table.height for name, table in tables.items()}
    tables = {name: _of_nodes(table, known) for name, table in tables.items()}
    attrs = tables["attrs"]
    split = is_collective(attrs)
    unreadable = nodes.height - first.height
    astray = sum(counts[name] - table.height for name, table in tables.items())
    findings = []
    if unreadable:
        loss, details = Loss(unreadable, unreadable), {"case": FindingCase.NODES_INCOMPLETE}
        findings.append(Finding(FindingCode.NODE_UNREADABLE, path, ET_NODES.name, unreadable, loss, details))
    if astray:
        findings.append(Finding(FindingCode.ROWS_WITHOUT_NODE, path, ", ".join(sorted(tables)), astray))
    return Recorded(
        path=path,
        header=header,
        nodes=nodes_once.with_columns(is_root=pl.lit(None, pl.Boolean)),
        values=tables[ET_VALUES.name],
        collectives=collectives_of(attrs.filter(split)),
        extra_attrs=ET_EXTRA_ATTRS.conform(attrs.filter(~split)),
        uses=tables[RECORDED_TENSOR_USES.name],
        repeated=tuple(repeated.get_column("node_id").to_list()),
        findings=tuple(findings),
    )


def _refuse_no_json(frame: pl.DataFrame, table: Table) -> None:
    """Reject invalid JSON texts; each distinct text is checked once."""
    for column in table.columns:
        if column.kind is not Kind.JSON:
            continue
        texts = frame.get_column(column.name).unique().drop_nulls().cast(pl.String).to_list()
        # A text is never split: the lines of one with a line break are no JSON, or too many.
        try:
            lines = _ANY_JSON.decode_lines("\n".join(texts))
        except (msgspec.MsgspecError, RecursionError):
            lines = []
        if len(lines) != len(texts):
            for text in texts:
                _ANY_JSON.decode(text)


def _of_nodes(table: pl.DataFrame, nodes: pl.Series) -> pl.DataFrame:
    """The rows of nodes that exist, and that say which of their arguments they are about."""
    names = ["is_output", "position", "tensor_id", "storage_id", "key"]
    needed = [
        name for name in (*names, *(["value"] if "key" in table.columns else [])) if name in table.columns
    ]
    return table.filter(
        pl.col("node_id").is_in(nodes).fill_null(False), *(pl.col(name).is_not_null() for name in needed)
    )


def _table(content: bytes, table: Table, path: str) -> pl.DataFrame:
    member = member_of(table)
    try:
        frame = pl.read_ipc(io.BytesIO(content))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise NotATraceError(path, f"{member} in it is no Arrow file ({error})", _COPY_AGAIN) from None
    if dict(frame.schema) != table.polars_schema():
        raise NotATraceError(path, f"{member} in it has other columns than expected", _COPY_AGAIN)
    _refuse_no_json(frame, table)
    return frame
