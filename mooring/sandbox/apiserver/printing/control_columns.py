"""What rules the API itself: access, admission, flow control, certificates and extensions."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.ages import human_duration
from mooring.sandbox.apiserver.printing.columns import (
    AGE,
    NAME,
    Cell,
    Column,
    Printer,
    at,
    count,
    integer,
    number,
    of,
    wide,
)
from mooring.sandbox.apiserver.printing.texts import NONE, UNSET, condition, selector

# ---- access ---------------------------------------------------------------------------------------


def _role(binding: Tree) -> str:
    role = binding.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def subjects(binding: Tree) -> str:
        return ", ".join(
            f"{one.get('namespace', '')}/{one['name']}" if kind == "ServiceAccount" else one["name"]
            for one in binding.get("subjects") or ()
            if one.get("kind") == kind
        )

    return of(subjects)


def _bindings(type: str, where: str) -> Printer:
    return Printer(
        NAME,
        Column("Role", of(_role), f"rbac_v1.{type}.roleRef"),
        AGE,
        wide("Users", _subjects("User"), f"Users in the {where}"),
        wide("Groups", _subjects("Group"), f"Groups in the {where}"),
        wide("ServiceAccounts", _subjects("ServiceAccount"), f"ServiceAccounts in the {where}"),
    )


# ---- certificates ---------------------------------------------------------------------------------


def _requested_duration(request: Tree) -> str:
    seconds = dig(request, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _request_condition(request: Tree) -> str:
    conditions = dig(request, "status", "conditions")
    found = "Pending"
    if condition(conditions, "Denied") is not None:
        found = "Denied"
    elif condition(conditions, "Approved") is not None:
        found = "Approved"
    if condition(conditions, "Failed") is not None:
        found += ",Failed"
    return f"{found},Issued" if dig(request, "status", "certificate") else found


# ---- admission ------------------------------------------------------------------------------------


def _parameter_kind(policy: Tree) -> str:
    found = dig(policy, "spec", "paramKind")
    return UNSET if found is None else f"{found.get('apiVersion', '')}/{found.get('kind', '')}"


def _parameter(binding: Tree) -> str:
    found = dig(binding, "spec", "paramRef") or {}
    if found.get("name"):
        return f"{found.get('namespace') or '*'}/{found['name']}"
    return selector(found["selector"]) if found.get("selector") is not None else UNSET


_WEBHOOKS: Final = Printer(
    NAME,
    integer(
        "Webhooks",
        count("webhooks"),
        "Webhooks indicates the number of webhooks registered in this configuration",
    ),
    AGE,
)
_PARAMETER_KIND: Final = Column(
    "ParamKind",
    of(_parameter_kind),
    "ParamKind specifies the kind of resources used to parameterize this policy",
)
_POLICY_BINDINGS: Final = Printer(
    NAME,
    Column(
        "PolicyName",
        at("spec", "policyName"),
        "PolicyName indicates the policy definition which the policy binding binded to",
    ),
    Column(
        "ParamRef",
        of(_parameter),
        "ParamRef indicates the param resource which sets the configuration param",
    ),
    AGE,
)


# ---- flow control and extensions ------------------------------------------------------------------


def _dangling(schema: Tree) -> str:
    found = condition(dig(schema, "status", "conditions"), "Dangling")
    return "?" if found is None else found.get("status", "")


def _queuing(name: str, member: str) -> Column:
    path = ("spec", "limited", "limitResponse", "queuing", member)
    return Column(name, at(*path, default=NONE), f"flowcontrol_v1.QueuingConfiguration.{member}")


def _service(api: Tree) -> str:
    found = dig(api, "spec", "service")
    return "Local" if found is None else f"{found.get('namespace', '')}/{found.get('name', '')}"


def _available(api: Tree) -> str:
    found = condition(dig(api, "status", "conditions"), "Available")
    if found is None:
        return "Unknown"
    status, reason = found.get("status", ""), found.get("reason")
    return f"{status} ({reason})" if reason and status != "True" else status


_ADMISSION: Final = "admissionregistration.k8s.io"
_SIGNING: Final = "certificates_v1.CertificateSigningRequestSpec"
_LIMITED: Final = "flowcontrol_v1.LimitedPriorityLevelConfiguration"

PRINTERS: Final = {
    "rolebindings.rbac.authorization.k8s.io": _bindings("RoleBinding", "roleBinding"),
    "clusterrolebindings.rbac.authorization.k8s.io": _bindings("ClusterRoleBinding", "clusterRoleBinding"),
    "certificatesigningrequests.certificates.k8s.io": Printer(
        NAME,
        AGE,
        Column(
            "SignerName", of(lambda obj: dig(obj, "spec", "signerName") or NONE), f"{_SIGNING}.signerName"
        ),
        Column("Requestor", at("spec", "username"), f"{_SIGNING}.request"),
        Column("RequestedDuration", of(_requested_duration), f"{_SIGNING}.expirationSeconds"),
        Column(
            "Condition",
            of(_request_condition),
            "certificates_v1.CertificateSigningRequestStatus.conditions",
        ),
    ),
    f"mutatingwebhookconfigurations.{_ADMISSION}": _WEBHOOKS,
    f"validatingwebhookconfigurations.{_ADMISSION}": _WEBHOOKS,
    f"validatingadmissionpolicies.{_ADMISSION}": Printer(
        NAME,
        integer(
            "Validations",
            count("spec", "validations"),
            "Validations indicates the number of validation rules defined in this configuration",
        ),
        _PARAMETER_KIND,
        AGE,
    ),
    f"mutatingadmissionpolicies.{_ADMISSION}": Printer(
        NAME,
        integer(
            "Mutations",
            count("spec", "mutations"),
            "Mutation indicates the number of mutations rules defined in this configuration",
        ),
        _PARAMETER_KIND,
        AGE,
    ),
    f"validatingadmissionpolicybindings.{_ADMISSION}": _POLICY_BINDINGS,
    f"mutatingadmissionpolicybindings.{_ADMISSION}": _POLICY_BINDINGS,
    "flowschemas.flowcontrol.apiserver.k8s.io": Printer(
        NAME,
        Column(
            "PriorityLevel",
            at("spec", "priorityLevelConfiguration", "name"),
            "flowcontrol_v1.PriorityLevelConfigurationReference.name",
        ),
        Column(
            "MatchingPrecedence",
            number("spec", "matchingPrecedence"),
            "flowcontrol_v1.FlowSchemaSpec.matchingPrecedence",
        ),
        Column(
            "DistinguisherMethod",
            at("spec", "distinguisherMethod", "type", default=NONE),
            "flowcontrol_v1.FlowSchemaSpec.distinguisherMethod",
        ),
        AGE,
        Column("MissingPL", of(_dangling), "references a broken or non-existent PriorityLevelConfiguration"),
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": Printer(
        NAME,
        Column("Type", at("spec", "type"), "flowcontrol_v1.PriorityLevelConfigurationSpec.type"),
        Column(
            "NominalConcurrencyShares",
            at("spec", "limited", "nominalConcurrencyShares", default=NONE),
            f"{_LIMITED}.nominalConcurrencyShares",
        ),
        _queuing("Queues", "queues"),
        _queuing("HandSize", "handSize"),
        _queuing("QueueLengthLimit", "queueLengthLimit"),
        AGE,
    ),
    "apiservices.apiregistration.k8s.io": Printer(
        NAME,
        Column("Service", of(_service), "The reference to the service that hosts this API endpoint."),
        Column("Available", of(_available), "Whether this service is available."),
        AGE,
    ),
}
