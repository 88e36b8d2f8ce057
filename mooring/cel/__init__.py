"""Common Expression Language as Kubernetes evaluates it: cel-go's semantics and error texts, with the
extension libraries of an API server of v1.36.

    program = compile_expression('device.driver == "gpu.example.com"', ["device"])
    program.evaluate({"device": device})

Why not a library from PyPI: `docs/dra.md`, section "CEL".
"""

from mooring.cel.cel_errors import CelCompileError, CelError
from mooring.cel.program import Program, compile_expression
from mooring.cel.quantities import Quantity
from mooring.cel.semver import Semver
from mooring.cel.values import DefaultMap

__all__ = [
    "CelCompileError",
    "CelError",
    "DefaultMap",
    "Program",
    "Quantity",
    "Semver",
    "compile_expression",
]
