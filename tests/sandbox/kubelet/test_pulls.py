"""Which images cannot be pulled, and why."""

from __future__ import annotations

import pytest

from mooring.sandbox.kubelet.pulls import find_pull_error, full_name, is_missing


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("webserver:404", True), ("invalid.registry.k8s.io/invalid/pause:1", True), ("nginx:1.404", False),
        ("example.com:404/app", False), ("app:404@sha256:00", True),
        ("localhost/app-that-doesnt-exist", True),
    ],
)  # fmt: skip
def test_images_that_cannot_be_pulled(image: str, expected: bool) -> None:
    assert is_missing(image) is expected


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/nginx:1", "docker.io/library/nginx:1"),
        ("me/app:1", "docker.io/me/app:1"),
        ("localhost/app", "localhost/app:latest"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("example.com/app@sha256:00", "example.com/app@sha256:00"),
    ],
)
def test_names_with_what_they_have_by_default(image: str, name: str) -> None:
    assert full_name(image) == name


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("NGINX:1", "invalid reference format: repository name (library/NGINX) must be lowercase"),
        ("nginx::1", "invalid reference format"),
        ("nginx:-", "invalid reference format"),
        ("a//b", "invalid reference format"),
        ("a" * 250, "repository name must not be more than 255 characters"),
        ("0" * 64, f"invalid repository name ({'0' * 64}), cannot specify 64-byte hexadecimal strings"),
    ],
)
def test_names_that_are_invalid(image: str, problem: str) -> None:
    error = find_pull_error(image, "")
    assert error is not None
    assert (error.reason, error.event) == ("InvalidImageName", "InspectFailed")
    prefix = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": '
    assert error.message == prefix + problem


@pytest.mark.parametrize(
    "image", ["Registry/app", "[::1]:5000/a/b_c__d--e.f:T-1.x", f"a@sha256:{'0' * 64}", f"a:1@x+y:{'0' * 32}"]
)
def test_names_that_are_valid(image: str) -> None:
    assert find_pull_error(image, "") is None


def test_an_image_that_is_missing_and_never_pulled() -> None:
    error = find_pull_error("web:404", "Never")
    assert error is not None
    assert error.reason == "ErrImageNeverPull"
    assert error.message == 'Container image "web:404" is not present with pull policy of Never'
