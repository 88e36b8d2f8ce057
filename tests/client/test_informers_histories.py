"""Whatever happens to connections and versions, a sink ends up with what the server has."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import PODS
from mooring.client.api_errors import ApiError
from mooring.client.informers import NOT_TERMINAL, Informer
from tests.client import virtual_time
from tests.client.fake_cluster import FakeCluster
from tests.client.informer_kit import Recorded, pod, running
from tests.strategies import examples

STEPS = st.one_of(
    st.tuples(st.sampled_from(["put", "put", "end", "spoil", "remove"]), st.sampled_from("abcdef")),
    st.tuples(
        st.sampled_from(["cut", "close", "stall", "compact", "refuse", "vanish", "allow"]), st.just("")
    ),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 1.0, 45.0, 200.0])),
)


@examples(100)
@given(st.lists(STEPS, max_size=40), st.integers(1, 4))
def test_a_sink_ends_up_with_what_the_server_has(
    steps: list[tuple[str, str | float]], page_size: int
) -> None:
    async def main() -> None:
        cluster, sink = FakeCluster(), Recorded()
        informer = Informer(cluster, PODS, sink, field_selector=NOT_TERMINAL, page_size=page_size)
        async with running(informer):
            for step, argument in steps:
                if isinstance(argument, float):
                    await asyncio.sleep(argument)
                else:
                    happen(cluster, step, argument)
            happen(cluster, "allow", "")
            await asyncio.sleep(400)  # longer than any back-off and any silence
            expected = {
                tree["metadata"]["uid"]
                for tree in cluster.objects.values()
                if tree["status"]["phase"] != "Succeeded" and tree["spec"]["priority"] != "high"
            }
            spoilt = {tree["metadata"]["uid"] for tree in cluster.objects.values() if spoiled(tree)}
            # Of an object that makes no sense now, the last version that did may be known.
            assert sink.objects.keys() - spoilt == expected
        applied = [line for line in sink.told if line[0] == "+"]
        assert max(Counter(applied).values(), default=1) == 1
        versions: dict[str, int] = {}
        for line in applied:
            key, version = line.split("@")
            assert versions.get(key, 0) < int(version)
            versions[key] = int(version)

    virtual_time.run(main())


def spoiled(tree: dict[str, dict[str, str]]) -> bool:
    return tree["spec"]["priority"] == "high" and tree["status"]["phase"] != "Succeeded"


def happen(cluster: FakeCluster, step: str, name: str) -> None:
    if step in ("put", "end", "spoil"):
        phase = "Succeeded" if step == "end" else "Running"
        priority = "high" if step == "spoil" else cluster.revision
        cluster.put(PODS, pod(name, spec={"priority": priority}, status={"phase": phase}))
    elif step == "remove":
        if ("pods", "default", name) in cluster.objects:
            cluster.remove(PODS, name, "default")
    elif step == "compact":
        cluster.compact()
    elif step == "refuse":
        cluster.refusals["watch", "pods"] = ApiError(500, "InternalError", "boom")
    elif step == "vanish":
        cluster.go_down()
    elif step == "allow":
        cluster.down = None
        cluster.refusals.clear()
    else:
        for watch in cluster.watches:
            {"cut": watch.cut, "close": watch.end, "stall": watch.stall}[step]()
