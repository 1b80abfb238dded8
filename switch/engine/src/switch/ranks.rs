//! Fields of packets with the rank and the flow, by which ranked queues choose the next packet.

use ebb_pipeline::{Packet, PacketField, Pipeline};
use ebb_traffic_manager::{ConfigError, TrafficManagerConfig};

/// Widest field that is a rank or a flow.
const FIELD_BITS: u32 = u32::BITS;

/// The fields that the configuration names, in the packets of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranks {
    rank: PacketField,
    flow: PacketField,
}

impl Ranks {
    /// Finds the fields in a program; `None` if the configuration names none. The error says which
    /// field does not do and why.
    pub(super) fn new(
        config: &TrafficManagerConfig,
        pipeline: &Pipeline,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(fields) = &config.rank else {
            return Ok(None);
        };
        let find = |key: &str, name: &str| {
            let fail = |problem| ConfigError::new(format!("[rank] {key} = \"{name}\""), problem);
            match pipeline.packet_field(name) {
                Ok((field, bits)) if bits <= FIELD_BITS => Ok(field),
                Ok((_, bits)) => Err(fail(format!(
                    "it has {bits} bits; a field of at most {FIELD_BITS} bits will do"
                ))),
                Err(_) => Err(fail(
                    "the program has no such field; give one of its metadata (\"rank\") or of a \
                     header (\"ipv4.identification\")"
                        .into(),
                )),
            }
        };
        Ok(Some(Self {
            rank: find("field", &fields.field)?,
            flow: find("flow", &fields.flow)?,
        }))
    }

    /// Rank and flow of a packet.
    pub(super) fn of(self, pipeline: &Pipeline, packet: &Packet) -> (u32, u32) {
        let value = |field| pipeline.field_value(packet, field) as u32;
        (value(self.rank), value(self.flow))
    }
}
