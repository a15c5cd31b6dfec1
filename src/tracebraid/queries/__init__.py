"""SQL over the tables of a job: what a query may name, whether it may run, and its answer."""
