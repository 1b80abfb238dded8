//! Parsers: any bytes give a value or an error, and never a panic.

use std::net::Ipv4Addr;

use ebb_transport::StreamHead;
use ebb_transport::object::EnvelopeReader;
use ebb_wire::{
    DropNotification, EbbHeader, EthernetHeader, Ipv4Header, SourceQuench, TcpGlance, TcpHeader,
};

const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

/// Every header parser, on the bytes as they are.
pub fn wire(bytes: &[u8]) {
    let _ = EthernetHeader::parse(bytes);
    let _ = TcpGlance::read(bytes);
    if let Ok(dropped) = DropNotification::parse(bytes) {
        assert!(dropped.payload_bytes < usize::from(u16::MAX));
    }
    let _ = SourceQuench::parse(bytes);
    if let Ok(packet) = Ipv4Header::parse(bytes) {
        let mut again = Vec::new();
        packet.header.emit(packet.payload.len(), &mut again);
        again.extend_from_slice(packet.payload);
        assert_eq!(Ipv4Header::parse(&again), Ok(packet));
    }
    for trimmed in [false, true] {
        if let Ok(packet) = EbbHeader::parse(bytes, trimmed)
            && let Some(payload) = packet.payload
        {
            let mut again = Vec::new();
            packet.header.emit(payload, &mut again);
            assert_eq!(EbbHeader::parse(&again, trimmed), Ok(packet));
        }
    }
    if let Ok(segment) = TcpHeader::parse(bytes, SRC, DST) {
        let mut again = Vec::new();
        segment.header.emit(SRC, DST, segment.payload, &mut again);
        let mut expected = segment.clone();
        // SACK blocks that do not fit beside the other options are left out.
        if let Ok(found) = TcpHeader::parse(&again, SRC, DST) {
            let fit = found.header.options.sack_blocks.len();
            expected.header.options.sack_blocks.truncate(fit);
        }
        assert_eq!(TcpHeader::parse(&again, SRC, DST), Ok(expected));
    }
}

/// The head of a stream that arrives in pieces, whose length is the first byte plus 1.
pub fn stream_head(bytes: &[u8]) {
    let Some((&piece, stream)) = bytes.split_first() else {
        return;
    };
    let _ = StreamHead::read(stream);
    let read = |piece: usize| {
        let mut reader = EnvelopeReader::new();
        let mut content = Vec::new();
        for piece in stream.chunks(piece) {
            match reader.push(piece) {
                Ok(bytes) => content.extend_from_slice(bytes),
                Err(error) => return Err(error.to_string()),
            }
        }
        let header = reader.header().cloned();
        assert!(content.is_empty() || header.is_some());
        assert!(
            header
                .as_ref()
                .is_none_or(|header| content.len() as u64 <= header.content_bytes)
        );
        Ok((header, content, reader.finish().is_ok()))
    };
    let (whole, pieces) = (read(stream.len().max(1)), read(usize::from(piece) + 1));
    match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => assert!(whole == pieces, "pieces matter"),
        (Err(_), Err(_)) => {}
        (whole, pieces) => panic!(
            "{:?} in one piece, {:?} in several",
            whole.err(),
            pieces.err()
        ),
    }
}
