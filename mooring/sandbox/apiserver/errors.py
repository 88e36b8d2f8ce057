"""kube-apiserver's errors, word for word. HTTP writes them as Status objects; the port raises them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from mooring.client.api_errors import ApiError


class Cause(NamedTuple):
    """What is invalid about one field."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def show(value: object) -> str:
    """Quote a value as Kubernetes does in messages: strings in quotes, trees as JSON."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    return msgspec.json.encode(value).decode()


# ---- causes ---------------------------------------------------------------------------------------


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> Cause:
    return Cause("FieldValueInvalid", field, f"Invalid value: {show(value)}: {detail}")


def not_supported(field: str, value: object, supported: Iterable[str]) -> Cause:
    values = ", ".join(show(one) for one in supported)
    return Cause(
        "FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {values}"
    )


def forbidden_value(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def internal_value(field: str, detail: str) -> Cause:
    return Cause("InternalError", field, f"Internal error: {detail}")


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")


def not_found_value(field: str, value: object) -> Cause:
    return Cause("FieldValueNotFound", field, f"Not found: {show(value)}")


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> Cause:
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", field, f"Too many: {count}: must have at most {limit} {items}")


# ---- refusals -------------------------------------------------------------------------------------


def qualified(group: str, name: str) -> str:
    """Return a resource or kind with its group, as messages name it."""
    return f"{name}.{group}" if group else name


def _details(group: str, kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in details.items() if value}


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, resource: str, name: str, why: str) -> ApiError:
    what = qualified(group, resource) + (f" {show(name)}" if name else "")
    message = f"{what} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, details=_details(group, resource, name))


def not_found(group: str, resource: str, name: str) -> ApiError:
    message = f"{qualified(group, resource)} {show(name)} not found"
    return ApiError(404, "NotFound", message, details=_details(group, resource, name))


def no_such_resource() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> ApiError:
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def method_not_supported(group: str, resource: str, action: str) -> ApiError:
    message = f"{action} is not supported on resources of kind {show(qualified(group, resource))}"
    return ApiError(405, "MethodNotAllowed", message, details=_details(group, resource))


def already_exists(group: str, resource: str, name: str) -> ApiError:
    message = f"{qualified(group, resource)} {show(name)} already exists"
    return ApiError(409, "AlreadyExists", message, details=_details(group, resource, name))


def generated_name_exists(group: str, resource: str, name: str) -> ApiError:
    message = (
        f"{qualified(group, resource)} {show(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    return ApiError(
        409, "AlreadyExists", message, details=_details(group, resource, name, retryAfterSeconds=1)
    )


def conflict(group: str, resource: str, name: str, why: str) -> ApiError:
    message = f"Operation cannot be fulfilled on {qualified(group, resource)} {show(name)}: {why}"
    return ApiError(409, "Conflict", message, details=_details(group, resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


class ContinueExpiredError(ApiError):
    """A list cannot be continued at its version; `continue_token` continues at the current one."""

    def __init__(self, continue_token: str) -> None:
        super().__init__(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result. You can start "
            "a new list without the continue parameter, or use the continue token in this response to "
            "retrieve the remainder of the results. Continuing with the provided token results in an "
            "inconsistent list - objects that were created, modified, or deleted between the time the first "
            "chunk was returned and now may show up in the list.",
        )
        self.continue_token = continue_token


def too_large_version(requested: int, current: int) -> ApiError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return ApiError(
        504, "Timeout", message, details={"causes": [cause], "retryAfterSeconds": 1}, retry_after=1
    )


_MOST_CAUSES = 1000  # a body may be invalid in a hundred thousand places
_LONGEST_CAUSES = 4 * 1024 * 1024  # characters; a cause may show a large part of the body


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> ApiError:
    """Return 422 with all causes; the message lists them if there are several."""
    lengths = accumulate(len(cause.message) for cause in causes[:_MOST_CAUSES])
    causes = causes[: max(1, bisect_right(list(lengths), _LONGEST_CAUSES))]
    texts = [str(cause) for cause in dict.fromkeys(causes)]
    problem = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    shown = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    message = f"{qualified(group, kind)} {show(name)} is invalid: {problem}"
    return ApiError(422, "Invalid", message, details=_details(group, kind, name, causes=shown))


def too_many_requests(message: str, retry_after: int, causes: list[dict[str, str]] | None = None) -> ApiError:
    details: dict[str, Any] = {"causes": causes} if causes else {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", message, details=details, retry_after=retry_after or None)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    types = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {types}"
    return ApiError(415, "UnsupportedMediaType", message)


def not_acceptable(accepted: Iterable[str]) -> ApiError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", message)


def not_convertible(resource: str) -> ApiError:
    message = f"the resource {resource} does not support being converted to a Table"
    return ApiError(406, "NotAcceptable", message)


def too_large_body(limit: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def internal(message: str) -> ApiError:
    return ApiError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def status_tree(error: ApiError) -> dict[str, Any]:
    """Return the Status object of an error."""
    tree: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": error.continue_token} if isinstance(error, ContinueExpiredError) else {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        tree["reason"] = error.reason
    if error.details or error.code in (404, 405):
        tree["details"] = error.details
    tree["code"] = error.code
    return tree
