use proptest::prelude::*;

use super::*;

const B: BitRate = BitRate::from_mbps(1_000);
const PERIOD: Duration = Duration::from_millis(1);
const DELAY: Duration = Duration::from_micros(100);

fn ms(ms: u64) -> Instant {
    Instant::ZERO + PERIOD * ms
}

fn receiver() -> HoseReceiver<u32> {
    HoseReceiver::new(B, PERIOD, DELAY)
}

fn rates(receiver: &mut HoseReceiver<u32>, now: Instant, senders: &[u32]) -> Vec<(u32, u64)> {
    for sender in senders {
        receiver.handle_demand(now, *sender);
    }
    let grants = receiver.poll_grants(now);
    grants
        .iter()
        .map(|g| (g.sender, g.rate.as_bps() / 1_000_000))
        .collect()
}

#[test]
fn one_sender_has_all_of_it() {
    assert_eq!(rates(&mut receiver(), ms(0), &[3]), [(3, 1_000)]);
}

#[test]
fn a_second_sender_waits_for_the_lease_of_the_first_and_then_has_half() {
    let mut hose = receiver();
    rates(&mut hose, ms(0), &[1]);
    // Sender 1 may use the whole rate until 2.1 ms.
    assert_eq!(rates(&mut hose, ms(1), &[1, 2]), [(1, 500)]);
    assert_eq!(rates(&mut hose, ms(2), &[1, 2]), [(1, 500)]);
    assert_eq!(rates(&mut hose, ms(3), &[1, 2]), [(1, 500), (2, 500)]);
}

#[test]
fn what_one_leaves_is_anothers() {
    let mut hose = receiver();
    for round in 0..4 {
        rates(&mut hose, ms(round), &[1, 2]);
    }
    for round in 4..10 {
        rates(&mut hose, ms(round), &[2]);
    }
    assert_eq!(rates(&mut hose, ms(10), &[2]), [(2, 1_000)]);
}

#[test]
fn without_senders_there_is_nothing_to_wait_for() {
    let mut hose = receiver();
    assert_eq!(hose.next_deadline(), None);
    rates(&mut hose, ms(0), &[1]);
    assert_eq!(hose.next_deadline(), Some(ms(1)));
    assert!(hose.poll_grants(ms(20)).is_empty());
    assert_eq!(hose.next_deadline(), None);
}

#[test]
fn a_lease_that_is_not_renewed_ends() {
    let mut sender = HoseSender::new();
    sender.handle_grant(ms(0), 9, B, PERIOD * 2);
    assert_eq!(sender.rate(ms(1), 9), B);
    assert_eq!(sender.next_deadline(), Some(ms(2)));
    assert!(sender.rate(ms(2), 9).is_zero());
    assert_eq!(sender.poll_ended(ms(2)), Some(9));
    assert_eq!(sender.poll_ended(ms(2)), None);
}

proptest! {
    /// Grants arrive late or never, senders come and go: the rates in force never exceed B.
    #[test]
    fn the_rates_in_force_never_exceed_the_receivers(
        rounds in prop::collection::vec(
            prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..=100), 6), 1..40),
    ) {
        let mut hose = receiver();
        let mut senders: Vec<HoseSender<u32>> = (0..6).map(|_| HoseSender::new()).collect();
        let mut arrivals: Vec<(Instant, u32, Grant<u32>)> = Vec::new();
        for (round, actions) in rounds.iter().enumerate() {
            let now = ms(round as u64);
            for (sender, (wants, ..)) in actions.iter().enumerate() {
                if *wants {
                    hose.handle_demand(now, sender as u32);
                }
            }
            for grant in hose.poll_grants(now) {
                let (_, lost, delay_us) = actions[grant.sender as usize];
                if !lost {
                    arrivals.push((now + Duration::from_micros(delay_us), grant.sender, grant));
                }
            }
            arrivals.sort_by_key(|(at, ..)| *at);
            for (at, sender, grant) in arrivals.drain(..) {
                senders[sender as usize].handle_grant(at, 0, grant.rate, grant.lease);
                let total: u64 = senders.iter().map(|s| s.rate(at, 0).as_bps()).sum();
                prop_assert!(total <= B.as_bps(), "{} bit/s at {:?}", total, at);
            }
        }
    }
}
