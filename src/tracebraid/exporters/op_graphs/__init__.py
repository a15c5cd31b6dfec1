"""Graphs of ops in the formats of graph tools."""
