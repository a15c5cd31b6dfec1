"""One question per file: a `LinkedTrace` in, a DataFrame with a declared schema out."""
