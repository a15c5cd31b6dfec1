"""What can be asked of traces, and what is answered: analyses, detectors, metrics, comparisons."""
