//! Writes what a port receives and sends to pcap files, `{stem}_in.pcap` and `{stem}_out.pcap`, the
//! directions as BMv2 names them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebb_engine::{Direction, FrameSink, OpenSink};
use ebb_units::Instant;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{PcapError, TsResolution};

/// Makes `{stem}_in.pcap` and `{stem}_out.pcap`, where the stem may end in `.pcap`, for frames that are stamped
/// with `epoch_ns` and the time of the network: what CLOCK_REALTIME showed when that was zero, in ns.
pub fn to_files(stem: PathBuf, epoch_ns: u64) -> OpenSink {
    Box::new(move || Ok(Box::new(Capture::create(&stem, epoch_ns)?)))
}

struct Capture {
    received: PcapWriter<SharedFile>,
    sent: PcapWriter<SharedFile>,
    /// The files of both writers, which have no way to flush them.
    files: Vec<SharedFile>,
    epoch_ns: u64,
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

impl Capture {
    fn create(stem: &Path, epoch_ns: u64) -> io::Result<Self> {
        let mut files = Vec::new();
        let mut create = |direction: Direction| {
            let path = file_of(stem, direction);
            let header = PcapHeader {
                ts_resolution: TsResolution::NanoSecond,
                ..PcapHeader::default()
            };
            let fail = |e: io::Error| {
                let what = format!("cannot write the packet capture {}: {e}", path.display());
                io::Error::new(e.kind(), what)
            };
            let file = create_anew(&path).map_err(fail)?;
            let file = SharedFile(Arc::new(Mutex::new(BufWriter::new(file))));
            files.push(file.clone());
            PcapWriter::with_header(file, header).map_err(|e| fail(plain(e)))
        };
        Ok(Self {
            received: create(Direction::In)?,
            sent: create(Direction::Out)?,
            files,
            epoch_ns,
            dirty: false,
        })
    }
}

impl FrameSink for Capture {
    fn record(&mut self, direction: Direction, at: Instant, frame: &[u8]) -> io::Result<()> {
        let writer = match direction {
            Direction::In => &mut self.received,
            Direction::Out => &mut self.sent,
        };
        self.dirty = true;
        let time = Duration::from_nanos(self.epoch_ns + at.as_nanos());
        let packet = PcapPacket::new(time, frame.len() as u32, frame);
        writer.write_packet(&packet).map(|_| ()).map_err(plain)
    }

    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) {
            for file in &mut self.files {
                file.flush()?;
            }
        }
        Ok(())
    }
}

/// Makes a file in place of the one of that name: others may have put a link there, to a file that this process may
/// write and they may not.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}

/// The file of one direction. `s1-eth1` and `s1-eth1.pcap` are both the stem of `s1-eth1_in.pcap`.
fn file_of(stem: &Path, direction: Direction) -> PathBuf {
    let stem = match stem.extension() {
        Some(extension) if extension == "pcap" => stem.with_extension(""),
        _ => stem.to_owned(),
    };
    let mut path = OsString::from(stem);
    path.push(match direction {
        Direction::In => "_in.pcap",
        Direction::Out => "_out.pcap",
    });
    path.into()
}

fn plain(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcap::PcapReader;

    use super::*;

    #[test]
    fn the_files_have_both_directions_of_a_port_with_their_times() {
        let folder = ebb_testkit::Folder::new("capture");
        let stem = folder.join("stem");
        let second = 1_000_000_000;
        let mut sink = to_files(stem.clone(), 7 * second)().expect("files");
        let frames = [
            (Direction::Out, 1500, 22_001),
            (Direction::In, 100, 520_800),
        ];
        for (direction, bytes, ns) in frames {
            sink.record(direction, Instant::from_nanos(ns), &vec![1; bytes])
                .expect("room");
        }
        // The capture goes on.
        sink.flush().expect("room");
        for (direction, bytes, ns) in frames {
            let path = file_of(&stem, direction);
            let file = File::open(&path).expect("a capture");
            let mut reader = PcapReader::new(file).expect("a pcap file");
            let packet = reader.next_packet().expect("a packet").expect("whole");
            assert_eq!(packet.data.len(), bytes, "{direction:?}");
            let since_epoch = packet.timestamp.as_nanos();
            assert_eq!(since_epoch, u128::from(7 * second + ns), "{direction:?}");
            assert!(reader.next_packet().is_none());
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = to_files("/nonexistent/x".into(), 0)()
            .err()
            .expect("no such directory");
        let message = error.to_string();
        assert!(message.contains("/nonexistent/x_in.pcap"), "{message}");
    }
}
