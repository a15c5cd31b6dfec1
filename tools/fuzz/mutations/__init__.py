"""Ways to change files, whatever they hold or by what they hold."""
