"""`ExecutionTrace` and `Timeline` to `LinkedTrace`: nesting, host links, launches, coverage.

`alignment/` links host ops where ids do not prove links; `dependencies/` finds what waits for what.
"""
