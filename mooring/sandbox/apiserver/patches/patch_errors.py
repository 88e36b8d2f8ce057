"""kube-apiserver's errors about patches."""

from __future__ import annotations

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.errors import bad_request, invalid, invalid_value


def unprocessable() -> ApiError:
    """A patch that does not apply to this object. Kubernetes does not report the reason."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request")


def too_many_operations(count: int, limit: int) -> ApiError:
    problem = f"The allowed maximum operations in a JSON patch is {limit}, got {count}"
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {problem}")


def malformed(problem: str) -> ApiError:
    """An invalid patch. Kubernetes answers most of these with 500, although the client is at fault."""
    return bad_request(problem)


def bad_result(shown: str, problem: str) -> ApiError:
    """A patch whose result is not an object of its kind; `shown` is the patch or the result."""
    return invalid("", "", "", [invalid_value("patch", shown, problem)])


def wrong_type(actual: str, expected: str, prefix: str = "") -> ApiError:
    """A patch that is JSON, but of the wrong type."""
    return bad_request(f"{prefix}json: cannot unmarshal {actual} into Go value of type {expected}")
