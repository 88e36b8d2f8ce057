"""What the API server says of patches that it cannot use."""

from __future__ import annotations

from mooring.client.errors import ApiError
from mooring.sandbox.apiserver.errors import bad_request, invalid, invalid_value


def unprocessable() -> ApiError:
    """A patch that does not apply to this object. Kubernetes keeps the reason to itself."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request")


def too_many_operations(found: int, limit: int) -> ApiError:
    problem = f"The allowed maximum operations in a JSON patch is {limit}, got {found}"
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {problem}")


def malformed(problem: str) -> ApiError:
    """A patch that makes no sense. Kubernetes answers most of these with 500, although the client erred."""
    return bad_request(problem)


def bad_result(shown: str, problem: str) -> ApiError:
    """A patch whose result is no object of its kind; `shown` is the patch or the result."""
    return invalid("", "", "", [invalid_value("patch", shown, problem)])


def wrong_type(found: str, expected: str, prefix: str = "") -> ApiError:
    """A patch that is JSON, but of another type than patches are."""
    return bad_request(f"{prefix}json: cannot unmarshal {found} into Go value of type {expected}")
