"""Large writes are handled in a thread, with the answers of small ones, and lose no update."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.client.api_errors import ApiError
from mooring.client.port import PatchType
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.sandbox.apiserver import answering
from mooring.sandbox.apiserver.context import drafting
from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.port import EmbeddedCluster
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.apiserver.verbs.request import Answer, Request
from tests.sandbox.apiserver.kit import Running

MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAPS = ApiResource("", "v1", "configmaps", True, KubeObject)
LARGE = {f"key-{index}": "v" * 100 for index in range(drafting.LARGE // 100)}
Hook = Callable[[Request], None]


def config_map(name: str, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data, **more}


def after_handling(monkeypatch: pytest.MonkeyPatch, hook: Hook) -> None:
    """Call the hook in the thread of each request, before its draft is committed."""

    def handled(request: Request) -> Answer:
        answer = handle(request)
        hook(request)
        return answer

    monkeypatch.setattr(answering, "handle", handled)


def test_where_writes_are_handled(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    after_handling(
        monkeypatch, lambda _: threads.append(threading.current_thread().name.startswith("asyncio_"))
    )
    for name, data in (("large", LARGE), ("small", {"a": "b"})):
        assert server.ask("POST", MAPS, config_map(name, data)).code == 201
        assert server.ask("PUT", f"{MAPS}/{name}", config_map(name, {**data, "c": "d"})).code == 200
        merge = {"content_type": PatchType.MERGE.value}
        patched = server.ask("PATCH", f"{MAPS}/{name}", {"data": {"c": "e"}}, **merge).tree
        read = server.ask("GET", f"{MAPS}/{name}").tree
        assert read["data"] == {**data, "c": "e"}
        assert read["metadata"] == patched["metadata"], "the answer has the version that was stored"
        assert server.ask("DELETE", f"{MAPS}/{name}").code == 200
    assert threads == [True, True, True, False, True, False, False, False, False, False]


def test_on_virtual_time_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its speed would decide the order of writes, and runs would not repeat."""
    threads: list[str] = []
    after_handling(monkeypatch, lambda _: threads.append(threading.current_thread().name))

    async def scene() -> None:
        async with EmbeddedServer() as server:
            await EmbeddedCluster(server.api).create(CONFIG_MAPS, config_map("large", LARGE), "default")

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scene())
    assert threads[-1] == threading.main_thread().name


@pytest.mark.parametrize("data", [LARGE, {"a": "b"}])
def test_scales_have_the_version_that_was_stored(server: Running, data: dict[str, Any]) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {
        "metadata": {"labels": {"app": "a"}, "annotations": data},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    assert server.ask("POST", path, {"metadata": {"name": "scaled"}, "spec": spec}).code == 201
    merge = {"content_type": PatchType.MERGE.value}
    scale = server.ask("PATCH", f"{path}/scaled/scale", {"spec": {"replicas": 3}}, **merge).tree
    read = server.ask("GET", f"{path}/scaled").tree
    assert (scale["kind"], scale["spec"], read["spec"]["replicas"]) == ("Scale", {"replicas": 3}, 3)
    assert scale["metadata"]["resourceVersion"] == read["metadata"]["resourceVersion"]
    again = server.ask("PATCH", f"{path}/scaled/scale", {"spec": {"replicas": 3}}, **merge).tree
    assert again == scale
    server.ask("DELETE", f"{path}/scaled")


@pytest.mark.parametrize("data", [LARGE, {"a": "b"}])
def test_errors_and_warnings_are_the_same(server: Running, data: dict[str, Any]) -> None:
    strict = f"{MAPS}?fieldValidation=Strict"
    answer = server.ask("POST", strict, config_map("x", data, unknown=1))
    assert (answer.code, answer.tree["message"]) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "unknown"',
    )
    answer = server.ask("POST", MAPS, {**config_map("x", data), "kind": "Secret"})
    assert (answer.code, "Secret" in answer.tree["message"]) == (400, True)
    answer = server.ask("POST", f"{MAPS}?fieldValidation=x", config_map("x", data))
    assert (answer.code, answer.tree["reason"]) == (422, "Invalid")
    answer = server.ask("POST", f"{MAPS}?dryRun=All", config_map("x", data, unknown=1))
    assert (answer.code, answer.headers["warning"]) == (201, r'299 - "unknown field \"unknown\""')


def test_nothing_is_lost_if_the_object_changes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        loop, drafts = asyncio.get_running_loop(), 0
        async with EmbeddedServer() as server:
            client = EmbeddedCluster(server.api)
            await client.create(CONFIG_MAPS, config_map("m", LARGE), "default")
            table = server.api.store.table("configmaps")

            async def touch() -> None:  # by another writer, in one step
                record = table.records["default/m"]
                table.put(record.key, record.tail.replace(b'"key-0":"v', b'"key-0":"w'), None, record.fields)

            def interfere(request: Request) -> None:
                nonlocal drafts
                if request.verb == "patch":
                    drafts += 1
                    if drafts < 3:
                        asyncio.run_coroutine_threadsafe(touch(), loop).result(30)

            after_handling(monkeypatch, interfere)
            await client.patch(CONFIG_MAPS, "m", {"metadata": {"labels": {"a": "b"}}}, "default")
            tail = table.records["default/m"].tail
            assert drafts == 3
            assert b'"labels":{"a":"b"}' in tail
            assert b'"key-0":"wv' in tail

    asyncio.run(scene())


def test_a_new_object_is_created_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        async with EmbeddedServer() as server:
            client = EmbeddedCluster(server.api)

            def interfere(request: Request) -> None:
                if len(request.body) >= drafting.LARGE:
                    small = client.create(CONFIG_MAPS, config_map("m", {"a": "b"}), "default")
                    asyncio.run_coroutine_threadsafe(small, loop).result(30)

            after_handling(monkeypatch, interfere)
            with pytest.raises(ApiError, match='configmaps "m" already exists'):
                await client.create(CONFIG_MAPS, config_map("m", LARGE), "default")
            assert len(server.api.store.table("configmaps").records["default/m"].tail) < drafting.LARGE

    asyncio.run(scene())


def test_other_tasks_go_on_during_a_large_write() -> None:
    async def scene() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with EmbeddedServer() as server:
            client = EmbeddedCluster(server.api)
            body = config_map("m", {f"key-{index}": "v" for index in range(5000)})
            counting = asyncio.create_task(count())
            await client.patch(CONFIG_MAPS, "m", body, "default", kind=PatchType.APPLY)
            counting.cancel()
        assert turns > 20

    asyncio.run(scene())


def test_an_eviction_under_large_budgets_is_handled_in_a_thread(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods, budgets = (
        "/api/v1/namespaces/default/pods",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    )
    merge = {"content_type": PatchType.MERGE.value}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    assert server.ask("POST", pods, {"metadata": {"name": "a"}, "spec": spec}).code == 201
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert server.ask("PATCH", f"{pods}/a/status", {"status": status}, **merge).code == 200
    terms = [{"key": f"key-{number}", "operator": "DoesNotExist"} for number in range(500)]
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchExpressions": terms}}}
    assert server.ask("POST", budgets, budget).code == 201
    allowed = {
        "disruptionsAllowed": 1,
        "observedGeneration": 1,
        "currentHealthy": 1,
        "desiredHealthy": 0,
        "expectedPods": 1,
    }
    assert server.ask("PATCH", f"{budgets}/b/status", {"status": allowed}, **merge).code == 200
    threads: list[bool] = []
    after_handling(
        monkeypatch, lambda _: threads.append(threading.current_thread().name.startswith("asyncio_"))
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert server.ask("POST", f"{pods}/a/eviction", eviction).code == 201
    assert threads == [True]
    assert "deletionTimestamp" in server.ask("GET", f"{pods}/a").tree["metadata"]
    after = server.ask("GET", f"{budgets}/b").tree["status"]
    assert (after["disruptionsAllowed"], [*after["disruptedPods"]]) == (0, ["a"])
    assert server.ask("POST", f"{pods}/a/eviction", eviction).code == 201, "it is being deleted already"
