"""The directories of examples/, in a checkout or an installed wheel."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

_HERE = Path(__file__).parent
EXAMPLES = next(p for p in (_HERE / "examples", _HERE.parents[1] / "examples") if p.is_dir())
"""Next to this file in a wheel, at the root in a checkout."""


def read(example: str, file: str) -> str:
    return (EXAMPLES / example / file).read_text()


def load(example: str, module: str) -> ModuleType:
    """A module of an example, as it is found by who works in that folder."""
    place = str(EXAMPLES / example)
    if place not in sys.path:
        sys.path.insert(0, place)
    return importlib.import_module(module)
