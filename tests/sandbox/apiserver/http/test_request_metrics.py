"""/metrics of the API server: requests by what they are about and how they ended."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.sandbox.apiserver.kit import running

MAPS = "/api/v1/namespaces/default/configmaps"


def test_requests_are_counted_and_timed() -> None:
    with running() as server:
        for _ in range(2):
            server.ask("GET", MAPS)
        server.ask("GET", f"{MAPS}/none")
        server.ask("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "one"}})
        server.ask("GET", "/version")
        text = server.ask("GET", "/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    counted = {
        tuple(sample.labels[name] for name in ("verb", "resource", "scope", "dry_run", "code")): sample.value
        for sample in families["apiserver_request"].samples
    }
    assert counted == {
        ("LIST", "configmaps", "namespace", "", "200"): 2,
        ("GET", "configmaps", "resource", "", "404"): 1,
        ("POST", "configmaps", "namespace", "All", "201"): 1,
    }
    timed = families["apiserver_request_duration_seconds"].samples
    assert sum(sample.value for sample in timed if sample.name.endswith("_count")) == 4
    assert sum(sample.value for sample in timed if sample.labels.get("le") == "+Inf") == 4
