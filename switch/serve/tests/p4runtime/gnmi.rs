//! gNMI beside P4Runtime: the interfaces of the switch.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::Running;
use crate::common::messages::{bridge, frame};
use ebb_p4runtime::proto::gnmi as proto;
use ebb_p4runtime::proto::gnmi::g_nmi_client::GNmiClient;
use ebb_p4runtime::proto::p4::entity::Entity;
use proto::subscribe_response::Response;
use proto::typed_value::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

const PATIENCE: Duration = Duration::from_secs(20);

async fn client(server: &Running) -> GNmiClient<Channel> {
    GNmiClient::new(server.channel().await)
}

/// `a/b[name=x]/c`
fn path(text: &str) -> proto::Path {
    let elem = |part: &str| {
        let (name, key) = part.split_once('[').unwrap_or((part, ""));
        let key = key.trim_end_matches(']').split_once('=');
        proto::PathElem {
            name: name.into(),
            key: key.map(|(k, v)| (k.into(), v.into())).into_iter().collect(),
        }
    };
    proto::Path {
        elem: text.split('/').map(elem).collect(),
        ..proto::Path::default()
    }
}

fn get(text: &str) -> proto::GetRequest {
    proto::GetRequest {
        path: vec![path(text)],
        encoding: proto::Encoding::Proto.into(),
        ..proto::GetRequest::default()
    }
}

/// Values by interface and the rest of their path.
fn values(notifications: &[proto::Notification]) -> BTreeMap<String, Value> {
    let updates = notifications.iter().flat_map(|n| &n.update);
    let text = |path: &proto::Path| {
        let elems = path.elem.iter().skip(1);
        let part = |e: &proto::PathElem| e.key.get("name").unwrap_or(&e.name).clone();
        elems.map(part).collect::<Vec<_>>().join("/")
    };
    let value = |u: &proto::Update| {
        let path = u.path.as_ref().expect("a path");
        let value = u.val.clone().and_then(|v| v.value).expect("a value");
        (text(path), value)
    };
    updates.map(value).collect()
}

fn list(
    mode: proto::subscription_list::Mode,
    of: &[(&str, proto::SubscriptionMode)],
) -> proto::SubscribeRequest {
    let subscription = |(text, mode): &(&str, proto::SubscriptionMode)| proto::Subscription {
        path: Some(path(text)),
        mode: (*mode).into(),
        ..proto::Subscription::default()
    };
    let list = proto::SubscriptionList {
        subscription: of.iter().map(subscription).collect(),
        mode: mode.into(),
        encoding: proto::Encoding::Proto.into(),
        ..proto::SubscriptionList::default()
    };
    proto::SubscribeRequest {
        request: Some(proto::subscribe_request::Request::Subscribe(list)),
        ..proto::SubscribeRequest::default()
    }
}

struct Subscribed {
    /// The stream ends when it is dropped.
    requests: mpsc::Sender<proto::SubscribeRequest>,
    responses: Streaming<proto::SubscribeResponse>,
}

impl Subscribed {
    async fn to(server: &Running, request: proto::SubscribeRequest) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(4);
        requests.send(request).await.expect("taken");
        let responses = client(server)
            .await
            .subscribe(ReceiverStream::new(receiver))
            .await?
            .into_inner();
        Ok(Self {
            requests,
            responses,
        })
    }

    async fn next(&mut self) -> Result<Response, Status> {
        let message = tokio::time::timeout(PATIENCE, self.responses.message());
        let message = message.await.expect("in time")?.expect("not the end");
        Ok(message.response.expect("a response"))
    }

    /// All values until those that were there at first have been told.
    async fn synchronized(&mut self) -> BTreeMap<String, Value> {
        let mut told = Vec::new();
        loop {
            match self.next().await.expect("a response") {
                Response::Update(update) => told.push(update),
                Response::SyncResponse(true) => return values(&told),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn interfaces_have_names_numbers_and_status() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    let about = client
        .capabilities(proto::CapabilityRequest::default())
        .await;
    let models = about.expect("an answer").into_inner().supported_models;
    assert_eq!(models[0].name, "openconfig-interfaces");
    let found = client
        .get(get("interfaces/interface[name=*]/state/ifindex"))
        .await;
    let found = values(&found.expect("an answer").into_inner().notification);
    let expected = [1, 2].map(|port| (format!("s-eth{port}/state/ifindex"), Value::UintVal(port)));
    assert_eq!(found, BTreeMap::from(expected));
    let found = client.get(get("interfaces/interface[name=s-eth2]")).await;
    let found = values(&found.expect("an answer").into_inner().notification);
    for (leaf, value) in [
        ("name", Value::StringVal("s-eth2".into())),
        ("config/enabled", Value::BoolVal(true)),
        ("state/id", Value::UintVal(2)),
        ("state/oper-status", Value::StringVal("UP".into())),
        ("state/admin-status", Value::StringVal("UP".into())),
        ("state/counters/in-pkts", Value::UintVal(0)),
    ] {
        assert_eq!(found[&format!("s-eth2/{leaf}")], value, "{leaf}");
    }
    // Who says nothing of an encoding gets typed values, too.
    for (encoding, expected) in [
        (proto::Encoding::Json, Value::UintVal(2)),
        (
            proto::Encoding::JsonIetf,
            Value::JsonIetfVal(b"\"2\"".to_vec()),
        ),
    ] {
        let request = proto::GetRequest {
            encoding: encoding.into(),
            ..get("interfaces/interface[name=s-eth2]/state/id")
        };
        let found = client.get(request).await.expect("an answer").into_inner();
        let found = values(&found.notification);
        assert_eq!(found["s-eth2/state/id"], expected);
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_not_there_and_what_cannot_be_is_refused() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    let code =
        |result: Result<tonic::Response<proto::GetResponse>, Status>| result.unwrap_err().code();
    assert_eq!(
        code(client.get(get("interfaces/interface[name=x]")).await),
        Code::NotFound
    );
    let ascii = proto::GetRequest {
        encoding: proto::Encoding::Ascii.into(),
        ..get("interfaces")
    };
    assert_eq!(code(client.get(ascii).await), Code::Unimplemented);
    let many = proto::GetRequest {
        path: vec![path("interfaces"); 1025],
        ..get("interfaces")
    };
    assert_eq!(code(client.get(many).await), Code::ResourceExhausted);
    let set = client.set(proto::SetRequest::default()).await;
    assert_eq!(set.unwrap_err().code(), Code::Unimplemented);
    let poll = proto::SubscribeRequest {
        request: Some(proto::subscribe_request::Request::Poll(proto::Poll {})),
        ..proto::SubscribeRequest::default()
    };
    let mut subscribed = Subscribed::to(&server, poll).await.expect("a stream");
    let refused = subscribed.next().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    server.stop().await;
}

#[tokio::test]
async fn a_change_of_status_is_told_when_it_happens() {
    let server = Running::start().await;
    let of = [(
        "interfaces/interface[name=*]/state/oper-status",
        proto::SubscriptionMode::OnChange,
    )];
    let request = list(proto::subscription_list::Mode::Stream, &of);
    let mut subscribed = Subscribed::to(&server, request).await.expect("a stream");
    assert_eq!(subscribed.synchronized().await.len(), 2);
    server.switch.with(|switch| switch.set_port_up(1, false));
    let Response::Update(update) = subscribed.next().await.expect("an update") else {
        panic!("no update");
    };
    let expected = [(
        "s-eth1/state/oper-status".to_owned(),
        Value::StringVal("DOWN".into()),
    )];
    assert_eq!(values(&[update]), BTreeMap::from(expected));
    server.stop().await;
}

#[tokio::test]
async fn counters_are_sampled_and_polled() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(Entity::TableEntry(bridge(&[1], &[1]))).await;
    let of = [(
        "interfaces/interface[name=*]/state/counters",
        proto::SubscriptionMode::Sample,
    )];
    let sampled = list(proto::subscription_list::Mode::Stream, &of);
    let mut sampled = Subscribed::to(&server, sampled).await.expect("a stream");
    assert_eq!(
        sampled.synchronized().await["s-eth2/state/counters/in-pkts"],
        Value::UintVal(0)
    );
    let polled = list(proto::subscription_list::Mode::Poll, &of);
    let mut polled = Subscribed::to(&server, polled).await.expect("a stream");
    polled.synchronized().await;
    server.switch.arrive(2, &[frame(1, 0), frame(1, 0)]);
    server.switch.pass(1_000_000);
    // A round that had begun may not have them yet.
    let counted = |values: &BTreeMap<String, Value>| {
        values["s-eth2/state/counters/in-pkts"] == Value::UintVal(2)
            && values["s-eth2/state/counters/in-octets"] == Value::UintVal(120)
            && values["s-eth1/state/counters/out-pkts"] == Value::UintVal(2)
    };
    let mut rounds = 0;
    while !counted(&sampled.synchronized().await) {
        rounds += 1;
        assert!(rounds < 10);
    }
    let poll = proto::subscribe_request::Request::Poll(proto::Poll {});
    let request = proto::SubscribeRequest {
        request: Some(poll),
        ..proto::SubscribeRequest::default()
    };
    polled.requests.send(request).await.expect("taken");
    assert!(counted(&polled.synchronized().await));
    server.stop().await;
}

#[tokio::test]
async fn once_is_once_and_streams_have_a_limit() {
    let server = Running::start().await;
    let of = [("interfaces", proto::SubscriptionMode::TargetDefined)];
    let once = list(proto::subscription_list::Mode::Once, &of);
    let mut subscribed = Subscribed::to(&server, once).await.expect("a stream");
    assert!(!subscribed.synchronized().await.is_empty());
    let end = tokio::time::timeout(PATIENCE, subscribed.responses.message()).await;
    assert!(end.expect("in time").expect("no error").is_none());
    let request = list(proto::subscription_list::Mode::Stream, &of);
    let mut open = Vec::new();
    for _ in 0..64 {
        let mut subscribed = Subscribed::to(&server, request.clone())
            .await
            .expect("a stream");
        subscribed.synchronized().await;
        open.push(subscribed);
    }
    let refused = Subscribed::to(&server, request.clone())
        .await
        .err()
        .expect("refused");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    // Who ends a stream makes room for another one.
    drop(open.pop());
    let mut tries = 0;
    while Subscribed::to(&server, request.clone()).await.is_err() {
        tries += 1;
        assert!(tries < 200, "no room");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.stop().await;
}
