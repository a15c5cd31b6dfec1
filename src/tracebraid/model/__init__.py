"""The nouns: tables and their schemas, the traces made of them, and what is said about them."""
