//! The connectors of the front panel: the port of the chip for each of their lanes (`$PORT_HDL_INFO`).
//!
//! Boards differ in this mapping. Here connectors are numbered in the order of their ports: in each pipe 16 of four
//! lanes, on Tofino 2 eight of eight lanes.

use super::rows::{Spec, answered, keys, row};
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::Value;

const CONNECTORS: u32 = 0xff01_0003;

/// The table.
pub const TABLE: Spec = Spec {
    name: "$PORT_HDL_INFO",
    id: CONNECTORS,
    kind: "PortHdlInfo",
    size: 256,
    key: &[
        (1, "$CONN_ID", "uint32", false),
        (2, "$CHNL_ID", "uint32", false),
    ],
    data: &[(1, "$DEV_PORT", "uint32", false)],
    actions: &[],
};

/// Pipes of a chip.
const PIPES: u64 = 4;

/// Numbering of the ports of a generation of the chip.
struct Numbering {
    /// Connectors of a pipe.
    of_pipe: u64,
    /// Lanes of a connector.
    lanes: u64,
    /// First port of a pipe that belongs to a connector.
    first: u64,
}

const NUMBERINGS: [Numbering; 2] = [
    Numbering {
        of_pipe: 16,
        lanes: 4,
        first: 0,
    },
    Numbering {
        of_pipe: 8,
        lanes: 8,
        first: 8,
    },
];

impl Numbering {
    /// The port of a lane of a connector; connectors are counted from 1, lanes from 0.
    fn port(&self, connector: u64, lane: u64) -> Option<u32> {
        let all = 1..=PIPES * self.of_pipe;
        if !all.contains(&connector) || lane >= self.lanes {
            return None;
        }
        let (pipe, inside) = (
            (connector - 1) / self.of_pipe,
            (connector - 1) % self.of_pipe,
        );
        u32::try_from(pipe << 7 | (self.first + inside * self.lanes + lane)).ok()
    }
}

/// Whether a table is this one.
pub fn has(table: u32) -> bool {
    table == CONNECTORS
}

/// The lanes that a request selects, with their ports.
pub fn read(entry: &bf::TableEntry, is_second: bool) -> Result<Vec<bf::TableEntry>> {
    let numbering = &NUMBERINGS[usize::from(is_second)];
    let made = |connector, lane| {
        let port = numbering.port(connector, lane)?;
        let row = row([(1, Value::Stream(port.to_be_bytes().into()))]);
        Some(answered(&TABLE, &[connector, lane], 0, &row))
    };
    let Some(key) = keys(&TABLE, entry)? else {
        let connectors = 1..=PIPES * numbering.of_pipe;
        let lanes = connectors.flat_map(|of| (0..numbering.lanes).map(move |lane| (of, lane)));
        return Ok(lanes.filter_map(|(of, lane)| made(of, lane)).collect());
    };
    let found = made(key[0], key[1]).map(|row| vec![row]);
    found.ok_or_else(|| {
        EntityError::not_found(format!("connector {} has no lane {}", key[0], key[1]))
    })
}

/// The error that answers every update.
pub fn refuse() -> Result<()> {
    let what = "which port a lane is belongs to the board, and is only read";
    Err(EntityError::invalid(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connectors_follow_the_ports_of_their_pipes() {
        let [first, second] = &NUMBERINGS;
        assert_eq!(first.port(1, 0), Some(0));
        assert_eq!(first.port(16, 3), Some(63));
        assert_eq!(first.port(17, 0), Some(128));
        assert_eq!(first.port(64, 3), Some(384 + 63));
        assert_eq!(first.port(0, 0), None);
        assert_eq!(first.port(65, 0), None);
        assert_eq!(first.port(1, 4), None);
        assert_eq!(second.port(1, 0), Some(8));
        assert_eq!(second.port(9, 7), Some(128 + 15));
    }
}
