"""Tracebraid: PyTorch's Execution Traces and Kineto traces, read, linked into one, and asked.

    import tracebraid
    job = tracebraid.open("traces/")
    print(job[0].coverage)
    print(tracebraid.analyses.breakdown(job))

Names are loaded when they are first used, so that `import tracebraid` costs next to nothing.
"""

from tracebraid._lazy import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
