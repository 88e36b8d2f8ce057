"""The types of hostPath volumes."""

from __future__ import annotations

from tests.sandbox.network.kit import Net, Tree, connected

MADE = "mknod /mnt/block b 7 1; mknod /mnt/char c 1 3; mkdir /mnt/folder; touch /mnt/file"
WAITS = {
    ("folder", "File"): "is not a file",
    ("file", "Directory"): "is not a directory",
    ("file", "Socket"): "is not a socket file",
    ("char", "BlockDevice"): "is not a block device",
    ("block", "CharDevice"): "is not a character device",
    ("none", "Directory"): "is not a directory",
}
STARTS = (
    ("folder", "Directory"),
    ("folder", "DirectoryOrCreate"),
    ("file", "File"),
    ("socket", "Socket"),
    ("char", "CharDevice"),
    ("block", "BlockDevice"),
    ("new-folder", "DirectoryOrCreate"),
    ("new-file", "FileOrCreate"),
    ("none", ""),
)


def volumes(path: str, type: str = "") -> Tree:
    source = {"path": f"/tmp/{path}", **({"type": type} if type else {})}
    return {"volumes": [{"name": "host", "hostPath": source}], "nodeName": "node-1"}


def container(*command: str) -> Tree:
    mounts = [{"name": "host", "mountPath": "/mnt"}]
    return {"name": "main", "image": "busybox", "command": list(command), "volumeMounts": mounts}


def test_a_pod_starts_only_with_what_the_type_of_its_path_names() -> None:
    async def scene(net: Net) -> None:
        await net.run_pod(
            "client", containers=[container("sleep", "1d")], **volumes("dir", "DirectoryOrCreate")
        )
        sleeper = container("sleep", "1d")
        await net.run_pod("socket", containers=[container("nc", "-lU", "/mnt/socket")], **volumes("dir"))
        await net.advance(2)
        assert (await net.run(MADE))[0] == 0
        assert await net.run("mknod /mnt/block b 7 1") == (1, "mknod: /mnt/block: File exists\n")
        pods = {f"{path}-{type.lower() or 'any'}": (path, type) for path, type in (*WAITS, *STARTS)}
        for name, (path, type) in pods.items():
            await net.run_pod(name, containers=[sleeper], **volumes(f"dir/{path}", type))
        await net.advance(3)
        phases = {pods[name]: await net.phase(name) for name in pods}
        assert phases == {**dict.fromkeys(WAITS, "Pending"), **dict.fromkeys(STARTS, "Running")}
        assert "FailedMount" in await net.reasons("folder-file")
        assert (await net.run("ls /mnt"))[1].split() == [
            "block", "char", "file", "folder", "new-file", "new-folder", "none", "socket",
        ]  # fmt: skip
        await net.run("rm /mnt/file; mkdir /mnt/file")
        await net.advance(10)
        assert await net.phase("file-directory") == "Running"

    connected(scene)
