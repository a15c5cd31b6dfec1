"""The version of the package: the one place that states it."""

__version__ = "0.2.0.dev0"
