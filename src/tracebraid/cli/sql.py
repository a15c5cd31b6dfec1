"""`tracebraid sql`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import polars as pl
from msgspec.structs import asdict

from tracebraid.api.querying import QueryOptions, answer_query, query_functions, query_table, query_tables
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import JobOptions, OptionalTracePath, with_job_options
from tracebraid.cli.output import (
    exit_if_unreadable,
    output_width,
    progress,
    say,
    say_findings,
    say_json,
)
from tracebraid.cli.parameters import Argument, Option
from tracebraid.cli.table_output import Format, TableOptions, Target, with_table_options, write_rows
from tracebraid.ctrl_c import raised_outside_polars
from tracebraid.errors import ArgumentError
from tracebraid.files import is_folder
from tracebraid.queries.database import QUERY_MEMORY_BYTES, QueryLimits
from tracebraid.reports.query_table import columns_table, names_table, query_parts

_TOP = 40
"""Default number of printed rows."""
_MIB = 2**20


@command(Group.LOOK, 8, lambda options: () if options["tables"] or options["schema"] else (Extra.SQL,))
@with_job_options
@with_table_options
def sql(
    job_options: JobOptions,
    table_options: TableOptions,
    path: OptionalTracePath = None,
    query: Annotated[
        str | None, Argument(metavar="QUERY", help="One select statement in DuckDB's SQL.")
    ] = None,
    tables: Annotated[
        bool, Option("--tables", help="List the tables, views and functions that a query may use.")
    ] = False,
    schema: Annotated[
        str | None, Option("--schema", metavar="VIEW", help="List the columns of a table or view.")
    ] = None,
    top: Annotated[
        int | None,
        Option("--top", min=1, metavar="N", help=f"Print the first N rows; {_TOP} by default."),
    ] = None,
    allow_files: Annotated[
        list[Path] | None,
        Option(
            "--allow-files",
            metavar="FOLDER",
            help="Allow the query to read files of this folder, with read_csv and the like; can be repeated.",
        ),
    ] = None,
    memory_mib: Annotated[
        int, Option("--memory", min=16, metavar="MIB", help="Memory that the query may use.")
    ] = QUERY_MEMORY_BYTES // _MIB,
) -> None:
    """Query the tables of all ranks in SQL; names are text, times are numbers."""
    target = table_options.target()
    if tables or schema is not None:
        _list(schema, target)
        return
    if path is None or query is None:
        raise ArgumentError(
            "give a PATH and a QUERY, such as: select * from steps; --tables lists the tables"
        )
    if top is not None and target.form is not None:
        raise ArgumentError("--top limits tables on the terminal, files get all rows: drop it")
    folders = tuple(allow_files or ())
    for folder in folders:
        if not is_folder(folder):
            raise ArgumentError(f"--allow-files {folder}: not a folder")
    target.refuse_existing()
    shown = top or _TOP
    limits = QueryLimits(memory_mib * _MIB, folders=folders)
    options = QueryOptions(limits, limit=None if target.form is not None else shown + 1)
    with ExitStack() as answering:
        # A query may run for hours: an interrupt ends it, however the command was started.
        answering.enter_context(raised_outside_polars(even_ignored=True))
        with progress("answering") as update:
            job = job_options.open(path, update)
            slices = answering.enter_context(answer_query(job, query, options))
        say_findings(job.findings)
        if target.form is not None:
            write_rows(slices, target)
        else:
            width = output_width()
            say(*query_parts(pl.concat(slices), shown, width), width=width)
    exit_if_unreadable(job.findings)


def _list(name: str | None, target: Target) -> None:
    """Print the tables, views and functions of a query, or the columns of a table or view."""
    if target.out is not None or target.form not in (None, Format.JSON):
        raise ArgumentError("--tables and --schema go with --json only")
    if name is not None:
        table = query_table(name)
        if target.form is Format.JSON:
            say_json(asdict(table))
        else:
            rows = [(column.name, column.type, column.doc) for column in table.columns]
            say(f"{table.full_name}: {table.doc}", columns_table(rows))
    elif target.form is Format.JSON:
        say_json({"tables": [*map(asdict, query_tables())], "functions": [*map(asdict, query_functions())]})
    else:
        say(names_table([(named.name, named.doc) for named in (*query_tables(), *query_functions())]))
        say("--schema NAME lists the columns of a table or view.")
