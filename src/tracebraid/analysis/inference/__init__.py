"""Questions about the inference of language models."""
