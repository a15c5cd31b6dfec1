"""Work on Chakra's .et files: read, check, show, simulate, generate and convert them."""
