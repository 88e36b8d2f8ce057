"""Targets: what the sandbox is given apart from single requests."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mooring.api.meta import ObjectMeta
from mooring.client.api_errors import ApiError
from mooring.client.http.connection import Response
from mooring.sandbox.apiserver.admission import webhook_client
from mooring.sandbox.apiserver.context.calls import Call, Calls, Reply
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.program import run_program
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import ContainerSpec, EnvVar
from tests.fuzz.mutation import mutate_json, mutate_text
from tests.fuzz.target import target, untimed
from tests.sandbox.apiserver.kit import Direct, pod

Tree = dict[str, Any]
_RENEW_AFTER = 200
_CRDS = {"group": "apiextensions.k8s.io"}
_WEBHOOKS = {"group": "admissionregistration.k8s.io"}


class _Servers:
    """An API in memory, made again after some inputs."""

    def __init__(self) -> None:
        self._left = 0
        self._direct: Direct | None = None

    def get(self) -> Direct:
        if self._direct is None or not self._left:
            with untimed():
                self._direct, self._left = Direct(), _RENEW_AFTER
                self._direct.api.may_take_long = True
        self._left -= 1
        return self._direct


_servers = _Servers()


def _problem(error: ApiError) -> str:
    """Return the end of a message, where most of them differ."""
    return f"{error.code} {error.message.rpartition(': ')[2] or error.message[-80:]}"


# ---- definitions ----------------------------------------------------------------------------------

_SCHEMA: Tree = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": "self.spec.min <= self.spec.max", "message": "order"}],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["min"],
            "x-kubernetes-validations": [
                {"rule": "self.names.all(n, n.size() < 5)", "messageExpression": "'names: ' + self.names[0]"},
                {
                    "rule": "self.min >= oldSelf.min",
                    "reason": "FieldValueForbidden",
                    "fieldPath": ".min",
                },
            ],
            "properties": {
                "min": {"type": "integer", "minimum": 0, "default": 1},
                "max": {"type": "integer", "format": "int32", "maximum": 100, "default": 5},
                "names": {
                    "type": "array",
                    "maxItems": 5,
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string", "maxLength": 9, "pattern": "^[a-z]+$"},
                },
                "map": {"type": "object", "additionalProperties": {"type": "string", "format": "date-time"}},
                "port": {"x-kubernetes-int-or-string": True},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "nullable": True},
            },
        }
    },
}
_OBJECT: Tree = {"min": 1, "max": 3, "names": ["a", "b"], "map": {"a": "b"}, "port": "x", "any": {"c": [1]}}


def _defining(schema: Tree, spec: Tree, then: Tree) -> str:
    return json.dumps({"schema": schema, "version": {"served": True}, "spec": spec, "then": then})


@target(
    "definitions",
    mutate_json,
    [_defining(_SCHEMA, _OBJECT, {**_OBJECT, "min": 0}), _defining({"type": "object"}, {}, {})],
    [
        "type", "object", "array", "properties", "items", "x-kubernetes-validations", "rule", "message",
        "self", "oldSelf", "messageExpression", "optionalOldSelf", "reason", "fieldPath", "default",
        "nullable", "pattern", "format", "enum", "anyOf", "allOf", "oneOf", "not",
        "x-kubernetes-list-type", "map", "x-kubernetes-list-map-keys", "x-kubernetes-embedded-resource",
        "self.spec.names.map(n, n + n)", "has(self.spec.any)", "subresources", "scale", "specReplicasPath",
        "additionalPrinterColumns", "jsonPath", "selectableFields", "storage", "served", "deprecated",
    ],
    (ApiError,),
)  # fmt: skip
def define(data: bytes) -> object:
    """Create a definition with this schema, and an object of its kind; change and delete both."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return "no JSON"
    if not isinstance(tree, dict):
        return "no object"
    server, more = _servers.get(), tree.get("version")
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": tree.get("schema")},
        **(more if isinstance(more, dict) else {}),
    }
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"metadata": {"name": "things.example.com"}, "spec": spec}
    try:
        server.ask("create", "customresourcedefinitions", "", body, **_CRDS)
    except ApiError as error:
        return _problem(error)
    try:
        if server.api.registry.find("example.com", "v1", "things") is None:
            return "not served"
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
        first = server.tree("create", "things", "", {**thing, "spec": tree.get("spec")}, group="example.com")
        metadata = {"name": "t", "resourceVersion": first["metadata"]["resourceVersion"]}
        changed = {**thing, "metadata": metadata, "spec": tree.get("then")}
        server.ask("update", "things", "t", changed, group="example.com")
        return "changed"
    except ApiError as error:
        return "object: " + _problem(error)
    finally:
        server.ask("delete", "customresourcedefinitions", "things.example.com", **_CRDS)


# ---- webhooks -------------------------------------------------------------------------------------


class _Answering(Calls):
    """Answers each call with the same bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(1, "2030-01-01T00:00:00Z")
        self._data = data

    def get(self, calls: list[Call]) -> list[Reply]:
        try:
            reply = Reply(webhook_client._decoded(Response(200, [], self._data)), "u")
        except webhook_client._CallError as error:
            reply = Reply({}, "u", str(error))
        return [reply] * len(calls)


def _review(**response: Any) -> str:
    answer = {"uid": "u", "allowed": True, **response}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})


def _with_webhooks() -> Direct:
    server = _servers.get()
    if server.api.webhooks.any:
        return server
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [rule],
    }
    for kind in ("mutating", "validating"):
        body = {"metadata": {"name": "w"}, "webhooks": [webhook]}
        server.ask("create", f"{kind}webhookconfigurations", "", body, **_WEBHOOKS)
    return server


@target(
    "webhook-answers",
    mutate_json,
    [
        _review(),
        _review(allowed=False, status={"code": 403, "message": "no", "reason": "Forbidden", "details": {}}),
        _review(warnings=["careful"], auditAnnotations={"a": "b"}),
        _review(
            patchType="JSONPatch",
            patch="W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7ImEiOiJiIn19XQ==",
        ),
        _review(patchType="JSONPatch", patch="W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL3NwZWMvY29udGFpbmVycy8wIn1d"),
    ],
    [
        "response", "uid", "u", "allowed", "status", "code", "message", "reason", "patch", "patchType",
        "JSONPatch", "warnings", "auditAnnotations", "apiVersion", "kind", "AdmissionReview",
        "admission.k8s.io/v1", "admission.k8s.io/v1beta1", "W10=", "bnVsbA==", "details", "causes",
    ],
    (ApiError,),
)  # fmt: skip
def answer_webhooks(data: bytes) -> object:
    """Create, update and delete a pod with webhooks that answer this."""
    server = _with_webhooks()
    name = "p"
    try:
        with server.api.attempt(_Answering(data)):
            created = server.tree("create", "pods", "", pod(name))
            server.ask("update", "pods", name, {**created, "metadata": {**created["metadata"], "labels": {}}})
        return sorted(created["metadata"])
    except ApiError as error:
        return _problem(error)
    finally:
        if server.api.record("pods", name, "default") is not None:
            server.ask("delete", "pods", name, gracePeriodSeconds="0")


# ---- conversion -----------------------------------------------------------------------------------

_CONVERTED: Tree = {
    "apiVersion": "example.com/v1",
    "kind": "Converted",
    "metadata": {"name": "c", "namespace": "default", "labels": {"a": "b"}},
    "spec": {"replicas": 1},
}


def _conversion(*objects: Tree, **response: Any) -> str:
    answer = {"uid": "u", "result": {"status": "Success"}, "convertedObjects": list(objects), **response}
    return json.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": answer}
    )


def _with_conversion() -> Direct:
    server = _servers.get()
    if server.api.registry.find("example.com", "v2", "converteds") is None:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        versions = [
            {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
            for name in ("v1", "v2")
        ]
        webhook = {"clientConfig": {"url": "https://127.0.0.1:1/x"}, "conversionReviewVersions": ["v1"]}
        spec = {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "converteds", "kind": "Converted"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        }
        body = {"metadata": {"name": "converteds.example.com"}, "spec": spec}
        server.ask("create", "customresourcedefinitions", "", body, **_CRDS)
    return server


@target(
    "conversion-answers",
    mutate_json,
    [
        _conversion(_CONVERTED),
        _conversion({**_CONVERTED, "apiVersion": "example.com/v2"}),
        _conversion(result={"status": "Failed", "message": "no"}),
        _conversion(_CONVERTED, _CONVERTED),
    ],
    [
        "response", "uid", "u", "result", "status", "Success", "message", "convertedObjects", "apiVersion",
        "kind", "metadata", "name", "namespace", "labels", "annotations", "example.com/v2", "Converted",
        "spec", "managedFields",
    ],
    (ApiError,),
)  # fmt: skip
def answer_conversions(data: bytes) -> object:
    """Create an object in another version than the stored one, with a webhook that answers this."""
    server = _with_conversion()
    body = {**_CONVERTED, "apiVersion": "example.com/v2"}
    where = {"group": "example.com", "version": "v2"}
    try:
        with server.api.attempt(_Answering(data)):
            server.ask("create", "converteds", "", body, **where)
            server.tree("get", "converteds", "c", **where)
        return "converted"
    except ApiError as error:
        return _problem(error)
    finally:
        if server.api.record("converteds.example.com", "c", "default") is not None:
            server.ask("delete", "converteds", "c", group="example.com")


# ---- programs -------------------------------------------------------------------------------------

_SOURCES = Sources(ObjectMeta(name="web-0", namespace="shop"))


@target(
    "programs",
    mutate_text,
    [
        "echo hello; sleep 5; exit 3",
        "for i in 1 2 3; do echo $i >> /tmp/x; done; cat /tmp/x | grep 2 | wc -l",
        "i=0; while [ $i -lt 10 ]; do i=$((i+1)); if [ $i = 5 ]; then break; fi; done; echo \"$i\"",
        "until [ -f /data/x ]; do date +%s; touch /data/x; done && rm -rf /data || false",
        "A='b c'; export A; printf '%s\\n' \"${A}\" $(seq 1 5) `hostname` | sort | head -2",
        "sh -c 'exit $((1+2*3))'",
        "trap exit TERM; echo x > /dev/termination-log; tail -f /dev/null & wait",
        "cd /tmp; mkdir -p d -m 755; ln -sfn d e; echo 'cat $1' > e/s; chmod -R u+x,go=r e; e/s d/s",
        "cd /tmp; ln -s a b; ln -s b a; readlink -f a; realpath b; mv a c; find . -type l; ls -l b/..",
        "cd /tmp; dd if=/dev/zero of=z bs=9M count=99; df -h /tmp; seq 9 | tail -n +3; cp z y; ls -lL",
    ],
    [
        "$(", "`", "${", "$((", "))", ")", "'", '"', "\\", ";", "&&", "||", "|", ">", ">>", "<", "2>&1",
        "if", "then", "fi", "while", "do", "done", "for", "in", "case", "esac", "sleep ", "999999999999",
        "seq 1 1000000", "echo ", "%s", "[", "]", "-lt", "$i", "exit ", "sh -c ", "cat ", "/dev/null",
        "**", "%", "<<", "i=$i$i", "\n", "{", "}", "!", "ln -s ", "../",
        "/tmp/", "readlink -f ", "mv ", "-R ",
    ],
)  # fmt: skip
def run_script(data: bytes) -> object:
    """Run a script in an emulated container."""
    text = data.decode("utf-8", "replace")
    spec = ContainerSpec(image="busybox", command=["sh", "-c", text], env=[EnvVar("A", "b")])
    outcome = run_program(spec, _SOURCES, Files())
    if outcome is None:
        return "unknown"
    assert sum(len(text) for _, text in outcome.output) < 10_000_000
    ending = "forever" if outcome.run_time is None else "code" + chr(97 + outcome.exit_code % 26)
    return f"{ending} {''.join(text for _, text in outcome.output)[:40]}"


@target(
    "containers",
    mutate_json,
    [
        json.dumps({"image": "agnhost:2", "args": ["logs-generator", "--log-lines-total", "5"]}),
        json.dumps({"image": "x/agnhost", "args": ["mounttest", "--file_content=/etc/x", "--fs_type=/tmp"]}),
        json.dumps({"image": "busybox", "command": ["sleep", "$(A)"], "env": [{"name": "A", "value": "9"}]}),
        json.dumps({"image": "nginx@sha256:0", "terminationMessagePath": "/dev/x"}),
    ],
    [
        "image", "command", "args", "env", "sleep", "infinity", "-1", "1e99", "pause", "netexec", "--x=",
        "$(A)", "1h1m",
    ],
    (msgspec.DecodeError, UnicodeDecodeError),
)  # fmt: skip
def run_container(data: bytes) -> object:
    try:
        spec = msgspec.json.decode(data, type=ContainerSpec)
    except RecursionError:
        return "too deep"
    outcome = run_program(spec, _SOURCES, Files())
    if outcome is None:
        return "unknown"
    ending = "forever" if outcome.run_time is None else "code" + chr(97 + outcome.exit_code % 26)
    return f"{ending} {''.join(text for _, text in outcome.output)[:40]}"
