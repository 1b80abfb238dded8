"""gNMI as pygnmi, gnmic and Telegraf speak it, against the real switch.

Their messages are made by hand, as the sources of each make them from what their users write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from finsy.proto import gnmi, gnmi_grpc
from p4switch import PATIENCE_S

PORT = "s1-eth1"


@pytest.fixture
def stub(address: str) -> Iterator[Any]:
    with grpc.insecure_channel(address) as channel:
        yield gnmi_grpc.gNMIStub(channel)


def path(text: str, **more: str) -> gnmi.Path:
    """`a/b[name=x]/c`"""
    elems = []
    for part in filter(None, text.split("/")):
        name, _, key = part.rstrip("]").partition("[")
        elem = gnmi.PathElem(name=name)
        if key:
            of, _, value = key.partition("=")
            elem.key[of] = value
        elems.append(elem)
    return gnmi.Path(elem=elems, **more)


def get(stub: Any, request: gnmi.GetRequest) -> gnmi.GetResponse:
    return stub.Get(request, timeout=PATIENCE_S)


def subscribe(stub: Any, request: gnmi.SubscriptionList) -> Iterator[gnmi.SubscribeResponse]:
    messages = iter([gnmi.SubscribeRequest(subscribe=request)])
    answers: Iterator[gnmi.SubscribeResponse] = stub.Subscribe(messages, timeout=PATIENCE_S)
    return answers


def refused(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    code: grpc.StatusCode = caught.value.code()
    return code


@pytest.mark.parametrize("origin", ["openconfig-interfaces", "openconfig", ""])
def test_pygnmi_gets_all_interfaces_as_one_json(stub: Any, origin: str) -> None:
    """`get(path=["openconfig-interfaces:interfaces"], encoding="json_ietf")`: what is before the
    colon becomes the origin, and there is always a prefix."""
    request = gnmi.GetRequest(
        prefix=gnmi.Path(), path=[path("interfaces", origin=origin)], encoding=gnmi.JSON_IETF
    )
    (notification,) = get(stub, request).notification
    (update,) = notification.update
    assert update.path == path("interfaces", origin=origin)
    interfaces = json.loads(update.val.json_ietf_val)["openconfig-interfaces:interface"]
    first, second = sorted(interfaces, key=lambda interface: interface["name"])
    assert (first["name"], second["name"]) == ("s1-eth1", "s1-eth2")
    state = first["state"]
    assert (state["openconfig-p4rt:id"], state["oper-status"]) == (1, "UP")
    assert int(state["counters"]["in-pkts"]) >= 0
    assert isinstance(state["counters"]["in-pkts"], str)


def test_gnmic_gets_with_a_target_and_prefixed_elements(stub: Any) -> None:
    """`gnmic get --target leaf1 --path /openconfig-interfaces:interfaces/interface[name=..]/..`:
    JSON, which is the default, and the module stays in the element."""
    whole = f"openconfig-interfaces:interfaces/interface[name={PORT}]/state"
    request = gnmi.GetRequest(
        prefix=gnmi.Path(target="leaf1"), path=[path(f"{whole}/ifindex"), path(f"{whole}/counters")]
    )
    leaf, counters = get(stub, request).notification
    for notification in (leaf, counters):
        assert notification.prefix == gnmi.Path(target="leaf1")
        assert notification.timestamp > 0
    assert leaf.update[0].val.json_val == b"1"
    values = json.loads(counters.update[0].val.json_val)
    assert isinstance(values["out-discards"], int)


@pytest.mark.parametrize("mode", [gnmi.SubscriptionList.ONCE, gnmi.SubscriptionList.STREAM])
def test_telegraf_subscribes_with_target_and_origin(stub: Any, mode: Any) -> None:
    """`target`, `origin`, and a subscription with `subscription_mode = "sample"`."""
    request = gnmi.SubscriptionList(
        prefix=gnmi.Path(target="leaf1", origin="openconfig-interfaces"),
        mode=mode,
        encoding=gnmi.PROTO,
        subscription=[
            gnmi.Subscription(
                path=path("interfaces/interface/state/counters"),
                mode=gnmi.SAMPLE,
                sample_interval=200_000_000,
            )
        ],
    )
    answers = subscribe(stub, request)
    found = []
    for answer in answers:
        if answer.sync_response:
            break
        assert answer.update.prefix == request.prefix
        found += [update.path.elem[-1].name for update in answer.update.update]
    assert len(found) == 10
    assert set(found) == {"in-pkts", "in-octets", "out-pkts", "out-octets", "out-discards"}
    rest = next(answers, None)
    assert (rest is None) == (mode == gnmi.SubscriptionList.ONCE)


def test_what_cannot_be_is_refused_as_the_specification_says(stub: Any) -> None:
    code = grpc.StatusCode
    for request, expected in [
        (gnmi.GetRequest(path=[path("interfaces")], encoding=gnmi.ASCII), code.UNIMPLEMENTED),
        (gnmi.GetRequest(path=[path("interfaces", origin="cli")]), code.UNIMPLEMENTED),
        (gnmi.GetRequest(path=[path("system")]), code.UNIMPLEMENTED),
        (gnmi.GetRequest(path=[path("interfaces/interface[name=x]")]), code.NOT_FOUND),
        (gnmi.GetRequest(path=[gnmi.Path(elem=[gnmi.PathElem()])]), code.INVALID_ARGUMENT),
    ]:
        assert refused(lambda request=request: get(stub, request)) == expected, request
    fast = gnmi.Subscription(path=path("interfaces"), mode=gnmi.SAMPLE, sample_interval=1)
    answers = subscribe(stub, gnmi.SubscriptionList(subscription=[fast]))
    assert refused(lambda: next(answers)) == code.INVALID_ARGUMENT
