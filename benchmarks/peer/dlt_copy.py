"""Copies a table by dlt: `python dlt_copy.py SOURCE TARGET FOLDER`.

As its documentation advises for speed: ConnectorX hands over Arrow batches, which travel as CSV by COPY. Its other fast
way, Parquet by ADBC, cannot fill a table with a column of four-byte integers.
"""

from __future__ import annotations

import sys

import dlt
from dlt.sources.sql_database import sql_table


def main() -> None:
    """Append `raw.orders` of the source to `mart.orders` of the target."""
    source, target, folder = sys.argv[1:]
    rows = sql_table(
        credentials=source.replace("postgresql://", "postgresql+psycopg2://"),
        schema="raw",
        table="orders",
        backend="connectorx",
        backend_kwargs={"return_type": "arrow_stream", "conn": source},
        chunk_size=100_000,
        reflection_level="full_with_precision",
    )
    pipeline = dlt.pipeline(
        "orders", destination=dlt.destinations.postgres(target), dataset_name="mart", pipelines_dir=folder
    )
    pipeline.run(rows, table_name="orders", write_disposition="append", loader_file_format="csv").raise_on_failed_jobs()


if __name__ == "__main__":
    main()
