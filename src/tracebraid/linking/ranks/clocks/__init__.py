"""How do the clocks of the ranks go against each other?"""
