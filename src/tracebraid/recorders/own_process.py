"""This process and thread, as the system has them.

A program may replace `os.getpid` or `threading.get_ident` while it is recorded. A recorder that takes its own process
for another one leaves its session open, with which the process ends by SIGSEGV. So the modules in C are used.
"""

from _thread import get_ident
from posix import getpid

__all__ = ["get_ident", "getpid"]
