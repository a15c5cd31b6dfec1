"""Distributions of statistics: intervals and significance."""
