"""`ExecutionTrace` and `Timeline` to `LinkedTrace`: nesting, host links, launches, dependencies, coverage."""
