//! LT codes (Luby, FOCS 2002): every symbol is the XOR of some source symbols, its neighbours. Its
//! number determines them, so that any symbols of any senders can be mixed.

mod elimination;
mod graph;
mod peeling;
mod soliton;
#[cfg(test)]
mod tests;

use super::erasure::{BlockShape, Code};
use elimination::xor;
use graph::Graph;

/// LT symbols of a robust soliton distribution. The number of a symbol has that of its sender in the
/// bits from [`SENDER_SHIFT`] on, so that senders make different symbols without coordination.
#[derive(Debug)]
pub enum Lt {}

/// Bits of a symbol's number that count the symbols of a sender; those above are the sender's number.
pub const SENDER_SHIFT: u32 = 24;

#[derive(Debug)]
pub struct Encoder {
    graph: Graph,
    symbol_bytes: usize,
    bytes: Vec<u8>,
}

impl Code for Lt {
    type Encoder = Encoder;

    const SYSTEMATIC: bool = false;

    fn encoder(shape: BlockShape, bytes: Vec<u8>) -> Encoder {
        Encoder {
            graph: Graph::new(shape),
            symbol_bytes: shape.symbol_bytes.into(),
            bytes,
        }
    }

    fn append(encoder: &Encoder, symbol: u32, payload: &mut Vec<u8>) -> bool {
        let start = payload.len();
        payload.resize(start + encoder.symbol_bytes, 0);
        let Encoder {
            graph,
            symbol_bytes,
            bytes,
        } = encoder;
        graph.neighbours(symbol, |source| {
            let at = usize::from(source) * symbol_bytes;
            xor(&mut payload[start..], &bytes[at..at + symbol_bytes]);
        });
        true
    }

    /// Decodes by peeling. Where that gets stuck, a source symbol is inactivated and peeling continues
    /// (as in RFC 6330, section 5.4.2); the inactive symbols are solved by elimination.
    fn decode<'a>(
        shape: BlockShape,
        symbols: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Option<Vec<u8>> {
        let symbols = symbols.filter(|(_, bytes)| bytes.len() == usize::from(shape.symbol_bytes));
        let (numbers, payloads): (Vec<u32>, Vec<&[u8]>) = symbols.unzip();
        let rows = Graph::new(shape).rows(&numbers);
        let plan = peeling::plan(&rows, shape.source_symbols.into());
        elimination::solve(&rows, &plan, &payloads, shape)
    }
}
