"""Chakra's `.et` files: read, write, check, convert, generate, show and simulate them.

    import tracebraid
    print(tracebraid.chakra.check("job/").runs)
    print(tracebraid.chakra.run("job/", "ring,50GB/s,500ns").runs)

A job of traces becomes such files with `tracebraid.export(job, "job/", "chakra")`.
"""

from tracebraid._lazy import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
