"""Captures of real ranks over gloo."""

from pathlib import Path

CAPTURES = Path(__file__).parent
