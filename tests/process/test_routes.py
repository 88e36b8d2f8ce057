"""What a scheduler serves, over real TLS, to those who read it: Prometheus, kubectl and `mooring explain`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from mooring.cli.reach import Endpoint, RefusedError, UnknownPodError, ask_endpoint
from mooring.client.credentials import Credentials, load_credentials
from mooring.config import default_config, from_object, to_object
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.framework.pod import GroupKey, PodInfo
from mooring.metrics import SchedulerMetrics, make_registry
from mooring.process.process_metrics import ProcessMetrics
from mooring.process.routes import scheduler_routes
from mooring.serving.health import Check
from mooring.testing import make_node, make_pod
from tests.explain.kit import Setting
from tests.serving.kit import TOKEN, Served, run, serving

Scenario = Callable[[Served, Setting], Awaitable[None]]


def scheduling(scenario: Scenario, log: DecisionLog | None = None, *, ready: str = "") -> None:
    """Serve a scheduler that has placed one pod and refused another."""
    setting = Setting(log)
    setting.apply(make_node("n0", cpu="4"))
    setting.apply(make_pod("placed", requests={"cpu": "1"}), make_pod("pending", requests={"cpu": "8"}))
    registry = make_registry(SchedulerMetrics(), setting.scheduler)
    registry.register(ProcessMetrics(lambda: True, "kube-scheduler"))
    routes = scheduler_routes(
        setting.scheduler,
        default_config(),
        registry,
        log,
        leads=lambda: True,
        ready=[Check("sched-handler-sync", lambda: ready)],
    )

    async def main() -> None:
        async with serving(routes) as it:
            it.reviewer.users[TOKEN] = {"username": "admin", "groups": ["system:masters"]}
            await scenario(it, setting)

    run(main())


def test_health() -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        assert (await it.ask("/healthz?verbose")).text == "[+]ping ok\nhealthz check passed\n"
        assert (await it.ask("/livez?verbose")).text == "[+]ping ok\nlivez check passed\n"
        answer = await it.ask("/readyz")
        assert (answer.status, answer.headers["x-content-type-options"]) == (500, "nosniff")
        alone = await it.ask("/readyz/sched-handler-sync", TOKEN)
        assert alone.text == "internal server error: handlers are not fully synchronized\n"
        slis = (await it.ask("/metrics/slis", TOKEN)).text
        assert 'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0' in slis

    scheduling(scenario, ready="handlers are not fully synchronized")


def test_metrics_in_both_forms() -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        plain = await it.ask("/metrics", TOKEN)
        assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
        families = {family.name: family for family in text_string_to_metric_families(plain.text)}
        pending = {s.labels["queue"]: s.value for s in families["scheduler_pending_pods"].samples}
        assert pending == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0}
        assert {s.value for s in families["leader_election_master_status"].samples} == {1}
        [build] = families["kubernetes_build_info"].samples
        assert (build.labels["major"], build.labels["minor"]) == ("1", "36")
        accept = "application/openmetrics-text;version=1.0.0"
        other = await it.ask("/metrics", TOKEN, headers={"Accept": accept})
        assert other.headers["content-type"].startswith("application/openmetrics-text")
        assert other.text.endswith("# EOF\n")

    scheduling(scenario)


def test_who_never_competes_has_no_status_of_leadership() -> None:
    registry = CollectorRegistry()
    registry.register(ProcessMetrics(lambda: True, None))
    assert [family.name for family in registry.collect()] == ["kubernetes_build_info"]


def test_resources() -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        text = (await it.ask("/metrics/resources", TOKEN)).text
        families = list(text_string_to_metric_families(text))
        requested = {(s.labels["pod"], s.labels["node"]): s.value for f in families for s in f.samples}
        assert requested[("placed", "n0")] == 1
        assert requested[("pending", "")] == 8

    scheduling(scenario)


def test_the_configuration_loads_back_to_itself() -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        served = (await it.ask("/configz", TOKEN)).json
        assert set(served) == {"componentconfig"}
        config = served["componentconfig"]
        assert config["apiVersion"] == "kubescheduler.config.k8s.io/v1"
        assert config == to_object(default_config())
        assert from_object(config).config == default_config()

    scheduling(scenario)


def test_version() -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        version = (await it.ask("/version", TOKEN)).json
        assert (version["major"], version["minor"]) == ("1", "36")
        assert version["gitVersion"].startswith("v1.36.")

    scheduling(scenario)


# ---- decisions


def credentials(folder: Path, token: str = TOKEN) -> Credentials:
    path = folder / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c,"
        "contexts: [{name: c, context: {cluster: c, user: u}}],"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}],"
        f"users: [{{name: u, user: {{token: {token}}}}}]}}"
    )
    return load_credentials(str(path))


def test_mooring_explain_reads_decisions(tmp_path: Path) -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        endpoint = Endpoint(f"https://127.0.0.1:{it.server.port}", insecure=True)
        known = credentials(tmp_path)
        placed = await asyncio.to_thread(ask_endpoint, endpoint, known, "default", "placed")
        assert (placed.state, placed.node) == ("scheduled", "n0")
        pending = await asyncio.to_thread(ask_endpoint, endpoint, known, "default", "pending")
        assert (pending.state, len(pending.attempts)) == ("pending", 1)
        with pytest.raises(UnknownPodError) as unknown:
            await asyncio.to_thread(ask_endpoint, endpoint, known, "default", "nobody")
        assert set(unknown.value.existing) == {"default/placed", "default/pending"}
        with pytest.raises(RefusedError, match="401 Unauthorized"):
            await asyncio.to_thread(ask_endpoint, endpoint, credentials(tmp_path, "wrong"), "default", "x")

    scheduling(scenario, DecisionLog())


def test_recent_decisions_are_limited() -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        for asked, expected in (("", 2), ("?limit=1", 1), ("?limit=0", 0), ("?limit=999999999", 2)):
            answer = await it.ask(f"/debug/decisions{asked}", TOKEN)
            assert len(answer.json["pods"]) == expected
        for wrong in ("x", "-1", "", "1.5", "9" * 5000):
            refusal = await it.ask(f"/debug/decisions?limit={wrong}", TOKEN)
            assert refusal.refusal[:2] == (400, "BadRequest")

    scheduling(scenario, DecisionLog())


def test_paths_of_decisions_that_name_no_pod() -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        for path in ("", "x", "default/", "default/placed/more", "/placed", "a%2fb/c"):
            answer = await it.ask(f"/debug/decisions/{path}", TOKEN)
            assert answer.refusal[:2] == (404, "NotFound")

    scheduling(scenario, DecisionLog())


def test_the_explanation_of_a_group() -> None:
    """The pods of a group name it, and the group itself does not exist."""

    async def scenario(it: Served, setting: Setting) -> None:
        assert (await it.ask("/debug/decisions/default/podgroups/train", TOKEN)).refusal[:2] == (
            404,
            "NotFound",
        )
        setting.scheduler.members.put(grouped(setting.scheduler, "train"))
        answer = await it.ask("/debug/decisions/default/podgroups/train", TOKEN)
        assert answer.json["summary"] == "default/train does not exist, and 1 pod waits for it"

    scheduling(scenario, DecisionLog())


def grouped(scheduler: Scheduler, group: str) -> PodInfo:
    info = scheduler.cluster.info(make_pod("member"))
    info.group = GroupKey("default", group)
    return info


def test_without_a_log_there_is_still_the_present() -> None:
    async def scenario(it: Served, setting: Setting) -> None:
        assert (await it.ask("/debug/decisions", TOKEN)).json["pods"] == []
        answer = await it.ask("/debug/decisions/default/pending", TOKEN)
        assert (answer.status, answer.json["state"]) == (200, "pending")

    scheduling(scenario)
