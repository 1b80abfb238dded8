//! A host with a transport that nobody is behind: what other hosts do is told as events.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::object::{Envelope, EnvelopeHeader, GeneratedSource, ObjectSource};
use ebb_transport::{
    EPHEMERAL_PORTS, Event, FetchRequest, FlowId, FlowRecord, Role, Status, StreamBytes, Suite,
    Transport, TransportKind,
};
use ebb_units::{Duration, Instant};

use crate::environment::{
    ClientId, Content, Key, Prepared, Pushed, Storage, Task, Unusable, Update,
};
use crate::{
    Engine, Error, ErrorCode, FetchObject, HostApplication, Limits, Listen, Notice, Output, Peer,
    Ports,
};

const CLIENT: ClientId = 7;
const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ASKER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const REPLIES: (u16, u16) = (40_000, 40_009);

/// Sends objects of zeros and keeps nothing.
struct Zeros;

impl Storage for Zeros {
    type Source = ();
    type Target = ();
    type Listening = ();
    type Sink = ();

    fn prepare(&mut self, task: Task<()>) -> Option<Prepared> {
        let header = EnvelopeHeader {
            name: task.name,
            content_bytes: 10_000,
            sha256: [0; 32],
        };
        let content = Arc::new(GeneratedSource {
            seed: 0,
            bytes: header.content_bytes,
        });
        Some(Ok(match task.content {
            Content::None => None,
            Content::Ready(envelope) => Some(envelope),
            Content::From(()) => Some(Arc::new(Envelope::with_header(header, content).unwrap())),
        }))
    }

    fn cancel(&mut self, _: u64) {}

    fn find(&self, _: &str) -> Option<(ClientId, ())> {
        None
    }

    fn target(&mut self, (): &()) -> Option<()> {
        Some(())
    }

    fn open(&mut self, _: Key, _: Option<()>, _: &EnvelopeHeader) -> Result<(), Unusable> {
        Ok(())
    }

    fn push(&mut self, _: Key, (): &mut (), _: StreamBytes) -> Pushed {
        Pushed::default()
    }

    fn decide(&mut self, _: Key, (): ()) {}

    fn end(&mut self, _: Key, (): &mut ()) -> Option<Update> {
        Some(Update::Done)
    }

    fn close(&mut self, _: Key) {}
}

struct Ndp {
    transport: Box<dyn Transport + Send>,
    unlistened: Vec<u16>,
}

impl Engine for Ndp {
    fn transport(&mut self, kind: TransportKind) -> Option<&mut dyn Transport> {
        match kind {
            TransportKind::Ndp => Some(&mut *self.transport),
            _ => None,
        }
    }

    fn open(&mut self, _: TransportKind) -> Result<(), String> {
        Ok(())
    }

    fn listen(&mut self, _: TransportKind, port: u16) -> Result<(), String> {
        self.transport.listen(port).map_err(|e| e.to_string())
    }

    fn unlisten(&mut self, _: Instant, _: TransportKind, port: u16) {
        self.unlistened.push(port);
    }

    fn ports(&self, _: TransportKind) -> Option<Ports> {
        Some(Ports {
            sources: None,
            replies: REPLIES,
        })
    }
}

struct Bed {
    host: HostApplication<Zeros>,
    engine: Ndp,
    /// Flows of others: their numbers begin far above those of the transport.
    last_flow: u64,
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

impl Bed {
    fn new(limits: Limits) -> Self {
        let transport = TransportKind::Ndp.transport(HERE, &Suite::default(), EPHEMERAL_PORTS, 1);
        let mut bed = Bed {
            host: HostApplication::new(HERE, limits, 1, Zeros),
            engine: Ndp {
                transport: transport.unwrap(),
                unlistened: Vec::new(),
            },
            last_flow: 1 << 40,
        };
        let offered = bed
            .host
            .offer(at(0), (CLIENT, 1), "x".into(), (), &mut bed.engine);
        assert_eq!(offered, Ok(()));
        assert!(matches!(
            bed.host.poll_output(),
            Some(Output::Reply {
                client: CLIENT,
                request: 1,
                result: Ok(None)
            })
        ));
        bed
    }

    fn event(&mut self, ms: u64, event: Event) {
        self.host
            .handle_event(at(ms), TransportKind::Ndp, event, &mut self.engine);
    }

    /// A flow of another host brings all of `stream` to one of our ports.
    fn arrives(&mut self, ms: u64, from: Ipv4Addr, port: u16, stream: Vec<u8>) {
        self.last_flow += 1;
        let flow = FlowId(self.last_flow);
        let local = SocketAddrV4::new(HERE, port);
        let peer = SocketAddrV4::new(from, 50_000);
        self.event(ms, Event::Opened { flow, local, peer });
        let bytes = stream.into();
        self.event(ms, Event::Delivered { flow, bytes });
        let record = record(Status::Finished);
        self.event(ms, Event::Finished { flow, record });
    }

    fn asks(&mut self, ms: u64, name: &str) {
        let request = FetchRequest {
            name: name.to_owned(),
            reply_port: 30_000,
            priority: 0,
            session: 0,
            sender: 0,
            senders: 1,
        };
        let bytes = request.encode().unwrap();
        self.arrives(ms, ASKER, TransportKind::Ndp.service_port(), stream(&bytes));
    }

    /// Flows that begin here, the first `n` ever.
    fn own(&self, n: u64) -> Vec<FlowId> {
        let flows = self.host.flows.keys().map(|(_, flow)| *flow);
        flows.filter(|flow| flow.0 < n).collect()
    }

    fn ends(&mut self, ms: u64, flow: FlowId) {
        let record = record(Status::Failed("silence".into()));
        self.event(ms, Event::Failed { flow, record });
    }

    fn notices(&mut self) -> Vec<Notice> {
        let outputs = std::iter::from_fn(|| self.host.poll_output());
        let notices = outputs.filter_map(|output| match output {
            Output::Notice { notice, .. } => Some(notice),
            Output::Reply { .. } => None,
        });
        notices.collect()
    }
}

fn stream(source: &dyn ObjectSource) -> Vec<u8> {
    let mut bytes = vec![0; source.len() as usize];
    source.read_at(0, &mut bytes).unwrap();
    bytes
}

fn record(status: Status) -> FlowRecord {
    let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    FlowRecord {
        role: Role::Sender,
        transport: "ndp",
        local: nowhere,
        peer: nowhere,
        session: 0,
        stream_bytes: 0,
        started_at_ns: 0,
        finished_at_ns: 0,
        duration_ns: 0,
        status,
        counters: Default::default(),
        tcp: None,
        group: None,
        senders: Vec::new(),
    }
}

const ALL: u64 = 1 << 40;

#[test]
fn an_address_that_was_not_heard_gets_one_object_and_then_as_many_as_it_may() {
    let mut bed = Bed::new(Limits::CAREFUL);
    for _ in 0..40 {
        bed.asks(1, "x");
    }
    assert_eq!(bed.host.serving(), 1);
    let flow = bed.own(ALL)[0];
    bed.event(2, Event::Heard { flow, peer: ASKER });
    assert_eq!(bed.host.serving(), Limits::CAREFUL.serves_per_peer);
    bed.ends(3, flow);
    assert_eq!(bed.host.serving(), Limits::CAREFUL.serves_per_peer);
    for flow in bed.own(ALL) {
        bed.ends(4, flow);
    }
    assert_eq!(bed.host.serving(), 7);
    for flow in bed.own(ALL) {
        bed.ends(5, flow);
    }
    assert_eq!((bed.host.serving(), bed.host.open_counts()), (0, (0, 0)));
    assert_eq!(bed.host.heard_flows.sum(), 0);
}

#[test]
fn who_did_not_answer_is_refused_until_that_is_forgotten() {
    let mut bed = Bed::new(Limits::CAREFUL);
    bed.asks(1, "x");
    let flow = bed.own(ALL)[0];
    bed.ends(100, flow);
    bed.asks(200, "x");
    assert_eq!((bed.host.serving(), bed.host.refusals.sum()), (0, 1));
    let flow = bed.own(ALL)[0];
    bed.ends(300, flow);
    assert_eq!(bed.host.refusals.sum(), 0);
    bed.asks(60_100, "x");
    assert_eq!(bed.host.serving(), 1);
}

#[test]
fn without_limits_everything_is_answered_at_once() {
    let mut bed = Bed::new(Limits::NONE);
    for _ in 0..100 {
        bed.asks(1, "x");
        bed.asks(1, "y");
    }
    assert_eq!((bed.host.serving(), bed.host.refusals.sum()), (100, 100));
}

#[test]
fn a_client_has_a_bounded_number_of_transfers() {
    let limits = Limits {
        transfers_per_client: 1,
        ..Limits::CAREFUL
    };
    let mut bed = Bed::new(limits);
    let fetch = || FetchObject {
        transport: TransportKind::Ndp,
        name: "z".into(),
        from: vec![Peer::from(ASKER)],
        priority: 0,
        connection: None,
        patience: Some(Duration::from_millis(10)),
        progress: false,
    };
    let asked = bed
        .host
        .fetch(at(0), (CLIENT, 2), fetch(), (), &mut bed.engine);
    assert_eq!(asked, Ok(()));
    let asked = bed
        .host
        .fetch(at(0), (CLIENT, 3), fetch(), (), &mut bed.engine);
    let Err(Error { code, message }) = asked else {
        panic!("two transfers");
    };
    assert_eq!(
        (code, &*message),
        (ErrorCode::TooMany, "1 transfers of this client are open")
    );
    // When its patience ends so does the first one, and its port is given back.
    assert_eq!(bed.host.next_deadline(), Some(at(10)));
    bed.host.handle_timeout(at(10), &mut bed.engine);
    let notices = bed.notices();
    let [Notice::End { failure, .. }] = &notices[..] else {
        panic!("{notices:?}");
    };
    assert_eq!(failure.as_deref(), Some("no server has answered in time"));
    assert_eq!(bed.engine.unlistened, [REPLIES.0]);
    assert_eq!(
        (bed.host.next_deadline(), bed.host.open_transfers.sum()),
        (None, 0)
    );
}

#[test]
fn a_client_has_a_bounded_number_of_offers_and_listeners_and_others_have_their_own() {
    let limits = Limits {
        offers_per_client: 2,
        listeners_per_client: 1,
        ..Limits::CAREFUL
    };
    // It offers one object already.
    let mut bed = Bed::new(limits);
    let mut offer = |client, name: &str| {
        let from = (client, 1);
        let asked = bed
            .host
            .offer(at(0), from, name.into(), (), &mut bed.engine);
        asked.map_err(|error| error.code)
    };
    assert_eq!(offer(CLIENT, "y"), Ok(()));
    assert_eq!(offer(CLIENT, "z"), Err(ErrorCode::TooMany));
    assert_eq!(offer(CLIENT + 1, "z"), Ok(()));
    bed.host.withdraw(CLIENT, "y").unwrap();
    let listen = |bed: &mut Bed, client, port| {
        let listen = Listen {
            transport: TransportKind::Ndp,
            port,
            listening: (),
            announce: false,
            progress: false,
        };
        let asked = bed.host.listen(client, listen, &mut bed.engine);
        asked.map_err(|error| error.code)
    };
    let first = listen(&mut bed, CLIENT, 9000).unwrap();
    assert_eq!(listen(&mut bed, CLIENT, 9001), Err(ErrorCode::TooMany));
    listen(&mut bed, CLIENT + 1, 9001).unwrap();
    let ended = bed.host.unlisten(at(0), CLIENT, first, &mut bed.engine);
    assert_eq!(ended, Ok(()));
    listen(&mut bed, CLIENT, 9002).unwrap();
}

#[test]
fn an_object_that_nobody_asked_for_is_refused_and_one_that_was_is_taken() {
    let mut bed = Bed::new(Limits::CAREFUL);
    let fetch = FetchObject {
        transport: TransportKind::Ndp,
        name: "z".into(),
        from: vec![Peer::from(ASKER)],
        priority: 0,
        connection: None,
        patience: None,
        progress: false,
    };
    let asked = bed
        .host
        .fetch(at(0), (CLIENT, 2), fetch, (), &mut bed.engine);
    assert_eq!(asked, Ok(()));
    let request = bed.own(ALL)[0];
    let header = EnvelopeHeader {
        name: "z".into(),
        content_bytes: 3,
        sha256: [0; 32],
    };
    let content = Arc::new(GeneratedSource { seed: 0, bytes: 3 });
    let object = stream(&Envelope::with_header(header, content).unwrap());
    // From a host that was not asked.
    bed.arrives(1, Ipv4Addr::new(10, 0, 0, 9), REPLIES.0, object.clone());
    assert!(bed.notices().is_empty());
    bed.arrives(2, ASKER, REPLIES.0, object);
    let notices = bed.notices();
    assert!(
        matches!(
            &notices[..],
            [Notice::Flow {
                sha256_ok: Some(true),
                ..
            }]
        ),
        "{notices:?}"
    );
    // The fetch ends when the server has confirmed the request too.
    let record = record(Status::Finished);
    bed.event(
        3,
        Event::Finished {
            flow: request,
            record,
        },
    );
    let notices = bed.notices();
    assert!(
        matches!(&notices[..], [Notice::End { failure: None, .. }]),
        "{notices:?}"
    );
}
