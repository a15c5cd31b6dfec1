"""`tracebraid chakra-jsonizer`."""

from __future__ import annotations

from tracebraid.api.chakra.json_text import chakra_jsonizer as write_json
from tracebraid.cli.output import say_findings
from tracebraid.compat.chakra_jsonizer import InputFilename, OutputFilename

__all__ = ["chakra_jsonizer"]


def chakra_jsonizer(input_filename: InputFilename, output_filename: OutputFilename) -> None:
    """Write an .et file as JSON as Chakra's chakra_jsonizer does, with its options."""
    say_findings(write_json(input_filename, output_filename))
