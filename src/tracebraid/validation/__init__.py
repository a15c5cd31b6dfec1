"""Is a capture sound? What is wrong with it, how much does it matter, and what can be done about it?"""
