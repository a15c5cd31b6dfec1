"""Exports of a job: a module for each family of formats, each with its writers."""
