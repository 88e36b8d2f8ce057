"""Python modules that users name: "package.module", or a file such as "./gpu_pack.py"."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType


def is_file(source: str) -> bool:
    """Return whether `source` names a file rather than a module."""
    return source.endswith(".py") or os.sep in source


def load_module(source: str) -> ModuleType:
    """Import a module by name or file. A file can import modules from its directory, like a script.

    Raises OSError, ImportError, and what the module itself raises.
    """
    return _load_file(Path(source)) if is_file(source) else importlib.import_module(source)


def search_path() -> list[str]:
    """Return the directories in which modules other than Python's own are searched."""
    own = Path(sysconfig.get_path("stdlib")).resolve()
    places = dict.fromkeys(Path(entry).resolve() for entry in sys.path)
    return [
        str(place) for place in places if place.is_dir() and place != own and place != own / "lib-dynload"
    ]


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if path.suffix != ".py":
        raise ImportError("expected a Python file, whose name ends in .py")
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    name = path.stem
    while (loaded := sys.modules.get(name)) is not None:
        if (file := getattr(loaded, "__file__", None)) and Path(file).resolve() == path:
            return loaded
        name += "_"  # such as a file that is called like a module of Python's own
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("expected a Python file, whose name ends in .py")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
