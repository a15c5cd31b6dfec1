"""A hook of mkdocs: links of the documents to files outside of `docs/` lead to these files in the repository."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)")


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """The page's text with those links made absolute."""
    return _OUTSIDE.sub(rf"]({config['repo_url']}/blob/main/\1", markdown)
