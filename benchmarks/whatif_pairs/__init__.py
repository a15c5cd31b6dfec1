"""Real programs, each before and after one change, whose captures show what a prediction is worth."""
