"""The public Python API as text: names and signatures of mooring.framework and mooring.testing.

The text is in the files next to this one, so that a change of the API shows in the diff of a commit.
`python -m tests.contract` rewrites them.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ForwardRef

import mooring.framework
import mooring.testing

MODULES = (mooring.framework, mooring.testing)
_SPECIAL = {"__init__", "__len__", "__getitem__", "__iter__", "__missing__"}


def text_file(module: ModuleType) -> Path:
    return Path(__file__).with_name(f"{module.__name__}.txt")


def render(module: ModuleType) -> str:
    """Return one line per exported name, and one per public member of a class."""
    lines = [f"# {module.__name__}: update with `python -m tests.contract`"]
    for name in sorted(module.__all__):
        lines += ["", *_render(name, getattr(module, name))]
    return "\n".join(lines) + "\n"


def _render(name: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value):
        yield _function(name, value)
    elif inspect.isclass(value) and value.__module__.startswith("mooring"):
        bases = [base.__name__ for base in value.__bases__ if base is not object]
        yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
        yield from (f"    {line}" for line in _members(value))
    else:
        yield f"{name} = {_alias(value)}"


def _alias(value: Any) -> str:
    """Return a type alias as text; NumPy's arrays look different from one release to the next."""
    dtype = re.search(r"numpy\.(bool|int64|int32|float64)\b", repr(value))
    return f"NDArray[{dtype[0]}]" if dtype else repr(value)


def _members(cls: type) -> Iterator[str]:
    if issubclass(cls, enum.Enum):
        yield from (f"{name} = {each.value!r}" for name, each in cls.__members__.items())
    annotations = {} if issubclass(cls, enum.Enum) else inspect.get_annotations(cls)
    for name, annotation in annotations.items():
        if not name.startswith("_"):
            yield f"{name}: {_type(annotation)}"
    for name, member in sorted(vars(cls).items()):
        if name in annotations or not _is_public(name) or (name == "__init__" and annotations):
            continue
        if isinstance(member, property):
            yield f"{name}: {_type(inspect.signature(member.fget).return_annotation)}"  # type: ignore[arg-type]
        elif inspect.ismemberdescriptor(member):
            yield name
        elif isinstance(member, classmethod | staticmethod):
            yield _function(name, member.__func__)
        elif inspect.isfunction(member) and member.__module__.startswith("mooring"):
            yield _function(name, member)
        elif isinstance(member, str) and not issubclass(cls, enum.Enum):
            yield f"{name} = {member!r}"


def _is_public(name: str) -> bool:
    return name in _SPECIAL or not name.startswith("_")


def _function(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    parameters, seen_star = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not seen_star:
            parameters.append("*")
            seen_star = True
        seen_star = seen_star or parameter.kind is parameter.VAR_POSITIONAL
        parameters.append(_parameter(parameter))
    result = signature.return_annotation
    arrow = "" if result is signature.empty else f" -> {_type(result)}"
    prefix = "async def" if inspect.iscoroutinefunction(function) else "def"
    return f"{prefix} {name}({', '.join(parameters)}){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    text = parameter.name
    if parameter.kind is parameter.VAR_POSITIONAL:
        text = f"*{text}"
    if parameter.annotation is not parameter.empty:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {parameter.default!r}"
    return text


def _type(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return str(getattr(annotation, "__name__", annotation))
