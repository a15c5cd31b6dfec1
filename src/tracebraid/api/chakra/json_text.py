"""Chakra's `.et` files as JSON, and back to the same bytes."""

from __future__ import annotations

from pathlib import Path

from tracebraid.chakra.as_json.conversion import Conversion, conversion_of
from tracebraid.chakra.as_json.to_json import JsonForm
from tracebraid.errors import WrongTraceError
from tracebraid.files import refuse_inputs, write_whole
from tracebraid.model.finding import Finding

__all__ = ["chakra_conversion", "chakra_from_json", "chakra_jsonizer", "chakra_to_json"]


def chakra_to_json(path: str | Path, out: str | Path, lines: bool = False) -> list[Finding]:
    """Write an `.et` file as JSON, in protobuf's form of it, in bounded memory.

    The document is `{"metadata": {...}, "nodes": [...]}` with a line for each node. Integers of 64 bits are texts.
    A message that does not come out of its JSON as the bytes that it was has them in `@wire`, as base64.

    Args:
        path: the `.et` file or its URL, plain, gzip or zstd; `-` for standard input.
        out: the new file; gzip where its name ends in `.gz`.
        lines: a line for the metadata, and one for each node, instead of a document.

    Returns:
        What was noticed: a file that was cut is converted as far as it goes.

    Raises:
        InputError: the file cannot be read.
        NotATraceError: it is no `.et` file.
        OutputError: `out` cannot be written, or is there already.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> tracebraid.chakra_to_json("job.0.et", "job.0.json")
    """
    return _written(chakra_conversion(path, lines), path, out, to_json=True)


def chakra_from_json(path: str | Path, out: str | Path) -> list[Finding]:
    """Write the `.et` file that a JSON text stands for: that of `chakra_to_json`, or of Chakra's jsonizer.

    Args:
        path: the JSON file or its URL, plain, gzip or zstd; `-` for standard input.
        out: the new file; gzip where its name ends in `.gz`.

    Returns:
        What was noticed.

    Raises:
        InputError: the file cannot be read.
        NotATraceError: it is no such JSON; the message says where.
        OutputError: `out` cannot be written, or is there already.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> tracebraid.chakra_from_json("job.0.json", "again.0.et")
    """
    return _written(chakra_conversion(path), path, out, to_json=False)


def chakra_jsonizer(path: Path, out: Path) -> list[Finding]:
    """Write an `.et` file as Chakra's jsonizer does: JSON of each message, with nothing between them.

    Args:
        path: the `.et` file, plain, gzip or zstd.
        out: the file, which is replaced where it is there, as Chakra's jsonizer does.

    Returns:
        What was noticed.

    Raises:
        InputError: the file cannot be read.
        OutputError: `out` cannot be written, or is the file that is read.
    """
    refuse_inputs(out, [path])
    conversion = conversion_of(path, JsonForm.JSONIZER)
    write_whole(out, conversion.chunks, overwrite=True)
    return conversion.findings


def chakra_conversion(path: str | Path, lines: bool = False) -> Conversion:
    """A file in its other form, as its name or its first bytes tell.

    Args:
        path: the file or its URL; `-` for standard input.
        lines: JSON lines instead of a document.

    Raises:
        InputError: the file cannot be read.
    """
    return conversion_of(path, JsonForm.LINES if lines else JsonForm.DOCUMENT)


def _written(conversion: Conversion, path: str | Path, out: str | Path, to_json: bool) -> list[Finding]:
    if conversion.to_json is not to_json:
        found, expected = ("an .et file", "JSON") if conversion.to_json else ("JSON", "an .et file")
        other = "chakra_to_json" if conversion.to_json else "chakra_from_json"
        raise WrongTraceError(
            str(path), f"this is {found}, and no {expected.removeprefix('an ')}", f"Use {other}"
        )
    write_whole(Path(out), conversion.chunks, overwrite=False)
    return conversion.findings
