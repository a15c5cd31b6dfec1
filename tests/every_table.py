"""All tables of a job in one database, for tests that ask for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracebraid.api.querying.files import TablesOfRank, write_files
from tracebraid.api.querying.tables import CATALOG
from tracebraid.model.job import Job
from tracebraid.queries.database import Database, database
from tracebraid.queries.definitions import definitions, everything
from tracebraid.queries.limits import QueryLimits

__all__ = ["every_table"]


@contextmanager
def every_table(job: Job, folder: Path) -> Iterator[Database]:
    """A database in which every table and view of the catalog is defined."""
    question = TablesOfRank.of(CATALOG.tables)
    files = write_files(question, job.each(question), folder / "tables").files
    with database(QueryLimits(), folder / "scratch", [folder / "tables"]) as engine:
        engine.define(definitions(CATALOG, everything(CATALOG), files))
        yield engine
