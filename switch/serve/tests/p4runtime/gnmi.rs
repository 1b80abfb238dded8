//! gNMI beside P4Runtime: the interfaces of the switch.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::messages::{bridge, frame};
use crate::common::{PATIENCE, Running, settled};
use ebb_p4runtime::proto::gnmi as proto;
use ebb_p4runtime::proto::gnmi::g_nmi_client::GNmiClient;
use ebb_p4runtime::proto::p4::entity::Entity;
use proto::subscribe_response::Response;
use proto::typed_value::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

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

fn subscriptions(request: &mut proto::SubscribeRequest) -> &mut proto::SubscriptionList {
    match &mut request.request {
        Some(proto::subscribe_request::Request::Subscribe(list)) => list,
        other => panic!("{other:?}"),
    }
}

fn poll() -> proto::SubscribeRequest {
    proto::SubscribeRequest {
        request: Some(proto::subscribe_request::Request::Poll(proto::Poll {})),
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
    let found = found.expect("an answer").into_inner().notification;
    // Some clients read one value of each notification.
    assert!(found.iter().all(|of_one| of_one.update.len() == 1));
    let found = values(&found);
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
    // Who says nothing of an encoding gets JSON. RFC 7951 has numbers of 64 bits as strings, and no others.
    let json = |text: &str| Value::JsonVal(text.into());
    let ietf = |text: &str| Value::JsonIetfVal(text.into());
    for (encoding, leaf, expected) in [
        (proto::Encoding::Json, "id", json("2")),
        (proto::Encoding::Json, "counters/in-pkts", json("0")),
        (proto::Encoding::JsonIetf, "id", ietf("2")),
        (proto::Encoding::JsonIetf, "counters/in-pkts", ietf("\"0\"")),
    ] {
        let request = proto::GetRequest {
            encoding: encoding.into(),
            ..get(&format!("interfaces/interface[name=s-eth2]/state/{leaf}"))
        };
        let found = client.get(request).await.expect("an answer").into_inner();
        let found = values(&found.notification);
        assert_eq!(found[&format!("s-eth2/state/{leaf}")], expected);
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
    // No switch ever has these.
    for never in ["system", "interfaces/interface/state/mtu"] {
        assert_eq!(code(client.get(get(never)).await), Code::Unimplemented);
    }
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
    let mut subscribed = Subscribed::to(&server, poll()).await.expect("a stream");
    let refused = subscribed.next().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    // An interval that cannot be, no subscription, and another module.
    let stream = proto::subscription_list::Mode::Stream;
    let sample = proto::SubscriptionMode::Sample;
    let of = |text| list(stream, &[(text, sample)]);
    let mut fast = of("interfaces");
    subscriptions(&mut fast).subscription[0].sample_interval = 1;
    let mut ascii = of("interfaces");
    subscriptions(&mut ascii).encoding = proto::Encoding::Ascii.into();
    for (request, expected) in [
        (fast, Code::InvalidArgument),
        (list(stream, &[]), Code::InvalidArgument),
        (of("system"), Code::Unimplemented),
        (ascii, Code::Unimplemented),
    ] {
        let mut subscribed = Subscribed::to(&server, request).await.expect("a stream");
        let refused = subscribed.next().await.unwrap_err();
        assert_eq!(refused.code(), expected, "{refused}");
    }
    // An interface that is not there yet is waited for.
    let mut later = Subscribed::to(&server, of("interfaces/interface[name=later]"))
        .await
        .expect("a stream");
    assert!(later.synchronized().await.is_empty());
    assert!(later.synchronized().await.is_empty());
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
    polled.requests.send(poll()).await.expect("taken");
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

#[tokio::test]
async fn what_a_request_names_comes_back_in_its_answers() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    let prefix = proto::Path {
        target: "leaf1".into(),
        origin: "openconfig-interfaces".into(),
        ..path("interfaces/interface[name=s-eth1]")
    };
    let expected = proto::Path {
        elem: Vec::new(),
        ..prefix.clone()
    };
    let request = proto::GetRequest {
        prefix: Some(prefix.clone()),
        path: vec![path("state/id"), path("state/oper-status")],
        ..proto::GetRequest::default()
    };
    let told = client.get(request).await.expect("an answer").into_inner();
    assert_eq!(told.notification.len(), 2, "one for each path");
    for notification in &told.notification {
        assert_eq!(notification.prefix.as_ref(), Some(&expected));
        assert_eq!(notification.update.len(), 1);
    }
    // The origin of a path is at the path, and without a target there is no prefix.
    let named = proto::Path {
        origin: "openconfig".into(),
        ..path("interfaces/interface[name=s-eth1]/state/id")
    };
    let request = proto::GetRequest {
        path: vec![named.clone()],
        ..proto::GetRequest::default()
    };
    let told = client.get(request).await.expect("an answer").into_inner();
    assert_eq!(told.notification[0].prefix, None);
    assert_eq!(told.notification[0].update[0].path, Some(named));
    for mode in [
        proto::subscription_list::Mode::Once,
        proto::subscription_list::Mode::Poll,
        proto::subscription_list::Mode::Stream,
    ] {
        let mut request = list(mode, &[("state/id", proto::SubscriptionMode::Sample)]);
        subscriptions(&mut request).prefix = Some(prefix.clone());
        let mut subscribed = Subscribed::to(&server, request).await.expect("a stream");
        let Response::Update(first) = subscribed.next().await.expect("an update") else {
            panic!("no update before the others are told");
        };
        assert_eq!(first.prefix.as_ref(), Some(&expected), "{mode:?}");
        assert!(first.timestamp > 0);
        let synced = subscribed.next().await.expect("a response");
        assert_eq!(synced, Response::SyncResponse(true));
    }
    server.stop().await;
}

#[tokio::test]
async fn each_poll_tells_everything_and_equal_subscriptions_are_one() {
    let server = Running::start().await;
    let of = [("interfaces", proto::SubscriptionMode::OnChange); 1024];
    let request = list(proto::subscription_list::Mode::Poll, &of);
    let mut polled = Subscribed::to(&server, request).await.expect("a stream");
    for _ in 0..3 {
        let mut leaves = 0;
        while let Response::Update(update) = polled.next().await.expect("a response") {
            leaves += update.update.len();
        }
        assert_eq!(leaves, 2 * 15);
        polled.requests.send(poll()).await.expect("taken");
    }
    let mut request = list(proto::subscription_list::Mode::Poll, &of[..1]);
    subscriptions(&mut request).updates_only = true;
    let mut only = Subscribed::to(&server, request).await.expect("a stream");
    assert!(only.synchronized().await.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn who_leaves_it_to_the_switch_hears_changes_at_once_and_counters_seldom() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(Entity::TableEntry(bridge(&[1], &[1]))).await;
    let of = [("interfaces", proto::SubscriptionMode::TargetDefined)];
    let request = list(proto::subscription_list::Mode::Stream, &of);
    let mut subscribed = Subscribed::to(&server, request).await.expect("a stream");
    assert_eq!(subscribed.synchronized().await.len(), 2 * 15);
    server.switch.arrive(2, &[frame(1, 0)]);
    server.switch.with(|switch| switch.set_port_up(1, false));
    let Response::Update(update) = subscribed.next().await.expect("an update") else {
        panic!("no update");
    };
    let told: Vec<String> = values(&[update]).into_keys().collect();
    assert_eq!(told, ["s-eth1/state/oper-status"]);
    server.stop().await;
}

#[tokio::test]
async fn nothing_is_sampled_for_clients_that_do_not_read() {
    let (server, jobs) = Running::counted().await;
    let of = ["interfaces", "...", "*", "interfaces/interface"];
    let of = of.map(|path| (path, proto::SubscriptionMode::Sample));
    let request = list(proto::subscription_list::Mode::Stream, &of);
    // Room for less than the first message.
    let endpoint = Channel::from_shared(format!("http://{}", server.address)).expect("an address");
    let endpoint = endpoint.initial_stream_window_size(1 << 10);
    let mut client = GNmiClient::new(endpoint.connect().await.expect("connected"));
    let mut open = Vec::new();
    for _ in 0..64 {
        let requests = tokio_stream::iter([request.clone()]);
        open.push(client.subscribe(requests).await.expect("a stream"));
    }
    // The first samples may still be on their way.
    let before = settled(&jobs).await;
    assert!((1..=65).contains(&before), "{before}");
    // Somebody else is served, and so are they when they read.
    let mut first = open.remove(0).into_inner();
    for _ in 0..20 {
        let next = tokio::time::timeout(PATIENCE, first.message());
        assert!(next.await.expect("in time").expect("no error").is_some());
    }
    assert!(jobs.load(Ordering::Relaxed) > before);
    server.stop().await;
}

#[tokio::test]
async fn wildcards_cost_no_more_than_their_length_and_too_many_are_refused() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    let wild = |text: &str| proto::GetRequest {
        path: vec![path(text); 1024],
        ..get("interfaces")
    };
    let many = format!("{}out-discards", ".../".repeat(31));
    let told = client.get(wild(&many)).await.expect("an answer");
    // One of each interface for each path.
    assert_eq!(told.into_inner().notification.len(), 2 * 1024);
    // All values, a thousand times.
    let refused = client.get(wild("...")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    server.stop().await;
}
