"""A job on disk in columns: Parquet tables of every rank, and a manifest; see docs/store.md."""
