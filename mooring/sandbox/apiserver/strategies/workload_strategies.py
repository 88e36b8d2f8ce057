"""Strategies of the kinds that create pods."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree

_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


class PodTemplateStrategy(Strategy):
    """All defaults are in the spec."""

    def default_status(self, obj: Tree) -> None:
        """Nothing: the spec was stored with its defaults."""


class DeploymentStrategy(PodTemplateStrategy):
    """Annotations count, too: its controller copies them to replica sets."""

    def spec_of(self, obj: Tree) -> object:
        return obj.get("spec"), obj["metadata"].get("annotations") or {}


class JobStrategy(PodTemplateStrategy):
    """A job selects its pods by labels that the server adds, unless it has a manual selector."""

    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        metadata, spec = obj["metadata"], obj["spec"]
        template = spec["template"]["metadata"]
        if not spec.get("manualSelector"):
            uid, name = metadata["uid"], metadata.get("name", "")
            labels = template.setdefault("labels", {})
            for key in ("job-name", "batch.kubernetes.io/job-name"):
                labels.setdefault(key, name)
            for key in ("controller-uid", "batch.kubernetes.io/controller-uid"):
                labels.setdefault(key, uid)
            selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
            selector.setdefault("batch.kubernetes.io/controller-uid", uid)
        if template.get("labels"):
            metadata.setdefault("labels", dict(template["labels"]))

    def select(self, obj: Tree) -> tuple[str, ...]:
        status = obj.get("status")
        return (str(status.get("succeeded") or 0) if status else "0",)


class DaemonSetStrategy(PodTemplateStrategy):
    """The server counts the changes of the template, in an annotation since apps/v1 has no field for it."""

    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        _count(obj, max(1, _counted(obj)))

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        changed = obj["spec"].get("template") != old["spec"].get("template")
        _count(obj, _counted(old) + changed)


def _counted(obj: Tree) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _count(obj: Tree, number: int) -> None:
    obj["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(number)
