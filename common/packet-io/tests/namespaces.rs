//! Frames, filters and errors between two sockets. Needs root.

use std::time::Duration;

use ebb_packet_io::{
    Bits, Filter, MAX_FRAME_BYTES, MAX_SEND_BATCH, Offload, OutgoingFrame, PacketSocket,
    PortOffset, ReceiveBuffers, SendError, SocketOptions, Withheld, interface_index,
};
use ebb_testkit::{Namespace, Need, PATIENCE, wait_until};

use crate::veth::{
    everyone, frame, is_readable, open, read_until, realtime_ns, send, tagged_frame, veth,
};

/// A frame with an IPv4 packet that has this many words of options, and a port at an offset in its payload.
fn packet(protocol: u8, options: u8, port_at: usize, port: u16) -> Vec<u8> {
    let mut frame = frame(100, 0);
    frame[..6].fill(0xff);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45 + options;
    frame[23] = protocol;
    let at = 14 + 20 + 4 * usize::from(options) + port_at;
    frame[at..at + 2].copy_from_slice(&port.to_be_bytes());
    frame
}

/// Everything that arrives until `count` frames are there, or nothing comes for a while.
fn receive(socket: &PacketSocket, buffers: &mut ReceiveBuffers, count: usize) -> Vec<Vec<u8>> {
    read_until(socket, count, |frames| {
        let batch = socket.receive_batch(buffers).unwrap();
        frames.extend(batch.iter().map(|frame| frame.bytes.to_vec()));
    })
}

fn frames_arrive_whole_and_in_order_in_several_batches() {
    let _space = veth();
    let (a, b) = (open("va", &everyone()), open("vb", &everyone()));
    let frames: Vec<_> = (0..200_u8)
        .map(|i| frame(60 + 7 * usize::from(i), i))
        .collect();
    assert!(frames.len() > MAX_SEND_BATCH);
    send(&a, &frames);
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    let received = receive(&b, &mut buffers, 200);
    assert!(received == frames, "{} of 200", received.len());
    let empty = b.receive_batch(&mut buffers).unwrap();
    assert!(empty.is_empty() && empty.drained);
    // A socket never sees the frames that it has sent.
    assert!(a.receive_batch(&mut buffers).unwrap().is_empty());
}

fn who_is_not_promiscuous_hears_groups_but_no_foreign_address() {
    let _space = veth();
    let a = open("va", &SocketOptions::default());
    let b = open("vb", &SocketOptions::default());
    let mut group = frame(60, 1);
    group[..6].copy_from_slice(&[1, 0, 0x5e, 1, 2, 3]);
    send(&a, &[group.clone()]);
    let mut buffers = ReceiveBuffers::new(4, MAX_FRAME_BYTES);
    assert_eq!(receive(&b, &mut buffers, 1), [group]);
}

fn the_filter_lets_the_ports_of_each_protocol_pass_and_nothing_else() {
    let _space = veth();
    let a = open("va", &everyone());
    let filter = Filter::new()
        .or(6, PortOffset::TCP, 7002..=7005)
        .or(253, PortOffset(6), 7000..=7000)
        .or(6, PortOffset::TCP, 61000..=61999);
    let b = open(
        "vb",
        &SocketOptions {
            filter: Some(filter),
            ..SocketOptions::default()
        },
    );
    let good = [
        packet(6, 0, 2, 7002),
        packet(6, 10, 2, 7005),
        packet(253, 0, 6, 7000),
        packet(6, 3, 2, 61999),
    ];
    let mut other_type = packet(6, 0, 2, 7002);
    other_type[12] = 0x86;
    let mut short = packet(6, 0, 2, 7002);
    short.truncate(14 + 20 + 3);
    let bad = [
        packet(6, 0, 2, 7001),
        packet(6, 0, 2, 7006),
        packet(17, 0, 2, 7002),
        packet(253, 0, 2, 7000),
        packet(253, 0, 6, 7002),
        packet(6, 0, 2, 62000),
        other_type,
        short,
    ];
    let mixed = good
        .iter()
        .zip(bad.chunks(2))
        .flat_map(|(good, bad)| [vec![good.clone()], bad.to_vec()].concat());
    let mixed: Vec<_> = mixed.collect();
    assert_eq!(mixed.len(), good.len() + bad.len());
    send(&a, &mixed);
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    assert_eq!(receive(&b, &mut buffers, 5), good);
    b.set_filter(&Filter::new()).unwrap();
    send(&a, &mixed);
    assert!(receive(&b, &mut buffers, 1).is_empty());
}

/// Frames that are no IP, to the address of PFC: only who asks for them gets them.
fn mac_control_frames_pass_if_they_are_asked_for() {
    let _space = veth();
    let a = open("va", &everyone());
    let control = |ethertype: u8| {
        let mut control = frame(60, 3);
        control[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
        control[12..14].copy_from_slice(&[0x88, ethertype]);
        control
    };
    let sent = [control(0x08), control(0x09), packet(6, 0, 2, 7002)];
    for (asked, expected) in [
        (true, vec![sent[0].clone(), sent[2].clone()]),
        (false, vec![sent[2].clone()]),
    ] {
        let filter = Filter::new()
            .with_mac_control(asked)
            .or(6, PortOffset::TCP, 7002..=7002);
        let options = SocketOptions {
            filter: Some(filter),
            ..SocketOptions::default()
        };
        let b = open("vb", &options);
        send(&a, &sent);
        let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
        assert_eq!(receive(&b, &mut buffers, 3), expected);
    }
}

/// Packets that IP has received in this namespace.
fn received_by_ip() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|name| name == "InReceives");
    values
        .split(' ')
        .nth(place.unwrap())
        .unwrap()
        .parse()
        .unwrap()
}

fn the_kernel_does_not_get_what_is_withheld_and_packet_sockets_do() {
    let _space = veth();
    let a = open("va", &everyone());
    let filter =
        Filter::new()
            .or(6, PortOffset::TCP, 7002..=7999)
            .or(253, PortOffset(6), 7000..=7000);
    let options = SocketOptions {
        filter: Some(filter),
        ..SocketOptions::default()
    };
    let b = open("vb", &options);
    let to = |last: u8, mut frame: Vec<u8>| {
        frame[20..22].fill(0);
        frame[30..34].copy_from_slice(&[10, 9, 8, last]);
        frame
    };
    let mut fragment = to(7, packet(253, 0, 6, 7000));
    fragment[20] = 0x20;
    // Each with whether the kernel gets it nevertheless.
    let packets = [
        (to(7, packet(253, 0, 6, 7000)), false),
        (to(7, packet(6, 0, 2, 7005)), false),
        (to(7, packet(6, 9, 2, 7010)), false),
        (to(7, packet(6, 0, 2, 7011)), true),
        (to(7, packet(6, 0, 2, 7004)), true),
        (to(8, packet(253, 0, 6, 7000)), true),
        (fragment, true),
    ];
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    let mut pass = |frame: &Vec<u8>| {
        let before = received_by_ip();
        send(&a, std::slice::from_ref(frame));
        assert_eq!(receive(&b, &mut buffers, 1), std::slice::from_ref(frame));
        received_by_ip() - before
    };
    let withheld = Withheld::to([10, 9, 8, 7].into())
        .or(253)
        .or_ports(6, 7005..=7010);
    let withholding = b.withhold(&withheld).unwrap();
    for (number, (frame, reaches_kernel)) in packets.iter().enumerate() {
        assert_eq!(pass(frame), u64::from(*reaches_kernel), "packet {number}");
    }
    drop(withholding);
    assert_eq!(pass(&packets[0].0), 1);
}

fn a_filter_that_keeps_the_headers_tells_how_long_the_frame_was() {
    let _space = veth();
    let filter = Filter::new().or(17, PortOffset::UDP, 9..=9).keeping(60);
    let options = SocketOptions {
        filter: Some(filter),
        ..SocketOptions::default()
    };
    let (a, b) = (open("va", &everyone()), open("vb", &options));
    let sent = packet(17, 0, 2, 9);
    send(&a, std::slice::from_ref(&sent));
    let mut buffers = ReceiveBuffers::new(4, 60);
    assert!(is_readable(&b, PATIENCE));
    let batch = b.receive_batch(&mut buffers).unwrap();
    let frame = batch.get(0).unwrap();
    assert_eq!((frame.bytes, frame.wire_bytes), (&sent[..60], 100));
    assert_eq!(batch.too_long, 0);
}

fn the_filter_can_look_at_bits_beside_the_port() {
    let _space = veth();
    let a = open("va", &everyone());
    let filter = Filter::new()
        .or_if(
            253,
            Bits { at: 1, mask: 0x80 },
            PortOffset(4),
            61000..=61003,
        )
        .or(253, PortOffset(6), 7000..=7000);
    let b = open(
        "vb",
        &SocketOptions {
            filter: Some(filter),
            ..SocketOptions::default()
        },
    );
    let flagged = |option_words: u8, port, flags| {
        let mut packet = packet(253, option_words, 4, port);
        packet[14 + 20 + usize::from(option_words) * 4 + 1] = flags;
        packet
    };
    let good = [
        flagged(0, 61000, 0x84),
        flagged(4, 61003, 0x80),
        packet(253, 0, 6, 7000),
    ];
    let bad = [
        flagged(0, 61000, 0x7f),
        flagged(0, 60999, 0x80),
        flagged(0, 7000, 0x80),
        packet(17, 0, 6, 7000),
    ];
    send(&a, &[&bad[..], &good[..]].concat());
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    assert_eq!(receive(&b, &mut buffers, 4), good);
}

fn a_vlan_tag_is_where_the_sender_put_it() {
    let _space = veth();
    let (a, b) = (open("va", &everyone()), open("vb", &everyone()));
    let tagged = tagged_frame();
    send(&a, std::slice::from_ref(&tagged));
    let mut buffers = ReceiveBuffers::new(4, MAX_FRAME_BYTES);
    assert_eq!(receive(&b, &mut buffers, 1), [tagged]);
}

fn frames_have_the_time_of_their_arrival() {
    let _space = veth();
    let (a, b) = (open("va", &everyone()), open("vb", &everyone()));
    let mut buffers = ReceiveBuffers::new(4, MAX_FRAME_BYTES);
    let mut is_exact = || {
        let before = realtime_ns();
        send(&a, &[frame(60, 1)]);
        assert!(is_readable(&b, PATIENCE));
        let after = realtime_ns();
        // The time must be that of the arrival, not that of the reading.
        std::thread::sleep(Duration::from_millis(5));
        let batch = b.receive_batch(&mut buffers).unwrap();
        let at = batch.iter().next().unwrap().realtime_ns.unwrap();
        (before..=after).contains(&at)
    };
    // The kernel begins to note the times a little after it was asked; until then it tells when a frame is read.
    wait_until("the kernel notes the times", &mut is_exact);
    assert!(is_exact());
}

fn a_frame_beyond_the_slot_is_counted_and_the_next_one_good() {
    let _space = veth();
    let (a, b) = (open("va", &everyone()), open("vb", &everyone()));
    send(&a, &[frame(60, 1), frame(1000, 2), frame(61, 3)]);
    let mut buffers = ReceiveBuffers::new(8, 200);
    let (mut slots, mut too_long, mut lengths) = (0, 0, Vec::new());
    wait_until("three frames have come", || {
        let batch = b.receive_batch(&mut buffers).unwrap();
        slots += batch.slots();
        too_long += batch.too_long;
        lengths.extend(batch.iter().map(|frame| frame.bytes.len()));
        slots >= 3
    });
    assert_eq!((slots, too_long), (3, 1));
    assert_eq!(lengths, [60, 61]);
}

fn an_error_belongs_to_the_first_frame() {
    let _space = veth();
    let (a, b) = (open("va", &everyone()), open("vb", &everyone()));
    let frames = [frame(60, 1), frame(3000, 2), frame(60, 3)];
    let slices = |from: usize| frames[from..].iter().map(Vec::as_slice);
    assert_eq!(a.send_batch(slices(0)).unwrap(), 1);
    assert!(matches!(a.send_batch(slices(1)), Err(SendError::TooLong)));
    assert_eq!(a.send_batch(slices(2)).unwrap(), 1);
    assert!(matches!(
        a.send_batch([&[1_u8, 2, 3][..]]),
        Err(SendError::Malformed)
    ));
    let mut buffers = ReceiveBuffers::new(4, MAX_FRAME_BYTES);
    assert_eq!(receive(&b, &mut buffers, 2), [frame(60, 1), frame(60, 3)]);
}

fn down_is_reported_and_up_works_again_but_deleted_is_for_ever() {
    let space = veth();
    let (a, b) = (open("va", &everyone()), open("vb", &everyone()));
    let mut buffers = ReceiveBuffers::new(4, MAX_FRAME_BYTES);
    space.ip("link set vb down");
    let error = b.receive_batch(&mut buffers).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
    assert!(b.receive_batch(&mut buffers).unwrap().is_empty());
    assert!(matches!(
        b.send_batch([frame(60, 1).as_slice()]),
        Err(SendError::Down)
    ));
    assert!(b.interface_exists());
    space.ip("link set vb up");
    space.wait_until_up();
    send(&a, &[frame(60, 2)]);
    assert_eq!(receive(&b, &mut buffers, 1), [frame(60, 2)]);

    space.ip("link delete vb");
    assert!(b.receive_batch(&mut buffers).is_err());
    assert!(!b.interface_exists());
    assert!(matches!(
        b.send_batch([frame(60, 1).as_slice()]),
        Err(SendError::Other(_) | SendError::Down)
    ));
    space.ip("link add va type veth peer name vb");
    space.ip("link set vb up");
    assert!(!b.interface_exists(), "another interface of the same name");
}

fn what_overflows_the_socket_buffer_is_counted() {
    let _space = veth();
    let a = open("va", &everyone());
    let options = SocketOptions {
        buffer_bytes: 8192,
        ..everyone()
    };
    let b = open("vb", &options);
    send(&a, &vec![frame(1400, 1); 50]);
    let mut buffers = ReceiveBuffers::new(64, MAX_FRAME_BYTES);
    let received = receive(&b, &mut buffers, 50).len() as u64;
    assert!(received < 50);
    assert_eq!(b.take_kernel_drops().unwrap(), 50 - received);
    assert_eq!(b.take_kernel_drops().unwrap(), 0);
}

fn offloads_need_a_socket_that_knows_them() {
    let space = veth();
    let with = SocketOptions {
        offloads: true,
        ..everyone()
    };
    let (a, b) = (open("va", &with), open("vb", &with));
    send(&a, &[frame(60, 1), frame(61, 2)]);
    let mut buffers = ReceiveBuffers::new(4, MAX_FRAME_BYTES);
    assert_eq!(receive(&b, &mut buffers, 2), [frame(60, 1), frame(61, 2)]);
    let plain = open("va", &everyone());
    let bytes = frame(60, 1);
    let missing = OutgoingFrame {
        bytes: &bytes,
        offload: checksum_missing(&space, &b),
    };
    assert!(matches!(
        plain.send_batch([missing]),
        Err(SendError::Malformed)
    ));
}

/// Work that the kernel leaves to the hardware in a frame that it sends over `va` itself: the checksum.
fn checksum_missing(space: &Namespace, b: &PacketSocket) -> Offload {
    space.ip("address add 10.9.0.1/24 dev va");
    space.ip("neighbour add 10.9.0.2 lladdr 02:00:00:00:00:09 dev va");
    let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.send_to(&[1; 100], "10.9.0.2:9").unwrap();
    let mut buffers = ReceiveBuffers::new(4, MAX_FRAME_BYTES);
    assert!(is_readable(b, PATIENCE));
    let mut batch = b.receive_batch(&mut buffers).unwrap();
    let frame = batch.get(0).unwrap();
    assert!(frame.checksum_missing);
    let (offload, before) = (frame.offload, frame.bytes.to_vec());
    assert_eq!(offload.partial_checksum(), Some((34, 6)));
    assert_eq!(batch.complete_checksums(), 0);
    let frame = batch.get(0).unwrap();
    assert!(!frame.checksum_missing && frame.offload == Offload::NONE);
    assert_ne!(frame.bytes[40..42], before[40..42]);
    offload
}

fn an_interface_that_does_not_exist_is_an_error() {
    let error = interface_index("packetio-none").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
}

ebb_testkit::tests! {
    Need::Root => [
        frames_arrive_whole_and_in_order_in_several_batches,
        who_is_not_promiscuous_hears_groups_but_no_foreign_address,
        the_filter_lets_the_ports_of_each_protocol_pass_and_nothing_else,
        mac_control_frames_pass_if_they_are_asked_for,
        a_filter_that_keeps_the_headers_tells_how_long_the_frame_was,
        the_filter_can_look_at_bits_beside_the_port,
        a_vlan_tag_is_where_the_sender_put_it,
        frames_have_the_time_of_their_arrival,
        a_frame_beyond_the_slot_is_counted_and_the_next_one_good,
        an_error_belongs_to_the_first_frame,
        down_is_reported_and_up_works_again_but_deleted_is_for_ever,
        what_overflows_the_socket_buffer_is_counted,
        offloads_need_a_socket_that_knows_them,
    ],
    Need::RootOnLinux(6, 6) => [
        the_kernel_does_not_get_what_is_withheld_and_packet_sockets_do,
    ],
    Need::Nothing => [
        an_interface_that_does_not_exist_is_an_error,
    ],
}
