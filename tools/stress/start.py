"""Becomes a command whose signals have their defaults: `python -m tools.stress.start COMMAND...`."""

from __future__ import annotations

import os
import signal
import sys

for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGTERM):
    signal.signal(_number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
