"""Parts of Chakra's graphs in the formats of graph tools, and as pictures."""
