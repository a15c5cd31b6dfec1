"""The analyses of validity."""

from __future__ import annotations

from tracebraid.analysis.validity.validity import validity
from tracebraid.model.answers import VALIDITY
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

ANALYSES = (Analysis("validity", Family.VALIDITY, validity, VALIDITY, needs=(Need.EVENTS,)),)
