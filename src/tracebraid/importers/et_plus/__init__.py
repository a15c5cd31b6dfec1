"""ET+ JSON: an Execution Trace with times and device work, as Tracebraid, Chakra and trace_link write it."""
