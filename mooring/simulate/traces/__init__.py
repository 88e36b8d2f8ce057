"""Importers of published traces. Each is a function from a file to nodes or to arrivals, known by a name."""

from mooring.simulate.traces.registry import IMPORTERS, Importer, TraceError, importer, read_trace

__all__ = ["IMPORTERS", "Importer", "TraceError", "importer", "read_trace"]
