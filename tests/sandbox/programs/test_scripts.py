"""Scripts that programs write, and permissions of files."""

from __future__ import annotations

import pytest

from tests.sandbox.programs.test_files import run


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("echo 'echo $0 $1; exit 3' > a; chmod u+x a; ./a 1; echo $?", "./a 1\n3\n"),
        ("echo 'cd /; x=2' > a; chmod +x a; x=1; /scratch/a; pwd; echo $x", "/scratch\n1\n"),
        ("echo 'echo $1' > a; sh a 1; /scratch/a; echo $?",
         "1\n/bin/sh: /scratch/a: Permission denied\n126\n"),
        ("./a; echo $?; mkdir b; ./b; sh a", "/bin/sh: ./a: not found\n127\n/bin/sh: ./b: Permission denied\n"
         "/bin/sh: can't open 'a': No such file or directory\n"),
        ("touch a; for m in 4755 u=rw,g+w,o= a-r +x,g+s; do chmod $m a; stat -c %a a; done",
         "4755\n670\n230\n2331\n"),
        ("mkdir -p a/b -m 700; touch a/b/c; chmod -R go+rX a; stat -c '%n %a' a a/b a/b/c",
         "a 755\na/b 755\na/b/c 644\n"),
        ("ln -s b a; touch b; chmod 600 a; stat -c %a a b; chmod 600 c",
         "777\n600\nchmod: c: No such file or directory\n"),
        ("echo /wD+AGE= | base64 -d | dd of=a bs=64 count=1 2>/dev/null; base64 a; md5sum a; "
         "dd if=a bs=2 count=1 | base64 -w0",
         "/wD+AGE=\na5238ec399d8cd7cd494d06b1535bb01  a\n1+0 records in\n1+0 records out\n/wA="),
        ("printf a | sha256sum; sha256sum b",
         "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  -\n"
         "sha256sum: can't open 'b': No such file or directory\n"),
        ("dd if=/dev/zero of=a bs=1k count=3; dd if=b; test -b a || test -f a && echo file",
         "3+0 records in\n3+0 records out\ndd: can't open 'b': No such file or directory\nfile\n"),
    ],
)  # fmt: skip
def test_commands(script: str, output: str) -> None:
    outcome = run("sh", "-c", f"cd /scratch; {script}")
    assert outcome is not None
    assert outcome[1] == output


def test_programs_that_are_not_scripts_are_not_known() -> None:
    assert run("sh", "-c", "printf '#!/usr/bin/python3\\n' > /tmp/a; chmod +x /tmp/a; /tmp/a") is None
    assert run("sh", "-c", "/opt/server") is None
