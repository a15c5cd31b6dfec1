"""The version of Chakra's schema in the metadata of files."""

from __future__ import annotations

__all__ = ["SCHEMA_VERSION"]

SCHEMA_VERSION = "0.0.4"
