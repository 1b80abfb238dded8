//! RaptorQ (RFC 6330), by the crate of the same name.

use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder,
    SourceBlockEncoder,
};

use super::erasure::{BlockShape, Code};

/// Sub-blocks are not used, so the alignment of RFC 6330 has no effect on the code.
const SYMBOL_ALIGNMENT: u8 = 1;

/// Symbols are numbered by their ESI.
#[derive(Debug)]
pub enum RaptorQ {}

#[derive(Debug)]
pub struct Encoder {
    source_symbols: u32,
    encoder: SourceBlockEncoder,
}

impl Code for RaptorQ {
    type Encoder = Encoder;

    const SYSTEMATIC: bool = true;

    fn encoder(shape: BlockShape, bytes: Vec<u8>) -> Encoder {
        Encoder {
            source_symbols: shape.source_symbols.into(),
            encoder: SourceBlockEncoder::new(0, &transmission_information(shape), &bytes),
        }
    }

    fn append(encoder: &Encoder, symbol: u32, payload: &mut Vec<u8>) -> bool {
        let number = symbol.checked_sub(encoder.source_symbols);
        let packet = number.and_then(|number| encoder.encoder.repair_packets(number, 1).pop());
        let Some(packet) = packet else {
            return false;
        };
        payload.extend_from_slice(packet.data());
        true
    }

    /// With K + 2 symbols it fails once in a million times (RFC 6330, section 1).
    fn decode<'a>(
        shape: BlockShape,
        symbols: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Option<Vec<u8>> {
        let packets =
            symbols.map(|(esi, data)| EncodingPacket::new(PayloadId::new(0, esi), data.to_vec()));
        let config = transmission_information(shape);
        SourceBlockDecoder::new(0, &config, shape.bytes() as u64).decode(packets)
    }
}

/// The description of a single block for the codec.
pub(super) fn transmission_information(shape: BlockShape) -> ObjectTransmissionInformation {
    let bytes = shape.bytes() as u64;
    ObjectTransmissionInformation::new(bytes, shape.symbol_bytes, 1, 1, SYMBOL_ALIGNMENT)
}
