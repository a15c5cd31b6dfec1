"""Which members of different ranks are of one collective?"""
