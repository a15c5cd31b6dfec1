"""Files behind URLs: on object stores, web servers, and whatever fsspec reads."""
