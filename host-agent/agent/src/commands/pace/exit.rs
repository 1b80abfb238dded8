//! Frames from inside that leave at once, in order; the pacer has the others.

use ebb_packet_io::{OutgoingFrame, ReceivedFrame, Segmentation};
use ebb_units::Instant;

use super::cut::{Malformed, cut};
use super::shaper::Shaper;

/// A frame on its way out.
enum Leaving {
    /// As it was received: the slot of the batch where it is.
    Slot(usize),
    /// A segment that was cut off a longer frame.
    Segment(Vec<u8>),
}

/// The way out of the frames from inside.
pub struct Exit {
    pub pacer: Box<dyn Shaper>,
    /// Frames that leave at once, in order.
    leaving: Vec<Leaving>,
    /// Buffers for segments, used again and again.
    pool: Vec<Vec<u8>>,
    /// The segments of one frame.
    segments: Vec<Vec<u8>>,
}

impl Exit {
    pub fn new(pacer: Box<dyn Shaper>) -> Self {
        Exit {
            pacer,
            leaving: Vec::new(),
            pool: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Takes a frame from inside, with its checksum, that is in a slot of the batch at hand. After an
    /// error the frame is dropped.
    pub fn handle(
        &mut self,
        now: Instant,
        slot: usize,
        frame: &ReceivedFrame<'_>,
    ) -> Result<(), Malformed> {
        match frame.offload.segmentation() {
            Segmentation::Other(_) if self.pacer.paces_all() => Err(Malformed),
            // A frame that is not TCP is cut by the kernel when it sends it.
            Segmentation::None | Segmentation::Other(_) => {
                if self.pacer.passes(now, frame.bytes) {
                    self.leaving.push(Leaving::Slot(slot));
                }
                Ok(())
            }
            Segmentation::TcpV4(_) | Segmentation::TcpV6(_) => {
                let Exit {
                    pacer,
                    leaving,
                    pool,
                    segments,
                } = self;
                cut(frame.bytes, &frame.offload, pool, |segment| {
                    segments.push(segment);
                })?;
                for segment in segments.drain(..) {
                    if pacer.passes(now, &segment) {
                        leaving.push(Leaving::Segment(segment));
                    } else {
                        pool.push(segment);
                    }
                }
                Ok(())
            }
        }
    }

    /// Frames that leave now, in order.
    pub fn leaving<'a>(
        &'a self,
        received: &'a impl Fn(usize) -> Option<OutgoingFrame<'a>>,
    ) -> impl Iterator<Item = OutgoingFrame<'a>> + Clone {
        self.leaving.iter().filter_map(move |frame| match frame {
            Leaving::Slot(slot) => received(*slot),
            Leaving::Segment(bytes) => Some(bytes.as_slice().into()),
        })
    }

    /// Forgets what was to be sent now, and keeps its buffers.
    pub fn clear(&mut self) {
        for frame in self.leaving.drain(..) {
            if let Leaving::Segment(bytes) = frame {
                self.pool.push(bytes);
            }
        }
    }
}
