"""The peaks of a rank's device: as asked for, else as the table has them for the device's name."""

from __future__ import annotations

from tracebraid.analysis.device.device_events import device_events
from tracebraid.model.device_peaks import DevicePeaks, Precision, device_peaks
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["known_peaks", "peak_bandwidth_of", "peak_flops_of"]


def known_peaks(linked: LinkedTrace) -> DevicePeaks | None:
    """The peaks of the device that did the rank's work; None where it is unknown, or several differ."""
    return linked.derived(_known_peaks)


def peak_flops_of(linked: LinkedTrace, peak_flops: float | None) -> dict[str, float]:
    """Peak FLOP/s by code of `Precision`; empty where none is known.

    Args:
        linked: one rank.
        peak_flops: counts for each precision; None: those of the device, FP32 for TF32 where it has none.
    """
    if peak_flops is not None and peak_flops > 0:
        return {precision.value: float(peak_flops) for precision in Precision}
    peaks = known_peaks(linked)
    if peaks is None:
        return {}
    found = {precision.value: flops for precision, flops in peaks.flops_per_s.items()}
    return {Precision.TF32.value: found[Precision.FP32.value], **found}


def peak_bandwidth_of(linked: LinkedTrace, peak_bandwidth: float | None) -> float | None:
    """Peak bytes/s of the device's memory; None where it is unknown.

    Args:
        linked: one rank.
        peak_bandwidth: counts instead; None: that of the device.
    """
    if peak_bandwidth is not None and peak_bandwidth > 0:
        return float(peak_bandwidth)
    peaks = known_peaks(linked)
    return None if peaks is None else peaks.bytes_per_s


def _known_peaks(linked: LinkedTrace) -> DevicePeaks | None:
    if not linked.timeline.has_device:
        return None
    properties = linked.timeline.header.get("deviceProperties")
    rows = [row for row in properties if isinstance(row, dict)] if isinstance(properties, list) else []
    busy = set(device_events(linked).get_column("device").unique().to_list())
    named = [row for row in rows if str(row.get("id")) in busy] or rows
    found = {id(peaks): peaks for peaks in map(_peaks_of, named)}
    known = list(found.values())
    return known[0] if len(known) == 1 else None


def _peaks_of(row: dict[object, object]) -> DevicePeaks | None:
    memory, units = (
        value if isinstance(value, int) else None for value in map(row.get, ("totalGlobalMem", "numSms"))
    )
    return device_peaks(str(row.get("name", "")), memory, units)
