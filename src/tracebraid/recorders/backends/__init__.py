"""The recorders that a capture drives: PyTorch's, Kineto, Nsight Systems; `choose.py` says which one records the ET."""
