"""All tables of a job in one database, for tests that ask for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracebraid.api.querying import CATALOG, TablesOfRank, write_files
from tracebraid.model.engine import Job
from tracebraid.queries.database import Database, QueryLimits, database, definitions, everything


@contextmanager
def every_table(job: Job, folder: Path) -> Iterator[Database]:
    """A database in which every table and view of the catalog is defined."""
    question = TablesOfRank.of(CATALOG.tables)
    files = write_files(question, job.each(question), folder / "tables").files
    with database(QueryLimits()) as engine:
        engine.open(folder / "scratch", [folder / "tables"])
        engine.define(definitions(CATALOG, everything(CATALOG), files))
        yield engine
