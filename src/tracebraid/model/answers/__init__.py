"""Tables of answers, and codes in them, that several modules use, by family; here the columns that most of them have.

Other tables stand beside the function that answers with them.
"""

from __future__ import annotations

from tracebraid.model.column import Column, Kind

RANK = Column("rank", Kind.INT, "the rank")
STEP = Column("step", Kind.TEXT, "the step, by its annotation's name; null: the whole trace")
STEP_OF_LAUNCH = Column(
    "step",
    Kind.TEXT,
    "the step of the launch; null: the whole trace, or by step: launched in none, or no launch is known",
)
STEP_OF_OP = Column(
    "step", Kind.TEXT, "the step in which they started; null: the whole trace, or by step: in none"
)
DOUBTFUL = Column(
    "doubtful",
    Kind.BOOL,
    "`validity` has a doubt about the step; where that is null: about any step, or about what lies in none",
)
