"""Mooring: a complete Kubernetes scheduler whose plugins are written in Python."""

__version__ = "0.1.0"
