"""Classes of what functions return, and the codes in them.

    from tracebraid.results import FindingCode
    truncated = [found for found in job.findings if found.code is FindingCode.TRUNCATED]

The nouns that functions take (`Job`, `LinkedTrace`, `DependencyGraph`) are names of `tracebraid`.
"""

from __future__ import annotations

from tracebraid.api.exports.export import Exported
from tracebraid.model.analysis import Analysis, Answer, Family
from tracebraid.model.cache_info import CacheInfo
from tracebraid.model.check import Check, CheckedRank, Diagnosis, Repair
from tracebraid.model.coverage import ChoiceReason, Coverage, OrphanKind, OrphanReason
from tracebraid.model.export_format import ExportFormat
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode, Severity
from tracebraid.model.graph import Change, CriticalPath, Doubt, ReplayError, Ring, WhatIf, WhatIfNote, Where
from tracebraid.model.matching import ChosenIterations, Matched
from tracebraid.model.packed import Packed
from tracebraid.model.questions import Advice, Caution, CautionCode, Comparison
from tracebraid.model.report import Report
from tracebraid.model.serving import Serving, ServingNote, ServingPolicy, StepFit

__all__ = [
    "Advice",
    "Analysis",
    "Answer",
    "CacheInfo",
    "Caution",
    "CautionCode",
    "Change",
    "Check",
    "CheckedRank",
    "ChoiceReason",
    "ChosenIterations",
    "Comparison",
    "Coverage",
    "CriticalPath",
    "Diagnosis",
    "Doubt",
    "ExportFormat",
    "Exported",
    "Family",
    "FileInfo",
    "Finding",
    "FindingCode",
    "Matched",
    "OrphanKind",
    "OrphanReason",
    "Packed",
    "Repair",
    "ReplayError",
    "Report",
    "Ring",
    "Serving",
    "ServingNote",
    "ServingPolicy",
    "Severity",
    "StepFit",
    "WhatIf",
    "WhatIfNote",
    "Where",
]
