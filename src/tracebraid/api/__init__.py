"""One function per stage: it composes rooms over the ranks of a job."""
