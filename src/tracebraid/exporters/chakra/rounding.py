"""Durations in whole microseconds, rounded so that no chain of nodes drifts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["rounded_micros"]

_Ints = NDArray[np.int64]

_NS_PER_US = 1_000


def rounded_micros(duration_ns: _Ints, lane: _Ints) -> _Ints:
    """Each duration in us, so that the sum along a lane, up to any node, is within 0.5 us of the exact one.

    Rounded one by one, all kernels below 0.5 us would vanish. A chain that goes over several lanes is within 0.5 us for
    each: delays that are numbered as a lane of their own let both the work of a chain and all of it be right.

    Args:
        duration_ns: of each node, in the order in which the nodes of a lane follow each other; not negative.
        lane: of each node, any numbers: a thread, a stream, a chain.
    """
    order = np.argsort(lane, kind="stable")
    # Only what is below a microsecond is summed up: sums of whole durations could pass int64.
    whole_us, rest_ns = np.divmod(duration_ns[order], _NS_PER_US)
    lane, ended = lane[order], np.cumsum(rest_ns)
    starts = np.flatnonzero(np.r_[True, lane[1:] != lane[:-1]][: len(lane)])
    before = np.repeat(ended[starts] - rest_ns[starts], np.diff(np.r_[starts, len(lane)]))
    ended_us = (ended - before + _NS_PER_US // 2) // _NS_PER_US
    passed_us = np.r_[0, ended_us[:-1]][: len(lane)]
    passed_us[starts] = 0
    micros = np.empty(len(lane), dtype=np.int64)
    micros[order] = whole_us + ended_us - passed_us
    return micros
