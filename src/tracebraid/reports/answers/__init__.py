"""Answers of analyses, for people and for programs."""
