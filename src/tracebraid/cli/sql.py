"""`tracebraid sql`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, OptionalTracePath, with_job_options
from tracebraid.cli.output import output_width, progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE
from tracebraid.cli.table_output import Format, TableOptions, Target, with_table_options, write_table
from tracebraid.errors import ArgumentError
from tracebraid.files import is_folder
from tracebraid.model.finding import Finding
from tracebraid.reports.query_table import columns_table, names_table, query_parts

__all__ = ["sql"]

_TOP = 40
"""Rows that are printed, if --top does not say otherwise."""
_MIB = 2**20


@with_job_options
@with_table_options
def sql(
    job_options: JobOptions,
    table_options: TableOptions,
    path: OptionalTracePath = None,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="One select, in the SQL of DuckDB.")
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="List the tables, views and functions that a query may use.")
    ] = False,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="VIEW", help="List the columns of a table or view.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, metavar="N", help=f"Print the first N rows; {_TOP} by default."),
    ] = None,
    allow_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--allow-files",
            metavar="FOLDER",
            help="Let the query read files of this folder, with read_csv and the like; can be repeated.",
        ),
    ] = None,
    memory_mib: Annotated[
        int, typer.Option("--memory", min=16, metavar="MIB", help="Memory that the query may use.")
    ] = api.QUERY_MEMORY_BYTES // _MIB,
) -> None:
    """Ask in SQL: all tables of all ranks as views, with names as text and times as numbers."""
    target = table_options.target()
    if tables or schema is not None:
        _list(schema, target)
        return
    if path is None or query is None:
        raise typer.BadParameter(
            "give a PATH and a QUERY, such as: select * from steps; --tables lists what there is"
        )
    if top is not None and target.form is not None:
        raise typer.BadParameter("--top is about tables for people; files get all rows: leave it out")
    folders = tuple(allow_files or ())
    for folder in folders:
        if not is_folder(folder):
            raise typer.BadParameter(f"--allow-files {folder}: this is no folder")
    target.refuse_existing()
    job = job_options.open(path)
    shown = top or _TOP
    limits = api.QueryLimits(memory_mib * _MIB, folders=folders)
    findings: list[Finding] = list(job.findings)
    with progress("reading") as update:
        options = api.QueryOptions(
            limits,
            limit=None if target.form is not None else shown + 1,
            progress=update,
        )
        frame = api.answer_query(job, query, options, findings)
    say_findings(findings)
    if target.form is not None:
        write_table(frame, target)
    else:
        width = output_width()
        say(*query_parts(frame, shown, width), width=width)
    if any(finding.code is UNREADABLE for finding in findings):
        raise typer.Exit(1)


def _list(name: str | None, target: Target) -> None:
    """Print what a query may name, or the columns of a table or view."""
    if target.out is not None or target.form not in (None, Format.JSON):
        raise typer.BadParameter("--tables and --schema go with --json only")
    if name is not None:
        try:
            table = api.query_table(name)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error
        if target.form is Format.JSON:
            say_json(asdict(table))
        else:
            rows = [(column.name, column.type, column.doc) for column in table.columns]
            say(f"{table.full_name}: {table.doc}", columns_table(rows))
    elif target.form is Format.JSON:
        say_json(
            {"tables": [*map(asdict, api.query_tables())], "functions": [*map(asdict, api.query_functions())]}
        )
    else:
        say(names_table([(named.name, named.doc) for named in (*api.query_tables(), *api.query_functions())]))
        say("--schema NAME lists the columns of a table or view.")
