"""What detectors share: the work and idle time that could be saved, and how evidence is finished."""
