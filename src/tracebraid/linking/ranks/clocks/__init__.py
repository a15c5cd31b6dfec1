"""How do the clocks of the ranks' hosts go against each other?"""
