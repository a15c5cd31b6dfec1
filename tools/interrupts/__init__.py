"""Interrupts and kills commands at random moments, and judges how they ended: `python -m tools.interrupts`.

Each trial starts a command in a session of its own, with default handling of signals, sends one signal (or two) at a
random moment of the time that the command takes, and looks at what is left: processes, files, locks, words.
"""
