"""The JSON between a scheduler and its extenders, read and written as Go does."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec import Raw

from mooring.extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    HostPriorityList,
    MetaPod,
    MetaVictims,
    Victims,
    is_null,
    read,
    read_nodes,
    write,
)


def test_requests_have_the_keys_of_the_go_structs() -> None:
    args = ExtenderArgs(pod=Raw(b'{"metadata":{}}'), node_names=["a"])
    assert json.loads(write(args)) == {"Pod": {"metadata": {}}, "Nodes": None, "NodeNames": ["a"]}
    binding = ExtenderBindingArgs("p", "ns", "u", "n")
    assert json.loads(write(binding)) == {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n"}
    meta = ExtenderPreemptionArgs(
        pod=Raw(b"{}"), node_name_to_meta_victims={"n": MetaVictims([MetaPod("u")], 2)}
    )
    assert json.loads(write(meta)) == {
        "Pod": {},
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}},
    }
    whole = ExtenderPreemptionArgs(node_name_to_victims={"n": Victims([Raw(b'{"spec":{}}')])})
    assert json.loads(write(whole))["NodeNameToVictims"] == {
        "n": {"Pods": [{"spec": {}}], "NumPDBViolations": 0}
    }
    assert write([HostPriority("n", 3)]) == b'[{"Host":"n","Score":3}]'


def test_keys_are_read_in_any_case_and_unknown_ones_skipped() -> None:
    body = b'{"nodenames":["a"],"failedNodes":{"B":"no"},"ERROR":null,"extra":1,"Nodes":{"items":[{"x":1}]}}'
    result = read(body, ExtenderFilterResult)
    assert (result.node_names, result.failed_nodes, result.error) == (["a"], {"B": "no"}, "")
    assert [bytes(node) for node in read_nodes(result.nodes)] == [b'{"x":1}']
    assert read(b'[{"host":"a","SCORE":7},{"Host":"b"}]', HostPriorityList) == [
        HostPriority("a", 7),
        HostPriority("b", 0),
    ]
    answer = read(b'{"nodeNameToMetaVictims":{"n":{"pods":[{"uid":"u"}]}}}', ExtenderPreemptionResult)
    assert answer.node_name_to_meta_victims == {"n": MetaVictims([MetaPod("u")])}


def test_nulls_are_absent() -> None:
    result = read(b'{"Nodes":null,"NodeNames":null,"FailedNodes":null,"Error":null}', ExtenderFilterResult)
    assert is_null(result.nodes)
    assert result == ExtenderFilterResult(nodes=result.nodes)
    assert read(b"null\n", HostPriorityList) == []
    assert read_nodes(result.nodes) == []


def test_pods_and_nodes_stay_the_bytes_they_were() -> None:
    body = b'{"Pod":{"b" : 1, "a":2},"Nodes":{"metadata":{},"items":[{"z": 1}]},"NodeNames":null}'
    args = read(body, ExtenderArgs)
    assert bytes(args.pod) == b'{"b" : 1, "a":2}'
    assert [bytes(node) for node in read_nodes(args.nodes)] == [b'{"z": 1}']


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b'[{"Host":"a","Score":1.5}]',
        b'[{"Host":"a","Score":"10"}]',
        b'[{"Host":"a","Score":NaN}]',
        b'[{"Host":"a","Score":9223372036854775808}]',
        b'[{"Host":7,"Score":1}]',
    ],
)
def test_what_is_no_list_of_host_priorities_is_told(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read(body, HostPriorityList)
