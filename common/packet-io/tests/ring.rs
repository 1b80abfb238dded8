//! A mapped ring at one end of a veth. Needs root.

mod common;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use common::{PATIENCE, Veth, everyone, frame, open, send};
use ebb_packet_io::{
    PacketSocket, PollFd, RING_SLOT_BYTES, ReceiveRing, Received, SocketOptions, wait,
};
use ebb_test_needs::Need;

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
    let mut frames = Vec::new();
    let end = Instant::now() + PATIENCE;
    while frames.len() < count && Instant::now() < end {
        let mut polled = [PollFd::readable(socket.as_fd())];
        wait(&mut polled, Some(Duration::from_millis(200))).unwrap();
        if !polled[0].is_readable() {
            break;
        }
        let take = |frame: ebb_packet_io::ReceivedFrame<'_>| frames.push(frame.bytes.to_vec());
        ring.receive(socket, 8, take).unwrap();
    }
    frames
}

fn frames_arrive_whole_and_in_order_while_the_ring_goes_round() {
    let _veth = Veth::new();
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
    let veth = Veth::new();
    veth.ip("link set va mtu 9000");
    veth.ip("link set vb mtu 9000");
    let (a, b, mut ring) = ends();
    let frames = [1500, 9000, 60, 2040, 1970, 5000, 61].map(|len| frame(len, 7));
    send(&a, &frames);
    let lengths = |frames: &[Vec<u8>]| frames.iter().map(Vec::len).collect::<Vec<_>>();
    let received = receive(&b, &mut ring, frames.len());
    assert_eq!(lengths(&received), lengths(&frames));
    assert!(received == frames);
}

fn long_frames_that_find_the_queue_full_are_counted_and_those_after_them_good() {
    let veth = Veth::new();
    veth.ip("link set va mtu 9000");
    veth.ip("link set vb mtu 9000");
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
    std::thread::sleep(Duration::from_millis(30));
    let mut lengths = Vec::new();
    let received = ring.receive(&b, 100, |frame| lengths.push(frame.bytes.len()));
    let received = received.unwrap();
    assert_eq!(received.frames + received.too_long, 11);
    assert!(
        received.too_long > 0 && lengths.contains(&8000),
        "{lengths:?}"
    );
    assert_eq!(lengths.last(), Some(&60));
}

fn a_vlan_tag_is_where_the_sender_put_it_and_the_time_is_that_of_arrival() {
    let _veth = Veth::new();
    let (a, b, mut ring) = ends();
    let mut tagged = frame(90, 5);
    tagged[12..18].copy_from_slice(&[0x81, 0x00, 0x20, 0x07, 0x88, 0xb5]);
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_nanos() as u64
    };
    let before = now();
    send(&a, std::slice::from_ref(&tagged));
    // The kernel may do the other end's part a little later.
    let after = now() + 10_000_000;
    std::thread::sleep(Duration::from_millis(30));
    let mut seen = 0;
    let take = |frame: ebb_packet_io::ReceivedFrame<'_>| {
        assert_eq!((frame.bytes, frame.wire_bytes), (tagged.as_slice(), 90));
        assert!((before..=after).contains(&frame.realtime_ns.unwrap()));
        seen += 1;
    };
    ring.receive(&b, 8, take).unwrap();
    assert_eq!(seen, 1);
}

fn what_overflows_the_ring_is_counted_and_what_comes_later_arrives() {
    let _veth = Veth::new();
    let (a, b, mut ring) = ends();
    send(&a, &vec![frame(1400, 1); SLOTS + 10]);
    assert_eq!(receive(&b, &mut ring, SLOTS + 10).len(), SLOTS);
    assert_eq!(b.take_kernel_drops().unwrap(), 10);
    send(&a, &[frame(60, 2)]);
    assert_eq!(receive(&b, &mut ring, 1), [frame(60, 2)]);
}

fn it_outlives_an_interface_that_is_down_for_a_while() {
    let veth = Veth::new();
    let (a, b, mut ring) = ends();
    veth.ip("link set vb down");
    let error = b.take_error().unwrap().unwrap();
    assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
    veth.ip("link set vb up");
    send(&a, &[frame(60, 2)]);
    assert_eq!(receive(&b, &mut ring, 1), [frame(60, 2)]);
}

fn a_socket_with_offloads_has_none() {
    let _veth = Veth::new();
    let options = SocketOptions {
        offloads: true,
        ..everyone()
    };
    let error = ReceiveRing::map(&open("vb", &options), RING_BYTES).err();
    assert_eq!(error.unwrap().raw_os_error(), Some(libc::EINVAL));
}

ebb_test_needs::tests! {
    Need::Root => [
        frames_arrive_whole_and_in_order_while_the_ring_goes_round,
        a_frame_longer_than_a_slot_keeps_its_place,
        long_frames_that_find_the_queue_full_are_counted_and_those_after_them_good,
        a_vlan_tag_is_where_the_sender_put_it_and_the_time_is_that_of_arrival,
        what_overflows_the_ring_is_counted_and_what_comes_later_arrives,
        it_outlives_an_interface_that_is_down_for_a_while,
        a_socket_with_offloads_has_none,
    ],
}
