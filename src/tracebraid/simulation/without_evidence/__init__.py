"""What a step gains if the time that evidence of advice names is taken away."""
