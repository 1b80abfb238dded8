//! A push that fails, while packets pass: the program that is there forwards all of them, with its
//! entries and counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::common::messages::*;
use crate::common::{Controller, DEVICE_ID, OneSwitch, Running, change_json, config, uint128};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_pipeline::Program;
use tonic::Code;

const IN: u16 = 2;
const OUT: u16 = 3;
const MAC: u8 = 9;

/// A thread that sends packets through the switch, one after the other.
struct Traffic {
    stop: Arc<AtomicBool>,
    forwarded: Arc<AtomicU64>,
    thread: JoinHandle<u64>,
}

impl Traffic {
    fn start(switch: Arc<OneSwitch>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let forwarded = Arc::new(AtomicU64::new(0));
        let (stopped, good) = (stop.clone(), forwarded.clone());
        let thread = std::thread::spawn(move || {
            let frame = frame(MAC, 0);
            let mut sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                sent += 1;
                switch.arrive(IN, std::slice::from_ref(&frame));
                if switch.left() == [(OUT, frame.clone())] {
                    good.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
            sent
        });
        Self {
            stop,
            forwarded,
            thread,
        }
    }

    /// Waits until more packets have passed.
    async fn goes_on(&self) {
        let (before, began) = (self.forwarded.load(Ordering::Relaxed), Instant::now());
        while self.forwarded.load(Ordering::Relaxed) < before + 10 {
            assert!(began.elapsed().as_secs() < 20, "no packet is forwarded");
            tokio::task::yield_now().await;
        }
    }

    /// How many packets were sent and how many came out as they should.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.thread.join().unwrap();
        (sent, self.forwarded.load(Ordering::Relaxed))
    }
}

/// Entities that a controller has installed, as it sees them.
async fn state(c: &mut Controller) -> Vec<Entity> {
    let mut all = Vec::new();
    let groups = Entity::ActionProfileGroup(Default::default());
    for wanted in [table(0), groups, multicast(0, vec![])] {
        all.extend(c.read(wanted).await.unwrap());
    }
    all.push(c.read_one(Entity::TableEntry(default(BRIDGE, None))).await);
    all.push(c.read_one(port_in(Some(7), None)).await);
    let request = p4::GetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        ..Default::default()
    };
    let present = c.client.get_forwarding_pipeline_config(request).await;
    assert_eq!(present.unwrap().into_inner().config, Some(config()));
    all
}

type Change = fn(&mut p4::ForwardingPipelineConfig);

/// Configs that cannot work, each in its own way.
const BROKEN: [(&str, Change); 9] = [
    ("no JSON", |c| c.p4_device_config = b"\x7fELF".to_vec()),
    ("empty", |c| c.p4_device_config.clear()),
    ("cut", |c| {
        let half = c.p4_device_config.len() / 2;
        c.p4_device_config.truncate(half);
    }),
    ("JSON of something else", |c| {
        c.p4_device_config = b"{}".to_vec();
    }),
    ("a program that cannot run", |c| {
        let json = String::from_utf8(c.p4_device_config.clone()).unwrap();
        assert!(json.contains("\"mark_to_drop\""));
        c.p4_device_config = json.replace("\"mark_to_drop\"", "\"fly\"").into_bytes();
    }),
    ("a P4Info with an id twice", |c| {
        let info = c.p4info.as_mut().unwrap();
        info.tables.push(info.tables[0].clone());
    }),
    ("a table that is not there", |c| {
        let info = c.p4info.as_mut().unwrap();
        info.tables[1].preamble.as_mut().unwrap().name = "MyIngress.router".into();
    }),
    ("a P4Info without anything", |c| {
        c.p4info = Some(Default::default());
    }),
    ("a field of another width", |c| {
        c.p4info.as_mut().unwrap().tables[1].match_fields[0].bitwidth = 31;
    }),
];

#[tokio::test]
async fn a_push_that_fails_changes_nothing_and_loses_no_packet() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(Entity::TableEntry(bridge(&[MAC], &[OUT as u8])))
        .await;
    c.insert(member(1, 1)).await;
    c.insert(group(1, &[(1, 1)])).await;
    c.insert(Entity::TableEntry(route(does(
        p4::table_action::Type::ActionProfileGroupId(1),
    ))))
    .await;
    c.insert(multicast(1, vec![replica(1, 0)])).await;
    c.modify(Entity::TableEntry(default(
        BRIDGE,
        direct(FORWARD, &[&[5]]),
    )))
    .await;
    c.modify(port_in(Some(7), Some(count(70)))).await;
    let before = state(&mut c).await;

    let traffic = Traffic::start(server.switch.clone());
    traffic.goes_on().await;
    for (what, change) in BROKEN {
        let mut broken = config();
        change(&mut broken);
        for action in [
            Action::Verify,
            Action::VerifyAndSave,
            Action::VerifyAndCommit,
            Action::ReconcileAndCommit,
        ] {
            let refused = c.set_config(action, Some(broken.clone())).await;
            let status = refused.expect_err(what);
            assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status}");
            traffic.goes_on().await;
        }
        assert_eq!(state(&mut c).await, before, "{what}");
    }

    // A config that is good in itself, but not for the state that is to be kept.
    let mut smaller = config();
    let info = smaller.p4info.as_mut().unwrap();
    info.tables
        .retain(|t| t.preamble.as_ref().unwrap().id != BRIDGE);
    let refused = c
        .set_config(Action::ReconcileAndCommit, Some(smaller))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused
            .message()
            .starts_with("the present state does not fit the new config: "),
        "{refused}"
    );
    // No config is saved, and the request has none.
    let nothing = c.set_config(Action::Commit, None).await.unwrap_err();
    assert_eq!(nothing.code(), Code::NotFound);
    let nothing = c.set_config(Action::VerifyAndCommit, None).await;
    assert_eq!(nothing.unwrap_err().code(), Code::InvalidArgument);
    // The request of another controller.
    let foreign = p4::SetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        election_id: Some(uint128(99)),
        action: Action::VerifyAndCommit as i32,
        config: Some(config()),
        ..Default::default()
    };
    let foreign = c.client.set_forwarding_pipeline_config(foreign).await;
    assert_eq!(foreign.unwrap_err().code(), Code::PermissionDenied);
    // A config that works, but is only verified.
    c.set_config(Action::Verify, Some(config())).await.unwrap();
    traffic.goes_on().await;

    assert_eq!(state(&mut c).await, before);
    let (sent, forwarded) = traffic.end();
    assert_eq!(sent, forwarded);
    let counted = c.read_one(port_in(Some(IN.into()), None)).await;
    let bytes = Some(p4::CounterData {
        packet_count: sent as i64,
        byte_count: sent as i64 * 60,
    });
    assert_eq!(counted, port_in(Some(IN.into()), bytes));
    server.stop().await;
}

#[tokio::test]
async fn a_saved_config_survives_one_that_is_refused_and_packets_do_not_see_it() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(Entity::TableEntry(bridge(&[MAC], &[OUT as u8])))
        .await;
    let traffic = Traffic::start(server.switch.clone());
    let mut saved = config();
    saved.cookie = Some(p4::forwarding_pipeline_config::Cookie { cookie: 43 });
    c.set_config(Action::VerifyAndSave, Some(saved))
        .await
        .unwrap();
    // From now on reads and writes are about the saved config.
    assert_eq!(c.read(table(BRIDGE)).await.unwrap(), []);
    c.insert(Entity::TableEntry(bridge(&[MAC], &[OUT as u8])))
        .await;
    traffic.goes_on().await;
    for (what, change) in BROKEN {
        let mut broken = config();
        change(&mut broken);
        let refused = c.set_config(Action::VerifyAndSave, Some(broken)).await;
        refused.expect_err(what);
    }
    assert_eq!(c.read(table(BRIDGE)).await.unwrap().len(), 1);
    traffic.goes_on().await;
    c.set_config(Action::Commit, None).await.unwrap();
    traffic.goes_on().await;
    // The pipeline that was swapped in had the entry already: not one packet missed it.
    let (sent, forwarded) = traffic.end();
    assert_eq!(sent, forwarded);
    server.stop().await;
}

#[tokio::test]
async fn switches_of_a_process_share_the_program_that_they_have_and_none_keeps_another() {
    let servers = Running::two();
    let mut controllers = Vec::new();
    for server in &servers {
        controllers.push(server.primary().await);
    }
    let program = |index: usize| {
        let switch: &Running = &servers[index];
        switch
            .switch
            .on_pipeline(|pipeline| Arc::downgrade(pipeline.program()))
    };
    let first = config();
    let mut second = config();
    change_json(&mut second, |json| json["program"] = "second".into());
    for config in [&first, &second, &first] {
        let mut replaced: Vec<Weak<Program>> = Vec::new();
        for (index, controller) in controllers.iter_mut().enumerate() {
            if servers[index].switch.has_program() {
                replaced.push(program(index));
            }
            let push = controller.set_config(Action::VerifyAndCommit, Some(config.clone()));
            push.await.unwrap();
        }
        assert!(Weak::ptr_eq(&program(0), &program(1)), "loaded twice");
        assert!(replaced.iter().all(|old| old.strong_count() == 0), "kept");
    }
    // Each has one of its own, in turn the other one's.
    for turn in 0..4 {
        let configs = [&first, &second];
        let held = [program(0), program(1)];
        for (index, controller) in controllers.iter_mut().enumerate() {
            let config = configs[(turn + index) % 2].clone();
            let push = controller.set_config(Action::VerifyAndCommit, Some(config));
            push.await.unwrap();
        }
        assert!(!Weak::ptr_eq(&program(0), &program(1)));
        assert!(
            turn == 0 || Weak::ptr_eq(&program(0), &held[1]),
            "loaded again"
        );
    }
    for server in servers {
        server.stop().await;
    }
}
