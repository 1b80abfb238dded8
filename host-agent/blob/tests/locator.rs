//! Single questions to a locator, also of those who mean harm.

use std::net::Ipv4Addr;

use ebb_blob::*;
use ebb_units::{Duration, Instant};

const SERVERS: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv4Addr::new(10, 0, 0, 2),
    Ipv4Addr::new(10, 0, 0, 3),
    Ipv4Addr::new(10, 0, 0, 4),
];

/// A locator with its database, which asks the same for all.
struct Desk {
    locator: Locator,
    database: Snapshot,
    now: Instant,
    turns: u64,
}

impl Desk {
    /// All servers have been heard.
    fn new() -> Self {
        let mut desk = Desk::open(Snapshot::default());
        for server in SERVERS {
            desk.beat(server, 1);
        }
        desk
    }

    fn open(mut database: Snapshot) -> Self {
        let config = Config::new(SERVERS.to_vec());
        let (locator, changes) = Locator::open(Instant::ZERO, config, database.clone()).unwrap();
        changes
            .into_iter()
            .for_each(|change| database.apply(change));
        Desk {
            locator,
            database,
            now: Instant::ZERO,
            turns: 0,
        }
    }

    fn ask(&mut self, request: Request) -> Reply {
        let (changes, reply) = self.locator.handle(self.now, request);
        changes
            .into_iter()
            .for_each(|change| self.database.apply(change));
        reply.unwrap()
    }

    fn replica(&mut self, server: Ipv4Addr, store: u64, want: ReplicaRequest) -> Reply {
        self.turns += 1;
        let turn = Stamp {
            start: 1,
            number: self.turns,
        };
        let me = Identity {
            server,
            store,
            turn,
        };
        self.ask(Request::Replica { me, want })
    }

    fn beat(&mut self, server: Ipv4Addr, store: u64) {
        let want = ReplicaRequest::Beat {
            free_bytes: 0,
            repair: None,
        };
        self.replica(server, store, want);
    }

    fn begin(&mut self, name: &str) -> (Stamp, Table) {
        let name = name.to_owned();
        match self.ask(Request::Begin { name }) {
            Reply::Begun { write, table, .. } => (write, table),
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, name: &str, write: Stamp, tracts: Vec<Stored>) -> Reply {
        let name = name.to_owned();
        self.ask(Request::Commit {
            write,
            name,
            tracts,
        })
    }

    /// Writes a blob of one tract; its tract.
    fn put(&mut self, name: &str) -> TractName {
        let (write, table) = self.begin(name);
        let stored = stored(table.row(name, 0));
        let reply = self.commit(name, write, vec![stored]);
        assert!(matches!(reply, Reply::Committed { .. }), "{reply:?}");
        self.blob(name).tract_name(0)
    }

    fn blob(&self, name: &str) -> Blob {
        self.database.blobs[name].clone()
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

/// A tract that is on all replicas of the row.
fn stored(row: &Row) -> Stored {
    Stored {
        bytes: 3,
        sha256: Digest::of(b"abc"),
        row_version: row.version,
        replicas: row.replicas.iter().copied().collect(),
    }
}

#[test]
fn of_two_writes_the_later_commit_conflicts() {
    let mut desk = Desk::new();
    let (first, table) = desk.begin("a");
    let (second, _) = desk.begin("a");
    let tracts = vec![stored(table.row("a", 0))];
    let committed = Reply::Committed { version: 1 };
    assert_eq!(desk.commit("a", second, tracts.clone()), committed);
    // Asked again: the same answer, and no second version.
    assert_eq!(desk.commit("a", second, tracts.clone()), committed);
    assert_eq!(
        desk.commit("a", first, tracts.clone()),
        Reply::Conflict { version: 1 }
    );
    assert_eq!(
        desk.commit("a", first, tracts),
        Reply::NotOpen { version: 1 }
    );
    assert_eq!(desk.blob("a").write, second);
}

#[test]
fn a_commit_counts_replicas_of_the_row_as_it_is() {
    let mut desk = Desk::new();
    let (write, table) = desk.begin("a");
    let row = table.row("a", 0);
    let outside = SERVERS
        .into_iter()
        .find(|server| !row.replicas.contains(server))
        .unwrap();
    for replicas in [
        vec![],
        vec![row.replicas[0]],
        vec![row.replicas[0], row.replicas[1], outside],
    ] {
        let tract = Stored {
            replicas: replicas.into_iter().collect(),
            ..stored(row)
        };
        let reply = desk.commit("a", write, vec![tract]);
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    }
    let many = vec![stored(row); MAX_TRACTS + 1];
    assert!(matches!(
        desk.commit("a", write, many),
        Reply::Refused { .. }
    ));
    // Lengths that add up to more than a number holds.
    let endless = Stored {
        bytes: u64::MAX,
        ..stored(row)
    };
    assert!(matches!(
        desk.commit("a", write, vec![endless; 4]),
        Reply::Refused { .. }
    ));
    // One of the row is silent, and another server takes its place.
    desk.wait(9);
    for server in SERVERS
        .into_iter()
        .filter(|server| *server != row.replicas[0])
    {
        desk.beat(server, 1);
    }
    desk.wait(2);
    let Reply::Moved { table } = desk.commit("a", write, vec![stored(row)]) else {
        panic!("the row has moved");
    };
    let moved = table.row("a", 0);
    assert_eq!(moved.replicas[..2], row.replicas[1..]);
    assert_eq!(moved.version, row.version + 1);
    assert_eq!(
        desk.commit("a", write, vec![stored(moved)]),
        Reply::Committed { version: 1 }
    );
}

#[test]
fn a_restart_keeps_names_and_forgets_open_writes() {
    let mut desk = Desk::new();
    desk.put("a");
    let (write, table) = desk.begin("a");
    let mut desk = Desk::open(desk.database);
    let tracts = vec![stored(table.row("a", 0))];
    assert_eq!(
        desk.commit("a", write, tracts),
        Reply::NotOpen { version: 1 }
    );
    assert_eq!(
        desk.ask(Request::Renew { write }),
        Reply::NotOpen { version: 0 }
    );
    let (later, same) = desk.begin("a");
    assert!(later > write);
    assert_eq!(same, table);
    // And so does time.
    desk.wait(61);
    assert_eq!(
        desk.ask(Request::Renew { write: later }),
        Reply::NotOpen { version: 0 }
    );
}

#[test]
fn another_folder_at_the_same_address_holds_nothing() {
    let mut desk = Desk::new();
    desk.put("a");
    let (write, table) = desk.begin("b");
    let server = table.row("b", 0).replicas[0];
    let holder = *desk.blob("a").tracts[0].holders.first().unwrap();
    desk.beat(server, 2);
    desk.beat(holder, 2);
    assert!(!desk.blob("a").tracts[0].holders.contains(&holder));
    // A tract stored there for a write counts no more either.
    let reply = desk.commit("b", write, vec![stored(table.row("b", 0))]);
    assert!(matches!(reply, Reply::Moved { .. }), "{reply:?}");
}

#[test]
fn only_what_nobody_needs_is_garbage() {
    let mut desk = Desk::new();
    let old = desk.put("a");
    let kept = desk.put("a");
    let (write, _) = desk.begin("a");
    let open = TractName { write, ..kept };
    let other = TractName {
        sha256: Digest::of(b"other"),
        ..kept
    };
    let row = desk.blob("a").tracts[0].holders.clone();
    let tracts = vec![old, kept, open, other];
    let garbage = |tracts: &[TractName]| Reply::Garbage {
        tracts: tracts.to_vec(),
    };
    let want = ReplicaRequest::Garbage {
        tracts: tracts.clone(),
    };
    for server in &row {
        assert_eq!(
            desk.replica(*server, 1, want.clone()),
            garbage(&[old, other])
        );
    }
    // A copy beside those of the row goes, once these are complete.
    let spare = SERVERS
        .into_iter()
        .find(|server| !row.contains(server))
        .unwrap();
    let settle = |held: Vec<_>, lost: Vec<_>| ReplicaRequest::Settle { held, lost };
    desk.replica(spare, 1, settle(vec![kept], vec![]));
    let first = *row.first().unwrap();
    desk.replica(first, 1, settle(vec![], vec![kept]));
    assert_eq!(desk.replica(spare, 1, want.clone()), garbage(&[old, other]));
    desk.replica(first, 1, settle(vec![kept], vec![]));
    assert_eq!(desk.replica(spare, 1, want), garbage(&[old, kept, other]));
    assert_eq!(desk.blob("a").tracts[0].holders, row);
}

#[test]
fn strangers_and_late_questions_change_nothing() {
    let mut desk = Desk::new();
    let tract = desk.put("a");
    let before = desk.blob("a");
    let lost = ReplicaRequest::Settle {
        held: vec![],
        lost: vec![tract],
    };
    let reply = desk.replica(Ipv4Addr::new(10, 0, 0, 9), 1, lost.clone());
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    let me = Identity {
        server: SERVERS[0],
        store: 1,
        turn: Stamp {
            start: 1,
            number: 1,
        },
    };
    let late = |me| Request::Replica {
        me,
        want: lost.clone(),
    };
    assert_eq!(desk.locator.handle(desk.now, late(me)), (vec![], None));
    let turn = Stamp {
        start: 0,
        number: 99,
    };
    let reply = desk.ask(late(Identity { turn, ..me }));
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    let many = ReplicaRequest::Garbage {
        tracts: vec![tract; 257],
    };
    let reply = desk.replica(SERVERS[0], 1, many);
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    for name in ["", "a\nb", &"x".repeat(256)] {
        let name = name.to_owned();
        let reply = desk.ask(Request::Begin { name });
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    }
    assert_eq!(desk.blob("a"), before);
}

#[test]
fn a_list_has_pages_of_one_revision() {
    let mut desk = Desk::new();
    for number in 0..501 {
        desk.put(&format!("{number:03}"));
    }
    let page = |desk: &mut Desk, after: Option<&str>| {
        let after = after.map(str::to_owned);
        match desk.ask(Request::List { after }) {
            Reply::Page {
                revision,
                blobs,
                more,
            } => (revision, blobs.len(), more),
            other => panic!("{other:?}"),
        }
    };
    let first = page(&mut desk, None);
    assert_eq!((first.1, first.2), (500, true));
    let second = page(&mut desk, Some("499"));
    assert_eq!(second, (first.0, 1, false));
    desk.put("000");
    assert_ne!(page(&mut desk, Some("499")).0, first.0);
}

#[test]
fn a_list_that_changes_between_two_pages_begins_again() {
    let mut desk = Desk::new();
    for number in 0..501 {
        desk.put(&format!("{number:03}"));
    }
    let mut list = List::new(desk.now);
    let mut pages = 0;
    while list.outcome().is_none() {
        let Some(Action::Ask(Ask { id, request })) = list.poll(desk.now) else {
            panic!("nothing to ask");
        };
        let reply = desk.ask(request);
        list.handle_reply(desk.now, id, reply);
        pages += 1;
        if pages == 1 {
            // One that was on the page, and one that comes on the next.
            desk.put("000");
            desk.put("zzz");
        }
    }
    let Some(ListOutcome::Blobs(blobs)) = list.outcome() else {
        panic!("{:?}", list.outcome());
    };
    assert_eq!((pages, blobs.len(), blobs[0].version), (4, 502, 2));
}

#[test]
fn questions_and_answers_are_json() {
    let text = r#"{"id":7,"ask":"commit","write":{"start":1,"number":2},"name":"a","tracts":[]}"#;
    let call: Call = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&call).unwrap(), text);
    for wrong in [
        r#"{"id":7,"ask":"comit"}"#,
        r#"{"id":7,"ask":"lookup"}"#,
        r#"{"id":7,"ask":"lookup","name":"a","why":1}"#,
        r#"{"ask":"status"}"#,
    ] {
        assert!(serde_json::from_str::<Call>(wrong).is_err(), "{wrong}");
    }
}
