"""An Execution Trace in columns, `.arrow.zip`, read into an `ExecutionTrace`."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import msgspec
import polars as pl

from tracebraid.errors import InputError, NotATraceError
from tracebraid.importers.execution_trace.attributes import collectives_of, is_collective
from tracebraid.importers.execution_trace.tables import Recorded, assemble
from tracebraid.model.column import Table
from tracebraid.model.et_arrow import HEADER, RECORDED_TABLES, RECORDED_TENSOR_USES, is_arrow, member_of
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.schema import ET_EXTRA_ATTRS, ET_NODES, ET_VALUES

__all__ = ["is_et_arrow", "read_et_arrow"]

_COPY_AGAIN = "Copy it again, or capture it again"
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # a way to compress that nobody knows
    RuntimeError,  # a password
    msgspec.MsgspecError,
)


def is_et_arrow(path: str | Path) -> bool:
    """Whether a path names an Execution Trace in columns."""
    return is_arrow(Path(path).name)


def read_et_arrow(path: str | Path) -> ExecutionTrace:
    """Read an Execution Trace in columns.

    Raises:
        InputError: it cannot be read, or a part of it is damaged.
        NotATraceError: it is no such archive.
    """
    name = str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            recorded = _recorded(archive, name)
    except FileNotFoundError:
        raise InputError(name, "there is no such file", "Check the path") from None
    except OSError as error:
        raise InputError(
            name, f"it cannot be read ({error.strerror or error})", "Check the file and its rights"
        ) from None
    except KeyError as error:
        raise NotATraceError(
            name, f"it is no Execution Trace in columns ({error.args[0]})", _COPY_AGAIN
        ) from None
    except _DAMAGE as error:
        raise NotATraceError(name, f"it is damaged ({error})", _COPY_AGAIN) from None
    return assemble(recorded)


def _recorded(archive: zipfile.ZipFile, path: str) -> Recorded:
    header = msgspec.json.decode(archive.read(HEADER), type=dict[str, object])
    tables = {table.name: _table(archive, table, path) for table in RECORDED_TABLES}
    attrs = tables["attrs"]
    split = is_collective(attrs)
    return Recorded(
        path=path,
        header=header,
        nodes=tables[ET_NODES.name].with_columns(is_root=pl.lit(None, pl.Boolean)),
        values=tables[ET_VALUES.name],
        uses=tables[RECORDED_TENSOR_USES.name],
        collectives=collectives_of(attrs.filter(split)),
        extra_attrs=ET_EXTRA_ATTRS.conform(attrs.filter(~split)),
    )


def _table(archive: zipfile.ZipFile, table: Table, path: str) -> pl.DataFrame:
    member = member_of(table)
    content = io.BytesIO(archive.read(member))
    try:
        frame = pl.read_ipc(content)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise NotATraceError(path, f"{member} in it is no Arrow file ({error})", _COPY_AGAIN) from None
    if dict(frame.schema) != table.polars_schema():
        raise NotATraceError(path, f"{member} in it has other columns than expected", _COPY_AGAIN)
    return frame
