"""HTTP scheduler extenders: called by this scheduler, and plugins served as one to another.

The names here are for writing one: see `mooring.extender.serving.handlers`.
"""

from mooring.extender.serving.handlers import (
    ExtenderError,
    HandlerError,
    Victims,
    bind,
    filter,
    preempt,
    prioritize,
)

__all__ = ["ExtenderError", "HandlerError", "Victims", "bind", "filter", "preempt", "prioritize"]
