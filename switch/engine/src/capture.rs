//! Packet captures: sinks for the frames that a switch port receives and sends.

use std::io;

use ebb_units::Instant;

/// The direction of a captured frame, as the switch sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The switch received the frame.
    In,
    /// The switch sent the frame.
    Out,
}

/// Takes the captured frames of one port. Its first error ends the capture; the switch continues.
pub trait FrameSink: Send {
    /// Records a frame whose last bit arrived at the switch, or left it, at this time.
    fn record(&mut self, direction: Direction, at: Instant, frame: &[u8]) -> io::Result<()>;

    /// Makes what was recorded visible to readers. Called when nothing happens for a while, and at
    /// the end.
    fn flush(&mut self) -> io::Result<()>;
}

/// Opens a sink. It is called once the port is known to exist; its error says what failed and
/// where.
pub type OpenSink = Box<dyn FnOnce() -> io::Result<Box<dyn FrameSink>> + Send>;
