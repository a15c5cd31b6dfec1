"""Titles of flame graphs."""

from __future__ import annotations

from collections.abc import Mapping

from tracebraid.model.answers.ops import FlameTree

FLAME_TREE_TITLES: Mapping[FlameTree, str] = {
    FlameTree.HOST: "host time",
    FlameTree.DEVICE: "device time",
    FlameTree.MODULES_HOST: "host time by module",
    FlameTree.MODULES_DEVICE: "device time by module",
}
"""Also the names of profiles in exported files."""
