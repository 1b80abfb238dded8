//! Frames that a switch of the fabric forwards.

use crate::fabric::vectors;

/// A full Ebb DATA packet, a PULL and a TCP segment with ECT(0).
pub fn frames() -> Result<Vec<Vec<u8>>, String> {
    let vectors = vectors()?;
    let frame = |wanted: &str| {
        vectors
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, frame)| frame.clone())
            .ok_or_else(|| format!("wire-vectors.json has no {wanted}"))
    };
    let mut tcp = frame("tcp-ce-ece")?;
    // CE becomes ECT(0), so the checksum's complement grows by one (RFC 1624).
    tcp[15] ^= 0b01;
    tcp[25] += 1;
    Ok(vec![frame("ndp-data-syn")?, frame("pull")?, tcp])
}
