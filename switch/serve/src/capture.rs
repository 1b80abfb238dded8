//! Writes what a port receives and sends to pcap files, `{stem}_in.pcap` and `{stem}_out.pcap`, the
//! directions as BMv2 names them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ebb_engine::{Direction, FrameSink, OpenSink};
use ebb_units::Instant;

/// Makes `{stem}_in.pcap` and `{stem}_out.pcap`; the stem may end in `.pcap`. Time stamps are `epoch_ns`, the time of
/// CLOCK_REALTIME at time 0 of the network, plus the network's time, in ns.
pub fn to_files(stem: PathBuf, epoch_ns: u64) -> OpenSink {
    Box::new(move || Ok(Box::new(Capture::create(&stem, epoch_ns)?)))
}

struct Capture {
    received: PcapFile,
    sent: PcapFile,
    epoch_ns: u64,
    dirty: bool,
}

impl Capture {
    fn create(stem: &Path, epoch_ns: u64) -> io::Result<Self> {
        let create = |direction: Direction| {
            let path = file_of(stem, direction);
            PcapFile::create(&path).map_err(|e| {
                let what = format!("cannot write the packet capture {}: {e}", path.display());
                io::Error::new(e.kind(), what)
            })
        };
        Ok(Self {
            received: create(Direction::In)?,
            sent: create(Direction::Out)?,
            epoch_ns,
            dirty: false,
        })
    }
}

impl FrameSink for Capture {
    fn record(&mut self, direction: Direction, at: Instant, frame: &[u8]) -> io::Result<()> {
        let file = match direction {
            Direction::In => &mut self.received,
            Direction::Out => &mut self.sent,
        };
        self.dirty = true;
        file.write(self.epoch_ns + at.as_nanos(), frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) {
            self.received.0.flush()?;
            self.sent.0.flush()?;
        }
        Ok(())
    }
}

/// A capture in the byte order of this machine, which readers tell from its first word
/// (draft-ietf-opsawg-pcap, sections 4 and 5).
struct PcapFile(BufWriter<File>);

impl PcapFile {
    /// First word of a file whose times are in ns.
    const MAGIC_NS: u32 = 0xa1b2_3c4d;
    const VERSION: [u16; 2] = [2, 4];
    /// Bytes of a frame that are written; the rest of a longer one is left out.
    const SNAP_BYTES: usize = 65_535;
    const LINKTYPE_ETHERNET: u32 = 1;

    fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::new(create_anew(path)?);
        file.write_all(&Self::MAGIC_NS.to_ne_bytes())?;
        file.write_all(&Self::VERSION.map(u16::to_ne_bytes).concat())?;
        let [reserved, snap] = [0, Self::SNAP_BYTES as u32];
        file.write_all(&words([reserved, reserved, snap, Self::LINKTYPE_ETHERNET]))?;
        Ok(Self(file))
    }

    /// `ns`: since 1970-01-01, UTC.
    fn write(&mut self, ns: u64, frame: &[u8]) -> io::Result<()> {
        let second = 1_000_000_000;
        let written = &frame[..frame.len().min(Self::SNAP_BYTES)];
        let [seconds, fraction] = [(ns / second) as u32, (ns % second) as u32];
        let [captured, original] = [written.len() as u32, frame.len() as u32];
        self.0
            .write_all(&words([seconds, fraction, captured, original]))?;
        self.0.write_all(written)
    }
}

fn words(words: [u32; 4]) -> Vec<u8> {
    words.map(u32::to_ne_bytes).concat()
}

/// Replaces the file of that name instead of opening it: somebody may have put a link there, to a file that only this
/// process may write.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    }

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
        // The capture continues.
        sink.flush().expect("room");
        for (direction, bytes, ns) in frames {
            let path = file_of(&stem, direction);
            let capture = fs::read(&path).expect("a capture");
            let (header, packet) = capture.split_at(24);
            // Little endian, ns, version 2.4, 65,535 bytes, Ethernet.
            assert_eq!(
                header,
                b"\x4d\x3c\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0"
            );
            let record: [_; 4] = std::array::from_fn(|word| u32_at(packet, 4 * word));
            let length = bytes as u32;
            assert_eq!(record, [7, ns as u32, length, length], "{direction:?}");
            assert_eq!(&packet[16..], vec![1; bytes], "{direction:?}");
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_cut() {
        let folder = ebb_testkit::Folder::new("capture-cut");
        let path = folder.join("cut.pcap");
        let mut file = PcapFile::create(&path).expect("a file");
        file.write(0, &[1; 70_000]).expect("room");
        file.0.flush().expect("room");
        let capture = fs::read(&path).expect("a capture");
        assert_eq!(u32_at(&capture, 24 + 8), 65_535);
        assert_eq!(u32_at(&capture, 24 + 12), 70_000);
        assert_eq!(capture.len(), 24 + 16 + 65_535);
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
