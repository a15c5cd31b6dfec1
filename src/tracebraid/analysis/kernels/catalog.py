"""The analyses of kernels and other work of devices."""

from __future__ import annotations

from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.kernels.launchers import launchers
from tracebraid.model.analysis import Analysis, Family, Need
from tracebraid.model.answers import KERNELS, LAUNCHERS

__all__ = ["ANALYSES"]

ANALYSES = (
    Analysis("kernels", Family.KERNELS, kernels, KERNELS, needs=(Need.DEVICE_WORK,)),
    Analysis("launchers", Family.KERNELS, launchers, LAUNCHERS, needs=(Need.DEVICE_WORK,)),
)
