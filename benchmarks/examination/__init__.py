"""The examination of the advice: real programs with a planted fault, and what has to be said of them."""
