//! Frames for tests.

use std::net::Ipv4Addr;

use ebb_wire::{
    Ecn, EthernetHeader, Ipv4Header, MacAddress, Protocol, TcpFlags, TcpHeader, TcpOptions,
};

/// An Ethernet frame with a TCP segment from 10.0.0.1 to 10.0.0.2.
pub fn tcp_frame(from: u16, to: u16, flags: TcpFlags, seq: u32, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut frame = Vec::new();
    EthernetHeader {
        dst: MacAddress([2, 0, 0, 0, 0, 2]),
        src: MacAddress([2, 0, 0, 0, 0, 1]),
        ethertype: EthernetHeader::IPV4,
    }
    .emit(&mut frame);
    let tcp = TcpHeader {
        source_port: from,
        destination_port: to,
        seq,
        ack: 77,
        flags,
        window: 1000,
        options: TcpOptions::default(),
    };
    Ipv4Header {
        dscp: 0,
        ecn: Ecn::NotEct,
        id: 0xfffe,
        ttl: 64,
        protocol: Protocol::TCP,
        src,
        dst,
    }
    .emit(tcp.emitted_bytes() + payload.len(), &mut frame);
    tcp.emit(src, dst, payload, &mut frame);
    frame
}
