"""From a module or a file to the handlers in it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from mooring.extender.serving.handlers import Handler, handlers_of
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside


class LoadingError(Exception):
    """A source that cannot be served; the message says which and why."""


def load_handlers(source: str) -> list[Handler]:
    """The handlers of "my_extender.py" or "package.module", those that it imports from elsewhere included."""
    module = _loaded(source)
    functions = {id(value): value for value in vars(module).values()}
    found = [handler for function in functions.values() for handler in handlers_of(function)]
    if not found:
        raise LoadingError(
            f"{source}: no handlers found\n"
            "hint: decorate a function with @extender.filter, prioritize, bind or preempt, or serve a "
            "plugin with --plugin MODULE:CLASS"
        )
    return found


def _loaded(source: str) -> ModuleType:
    is_file = source.endswith(".py") or os.sep in source
    if is_file and not Path(source).is_file():
        raise LoadingError(f"{source}: No such file or directory")
    try:
        return _from_file(Path(source)) if is_file else importlib.import_module(source)
    except OSError as error:
        raise LoadingError(f"{source}: {error.strerror}") from None
    except ModuleNotFoundError as error:
        raise LoadingError(f"{source}: {error}") from error
    except CONTAINED as error:
        reraise_if_from_outside(error)
        raise LoadingError(f"{source}: {type(error).__name__}: {error}") from error


def _from_file(path: Path) -> ModuleType:
    """Load a file as a module, which can import modules from its directory, like a script."""
    taken = path.stem in sys.modules  # such as a file that is called as a module of Python's own
    spec = importlib.util.spec_from_file_location(f"extender_{path.stem}" if taken else path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError("expected a Python file, whose name ends in .py")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
