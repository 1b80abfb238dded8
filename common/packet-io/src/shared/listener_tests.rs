//! Hosts that get a ring, and others that do not behave.

use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use ebb_testkit::{Folder, PATIENCE};

use super::*;
use crate::{Filter, FrameIo, HostRing, PollFd, PortOffset, ReceivedFrame, SendError, wait};

const UDP: u8 = 17;

fn folder() -> Folder {
    let folder = Folder::new("rings");
    fs::set_permissions(&*folder, Permissions::from_mode(0o700)).unwrap();
    folder
}

/// A host and the end of the switch, which has the filter of the host: UDP to port 7010.
fn ends(folder: &Folder) -> (RingListener, HostRing, SwitchRing) {
    let path = folder.join("p1");
    let listener = RingListener::bind(&path).unwrap();
    let host = thread::spawn(move || HostRing::connect(&path).unwrap());
    wait_for(listener.as_fd());
    let mut switch = listener.accept().unwrap().expect("a host");
    let mut host = host.join().unwrap();
    let filter = Filter::new().or(UDP, PortOffset::UDP, 7010..=7010);
    host.set_filter(&filter).unwrap();
    wait_for(switch.as_fd());
    switch.read_messages().unwrap();
    assert_eq!(switch.filter(), &filter);
    (listener, host, switch)
}

fn wait_for(descriptor: BorrowedFd<'_>) {
    assert!(is_readable(descriptor, PATIENCE));
}

fn is_readable(descriptor: BorrowedFd<'_>, patience: Duration) -> bool {
    let mut polled = [PollFd::readable(descriptor)];
    wait(&mut polled, Some(patience)).unwrap();
    polled[0].is_readable()
}

/// A frame with a UDP packet to a port.
fn udp(port: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![9; bytes];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[23] = UDP;
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

fn received(
    receive: impl FnOnce(&mut dyn FnMut(ReceivedFrame<'_>)) -> io::Result<crate::Received>,
) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    receive(&mut |frame| frames.push(frame.bytes.to_vec())).unwrap();
    frames
}

#[test]
fn frames_go_both_ways_and_the_host_gets_what_its_filter_lets_pass() {
    let folder = folder();
    let (_listener, mut host, mut switch) = ends(&folder);
    let sent = [udp(1, 60), udp(2, 1514), udp(3, 9014)];
    let mut frames = sent.iter().map(Vec::as_slice);
    assert_eq!(host.send(&mut frames).unwrap(), 3);
    assert_eq!(received(|take| switch.receive(9, take)), sent);

    assert!(!host.prepare_to_wait());
    for frame in [udp(7010, 60), udp(7011, 61), vec![0; 3], udp(7010, 1514)] {
        switch.write(&frame).unwrap();
    }
    assert!(!is_readable(host.descriptor(), Duration::ZERO));
    switch.flush();
    wait_for(host.descriptor());
    assert!(host.prepare_to_wait(), "frames are there");
    host.note_wait(true, false).unwrap();
    assert!(
        !is_readable(host.descriptor(), Duration::ZERO),
        "it was read"
    );
    let expected = [udp(7010, 60), udp(7010, 1514)];
    assert_eq!(received(|take| host.receive(9, take)), expected);

    let filter = Filter::new().or(UDP, PortOffset::UDP, 1..=9).keeping(40);
    host.set_filter(&filter).unwrap();
    wait_for(switch.as_fd());
    switch.read_messages().unwrap();
    switch.write(&udp(5, 1514)).unwrap();
    switch.write(&udp(7010, 1514)).unwrap();
    switch.flush();
    let mut wire = Vec::new();
    let mut take = |frame: ReceivedFrame<'_>| wire.push((frame.bytes.len(), frame.wire_bytes));
    host.receive(9, &mut take).unwrap();
    assert_eq!(wire, [(40, 1514)]);
}

#[test]
fn the_switch_is_woken_by_a_frame_and_told_of_the_end() {
    let folder = folder();
    let (_listener, mut host, mut switch) = ends(&folder);
    switch.want_wake_up();
    assert!(!switch.has_frames() && !is_readable(switch.as_fd(), Duration::ZERO));
    let frame = udp(1, 60);
    host.send(&mut [&frame[..]].into_iter()).unwrap();
    wait_for(switch.as_fd());
    switch.read_messages().unwrap();
    assert!(switch.has_frames());
    assert_eq!(received(|take| switch.receive(9, take)), [frame]);
    drop(host);
    wait_for(switch.as_fd());
    let error = switch.read_messages().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    // Writing to who has gone does no harm.
    switch.write(&udp(7010, 60)).unwrap();
    switch.flush();
}

#[test]
fn a_host_that_reads_nothing_loses_frames_and_holds_nobody_up() {
    let folder = folder();
    let (_listener, mut host, mut switch) = ends(&folder);
    let frame = udp(7010, 9014);
    for _ in 0..1000 {
        // It wants to be woken again and again, and never reads the messages.
        host.prepare_to_wait();
        switch.write(&frame).unwrap();
        switch.flush();
    }
    let lost = host.take_drops().unwrap();
    let there = received(|take| host.receive(usize::MAX, take)).len();
    assert!(lost > 0);
    assert_eq!(there + lost as usize, 1000);
    // And one that sends too much has to wait.
    let (frame, mut sent) = (udp(1, 1514), 0);
    let error = loop {
        match host.send(&mut std::iter::repeat_n(&frame[..], 64)) {
            Ok(frames) => sent += frames,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SendError::Full), "{error}");
    assert_eq!(
        received(|take| switch.receive(usize::MAX, take)).len(),
        sent
    );
    assert_eq!(host.send(&mut [&frame[..]].into_iter()).unwrap(), 1);
    for (wrong, expected) in [(13, "malformed"), (10_241, "longer")] {
        let error = host
            .send(&mut [&vec![0; wrong][..]].into_iter())
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_peer_that_says_nonsense_is_refused() {
    let folder = folder();
    for nonsense in [
        &[][..],
        &[2],
        &[1],
        &[0, 0],
        &[1, 0, 0, 0, 0, 0, 9],
        &[1; 9000],
    ] {
        let (listener, host, mut switch) = ends(&folder);
        // SAFETY: the pointer and the length are those of the message.
        unsafe {
            let (fd, message) = (host.descriptor().as_raw_fd(), nonsense.as_ptr().cast());
            libc::send(fd, message, nonsense.len(), 0);
        }
        wait_for(switch.as_fd());
        switch.read_messages().unwrap_err();
        drop((host, switch, listener));
    }
}

/// A peer shares no open file but the memory: what it sets on its end of the connection is not set on ours.
#[test]
fn a_peer_cannot_make_a_call_wait() {
    let folder = folder();
    let (_listener, mut host, mut switch) = ends(&folder);
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(host.descriptor().as_raw_fd(), libc::F_SETFL, 0) }).unwrap();
    switch.read_messages().unwrap();
    for _ in 0..10_000 {
        host.prepare_to_wait();
        switch.write(&udp(7010, 60)).unwrap();
        switch.flush();
    }
    assert!(received(|take| switch.receive(9, take)).is_empty());
}

#[test]
fn who_is_no_switch_gives_no_ring() {
    let folder = folder();
    let path = folder.join("p1");
    let socket = new_socket(0).unwrap();
    with_address(&path, |address, bytes| {
        // SAFETY: a pointer and the size of what is there.
        check(unsafe { libc::bind(socket.as_raw_fd(), address, bytes) })
    })
    .unwrap();
    // SAFETY: no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), 1) }).unwrap();
    let good = Greeting {
        to_host_bytes: 1 << 16,
        to_switch_bytes: 1 << 16,
    };
    let (_, file) = SharedMemory::create(good.total_bytes()).unwrap();
    let (_, short) = SharedMemory::create(4096).unwrap();
    let huge = Greeting {
        to_host_bytes: 1 << 31,
        ..good
    };
    let odd = Greeting {
        to_host_bytes: (1 << 16) - 4096,
        ..good
    };
    for (greeting, file, expected) in [
        (&good.emit()[..], &file, ""),
        (&good.emit()[..15], &file, "this version"),
        (&[0; 16], &file, "this version"),
        (&huge.emit()[..], &file, "impossible length"),
        (&odd.emit()[..], &file, "impossible length"),
        (&good.emit()[..], &short, "another length"),
    ] {
        let host = {
            let path = path.clone();
            thread::spawn(move || HostRing::connect(&path))
        };
        let none = std::ptr::null_mut();
        // SAFETY: null for an address that is not asked for; a fresh descriptor.
        let accepted = unsafe {
            let fd = libc::accept(socket.as_raw_fd(), none, none.cast());
            OwnedFd::from_raw_fd(check(fd).unwrap())
        };
        send_with(&accepted, greeting, file).unwrap();
        match host.join().unwrap() {
            Ok(_) => assert_eq!(expected, ""),
            Err(error) => {
                assert!(
                    !expected.is_empty() && error.to_string().contains(expected),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn the_socket_is_for_one_user_in_a_folder_of_its_own() {
    let folder = folder();
    let path = folder.join("p1");
    let listener = RingListener::bind(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let refusal = |path: &Path| RingListener::bind(path).unwrap_err();
    assert_eq!(refusal(&path).kind(), io::ErrorKind::AddrInUse);
    drop(listener);
    assert!(!path.exists());
    // A socket that a killed process left is replaced, and nothing else is.
    drop(UnixListener::bind(&path).unwrap());
    drop(RingListener::bind(&path).unwrap());
    fs::write(&path, "precious").unwrap();
    refusal(&path);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert!(
        refusal(&folder.join("n".repeat(120)))
            .to_string()
            .contains("path of a socket")
    );
    for mode in [0o710, 0o755, 0o701] {
        fs::set_permissions(&*folder, Permissions::from_mode(mode)).unwrap();
        let error = refusal(&folder.join("p2"));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
    }
    assert_eq!(
        HostRing::connect(&folder.join("none")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}
