"""The analyses of validity."""

from __future__ import annotations

from tracebraid.analysis.validity.validity import validity
from tracebraid.model.analysis import Analysis, Family, Need
from tracebraid.model.answers import VALIDITY

__all__ = ["ANALYSES"]

ANALYSES = (Analysis("validity", Family.VALIDITY, validity, VALIDITY, needs=(Need.EVENTS,)),)
