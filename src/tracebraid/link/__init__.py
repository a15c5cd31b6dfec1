"""`ExecutionTrace` and `Timeline` to `LinkedTrace`: nesting, host links, launches, coverage.

`align/` links hosts where ids do not tell; `depend/` finds what waits for what.
"""
