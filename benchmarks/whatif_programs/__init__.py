"""Small training programs, each with and without one change, whose captures show what a prediction is worth."""
