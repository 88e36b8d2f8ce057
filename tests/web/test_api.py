"""The JSON API and the stream of the page, over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.api.decode import from_dict
from mooring.api.meta import KubeObject
from mooring.testing import make_node, make_pod
from mooring.web import stream as streams
from tests.core.groups import group_kit
from tests.web.kit import Page, serving


def cluster() -> list[KubeObject]:
    return [
        make_node("n1", cpu="4", labels={"zone": "a"}),
        make_node("n2", cpu="2", labels={"zone": "b"}, taints=["gpu=true:NoSchedule"]),
        make_pod("small", requests={"cpu": "1"}, node_name="n1"),
        make_pod("large", requests={"cpu": "8"}),
        make_pod("gated", requests={"cpu": "1"}, scheduling_gates=["wait"]),
    ]


def test_cluster_is_served_in_columns() -> None:
    async def scenario(page: Page) -> None:
        record = (await page.get("/v1/cluster")).json
        nodes = record["nodes"]
        assert nodes["names"] == ["n1", "n2"]
        cpu = nodes["resources"].index("cpu")
        assert nodes["allocatable"][cpu] == [4000, 2000]
        assert nodes["requested"][cpu] == [1000, 0]
        assert nodes["podCounts"] == [1, 0]
        assert nodes["flags"] == [0, 4]
        assert nodes["labels"]["zone"] == {"values": ["a", "b"], "of": [0, 1]}
        assert [nodes["kinds"][kind]["namespace"] for kind in nodes["pods"]] == ["default"]
        assert record["counts"]["placed"] == 1

    serving(cluster(), scenario)


def test_queue_lists_pending_pods_by_state() -> None:
    async def scenario(page: Page) -> None:
        record = (await page.get("/v1/queue")).json
        assert {row["pod"]: row["state"] for row in record["pods"]} == {
            "default/large": "active",
            "default/gated": "gated",
        }
        gated = (await page.get("/v1/queue?state=gated")).json["pods"]
        assert gated[0]["waiting"]["gatedBy"] == "SchedulingGates"
        assert (await page.get("/v1/queue?limit=x")).status == 400

    serving(cluster(), scenario)


def test_groups_are_explained() -> None:
    async def scenario(page: Page) -> None:
        assert (await page.get("/v1/podgroups/default/train")).json["summary"] == "default/train has no pods"
        assert (await page.get("/v1/podgroups/default/other")).status == 404

    serving([*cluster(), from_dict(group_kit.pod_group("train", 2))], scenario)


def test_a_group_is_one_entry_of_the_queue_with_what_it_needs() -> None:
    async def scenario(page: Page) -> None:
        record = (await page.get("/v1/queue?limit=2")).json
        assert [(row["pod"], row.get("group", "")) for row in record["pods"]] == [
            ("default/alone", ""),
            ("default/train-0", "default/train"),
            ("default/train-1", "default/train"),
        ]
        assert record["groups"] == [
            {"group": "default/train", "members": 2, "pending": 2, "minCount": 3},
        ]
        assert {row["state"] for row in record["pods"][1:]} == {"gated"}
        assert record["total"] == 4
        orphans = (await page.get("/v1/queue?q=default/none")).json
        assert orphans["groups"] == [{"group": "default/none", "members": 1, "pending": 1, "missing": True}]

    trees = [group_kit.pod_group("train", 3), *group_kit.members("train", 2), *group_kit.members("none", 1)]
    serving([make_pod("alone"), *map(from_dict, trees)], scenario, dict.fromkeys(group_kit.GATES, True))


def test_pod_is_explained_with_a_table_of_all_verdicts() -> None:
    async def scenario(page: Page) -> None:
        explanation = (await page.get("/v1/pods/default/large")).json
        assert explanation["state"] == "pending"
        assert "feasible" not in explanation["now"]
        table = (await page.get("/v1/pods/default/large/table")).json
        columns = {column["plugin"]: column for column in table["filters"]}
        assert table["nodes"] == ["n1", "n2"]
        fit = columns["NodeResourcesFit"]
        assert [fit["reasons"][code - 1] for code in fit["codes"]] == ["Insufficient cpu"] * 2
        assert columns["TaintToleration"]["codes"] == [0, 1]
        assert table["total"] == [None, None]

    serving(cluster(), scenario)


def test_table_of_a_pod_with_a_node_counts_it_nowhere() -> None:
    async def scenario(page: Page) -> None:
        before = (await page.get("/v1/cluster")).json["nodes"]["requested"]
        table = (await page.get("/v1/pods/default/full/table")).json
        assert table["chosen"] == "n1"
        assert table["total"][0] is not None
        assert {column["plugin"] for column in table["scores"]} >= {"NodeResourcesFit"}
        assert (await page.get("/v1/cluster")).json["nodes"]["requested"] == before

    serving(
        [make_node("n1", cpu="1"), make_node("n2"), make_pod("full", requests={"cpu": "1"}, node_name="n1")],
        scenario,
    )


def test_node_search_and_unknown_names() -> None:
    async def scenario(page: Page) -> None:
        node = (await page.get("/v1/nodes/n1")).json
        assert [pod["pod"] for pod in node["pods"]] == ["default/small"]
        found = (await page.get("/v1/pods?q=al")).json
        assert [pod["pod"] for pod in found["pods"]] == ["default/small"]
        for path in ("nodes/none", "pods/default/none", "pods/default/none/table", "nothing"):
            assert (await page.get(f"/v1/{path}")).status == 404

    serving(cluster(), scenario)


def test_decisions_are_numbered_filtered_and_expire() -> None:
    async def scenario(page: Page) -> None:
        decision = page.core.schedule_one()
        assert decision is not None
        page.server.decided(decision)
        rows = (await page.get("/v1/decisions?result=unschedulable&plugin=NodeResourcesFit")).json[
            "decisions"
        ]
        assert [(row["seq"], row["pod"]) for row in rows] == [(1, "default/large")]
        assert (await page.get("/v1/decisions?result=scheduled")).json["decisions"] == []
        assert (await page.get("/v1/decisions/1")).json["decision"]["pod"] == "default/large"
        assert (await page.get("/v1/decisions/2")).status == 410

    serving(cluster(), scenario)


class Events:
    """A client of the stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, page: Page, after: str = "", last: str = "") -> Events:
        host, _, port = page.host.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
        head = f"GET /v1/events?after={after} HTTP/1.1\r\nHost: {page.host}\r\nLast-Event-ID: {last}\r\n"
        writer.write(f"{head}Authorization: Bearer {page.token}\r\n\r\n".encode())
        await writer.drain()
        return cls(reader, writer)

    async def next(self) -> tuple[str, str, Any]:
        """Return id, type and data of the next event."""
        fields: dict[str, str] = {}
        while "data" not in fields:
            line = (await asyncio.wait_for(self._reader.readline(), 20)).decode()
            assert line, "the stream has ended"
            name, _, value = line.rstrip().partition(": ")
            fields[name] = value
        return fields["id"], fields["event"], json.loads(fields["data"])

    def close(self) -> None:
        self._writer.close()


def test_stream_starts_with_a_snapshot_and_resumes_after_the_last_event() -> None:
    async def scenario(page: Page) -> None:
        events = await Events.open(page)
        first, kind, body = await events.next()
        assert (kind, body["cluster"]["nodes"]["names"]) == ("snapshot", ["n1", "n2"])
        page.core.apply(make_pod("new", node_name="n2"))
        _, kind, body = await events.next()
        while "nodes" not in body:
            _, kind, body = await events.next()
        assert (kind, body["nodes"]["names"], body["nodes"]["podCounts"]) == ("delta", ["n2"], [1])
        events.close()
        again = await Events.open(page, after=first)
        _, kind, body = await again.next()
        assert kind == "delta"
        again.close()
        epoch = first.partition(".")[0]
        for unknown in ("another.1", f"{epoch}.99", f"{epoch}.{'9' * 5000}"):
            other = await Events.open(page, last=unknown)
            assert (await other.next())[1] == "snapshot"
            other.close()

    serving(cluster(), scenario)


def test_labels_of_one_node_do_not_fill_a_column_each() -> None:
    many = {f"own-{i:03}": str(i) for i in range(300)}

    async def scenario(page: Page) -> None:
        labels = (await page.get("/v1/cluster")).json["nodes"]["labels"]
        assert labels["pool"] == {"values": ["a"], "of": [0, 0, 0]}
        assert len(labels) == 64

    nodes: list[KubeObject] = [make_node(f"n{i}", labels={"pool": "a"}) for i in (1, 2)]
    serving([make_node("n0", labels={**many, "pool": "a"}), *nodes], scenario)


def test_removed_and_added_nodes_are_in_the_stream() -> None:
    async def scenario(page: Page) -> None:
        events = await Events.open(page)
        await events.next()
        page.core.delete(make_node("n1"))
        page.core.apply(make_node("n3"))
        names: set[str] = set()
        while "n3" not in names:
            _, _, body = await events.next()
            names |= {*body.get("nodes", {}).get("names", ()), *(f"-{name}" for name in body.get("gone", ()))}
        assert "-n1" in names
        events.close()

    serving(cluster(), scenario)


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_NODES", 2)

    async def scenario(page: Page) -> None:
        events = await Events.open(page)
        await events.next()
        for i in range(5):
            page.core.apply(make_node(f"more-{i}"))
        seen: list[str] = []
        while len(seen) < 5:
            _, _, body = await events.next()
            names = body.get("nodes", {}).get("names", [])
            assert len(names) <= 2
            seen += names
        assert sorted(seen) == [f"more-{i}" for i in range(5)]
        events.close()

    serving(cluster(), scenario)


def test_too_many_streams_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_CLIENTS", 1)

    async def scenario(page: Page) -> None:
        events = await Events.open(page)
        await events.next()
        assert (await page.get("/v1/events")).status == 429
        events.close()

    serving(cluster(), scenario)
