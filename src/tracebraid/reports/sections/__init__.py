"""The sections of a report: each makes parts from results."""
