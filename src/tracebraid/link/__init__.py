"""`ExecutionTrace` and `Timeline` to `LinkedTrace`: nesting, host links, launches, forward-backward, coverage."""
