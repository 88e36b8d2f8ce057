"""How long pods of manifests run, decided at once as a kubelet of the sandbox decides it step by step."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

import msgspec

from mooring.api.decode import strip_nulls
from mooring.api.meta import Tree
from mooring.api.objects import Pod
from mooring.sandbox.kubelet.configuration import missing_keys, missing_volume
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.kubelet.scripts import Script, read_script
from mooring.sandbox.programs.files import TEMPORARY
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.sources import Data, Sources
from mooring.sandbox.programs.specs import PodRun
from mooring.sandbox.programs.volume import Volume
from mooring.simulate.engine import START

MOST_STEPS = 1000  # of containers that end and start again; a pod that takes more does not end


class Life(NamedTuple):
    """Seconds from the start of a pod to its end (inf: until it is deleted), and whether it fails then."""

    run_time: float = inf
    fails: bool = False
    restarts: bool = False  # its containers end, and are started again
    missing: str = ""  # what of its configuration is not known


class Configuration(NamedTuple):
    """The ConfigMaps and Secrets of a namespace, by their names."""

    config_maps: Mapping[str, Data] = {}
    secrets: Mapping[str, Data] = {}


def life_of(pod: Pod, tree: Tree, configuration: Configuration) -> Life:
    """Return how long a pod runs: by its annotations, its deadline and what its commands do. `tree` is its
    manifest. Raises ValueError for annotations that cannot be read."""
    script, problems = read_script(pod)
    if problems:
        raise ValueError("; ".join(problems).replace(" is ignored", ""))
    life = _run(pod, tree, script, configuration)
    deadline = pod.spec.active_deadline_seconds
    if deadline is None or script.start_delay + life.run_time <= deadline:
        return life
    return Life(max(0.0, deadline - script.start_delay), fails=True)


def _run(pod: Pod, tree: Tree, script: Script, configuration: Configuration) -> Life:
    run = msgspec.convert(strip_nulls(tree), PodRun)
    sources = Sources(pod.metadata, *configuration)
    missing = missing_volume(run, sources) or next(iter(missing_keys(run, sources).values()), "")
    if missing:
        sources = Sources(pod.metadata)
    life = PodLife(pod, run, script, sources, Runs(), Volume(complete=False, known=(TEMPORARY,)))
    now = START
    for _ in range(MOST_STEPS if pod.spec.restart_policy != "Always" else 2):
        following = life.advance(now)
        if life.over:
            return Life(now - START, life.phase == "Failed", missing=missing)
        if following is None:
            break
        now = following
    return Life(restarts=any(one.restarts for one in life.all), missing=missing)
