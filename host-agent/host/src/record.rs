//! Record of a flow that has ended: `docs/agent-records.md`.

use ebb_transport::FlowRecord;
use ebb_transport::object::EnvelopeHeader;
use serde::Serialize;

/// Fields of a flow record in the order of `docs/agent-records.md`, as both clocks write them.
#[derive(Serialize)]
pub struct FlowFields<'a> {
    /// `null` if the flow failed before the receiver knew.
    name: Option<&'a str>,
    /// Bytes of the content; `null` as above.
    object_bytes: Option<u64>,
    /// Receiver: whether the content has the announced hash; `null` if not all arrived.
    sha256_ok: Option<bool>,
    #[serde(flatten)]
    record: &'a FlowRecord,
}

impl<'a> FlowFields<'a> {
    /// Fields of a flow that has ended.
    pub fn new(
        header: Option<&'a EnvelopeHeader>,
        sha256_ok: Option<bool>,
        record: &'a FlowRecord,
    ) -> Self {
        FlowFields {
            name: header.map(|header| &*header.name),
            object_bytes: header.map(|header| header.content_bytes),
            sha256_ok,
            record,
        }
    }
}
