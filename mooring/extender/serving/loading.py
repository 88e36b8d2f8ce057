"""From a module or a file to the handlers in it."""

from __future__ import annotations

from types import ModuleType

from mooring.extender.serving.handlers import Handler, handlers_of
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside, text_of
from mooring.runtime.source_modules import load_module


class LoadingError(Exception):
    """A source that cannot be served; the message says which and why."""


def load_handlers(source: str) -> list[Handler]:
    """The handlers of "my_extender.py" or "package.module", those that it imports from elsewhere included."""
    module = _loaded(source)
    functions = {id(value): value for value in vars(module).values()}
    handlers = [handler for function in functions.values() for handler in handlers_of(function)]
    if not handlers:
        raise LoadingError(
            f"{source}: no handlers found\n"
            "hint: decorate a function with @extender.filter, prioritize, bind or preempt, or serve a "
            "plugin with --plugin MODULE:CLASS"
        )
    return handlers


def _loaded(source: str) -> ModuleType:
    try:
        return load_module(source)
    except OSError as error:
        raise LoadingError(f"{source}: {error.strerror}") from None
    except ModuleNotFoundError as error:
        raise LoadingError(f"{source}: {error}") from error
    except CONTAINED as error:
        reraise_if_from_outside(error)
        raise LoadingError(f"{source}: {text_of(error)}") from error
