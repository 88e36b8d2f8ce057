"""Deployments made up by hypothesis, with some of everything that patches treat in their own way."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Tree = dict[str, Any]

names = st.sampled_from(["a", "b", "c"])


@st.composite
def webs(draw: st.DrawFn) -> Tree:
    """Deployments with some of everything: maps, lists by key, sets, atomic lists and maps."""
    ports = draw(st.lists(st.integers(1, 3), unique=True, max_size=2))
    containers = [
        {
            "name": name,
            "image": draw(names),
            "ports": [{"containerPort": port, "name": f"{draw(names)}{port}"} for port in ports],
            "env": [{"name": env, "value": draw(names)} for env in draw(st.lists(names, unique=True))],
            "command": draw(st.lists(names, max_size=2)),
        }
        for name in draw(st.lists(names, unique=True, min_size=1))
    ]
    metadata = {
        "name": "web",
        "labels": draw(st.dictionaries(names, names)),
        "finalizers": draw(st.lists(names, unique=True)),
    }
    spec: Tree = {"replicas": draw(st.integers(0, 3)), "paused": draw(st.booleans())}
    spec["template"] = {
        "spec": {"containers": containers, "nodeSelector": draw(st.dictionaries(names, names))}
    }
    return {"metadata": dropped(metadata), "spec": dropped(spec)}


def dropped(tree: Any) -> Any:
    """A tree without empty lists, maps and false: Kubernetes keeps none."""
    if isinstance(tree, dict):
        found = {name: dropped(value) for name, value in tree.items()}
        return {name: value for name, value in found.items() if value is not False and value not in ({}, [])}
    return [dropped(item) for item in tree] if isinstance(tree, list) else tree
