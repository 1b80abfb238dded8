//! Controller headers: the metadata of packet-in and packet-out messages, packed as the P4 header
//! that the frame has on the CPU port (spec, "Packet I/O").

use crate::bytes;
use crate::error::{EntityError, Result};
use crate::p4info::choices;
use crate::proto::config::ControllerPacketMetadata;
use crate::proto::p4::{PacketIn, PacketMetadata, PacketOut};
use crate::translation::Names;

/// The frame that goes to the CPU port: the `packet_out` header, then the payload.
pub fn packet_out_frame(
    header: Option<&ControllerPacketMetadata>,
    packet: &PacketOut,
    names: &mut Names,
) -> Result<Vec<u8>> {
    let fields = header.map_or(&[][..], |h| &h.metadata);
    let known = || choices(fields.iter().map(|f| (f.name.as_str(), f.id)));
    for given in &packet.metadata {
        if !fields.iter().any(|f| f.id == given.metadata_id) {
            return Err(EntityError::invalid(format!(
                "packet-out: no metadata has id {}; the header packet_out has: {}",
                given.metadata_id,
                known()
            )));
        }
    }
    let mut bits = Bits::default();
    for field in fields {
        let width = field.bitwidth.max(0) as usize;
        let place = format!("packet-out: metadata '{}' ({width} bits)", field.name);
        let mut values = packet.metadata.iter().filter(|m| m.metadata_id == field.id);
        let value = match (values.next(), values.next()) {
            (Some(m), None) => names.decode(field.type_name.as_ref(), width, &m.value),
            (None, _) => Err(EntityError::invalid("missing")),
            (Some(_), Some(_)) => Err(EntityError::invalid("given twice")),
        };
        bits.push(&value.map_err(|e| e.at(place))?, width);
    }
    let mut frame = bits.bytes;
    frame.extend_from_slice(&packet.payload);
    Ok(frame)
}

/// Splits a frame from the CPU port. `None`: it is shorter than the header.
pub fn packet_in(
    header: Option<&ControllerPacketMetadata>,
    frame: &[u8],
    names: &Names,
) -> Option<PacketIn> {
    let fields = header.map_or(&[][..], |h| &h.metadata);
    let width = |bitwidth: i32| bitwidth.max(0) as usize;
    let total: usize = fields.iter().map(|f| width(f.bitwidth)).sum();
    let (header, payload) = frame.split_at_checked(total.div_ceil(8))?;
    let mut at = 0;
    let metadata = fields.iter().map(|field| {
        let value = extract(header, at, width(field.bitwidth));
        at += width(field.bitwidth);
        PacketMetadata {
            metadata_id: field.id,
            value: names.encode(field.type_name.as_ref(), &value),
        }
    });
    Some(PacketIn {
        metadata: metadata.collect(),
        payload: payload.to_vec(),
    })
}

/// A header that is made of fields one after the other, most significant bit first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    fn push(&mut self, value: &[u8], width: usize) {
        let value = bytes::padded(value, width);
        for i in (0..width).rev() {
            let bit = value[value.len() - 1 - i / 8] >> (i % 8) & 1;
            if self.len.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= bit << (7 - self.len % 8);
            }
            self.len += 1;
        }
    }
}

/// `width` bits from bit `at` on, canonical.
fn extract(header: &[u8], at: usize, width: usize) -> Vec<u8> {
    let mut value = vec![0; width.div_ceil(8).max(1)];
    let last = value.len() - 1;
    for i in 0..width {
        let from = at + width - 1 - i;
        let bit = header[from / 8] >> (7 - from % 8) & 1;
        value[last - i / 8] |= bit << (i % 8);
    }
    bytes::strip(&value).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::config::controller_packet_metadata::Metadata;
    use tonic::Code;

    fn header(widths: &[i32]) -> ControllerPacketMetadata {
        let field = |(i, width): (usize, &i32)| Metadata {
            id: i as u32 + 1,
            name: format!("f{}", i + 1),
            bitwidth: *width,
            ..Default::default()
        };
        ControllerPacketMetadata {
            metadata: widths.iter().enumerate().map(field).collect(),
            ..Default::default()
        }
    }

    fn out(values: &[(u32, &[u8])]) -> PacketOut {
        let metadata = |(id, value): &(u32, &[u8])| PacketMetadata {
            metadata_id: *id,
            value: value.to_vec(),
        };
        PacketOut {
            payload: vec![0xaa],
            metadata: values.iter().map(metadata).collect(),
        }
    }

    #[test]
    fn fields_are_packed_in_header_order_whatever_order_they_come_in() {
        // 9 bits of port 3, 7 bits of padding 0x55.
        let packet = out(&[(2, &[0x55]), (1, &[3])]);
        let frame =
            packet_out_frame(Some(&header(&[9, 7])), &packet, &mut Names::default()).unwrap();
        assert_eq!(frame, [0b0000_0001, 0b1101_0101, 0xaa]);
    }

    #[test]
    fn a_packet_in_gives_the_fields_back() {
        let header = header(&[9, 7]);
        let packet = packet_in(
            Some(&header),
            &[0b0000_0001, 0b1101_0101, 0xaa],
            &Names::default(),
        )
        .unwrap();
        assert_eq!(packet.payload, [0xaa]);
        let values: Vec<_> = packet.metadata.iter().map(|m| m.value.clone()).collect();
        assert_eq!(values, [vec![3], vec![0x55]]);
        assert!(packet_in(Some(&header), &[1], &Names::default()).is_none());
        assert_eq!(
            packet_in(None, &[1, 2], &Names::default()).unwrap().payload,
            [1, 2]
        );
    }

    #[test]
    fn wrong_metadata_is_named() {
        let header = header(&[9, 7]);
        let error =
            |packet| packet_out_frame(Some(&header), &packet, &mut Names::default()).unwrap_err();
        assert_eq!(
            error(out(&[(1, &[3])])).message,
            "packet-out: metadata 'f2' (7 bits): missing"
        );
        let wide = error(out(&[(1, &[3]), (2, &[0x80])]));
        assert_eq!(wide.code, Code::OutOfRange);
        assert_eq!(
            error(out(&[(9, &[3])])).message,
            "packet-out: no metadata has id 9; the header packet_out has: 'f1' (1), 'f2' (2)"
        );
    }
}
