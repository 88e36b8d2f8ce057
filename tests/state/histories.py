"""Histories: a cluster, workloads, and a sequence of things that happen to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from mooring.config import LoadedConfig, from_object
from tests.state.odd_plugins import ODD_PLUGINS
from tests.state.world import Event, Rules
from tests.strategies import NODE_NAMES, labels, nodes, templates, things


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
    "packing": configured(
        {
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
            ]
        }
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


_number = st.integers(0, 20)
_node_name = st.sampled_from(NODE_NAMES)
_KINDS: dict[str, Sequence[st.SearchStrategy[Any]]] = {
    "node": (nodes(),),
    "gone": (_number,),
    "thing": (things,),
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
_OFTEN = ["node", "thing", "thing", *["pods"] * 5, "placed", "crowd", "urgent", "delete", "tick", "settle"]


@st.composite
def events(draw: st.DrawFn) -> Event:
    kind = draw(st.sampled_from([*_OFTEN, *_KINDS]))
    attempts = draw(st.sampled_from([12, 12, 1, 0]))
    return Event(kind, tuple(draw(arg) for arg in _KINDS[kind]), attempts)


class History(NamedTuple):
    setting: Setting
    templates: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    events: list[Event]

    @property
    def rules(self) -> Rules:
        return self.setting.rules

    @property
    def all_events(self) -> list[Event]:
        """The nodes come first."""
        return [*(Event("node", (node,), 0) for node in self.nodes), *self.events]


histories = st.builds(
    History,
    st.builds(
        Setting,
        st.sampled_from(sorted(CONFIGS)),
        st.integers(0, 3),
        graceful=st.booleans(),
        late=st.booleans(),
    ),
    st.lists(templates(), min_size=2, max_size=4),
    st.lists(nodes(), min_size=2, max_size=6, unique_by=lambda node: str(node["name"])),
    st.lists(events(), min_size=10, max_size=25),
)
