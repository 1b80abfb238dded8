//! Two ends of a veth in a network namespace of their own.

use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ebb_packet_io::{Audience, PacketSocket, SocketOptions};

pub const PATIENCE: Duration = Duration::from_secs(5);

pub fn ip(args: &str) {
    let status = Command::new("ip").args(args.split_whitespace()).status();
    assert!(status.unwrap().success(), "ip {args}");
}

/// Until then, which a busy kernel takes its time for, what is sent is dropped.
fn wait_until_up(namespace: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let args = ["-n", namespace, "-o", "link", "show", "type", "veth"];
        let output = Command::new("ip").args(args).output().unwrap();
        let links = String::from_utf8_lossy(&output.stdout);
        if links.lines().all(|link| link.contains("state UP")) {
            return;
        }
        assert!(Instant::now() < end, "{links}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Interfaces `va` and `vb`, in a namespace that the thread of the test has entered.
pub struct Veth {
    namespace: String,
}

impl Veth {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("packetio-{}-{count}", std::process::id());
        ip(&format!("netns add {namespace}"));
        let veth = Veth { namespace };
        let n = &veth.namespace;
        // Without IPv6 no frame appears that the test has not sent.
        let quiet = "net.ipv6.conf.default.disable_ipv6=1";
        let mut command = Command::new("ip");
        command.args(["netns", "exec", n, "sysctl", "-qw", quiet]);
        assert!(command.status().unwrap().success());
        ip(&format!("-n {n} link add va type veth peer name vb"));
        for interface in ["va", "vb"] {
            ip(&format!("-n {n} link set {interface} up"));
        }
        wait_until_up(n);
        let file = std::fs::File::open(format!("/run/netns/{n}")).unwrap();
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(file.as_fd(), kind).unwrap();
        veth
    }

    pub fn ip(&self, args: &str) {
        ip(&format!("-n {} {args}", self.namespace));
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "delete", &self.namespace])
            .status();
    }
}

pub fn open(interface: &str, options: &SocketOptions) -> PacketSocket {
    PacketSocket::open(interface, options).unwrap()
}

pub fn everyone() -> SocketOptions {
    SocketOptions {
        audience: Audience::Everyone,
        timestamps: true,
        ..SocketOptions::default()
    }
}

/// To a foreign address, so that only a promiscuous socket sees it.
pub fn frame(len: usize, fill: u8) -> Vec<u8> {
    let mut frame = vec![fill; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

pub fn send(socket: &PacketSocket, frames: &[Vec<u8>]) {
    let mut sent = 0;
    while sent < frames.len() {
        sent += socket
            .send_batch(frames[sent..].iter().map(Vec::as_slice))
            .unwrap();
    }
}
