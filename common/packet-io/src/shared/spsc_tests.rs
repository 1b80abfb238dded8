//! Rings whose both ends are here, and peers that write whatever they like.

use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// The whole memory of a direction, as a peer has it.
struct Peer(Direction);

impl Peer {
    fn bytes(&self) -> usize {
        Direction::total_bytes(self.0.data_bytes)
    }

    /// Writes anywhere, counters included.
    fn scribble(&self, at: usize, bytes: &[u8]) {
        let at = at % (self.bytes() - bytes.len());
        let to = self.0.memory.at(self.0.at + at, bytes.len());
        // SAFETY: `at` has checked the place.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn set(&self, counter: usize, value: u64) {
        self.0.counter(counter).store(value, Ordering::Release);
    }
}

fn ring(data_bytes: usize) -> (Producer, Consumer, Peer) {
    let (memory, _) = SharedMemory::create(Direction::total_bytes(data_bytes)).unwrap();
    let direction = Direction::new(Arc::new(memory), 0, data_bytes);
    (
        Producer::new(direction.clone()),
        Consumer::new(direction.clone()),
        Peer(direction),
    )
}

fn receive(consumer: &mut Consumer, most: usize) -> (Vec<Vec<u8>>, Received) {
    let mut frames = Vec::new();
    let mut take = |frame: ReceivedFrame<'_>| frames.push(frame.bytes.to_vec());
    let received = consumer.receive(most, &mut take).unwrap();
    (frames, received)
}

#[test]
fn frames_come_out_in_order_with_what_is_said_of_them() {
    let (mut producer, mut consumer, _) = ring(LEAST_DATA_BYTES);
    assert!(producer.push(&[1; 60], 1500, 77).unwrap());
    assert!(producer.push(&[2; 61], 61, 78).unwrap());
    assert!(!consumer.has_frames(), "not before it is published");
    assert!(!producer.publish(), "nobody sleeps");
    assert!(consumer.has_frames());
    let mut seen = Vec::new();
    let mut take = |frame: ReceivedFrame<'_>| {
        seen.push((frame.bytes.len(), frame.wire_bytes, frame.realtime_ns));
    };
    let received = consumer.receive(1, &mut take).unwrap();
    assert_eq!((received.frames, received.drained), (1, false));
    let received = consumer.receive(9, &mut take).unwrap();
    assert_eq!((received.frames, received.drained), (1, true));
    assert_eq!(seen, [(60, 1500, Some(77)), (61, 61, Some(78))]);
}

#[test]
fn a_full_ring_takes_no_more_and_goes_on_when_there_is_room() {
    let (mut producer, mut consumer, _) = ring(LEAST_DATA_BYTES);
    let frame = [7; 1500];
    let mut pushed = 0;
    while producer.push(&frame, 1500, 0).unwrap() {
        pushed += 1;
    }
    assert_eq!(pushed, LEAST_DATA_BYTES / record_bytes(1500));
    producer.count_lost(3);
    producer.publish();
    assert_eq!(receive(&mut consumer, 1).0.len(), 1);
    assert!(producer.push(&frame, 1500, 0).unwrap());
    assert!(!producer.push(&frame, 1500, 0).unwrap());
    producer.publish();
    assert_eq!(receive(&mut consumer, 100).0, vec![frame.to_vec(); pushed]);
    assert_eq!((consumer.take_lost(), consumer.take_lost()), (3, 0));
}

#[test]
fn who_wants_to_be_woken_is_woken_once() {
    let (mut producer, consumer, _) = ring(LEAST_DATA_BYTES);
    consumer.want_wake_up(true);
    assert!(!producer.publish(), "there is nothing");
    for woken in [true, false] {
        producer.push(&[0; 60], 60, 0).unwrap();
        assert_eq!(producer.publish(), woken);
    }
    consumer.want_wake_up(true);
    consumer.want_wake_up(false);
    producer.push(&[0; 60], 60, 0).unwrap();
    assert!(!producer.publish());
}

/// A producer that claims to have written what it has not, or what is no record.
#[test]
fn a_consumer_is_not_led_beyond_what_can_be_there() {
    let size = LEAST_DATA_BYTES as u64;
    for head in [size + 16, u64::MAX, u64::MAX - 15, 8, 17] {
        let (_, mut consumer, peer) = ring(LEAST_DATA_BYTES);
        peer.set(HEAD_AT, head);
        let result = consumer.receive(9, &mut |_| panic!("a frame"));
        assert_eq!(result, Err(Broken), "head {head}");
    }
    // Longer than any frame; longer than what is there; padding that ends before the data do.
    for (length, head) in [
        (MAX_FRAME_BYTES as u32 + 1, size),
        (u32::MAX - 1, size),
        (100, 64),
        (1, 16),
        (PADDING, 32),
    ] {
        let (_, mut consumer, peer) = ring(LEAST_DATA_BYTES);
        peer.scribble(COUNTERS_BYTES, &length.to_ne_bytes());
        peer.set(HEAD_AT, head);
        let result = consumer.receive(9, &mut |_| panic!("a frame"));
        assert_eq!(result, Err(Broken), "length {length}, head {head}");
    }
    // Nothing but padding and empty frames is bounded, too.
    let (_, mut consumer, peer) = ring(LEAST_DATA_BYTES);
    peer.scribble(COUNTERS_BYTES, &PADDING.to_ne_bytes());
    peer.set(HEAD_AT, size);
    assert_eq!(receive(&mut consumer, 9).1.frames, 0);
    peer.scribble(COUNTERS_BYTES, &[0; 4]);
    peer.set(HEAD_AT, 2 * size);
    let (frames, _) = receive(&mut consumer, usize::MAX);
    assert_eq!(frames.len() as u64, size / RECORD_BYTES as u64);
}

/// A consumer that claims to have read what it was not given, or less than it had read.
#[test]
fn a_producer_is_not_led_to_write_over_what_was_not_read() {
    for tail in [1 << 14, u64::MAX, LEAST_DATA_BYTES as u64 * 2] {
        let (mut producer, _, peer) = ring(LEAST_DATA_BYTES);
        for _ in 0..8 {
            producer.push(&[0; 1000], 1000, 0).unwrap();
        }
        producer.publish();
        peer.set(TAIL_AT, tail);
        let result = (0..100).try_for_each(|_| producer.push(&[0; 1000], 1000, 0).map(|_| ()));
        assert_eq!(result, Err(Broken), "tail {tail}");
    }
    // Nor backward: what was free once would count twice.
    let (mut producer, _, peer) = ring(LEAST_DATA_BYTES);
    while producer.push(&[0; 1000], 1000, 0).unwrap() {}
    producer.publish();
    peer.set(TAIL_AT, producer.published);
    while producer.push(&[0; 1000], 1000, 0).unwrap() {}
    peer.set(TAIL_AT, 16);
    assert_eq!(producer.push(&[0; 1000], 1000, 0), Err(Broken));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Two threads: every frame that was pushed comes out once, whole and in order, whatever the lengths, the batches
    /// and the turns that the scheduler gives; and who slept was woken.
    #[test]
    fn every_frame_comes_out_once_and_in_order(
        lengths in proptest::collection::vec(0_usize..=MAX_FRAME_BYTES, 1..40),
        batch in 1_usize..20,
        most in 1_usize..40,
        pause_us in 0_u64..200,
    ) {
        const FRAMES: usize = 1000;
        let (mut producer, mut consumer, _) = ring(LEAST_DATA_BYTES);
        let lengths = &lengths;
        let fill = |number: usize| (number * 31) as u8;
        let (wake, woken) = std::sync::mpsc::channel();
        let out = thread::scope(|scope| {
            scope.spawn(move || {
                let mut number = 0;
                while number < FRAMES {
                    for _ in 0..batch.min(FRAMES - number) {
                        let frame = vec![fill(number); lengths[number % lengths.len()]];
                        if !producer.push(&frame, number, 0).unwrap() {
                            break;
                        }
                        number += 1;
                    }
                    if producer.publish() {
                        wake.send(()).unwrap();
                    }
                    if pause_us > 100 && number % 64 == 0 {
                        thread::sleep(Duration::from_micros(pause_us - 100));
                    }
                }
            });
            let mut number = 0;
            while number < FRAMES {
                let mut take = |frame: ReceivedFrame<'_>| {
                    let expected = vec![fill(number); lengths[number % lengths.len()]];
                    assert!(frame.bytes == expected, "{number}");
                    number += 1;
                };
                let received = consumer.receive(most, &mut take).unwrap();
                if received.drained && number < FRAMES {
                    consumer.want_wake_up(true);
                    fence(Ordering::SeqCst);
                    if !consumer.has_frames() {
                        woken.recv_timeout(Duration::from_secs(20)).expect("woken");
                    }
                }
            }
            number
        });
        prop_assert_eq!(out, FRAMES);
    }

    /// A peer that writes anything anywhere, at any time: each call ends, and what it hands over is no longer than a
    /// frame.
    #[test]
    fn whatever_a_peer_writes_calls_end_and_frames_are_frames(
        scribbles in proptest::collection::vec(
            (any::<u32>(), proptest::collection::vec(any::<u8>(), 1..40), 0_u8..4),
            1..60,
        ),
    ) {
        let (mut producer, mut consumer, peer) = ring(LEAST_DATA_BYTES);
        for (place, bytes, what) in &scribbles {
            // Mostly where it matters: the counters, and the records that are next.
            let at = match what {
                0 => *place as usize % COUNTERS_BYTES,
                1 => COUNTERS_BYTES + (consumer.tail as usize & (LEAST_DATA_BYTES - 1)),
                2 => (*place as usize % 4) * LINE_BYTES,
                _ => *place as usize,
            };
            let pushed = (0..9).try_for_each(|_| producer.push(&[5; 700], 700, 0).map(|_| ()));
            producer.publish();
            peer.scribble(at, bytes);
            let mut take = |frame: ReceivedFrame<'_>| assert!(frame.bytes.len() <= MAX_FRAME_BYTES);
            let received = consumer.receive(64, &mut take);
            consumer.take_lost();
            if pushed.is_err() || received.is_err() {
                // Both ends close a ring that is broken.
                let (p, c, _) = ring(LEAST_DATA_BYTES);
                (producer, consumer) = (p, c);
            }
        }
    }
}

/// The same while the peer writes in another thread, between any two instructions.
#[test]
fn a_peer_that_writes_all_the_time_is_survived() {
    let (mut producer, mut consumer, peer) = ring(LEAST_DATA_BYTES);
    let end = Instant::now() + ebb_testkit::PATIENCE;
    let over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = 1_u64;
            while !over.load(Ordering::Relaxed) {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let value = [random >> 50, random >> 40, random, 0][(random >> 33) as usize % 4];
                peer.scribble((random >> 20) as usize * 4, &value.to_ne_bytes());
                peer.scribble(
                    (random >> 8) as usize % COUNTERS_BYTES,
                    &value.to_ne_bytes(),
                );
            }
        });
        let (mut calls, mut broken) = (0_u64, 0_u64);
        while broken < 100 && Instant::now() < end {
            calls += 1;
            let mut take = |frame: ReceivedFrame<'_>| assert!(frame.bytes.len() <= MAX_FRAME_BYTES);
            let pushed = producer.push(&[5; 700], 700, 0);
            producer.publish();
            if consumer.receive(64, &mut take).is_err() | pushed.is_err() {
                broken += 1;
                // The same memory again, as if it were new: the peer goes on in it.
                (producer.tail, producer.head, producer.published) = (0, 0, 0);
                consumer.tail = 0;
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(
            calls > broken && broken > 0,
            "{calls} calls, {broken} broken"
        );
    });
}
