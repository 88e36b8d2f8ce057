"""The adapter on a real API server: every verb, paging, watches, identities, and a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.api.kinds import EVENTS, NAMESPACES, NODES, PODS, ApiResource
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.api_server import ApiServer
from mooring.client.credentials import Credentials, load_credentials
from mooring.client.credentials.trust import Trust
from mooring.client.port import Change, PatchType
from tests.client.api_kit import run
from tests.client.certificates import Authority
from tests.live.control_plane import ControlPlane

NAMESPACE = "adapter"
SERVICE_ACCOUNTS = ApiResource("", "v1", "serviceaccounts", True, Pod)  # of which only the metadata is read


def a_pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


@asynccontextmanager
async def admin(plane: ControlPlane) -> AsyncIterator[ApiServer]:
    """The administrator's client, and a namespace to work in."""
    api = ApiServer(load_credentials(str(plane.kubeconfig())), qps=-1)
    try:
        try:
            await api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        except ApiError as error:
            if not error.conflict:
                raise
        yield api
    finally:
        await api.close()


async def remove(api: ApiServer, name: str) -> None:
    await api.delete(PODS, name, NAMESPACE, grace_period_seconds=0)


def test_a_pod_from_creation_to_deletion_and_the_watch_that_sees_it(control_plane: ControlPlane) -> None:
    async def main() -> None:
        async with admin(control_plane) as api:
            version = (await api.list(PODS, namespace=NAMESPACE)).resource_version
            made = await api.create(PODS, a_pod("life"), NAMESPACE)
            with pytest.raises(ApiError) as caught:
                await api.create(PODS, a_pod("life"), NAMESPACE)
            assert (caught.value.reason, caught.value.details["name"]) == ("AlreadyExists", "life")
            binding = {"metadata": {"name": "life"}, "target": {"kind": "Node", "name": "n1"}}
            await api.post(PODS, "life", "binding", binding, NAMESPACE)
            with pytest.raises(ApiError, match="already assigned to node") as caught:
                await api.post(PODS, "life", "binding", binding, NAMESPACE)
            assert caught.value.conflict
            condition = {"type": "Tried", "status": "True", "reason": "Because", "message": "so"}
            patched = await api.patch(
                PODS,
                "life",
                {"status": {"conditions": [condition]}},
                NAMESPACE,
                subresource="status",
                kind=PatchType.STRATEGIC,
            )
            assert {"Tried", "PodScheduled"} == {each.type for each in patched.status.conditions}
            applied = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "life", "annotations": {"a": "1"}},
            }
            assert (
                await api.patch(PODS, "life", applied, NAMESPACE, kind=PatchType.APPLY)
            ).metadata.annotations
            with pytest.raises(ApiError, match="does not match the UID in record"):
                await api.delete(PODS, "life", NAMESPACE, uid="another")
            await api.delete(PODS, "life", NAMESPACE, uid=made.uid, grace_period_seconds=0)
            changes: list[Change[Pod]] = []
            async for change in api.watch(PODS, version, namespace=NAMESPACE, timeout_seconds=30):
                changes.append(change)
                if change.type == "DELETED":
                    break
            assert changes[0].type == "ADDED"
            assert {change.type for change in changes[1:-1]} == {"MODIFIED"}
            assert [change.object.spec.node_name for change in changes[:2] if change.object] == ["", "n1"]
            assert all(change.malformed is None for change in changes)

    run(main())


def test_a_list_in_pages_is_the_whole(control_plane: ControlPlane) -> None:
    async def main() -> None:
        async with admin(control_plane) as api:
            names = [f"page-{number}" for number in range(5)]
            await asyncio.gather(*(api.create(PODS, a_pod(name), NAMESPACE) for name in names))
            options: dict[str, Any] = {"namespace": NAMESPACE, "label_selector": "app", "limit": 2}
            page = await api.list(PODS, **options)
            found = [pod.name for pod in page.items]
            while page.continue_token:
                page = await api.list(PODS, continue_token=page.continue_token, **options)
                found += [pod.name for pod in page.items]
            assert found == names
            page = await api.list(PODS, namespace=NAMESPACE, field_selector="metadata.name=page-3")
            assert [pod.name for pod in page.items] == ["page-3"]
            await asyncio.gather(*(remove(api, name) for name in names))

    run(main())


def test_a_watch_ends_in_time_after_a_bookmark(control_plane: ControlPlane) -> None:
    async def main() -> None:
        async with admin(control_plane) as api:
            version = (await api.list(NODES)).resource_version
            changes = [change async for change in api.watch(NODES, version, timeout_seconds=3)]
            assert [change.type for change in changes][-1:] in ([], ["BOOKMARK"])

    run(main())


def test_an_event_is_posted(control_plane: ControlPlane) -> None:
    async def main() -> None:
        async with admin(control_plane) as api:
            body = {
                "metadata": {"generateName": "pod-"},
                "eventTime": "2024-01-01T00:00:00.000000Z",
                "reportingController": "mooring",
                "reportingInstance": "mooring-1",
                "action": "Binding",
                "reason": "Scheduled",
                "type": "Normal",
                "regarding": {"kind": "Pod", "namespace": NAMESPACE, "name": "x"},
                "note": "Successfully assigned",
            }
            made = await api.create(EVENTS, body, NAMESPACE)
            assert made.name.startswith("pod-")
            assert b'"gitVersion"' in await api.raw("GET", "/version")

    run(main())


# ---- who we are


def test_a_service_account_may_do_what_it_may_and_no_more(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    async def main() -> None:
        async with admin(control_plane) as api:
            await api.create(
                SERVICE_ACCOUNTS, {"metadata": {"generateName": "mine-", "name": "mine"}}, NAMESPACE
            )
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/mine/token"
            answer = await api.raw("POST", path, {"spec": {"expirationSeconds": 600}})
            token = yaml.safe_load(answer)["status"]["token"]
        (tmp_path / "token").write_text("expired-long-ago")
        config = yaml.safe_load(control_plane.kubeconfig().read_text())
        config["users"][0]["user"] = {"tokenFile": "token"}
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        mine = ApiServer(load_credentials(str(tmp_path / "config")))
        with pytest.raises(ApiError) as caught:
            await mine.list(NODES)
        assert (caught.value.code, caught.value.reason) == (401, "Unauthorized")
        (tmp_path / "token").write_text(token)  # as the kubelet replaces it; no minute has to pass
        with pytest.raises(ApiError, match=r'cannot list resource "nodes" in API group ""') as caught:
            await mine.list(NODES)
        assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
        with pytest.raises(ApiError, match='cannot watch resource "nodes"'):
            [change async for change in mine.watch(NODES, "0")]
        await mine.close()

    run(main())


def test_the_administrator_may_act_as_somebody_else(control_plane: ControlPlane, tmp_path: Path) -> None:
    async def main() -> None:
        config = yaml.safe_load(control_plane.kubeconfig().read_text())
        config["users"][0]["user"] |= {"as": "jane", "as-groups": ["dev"], "as-user-extra": {"a/b": ["c"]}}
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        api = ApiServer(load_credentials(str(tmp_path / "config")))
        answer = await api.raw(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"},
        )
        found = yaml.safe_load(answer)["status"]["userInfo"]
        assert (found["username"], found["extra"]) == ("jane", {"a/b": ["c"]})
        assert "dev" in found["groups"]
        await api.close()

    run(main())


def test_another_authority_is_not_trusted(control_plane: ControlPlane) -> None:
    async def main() -> None:
        trust = Trust(Authority("another").certificate)
        api = ApiServer(Credentials(control_plane.server, trust=trust))
        with pytest.raises(Unreachable, match="the certificate is not trusted"):
            await api.list(NODES)
        await api.close()

    run(main())


# ---- trouble


def test_a_crash_cuts_the_watch_and_a_restart_heals_all(control_plane: ControlPlane) -> None:
    async def main() -> None:
        async with admin(control_plane) as api:
            version = (await api.list(NODES)).resource_version
            watch = api.watch(NODES, version)
            waiting = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(control_plane.kill_api_server)
            with pytest.raises(Unreachable):
                await waiting
            with pytest.raises(Unreachable) as caught:
                await api.create(PODS, a_pod("lost"), NAMESPACE)
            assert not caught.value.sent
            await asyncio.to_thread(control_plane.start_api_server)
            version = (await api.list(PODS)).resource_version
            made = await api.create(PODS, a_pod("found"), NAMESPACE)
            async for change in api.watch(PODS, version, namespace=NAMESPACE, timeout_seconds=20):
                if change.object is not None and change.object.uid == made.uid:
                    break
            await remove(api, "found")

    run(main())
