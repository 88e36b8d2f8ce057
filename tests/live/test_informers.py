"""Informers, events and leader election on a real kube-apiserver, through connections that break."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.api.kinds import LEASES, NAMESPACES, NODES, PODS
from mooring.api.meta import ObjectReference
from mooring.api.objects import Pod
from mooring.client.api_server import ApiServer
from mooring.client.credentials import load_credentials
from mooring.client.event_recorder import EventRecorder
from mooring.client.informers import NOT_TERMINAL, Informer, Informers
from mooring.client.leader_election import LeaderElector, LeadershipLostError
from tests.client.informer_kit import Recorded, running
from tests.live.control_plane import ControlPlane
from tests.live.cut_proxy import CutProxy

PATIENCE = 30.0


@asynccontextmanager
async def connected(plane: ControlPlane, port: int = 0) -> AsyncIterator[ApiServer]:
    """A client of the control plane, directly or through a proxy on a port."""
    server = f"https://127.0.0.1:{port}" if port else ""
    kubeconfig = plane.kubeconfig(name=f"admin-{port}", token=plane.token, server=server)
    client = ApiServer(load_credentials(str(kubeconfig), ""), qps=5000, burst=5000)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def a_namespace(client: ApiServer, name: str) -> AsyncIterator[str]:
    """One of each test's own; objects in it are deleted afterwards (no controller runs that would)."""
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    try:
        yield name
    finally:
        for pod in (await client.list(PODS, namespace=name)).items:
            await client.delete(PODS, pod.name, name, grace_period_seconds=0)


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def for_ever() -> None:
    await asyncio.Event().wait()


def names(sink: Recorded, namespace: str) -> set[str]:
    return {obj.name for obj in sink.objects.values() if obj.namespace == namespace}


def test_pods_are_listed_in_pages_followed_and_taken_up_after_a_cut(control_plane: ControlPlane) -> None:
    async def work() -> None:
        async with (
            connected(control_plane) as direct,
            CutProxy(control_plane.port) as proxy,
            connected(control_plane, proxy.port) as broken,
            a_namespace(direct, "cut") as namespace,
        ):
            for number in range(7):
                await direct.create(PODS, pod(f"p{number}"), namespace)
            sink = Recorded()
            informer = Informer(broken, PODS, sink, field_selector=NOT_TERMINAL, page_size=3)
            async with running(informer):
                await until(informer.synced.is_set)
                assert names(sink, namespace) == {f"p{number}" for number in range(7)}
                sink.new()
                await direct.create(PODS, pod("before"), namespace)
                await until(lambda: "before" in names(sink, namespace))
                await asyncio.sleep(1.1)  # a watch that lived for a while is taken up at once
                proxy.cut()
                await direct.create(PODS, pod("meanwhile"), namespace)
                await direct.delete(PODS, "p0", namespace, grace_period_seconds=0)
                ended = {"status": {"phase": "Succeeded"}}
                await direct.patch(PODS, "p1", ended, namespace, subresource="status")
                proxy.mend()
                await until(lambda: "p1" not in names(sink, namespace))
                assert names(sink, namespace) == {"p2", "p3", "p4", "p5", "p6", "before", "meanwhile"}
            told = [line.partition("@")[0] for line in sink.told if f"{namespace}/" in line]
            # a deletion begins with a mark on the object
            assert told == ["+cut/before", "+cut/meanwhile", "+cut/p0", "-cut/p0", "-cut/p1"]

    asyncio.run(work())


def test_a_silent_connection_is_given_up(control_plane: ControlPlane) -> None:
    async def work() -> None:
        async with (
            connected(control_plane) as direct,
            CutProxy(control_plane.port) as proxy,
            connected(control_plane, proxy.port) as broken,
            a_namespace(direct, "silent") as namespace,
        ):
            sink = Recorded()
            informer = Informer(broken, PODS, sink, stall_after=2.0)
            async with running(informer):
                await until(informer.synced.is_set)
                proxy.silence()
                await direct.create(PODS, pod("unheard"), namespace)
                await until(lambda: "unheard" in names(sink, namespace))

    asyncio.run(work())


def test_versions_that_a_restarted_server_no_longer_has_mean_a_list_of_the_difference(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def work() -> None:
        async with (
            connected(control_plane) as direct,
            CutProxy(control_plane.port) as proxy,
            connected(control_plane, proxy.port) as broken,
            a_namespace(direct, "gone") as namespace,
        ):
            for name in ("same", "changed", "deleted", "made-anew"):
                await direct.create(PODS, pod(name), namespace)
            sink = Recorded()
            informer = Informer(broken, PODS, sink)
            async with running(informer):
                await until(informer.synced.is_set)
                sink.new()
                proxy.cut()
                label = {"metadata": {"labels": {"a": "b"}}}
                await direct.patch(PODS, "changed", label, namespace)
                await direct.delete(PODS, "deleted", namespace, grace_period_seconds=0)
                await direct.delete(PODS, "made-anew", namespace, grace_period_seconds=0)
                await direct.create(PODS, pod("made-anew"), namespace)
                # What a new process of the API server remembers begins with its start.
                await asyncio.to_thread(control_plane.kill_api_server)
                await asyncio.to_thread(control_plane.start_api_server)
                proxy.mend()
                await until(lambda: "deleted" not in names(sink, namespace))
                told = sorted(line.partition("@")[0] for line in sink.new() if f"{namespace}/" in line)
                difference = ["+gone/changed", "+gone/made-anew", "-gone/deleted", "-gone/made-anew"]
                if "is too old; listing again" in caplog.text:
                    assert told == difference
                else:  # it had read far enough back in etcd to tell everything that happened meanwhile
                    assert set(told) >= set(difference)
                await direct.create(PODS, pod("after"), namespace)
                await until(lambda: "after" in names(sink, namespace))

    asyncio.run(work())


def test_all_kinds_are_followed_and_missing_permissions_are_named(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with connected(control_plane) as admin:
            informers = Informers(admin, Recorded())
            async with running(informers):
                await until(informers.synced.is_set)
            path = "/api/v1/namespaces/default/serviceaccounts"
            account = {"metadata": {"name": "nobody"}}
            await admin.raw("POST", path, account)
            answer = await admin.raw("POST", f"{path}/nobody/token", {"spec": {}})
            token = json.loads(answer)["status"]["token"]
        kubeconfig = control_plane.kubeconfig(name="nobody", token=token)
        nobody = ApiServer(load_credentials(str(kubeconfig), ""))
        try:
            async with running(Informer(nobody, NODES, Recorded())):
                await until(lambda: "not allowed to list nodes" in caplog.text)
        finally:
            await nobody.close()
        (line,) = [r.getMessage() for r in caplog.records if "not allowed to list" in r.getMessage()]
        assert "system:serviceaccount:default:nobody" in line
        assert 'the verb "list" on "nodes"' in line
        assert token not in caplog.text

    asyncio.run(work())


def test_events_and_their_repeats_are_what_the_server_accepts(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def work() -> None:
        async with connected(control_plane) as client, a_namespace(client, "events") as namespace:
            made: Pod = await client.create(PODS, pod("web"), namespace)
            web = made.reference("Pod", "v1")
            recorder = EventRecorder(client, "default-scheduler", "host-1")
            posting = asyncio.create_task(recorder.run())
            for _ in range(5):
                recorder.emit(web, "Warning", "FailedScheduling", "Scheduling", "0/0 nodes are available")
                await asyncio.sleep(0.2)
            recorder.emit(web, "Normal", "Scheduled", "Binding", "é" * 2000)
            gone = ObjectReference(kind="Pod", api_version="v1", namespace="no-such", name="web")
            recorder.emit(gone, "Normal", "Scheduled", "Binding", "x")
            await recorder.close(PATIENCE)
            await posting
            answer = await client.raw("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
            found = {event["reason"]: event for event in json.loads(answer)["items"]}
            assert found["FailedScheduling"]["series"]["count"] == 5
            assert found["FailedScheduling"]["regarding"]["resourceVersion"] == made.metadata.resource_version
            assert found["FailedScheduling"]["reportingController"] == "default-scheduler"
            assert "series" not in found["Scheduled"]
            assert recorder.dropped == 1
            assert caplog.text.count('namespaces "no-such" not found') == 1

    asyncio.run(work())


def test_a_lease_changes_hands(control_plane: ControlPlane) -> None:
    timing: Any = {"lease_duration": 3.0, "renew_deadline": 2.0, "retry_period": 0.2}

    async def work() -> None:
        async with (
            connected(control_plane) as direct,
            CutProxy(control_plane.port) as proxy,
            connected(control_plane, proxy.port) as broken,
        ):
            one = LeaderElector(broken, "one", name="mooring", **timing)
            two = LeaderElector(direct, "two", name="mooring", **timing)
            first = asyncio.create_task(one.run(for_ever))
            await until(lambda: one.leading)
            second = asyncio.create_task(two.run(for_ever))
            await until(lambda: two.leader == "one")
            proxy.cut()
            while not two.leading:
                assert not (one.leading and two.leading)
                await asyncio.sleep(0.01)
            assert not one.leading
            with pytest.raises(LeadershipLostError):
                await first
            lease = await direct.get(LEASES, "mooring", "kube-system")
            assert lease.spec.holder_identity == "two"
            assert lease.spec.lease_transitions == 1
            second.cancel()
            await asyncio.wait({second})
            lease = await direct.get(LEASES, "mooring", "kube-system")
            assert lease.spec.holder_identity == ""

    asyncio.run(work())
