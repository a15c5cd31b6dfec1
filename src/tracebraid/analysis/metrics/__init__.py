"""Metrics: scalars of ranks and jobs, for dashboards and papers."""
