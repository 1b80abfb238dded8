//! Where the frames go that a switch port receives and sends, if somebody wants to see them.

use std::io;

use ebb_units::Instant;

/// As the switch sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

/// Takes the frames of one port. The first error ends the capture; the switch goes on.
pub trait FrameSink: Send {
    /// The last bit of a frame arrived, or left, at a time.
    fn record(&mut self, direction: Direction, at: Instant, frame: &[u8]) -> io::Result<()>;

    /// Nothing happens for a while, or any more: who looks now should see all that was recorded.
    fn flush(&mut self) -> io::Result<()>;
}

/// Makes a sink. Called once it is known that there is such a port; its error says what and where.
pub type OpenSink = Box<dyn FnOnce() -> io::Result<Box<dyn FrameSink>> + Send>;
