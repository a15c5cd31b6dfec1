"""What the trees of flame graphs are, in words for people."""

from __future__ import annotations

from collections.abc import Mapping

from tracebraid.model.answers.flames import FlameTree

__all__ = ["FLAME_TREE_TITLES"]

FLAME_TREE_TITLES: Mapping[FlameTree, str] = {
    FlameTree.HOST: "host time",
    FlameTree.DEVICE: "device time",
    FlameTree.MODULES_HOST: "host time by module",
    FlameTree.MODULES_DEVICE: "device time by module",
}
"""Also the names of profiles in exported files."""
