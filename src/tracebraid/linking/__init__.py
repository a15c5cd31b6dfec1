"""`ExecutionTrace` and `Timeline` to `LinkedTrace`: nesting, host links, launches, coverage.

`alignment/` links host ops where ids do not tell; `dependencies/` finds what waits for what.
"""
