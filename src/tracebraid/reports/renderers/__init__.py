"""Renderers of a report: each takes its parts, and makes a page, text for a terminal, or JSON."""
