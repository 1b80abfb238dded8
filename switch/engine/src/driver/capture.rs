//! Writes what a port receives and sends to pcap files, `{interface}_in.pcap` and
//! `{interface}_out.pcap` as BMv2 names them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pcap_file::TsResolution;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};

use super::DriverError;

pub(crate) struct Capture {
    received: PcapWriter<SharedFile>,
    sent: PcapWriter<SharedFile>,
    /// The files under the writers, which have no way to flush them.
    files: Vec<SharedFile>,
    dirty: bool,
}

#[derive(Clone)]
struct SharedFile(Arc<Mutex<BufWriter<File>>>);

impl SharedFile {
    fn with<R>(&self, f: impl FnOnce(&mut BufWriter<File>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for SharedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(|file| file.flush())
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Direction {
    In,
    Out,
}

impl Capture {
    pub(crate) fn create(directory: &Path, interface: &str) -> Result<Self, DriverError> {
        let mut files = Vec::new();
        let mut create = |direction: &str| {
            let path = directory.join(format!("{interface}_{direction}.pcap"));
            let header = PcapHeader {
                ts_resolution: TsResolution::NanoSecond,
                ..PcapHeader::default()
            };
            let fail = |reason: String| DriverError::Capture {
                path: path.clone(),
                reason,
            };
            let file = File::create(&path).map_err(|e| fail(e.to_string()))?;
            let file = SharedFile(Arc::new(Mutex::new(BufWriter::new(file))));
            files.push(file.clone());
            PcapWriter::with_header(file, header).map_err(|e| fail(e.to_string()))
        };
        Ok(Self {
            received: create("in")?,
            sent: create("out")?,
            files,
            dirty: false,
        })
    }

    pub(crate) fn record(
        &mut self,
        direction: Direction,
        realtime_ns: u64,
        frame: &[u8],
    ) -> Result<(), pcap_file::PcapError> {
        let writer = match direction {
            Direction::In => &mut self.received,
            Direction::Out => &mut self.sent,
        };
        self.dirty = true;
        let time = Duration::from_nanos(realtime_ns);
        let packet = PcapPacket::new(time, frame.len() as u32, frame);
        writer.write_packet(&packet).map(|_| ())
    }

    /// Brings the files up to date, for a reader that looks while the switch runs.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) {
            for file in &mut self.files {
                file.flush()?;
            }
        }
        Ok(())
    }
}
