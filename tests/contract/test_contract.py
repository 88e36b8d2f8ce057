"""The public Python API changes only on purpose, and is closed: its signatures mention no private type."""

from __future__ import annotations

import inspect
import re
import sys
from types import ModuleType
from typing import Any, TypeVar

import pytest

import mooring.framework
from tests.contract import MODULES, render, text_file


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_names_and_signatures(module: ModuleType) -> None:
    """If the change is intended: `python -m tests.contract`, and a line in CHANGELOG.md."""
    assert render(module) == text_file(module).read_text()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_name_is_documented(module: ModuleType) -> None:
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name


def test_signatures_of_the_contract_mention_only_exported_types() -> None:
    module = mooring.framework
    public = {id(getattr(each, name)) for each in MODULES for name in each.__all__}
    private = {f"{owner}: {word}" for owner, word, value in _mentioned(module) if id(value) not in public}
    assert not private


def _mentioned(module: ModuleType) -> list[tuple[str, str, Any]]:
    """The types of ours that annotations of exported names mention: owner, word and type."""
    mentions = []
    for name in module.__all__:
        value = getattr(module, name)
        if not inspect.isclass(value) and not inspect.isfunction(value):
            continue
        if value.__module__.startswith("mooring.api."):
            continue
        namespace = vars(sys.modules[value.__module__])
        for annotation in _annotations(value):
            for word in set(re.findall(r"[A-Za-z_]\w*", annotation)):
                mentioned = namespace.get(word)
                if _is_ours(mentioned):
                    mentions.append((name, word, mentioned))
    return mentions


def _is_ours(value: Any) -> bool:
    """Whether it is a class of ours other than a Kubernetes object, or an alias."""
    if inspect.isclass(value):
        module = value.__module__
        return module.startswith("mooring.") and not module.startswith("mooring.api.")
    from_typing = isinstance(value, TypeVar) or type(value).__module__ == "typing"
    return value is not None and not from_typing and not isinstance(value, ModuleType)


def _annotations(value: Any) -> list[str]:
    texts = [str(each) for each in getattr(value, "__annotations__", {}).values()]
    if inspect.isclass(value):
        for name, member in vars(value).items():
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function) and (not name.startswith("_") or name == "__init__"):
                texts += _annotations(function)
    return texts
