"""Queries in SQL over the tables of a job."""
