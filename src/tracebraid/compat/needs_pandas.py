"""A Polars frame as a pandas one, or a word on how to install pandas."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracebraid.errors import MissingLibraryError

__all__ = ["as_pandas"]


def as_pandas(frame: pl.DataFrame) -> Any:
    """The frame as a pandas DataFrame.

    Raises:
        MissingLibraryError: pandas, or pyarrow which converts, is not installed.
    """
    try:
        return frame.to_pandas()
    except ModuleNotFoundError as error:
        text = "a pandas DataFrame needs pandas and pyarrow, and one is not installed here"
        raise MissingLibraryError(f"{text}. Install them with: pip install 'tracebraid[pandas]'") from error
