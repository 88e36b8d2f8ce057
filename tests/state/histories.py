"""Histories: a cluster, workloads, and a sequence of things that happen to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from mooring.config import LoadedConfig, from_object
from tests.state.odd_plugins import ODD_PLUGINS
from tests.state.things import (
    budgets,
    grouping,
    namespaces,
    storage,
    storage_to_begin_with,
    things,
)
from tests.state.world import Event, Rules
from tests.strategies import NODE_NAMES, labels, nodes, templates


def configured(*profiles: Mapping[str, Any]) -> LoadedConfig:
    return from_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles),
        }
    )


def args(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "args": fields}


CONFIGS = {
    "default": None,
    "two": configured(
        {"schedulerName": "second", "plugins": {"score": {"disabled": [{"name": "NodeResourcesFit"}]}}},
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                args(
                    "NodeResourcesFit",
                    scoringStrategy={
                        "type": "MostAllocated",
                        "resources": [{"name": "cpu", "weight": 2}, {"name": "example.com/gpu", "weight": 1}],
                    },
                ),
                args(
                    "PodTopologySpread",
                    defaultingType="List",
                    defaultConstraints=[
                        {
                            "maxSkew": 1,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "DoNotSchedule",
                        },
                        {
                            "maxSkew": 2,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                        },
                    ],
                ),
                args("InterPodAffinity", hardPodAffinityWeight=0, ignorePreferredTermsOfExistingPods=True),
            ],
        },
    ),
    "odd": configured(
        {"plugins": {"multiPoint": {"enabled": [{"name": cls.name, "weight": 2} for cls in ODD_PLUGINS]}}}
    ),
}


class Setting(NamedTuple):
    """The rules of a world in words that a failing example can show."""

    config: str = "default"
    seed: int = 0
    graceful: bool = False
    late: bool = False

    @property
    def rules(self) -> Rules:
        plugins = ODD_PLUGINS if self.config == "odd" else ()
        return Rules(CONFIGS[self.config], plugins, self.seed, self.graceful, self.late)


class Theme(NamedTuple):
    """What a history is mostly about; where everything happens at once, nothing meets."""

    features: Sequence[str]  # every workload has one of these
    others: int  # and so many others at most
    things: st.SearchStrategy[dict[str, Any]]
    often: Sequence[str]  # kinds of events
    begin: st.SearchStrategy[list[dict[str, Any]]] | None = None  # things that are there from the beginning
    light: bool = True  # pods ask for little
    alike: bool = False  # nodes differ in labels only


_MOVED = ["node", "node", "node", "gone"]
THEMES = {
    "anything": Theme((), 3, things, ["thing", "thing", "crowd", "urgent"], light=False),
    "storage": Theme(["volumes"], 0, storage, ["thing", *_MOVED], storage_to_begin_with(), alike=True),
    "neighbours": Theme(["near", "apart"], 1, namespaces(), ["thing", "placed", "relabel"]),
    "spread": Theme(["spread", "spread", "owner"], 1, grouping, ["thing", "placed", *_MOVED], alike=True),
    "preemption": Theme(
        ["ports", "tolerant", "init", "overhead"],
        0,
        budgets(),
        ["thing", "crowd", "urgent", "urgent", "start", "terminate"],
        light=False,
        alike=True,
    ),
    "nodes": Theme(["nodes", "image", "affinity", "tolerant"], 1, things, _MOVED),
}

_number = st.integers(0, 20)
_node_name = st.sampled_from(NODE_NAMES)
_KINDS: dict[str, Sequence[st.SearchStrategy[Any]]] = {
    "gone": (_number,),
    "no_thing": (_number,),
    "pods": (st.integers(0, 3), st.integers(1, 5)),
    "placed": (st.integers(0, 3), _node_name),
    "crowd": (st.integers(0, 3),),
    "urgent": (st.integers(0, 3),),
    "delete": (_number,),
    "recreate": (_number,),
    "terminate": (_number,),
    "finish": (_number,),
    "relabel": (_number, labels),
    "resize": (_number, st.sampled_from(["2", "50m"])),
    "start": (_number,),
    "nominate": (_number, _node_name),
    "ungate": (_number,),
    "bound_elsewhere": (_number, _node_name),
    "tick": (st.sampled_from([0.5, 3.0, 301.0]),),
    "refuse": (st.integers(1, 2),),
    "settle": (),
}
_OFTEN = ["node", "thing", *["pods"] * 6, "placed", "delete", "tick", "settle"]


_attempts = st.sampled_from([12, 12, 1, 0])


def events(theme: Theme) -> st.SearchStrategy[Event]:
    kinds = {**_KINDS, "thing": (theme.things,), "node": (nodes(theme.alike),)}
    kind_names = st.sampled_from([*_OFTEN, *theme.often, *theme.often, *_KINDS])

    @st.composite
    def event(draw: st.DrawFn) -> Event:
        kind, attempts = draw(kind_names), draw(_attempts)
        return Event(kind, tuple(draw(arg) for arg in kinds[kind]), attempts)

    return event()


class History(NamedTuple):
    setting: Setting
    templates: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    things: list[dict[str, Any]]
    events: list[Event]
    herds: int = 0  # so many more nodes of each kind

    @property
    def rules(self) -> Rules:
        return self.setting.rules

    @property
    def all_events(self) -> list[Event]:
        """What is there in the beginning comes first."""
        first = [Event("node", (node,), 0) for node in self.nodes]
        first += [Event("herd", (node, self.herds), 0) for node in self.nodes if self.herds]
        return [*first, *(Event("thing", (thing,), 0) for thing in self.things), *self.events]


def histories_about(theme: Theme) -> st.SearchStrategy[History]:
    return st.builds(
        History,
        st.builds(
            Setting,
            st.sampled_from(sorted(CONFIGS)),
            st.integers(0, 3),
            graceful=st.booleans(),
            late=st.booleans(),
        ),
        st.lists(templates(theme.features, theme.others, theme.light), min_size=2, max_size=4),
        st.lists(nodes(theme.alike), min_size=2, max_size=6, unique_by=lambda node: str(node["name"])),
        st.lists(theme.things, max_size=4) if theme.begin is None else theme.begin,
        st.lists(events(theme), min_size=10, max_size=25),
        herds=st.just(0),
    )


HISTORIES = {name: histories_about(theme) for name, theme in THEMES.items()}
histories = st.one_of(list(HISTORIES.values()))
