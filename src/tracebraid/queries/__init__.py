"""SQL over the tables of a job: catalog, validation and execution of queries."""
