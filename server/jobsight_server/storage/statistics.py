"""Statistics of the query planner, without which SQLite reads whole tables where an index leads to a few rows."""

from __future__ import annotations

from sqlalchemy import Engine, Integer, cast, column, func, inspect, select, table

from jobsight_server.storage.engine import is_sqlite, own_connection
from jobsight_server.storage.job_counts import NUMBER

# Rows of each index: all rows of a large table take many seconds, during which nothing can be stored.
_ROWS_ANALYZED = 1000
_FEWEST_JOBS = 1000
# An estimate for each index.
_STATISTICS = table("sqlite_stat1", column("tbl"), column("stat"))
_JOBS_AT_LAST = select(func.max(cast(_STATISTICS.c.stat, Integer))).where(_STATISTICS.c.tbl == "jobs")


def refresh_statistics(engine: Engine) -> None:
    """Analyze all tables, and let SQLite return the write-ahead log's space."""
    if not is_sqlite(engine):
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ANALYZE")
        return
    # On the driver's own connection: a checkpoint cannot run inside a transaction.
    driver = own_connection(engine)
    try:
        cursor = driver.cursor()
        cursor.execute(f"PRAGMA analysis_limit={_ROWS_ANALYZED}")
        # PRAGMA optimize does nothing on a connection without queries. Open connections read the statistics again only
        # when the schema changes: if the table of statistics exists already, ANALYZE alone would not do.
        for statement in ("BEGIN IMMEDIATE", "DROP TABLE IF EXISTS sqlite_stat1", "ANALYZE", "COMMIT"):
            cursor.execute(statement)
        # While TRUNCATE copies or waits for a reader, such as a backup, no one can write: PASSIVE copies before, and a
        # log that is being read stays until the next time.
        cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
        cursor.execute("PRAGMA busy_timeout=0")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.close()
    finally:
        driver.close()


def refresh_if_grown(engine: Engine) -> None:
    """Refresh the statistics if jobs have doubled since: a new database would wait an hour for its first ones.

    PostgreSQL does this by itself.
    """
    if not is_sqlite(engine):
        return
    with engine.connect().execution_options(reading=True) as connection:
        jobs = connection.scalar(select(NUMBER)) or 0
        analyzed = inspect(connection).has_table("sqlite_stat1")
        before = (connection.scalar(_JOBS_AT_LAST) or 0) if analyzed else 0
    if jobs >= _FEWEST_JOBS and jobs >= 2 * before:
        refresh_statistics(engine)
