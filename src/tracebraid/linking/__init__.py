"""`ExecutionTrace` and `Timeline` to `LinkedTrace`: nesting, host links, launches, coverage.

`alignment/` links host ops if ids do not prove links; `dependencies/` finds dependencies.
"""
