"""ET+ of a rank, as Tracebraid, Chakra's linker and trace_link write it, to nodes for simulators."""
