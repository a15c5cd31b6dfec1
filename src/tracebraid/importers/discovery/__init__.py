"""Which files of a folder are traces, of which kind, and of which rank?"""
