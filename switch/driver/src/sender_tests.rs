use std::sync::mpsc::{Receiver, Sender as Channel, channel};

use ebb_engine::DropReason;
use ebb_units::Instant;

use super::*;
use crate::batch::Dropped;

/// Frames of two interfaces, numbered over all parcels.
fn parcel(numbers: std::ops::Range<u32>) -> Parcel {
    let mut parcel: Parcel = vec![Addressed::default(), Addressed::default()];
    for number in numbers {
        let frame = number.to_be_bytes().to_vec();
        let batch = &mut parcel[number as usize % 2].batch;
        batch.push(Instant::ZERO, frame);
    }
    parcel
}

fn numbers(part: &Addressed) -> impl Iterator<Item = u32> {
    let number = |frame: &Vec<u8>| u32::from_be_bytes(frame.as_slice().try_into().unwrap());
    part.batch.frames.iter().map(number)
}

/// A sender that tells which frames of the second interface it has sent, and drops each batch of the
/// first one; it waits for leave before each parcel, or for nothing once the other end is gone.
fn gated() -> (Sender, Channel<()>, Receiver<u32>) {
    let (leave, gate) = channel::<()>();
    let (sent, told) = channel();
    let send = move |parcel: &mut Parcel| {
        let _ = gate.recv();
        let dropped = Dropped {
            reason: DropReason::PortDown,
            packets: parcel[0].batch.len() as u64,
            bytes: 0,
        };
        parcel[0].batch.drops.push(dropped);
        numbers(&parcel[1]).for_each(|number| sent.send(number).unwrap());
    };
    let sender = Sender::start("test".into(), || {}, send).expect("a thread");
    (sender, leave, told)
}

#[test]
fn everything_is_sent_in_order_and_comes_back_with_what_was_dropped() {
    let (mut sender, leave, told) = gated();
    drop(leave);
    let (mut back, mut from) = (Vec::new(), 0);
    // Parcels of many sizes, far more than may be under way.
    for round in 0..4 * MOST_PARCELS as u32 {
        let to = from + round * 7 % 300;
        assert!(sender.send(parcel(from..to), |parcel| back.push(parcel)));
        back.extend(sender.poll());
        from = to;
    }
    sender.finish(|parcel| back.push(parcel));
    let odd = |n: &u32| n % 2 == 1;
    assert!(told.into_iter().eq((0..from).filter(odd)));
    assert_eq!(back.len(), 4 * MOST_PARCELS);
    // The memory of all frames, in order.
    let returned = back.iter().flat_map(|parcel| numbers(&parcel[1]));
    assert!(returned.eq((0..from).filter(odd)));
    let dropped = back.iter().flat_map(|parcel| &parcel[0].batch.drops);
    let dropped: u64 = dropped.map(|dropped| dropped.packets).sum();
    assert_eq!(dropped, u64::from(from.div_ceil(2)));
}

#[test]
fn who_has_too_much_under_way_waits() {
    let full = MOST_FRAMES as u32 / 4;
    let (mut sender, leave, _told) = gated();
    for _ in 0..4 {
        assert!(sender.send(parcel(0..full), |_| panic!("nothing was sent yet")));
    }
    let sender = thread::spawn(move || {
        let mut back = 0;
        assert!(sender.send(parcel(0..1), |_| back += 1));
        (sender, back)
    });
    thread::sleep(std::time::Duration::from_millis(50));
    assert!(!sender.is_finished(), "there is no room");
    leave.send(()).unwrap();
    let (sender, back) = sender.join().unwrap();
    assert_eq!((back, sender.parcels_under_way), (1, 4));
    drop(leave);
    sender.finish(|_| {});
    // As many parcels, however small.
    let (mut sender, leave, _told) = gated();
    for _ in 0..MOST_PARCELS {
        assert!(sender.send(parcel(0..1), |_| panic!("nothing was sent yet")));
    }
    drop(leave);
    let mut back = 0;
    assert!(sender.send(parcel(0..1), |_| back += 1));
    assert!(back > 0);
    sender.finish(|_| back += 1);
    assert_eq!(back, MOST_PARCELS + 1);
}

#[test]
fn one_parcel_may_be_larger_than_all_that_may_be_under_way() {
    let (mut sender, leave, told) = gated();
    drop(leave);
    for _ in 0..3 {
        assert!(sender.send(parcel(0..2 * MOST_FRAMES as u32), drop));
    }
    sender.finish(drop);
    assert_eq!(told.into_iter().count(), 3 * MOST_FRAMES);
}

#[test]
fn few_frames_are_worth_it_only_behind_others() {
    let (mut sender, leave, _told) = gated();
    assert!(!sender.wants(FEW_FRAMES - 1) && sender.wants(FEW_FRAMES));
    assert!(sender.send(parcel(0..20), drop));
    assert!(sender.wants(1));
    leave.send(()).unwrap();
    while sender.poll().is_none() {
        thread::yield_now();
    }
    assert!(!sender.wants(1));
}

#[test]
#[should_panic(expected = "a bug in sending")]
fn a_panic_of_the_thread_goes_on_in_the_other() {
    let fail = |_: &mut Parcel| panic!("a bug in sending");
    let mut sender = Sender::start("test".into(), || {}, fail).expect("a thread");
    while sender.send(parcel(0..100), drop) {}
    sender.finish(drop);
}
