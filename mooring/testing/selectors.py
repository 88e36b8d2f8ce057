"""Selectors, taints and tolerations in the notation of kubectl, so that a test reads at a glance.

"app=web,tier in (front,back),!canary"      a selector, as for `kubectl get -l`
"dedicated=gpu:NoSchedule"                  a taint, as for `kubectl taint`
"dedicated:NoSchedule"                      tolerates that key whatever its value
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.meta import LabelSelector, LabelSelectorRequirement
from mooring.api.objects import NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from mooring.api.selector_text import SelectorTerm, parse_selector
from mooring.api.selectors import IN, SelectorError

Selecting = str | Mapping[str, str] | LabelSelector


def label_selector(selector: Selecting) -> LabelSelector:
    """A label selector from kubectl's notation, or from labels that must all be there."""
    if isinstance(selector, LabelSelector):
        return selector
    if not isinstance(selector, str):
        return LabelSelector(match_labels=dict(selector))
    requirements = [
        LabelSelectorRequirement(key=k, operator=o, values=v) for k, o, v in _requirements(selector)
    ]
    return LabelSelector(match_expressions=requirements)


def node_term(selector: str | Mapping[str, str] | NodeSelectorTerm) -> NodeSelectorTerm:
    """A term of a node selector; kubectl's notation, where "cores>8" and "cores<8" compare numbers."""
    if isinstance(selector, NodeSelectorTerm):
        return selector
    if isinstance(selector, str):
        parts = _requirements(selector)
    else:
        parts = [SelectorTerm(key, IN, [value]) for key, value in selector.items()]
    requirements = [NodeSelectorRequirement(key=k, operator=o, values=v) for k, o, v in parts]
    return NodeSelectorTerm(match_expressions=requirements)


def taint(text: str | Taint) -> Taint:
    """A taint from "key=value:Effect" or "key:Effect"."""
    if isinstance(text, Taint):
        return text
    pair, separator, effect = text.rpartition(":")
    if not separator:
        raise ValueError(f'taint "{text}": expected key=value:Effect or key:Effect')
    key, _, value = pair.partition("=")
    return Taint(key=key, value=value, effect=effect)


def toleration(text: str | Toleration) -> Toleration:
    """A toleration from "key=value:Effect", "key:Effect", "key" (any effect), or "" (everything)."""
    if isinstance(text, Toleration):
        return text
    pair, _, effect = text.partition(":")
    key, separator, value = pair.partition("=")
    return Toleration(key=key, operator="Equal" if separator else "Exists", value=value, effect=effect)


def _requirements(text: str) -> list[SelectorTerm]:
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise ValueError(f'selector "{text}": {error}; expected a form such as app=web') from None
