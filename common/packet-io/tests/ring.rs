//! A mapped ring at one end of a veth. Needs root.

use std::time::Duration;

use ebb_packet_io::{
    PacketSocket, RING_SLOT_BYTES, ReceiveRing, Received, ReceivedFrame, SocketOptions,
};
use ebb_testkit::{Need, PATIENCE, wait_until};

use crate::veth::{
    everyone, frame, is_readable, open, read_until, realtime_ns, send, tagged_frame, veth,
};

const RING_BYTES: usize = 1 << 16;
const SLOTS: usize = RING_BYTES / RING_SLOT_BYTES;

/// Sockets at both ends, and a ring of [`SLOTS`] slots at the second.
fn ends() -> (PacketSocket, PacketSocket, ReceiveRing) {
    let (a, b) = (open("va", &everyone()), open("vb", &everyone()));
    let ring = ReceiveRing::map(&b, RING_BYTES).unwrap();
    (a, b, ring)
}

/// Everything that arrives until `count` frames are there, or nothing comes for a while.
fn receive(socket: &PacketSocket, ring: &mut ReceiveRing, count: usize) -> Vec<Vec<u8>> {
    read_until(socket, count, |frames| {
        let take = |frame: ReceivedFrame<'_>| frames.push(frame.bytes.to_vec());
        ring.receive(socket, 8, take).unwrap();
    })
}

fn frames_arrive_whole_and_in_order_while_the_ring_goes_round() {
    let _space = veth();
    let (a, b, mut ring) = ends();
    for round in 0..5 {
        let frames: Vec<_> = (0..20_u8)
            .map(|i| frame(60 + 70 * usize::from(i), i + 20 * round))
            .collect();
        send(&a, &frames);
        assert!(receive(&b, &mut ring, 20) == frames, "round {round}");
    }
    let nothing = ring.receive(&b, 8, |_| panic!("a frame")).unwrap();
    let drained = Received {
        drained: true,
        ..Received::default()
    };
    assert_eq!(nothing, drained);
}

fn a_frame_longer_than_a_slot_keeps_its_place() {
    let space = veth();
    space.ip("link set va mtu 9000");
    space.ip("link set vb mtu 9000");
    let (a, b, mut ring) = ends();
    let frames = [1500, 9000, 60, 2040, 1970, 5000, 61].map(|len| frame(len, 7));
    send(&a, &frames);
    let lengths = |frames: &[Vec<u8>]| frames.iter().map(Vec::len).collect::<Vec<_>>();
    let received = receive(&b, &mut ring, frames.len());
    assert_eq!(lengths(&received), lengths(&frames));
    assert!(received == frames);
}

fn long_frames_that_find_the_queue_full_are_counted_and_those_after_them_good() {
    let space = veth();
    space.ip("link set va mtu 9000");
    space.ip("link set vb mtu 9000");
    let a = open("va", &everyone());
    let options = SocketOptions {
        buffer_bytes: 8192,
        ..everyone()
    };
    let b = open("vb", &options);
    let mut ring = ReceiveRing::map(&b, RING_BYTES).unwrap();
    let mut frames = vec![frame(8000, 1); 10];
    frames.push(frame(60, 2));
    send(&a, &frames);
    // Only if the frames wait unread does the queue become full.
    std::thread::sleep(Duration::from_millis(30));
    let (mut lengths, mut too_long) = (Vec::new(), 0);
    wait_until("all are there or counted", || {
        let received = ring.receive(&b, 100, |frame| lengths.push(frame.bytes.len()));
        too_long += received.unwrap().too_long;
        lengths.len() + too_long >= 11
    });
    assert_eq!(lengths.len() + too_long, 11);
    assert!(too_long > 0 && lengths.contains(&8000), "{lengths:?}");
    assert_eq!(lengths.last(), Some(&60));
}

fn slots_for_long_frames_take_them() {
    let space = veth();
    space.ip("link set va mtu 9000");
    space.ip("link set vb mtu 9000");
    let a = open("va", &everyone());
    let options = SocketOptions {
        // The queue of the socket has no room for a long frame.
        buffer_bytes: 4096,
        ..everyone()
    };
    let b = open("vb", &options);
    // A slot has 16 KB.
    let mut ring = ReceiveRing::map_for(&b, RING_BYTES, 9014).unwrap();
    for round in 0..3 {
        let frames = [9014, 60, 1514, 9000].map(|len| frame(len, round));
        send(&a, &frames);
        assert!(receive(&b, &mut ring, 4) == frames, "round {round}");
    }
    send(&a, &vec![frame(9014, 1); 6]);
    assert_eq!(receive(&b, &mut ring, 6).len(), 4);
    assert_eq!(b.take_kernel_drops().unwrap(), 2);
}

fn a_vlan_tag_is_where_the_sender_put_it_and_the_time_is_that_of_arrival() {
    let _space = veth();
    let (a, b, mut ring) = ends();
    let tagged = tagged_frame();
    let before = realtime_ns();
    send(&a, std::slice::from_ref(&tagged));
    assert!(is_readable(&b, PATIENCE));
    let after = realtime_ns();
    // The time must be that of the arrival, not that of the reading.
    std::thread::sleep(Duration::from_millis(5));
    let mut seen = 0;
    let take = |frame: ReceivedFrame<'_>| {
        assert_eq!((frame.bytes, frame.wire_bytes), (tagged.as_slice(), 90));
        assert!((before..=after).contains(&frame.realtime_ns.unwrap()));
        seen += 1;
    };
    ring.receive(&b, 8, take).unwrap();
    assert_eq!(seen, 1);
}

fn what_overflows_the_ring_is_counted_and_what_comes_later_arrives() {
    let _space = veth();
    let (a, b, mut ring) = ends();
    send(&a, &vec![frame(1400, 1); SLOTS + 10]);
    assert_eq!(receive(&b, &mut ring, SLOTS + 10).len(), SLOTS);
    assert_eq!(b.take_kernel_drops().unwrap(), 10);
    send(&a, &[frame(60, 2)]);
    assert_eq!(receive(&b, &mut ring, 1), [frame(60, 2)]);
}

fn it_outlives_an_interface_that_is_down_for_a_while() {
    let space = veth();
    let (a, b, mut ring) = ends();
    space.ip("link set vb down");
    let error = b.take_error().unwrap().unwrap();
    assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
    space.ip("link set vb up");
    space.wait_until_up();
    send(&a, &[frame(60, 2)]);
    assert_eq!(receive(&b, &mut ring, 1), [frame(60, 2)]);
}

fn a_socket_with_offloads_has_none() {
    let _space = veth();
    let options = SocketOptions {
        offloads: true,
        ..everyone()
    };
    let error = ReceiveRing::map(&open("vb", &options), RING_BYTES).err();
    assert_eq!(error.unwrap().raw_os_error(), Some(libc::EINVAL));
}

ebb_testkit::tests! {
    Need::Root => [
        frames_arrive_whole_and_in_order_while_the_ring_goes_round,
        a_frame_longer_than_a_slot_keeps_its_place,
        long_frames_that_find_the_queue_full_are_counted_and_those_after_them_good,
        slots_for_long_frames_take_them,
        a_vlan_tag_is_where_the_sender_put_it_and_the_time_is_that_of_arrival,
        what_overflows_the_ring_is_counted_and_what_comes_later_arrives,
        it_outlives_an_interface_that_is_down_for_a_while,
        a_socket_with_offloads_has_none,
    ],
}
