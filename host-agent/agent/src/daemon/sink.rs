//! Where the content of one object goes: checked, then written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use anyhow::Context;
use ebb_transport::object::EnvelopeReader;
use rustix::io::{Errno, ReadWriteFlags};

use crate::machine::files::{Existing, Temporary, check_file_name, check_free, is_stream};

/// Destination of the content.
pub enum Target {
    /// Nowhere: only its hash is of interest.
    Discard,
    /// A file of its name in a directory.
    Directory(Directory),
    /// A file, pipe or socket of the application.
    Descriptor(OwnedFd),
}

/// A directory that gets a file.
pub struct Directory {
    pub dir: Arc<OwnedFd>,
    /// Keeps the temporary names of concurrent flows apart.
    pub unique: String,
    pub existing: Existing,
}

/// Where content is written.
enum Output {
    /// It waits for a decision.
    Undecided,
    Discard,
    /// The name of the file has not come.
    Directory(Directory),
    Temporary(Temporary, Existing),
    File(File),
    /// A pipe or a socket; writes to it never wait.
    Stream(OwnedFd),
}

/// An object that is being received. Unless it is finished, no file stays.
pub struct Sink {
    output: Output,
    /// Checks the stream. `None`: the stream has ended.
    reader: Option<EnvelopeReader>,
    /// The name of the object; empty until its envelope has arrived.
    name: String,
    /// Buffers that are checked and not written, each with where its content begins that is still to be
    /// written.
    queue: VecDeque<(Vec<u8>, usize)>,
    ended: bool,
}

fn output(target: Target) -> Output {
    match target {
        Target::Discard => Output::Discard,
        Target::Directory(directory) => Output::Directory(directory),
        Target::Descriptor(descriptor) if is_stream(&descriptor) => Output::Stream(descriptor),
        Target::Descriptor(descriptor) => Output::File(File::from(descriptor)),
    }
}

/// How far [`Sink::write`] got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Everything that has arrived is written.
    Idle,
    /// The other end of the stream does not take more for the moment.
    Blocked,
    /// The decision about the content is missing.
    Undecided,
}

impl Sink {
    /// Without a target the content waits for [`decide`](Self::decide).
    pub fn new(target: Option<Target>) -> Self {
        Sink {
            output: target.map_or(Output::Undecided, output),
            reader: Some(EnvelopeReader::new()),
            name: String::new(),
            queue: VecDeque::new(),
            ended: false,
        }
    }

    pub fn decide(&mut self, target: Target) {
        self.output = output(target);
    }

    /// The next bytes of the stream.
    pub fn push(&mut self, bytes: Vec<u8>) -> anyhow::Result<()> {
        let reader = self.reader.as_mut().context("the stream has ended")?;
        let content = reader.push(&bytes)?.len();
        if self.name.is_empty()
            && let Some(header) = reader.header()
        {
            self.name.clone_from(&header.name);
        }
        let from = bytes.len() - content;
        self.queue.push_back((bytes, from));
        Ok(())
    }

    /// The stream has ended: whether the content is what its envelope says.
    pub fn end(&mut self) -> anyhow::Result<()> {
        self.ended = true;
        let reader = self.reader.take().context("the stream has ended")?;
        reader.finish()?;
        Ok(())
    }

    /// Writes what it can; `written` takes every buffer that is done with.
    pub fn write(&mut self, written: &mut impl FnMut(Vec<u8>)) -> anyhow::Result<Progress> {
        if matches!(self.output, Output::Undecided) {
            return Ok(Progress::Undecided);
        }
        self.open_temporary()?;
        while let Some((buffer, from)) = self.queue.front_mut() {
            let rest = &buffer[*from..];
            match &mut self.output {
                Output::Undecided | Output::Directory(_) | Output::Discard => {}
                Output::Temporary(temporary, _) => temporary.file().write_all(rest)?,
                Output::File(file) => file.write_all(rest)?,
                Output::Stream(stream) => {
                    while *from < buffer.len() {
                        match write_now(stream, &buffer[*from..]) {
                            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                            Ok(n) => *from += n,
                            Err(Errno::AGAIN) => return Ok(Progress::Blocked),
                            Err(Errno::INTR) => {}
                            Err(e) => return Err(io::Error::from(e).into()),
                        }
                    }
                }
            }
            if let Some((buffer, _)) = self.queue.pop_front() {
                written(buffer);
            }
        }
        Ok(Progress::Idle)
    }

    /// The temporary file is made when the name is known.
    fn open_temporary(&mut self) -> anyhow::Result<()> {
        if let Output::Directory(Directory {
            dir,
            unique,
            existing,
        }) = &self.output
            && !self.name.is_empty()
        {
            check_file_name(&self.name)?;
            if *existing == Existing::Keep {
                check_free(dir, &self.name)?;
            }
            let temporary = Temporary::create(dir.clone(), unique)?;
            self.output = Output::Temporary(temporary, *existing);
        }
        Ok(())
    }

    /// Everything has been received, checked and written.
    pub fn is_complete(&self) -> bool {
        self.ended && self.queue.is_empty() && !matches!(self.output, Output::Undecided)
    }

    /// Gives the file its name.
    pub fn keep(self) -> anyhow::Result<()> {
        match self.output {
            Output::Temporary(temporary, existing) => temporary.keep(&self.name, existing),
            _ => Ok(()),
        }
    }

    /// The stream that has to take more before writing continues.
    pub fn stream(&self) -> Option<BorrowedFd<'_>> {
        match &self.output {
            Output::Stream(stream) => Some(stream.as_fd()),
            _ => None,
        }
    }

    /// Takes the buffers of what will never be written.
    pub fn into_buffers(self) -> impl Iterator<Item = Vec<u8>> {
        self.queue.into_iter().map(|(buffer, _)| buffer)
    }
}

/// Writes what the other end takes without waiting. By a flag of the call, because O_NONBLOCK would
/// hold for everybody who has this pipe: a shell and its next command, for example.
fn write_now(stream: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    const CURRENT_POSITION: u64 = u64::MAX;
    let parts = [IoSlice::new(bytes)];
    match rustix::io::pwritev2(stream, &parts, CURRENT_POSITION, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP) => {
            rustix::io::ioctl_fionbio(stream, true)?;
            rustix::io::write(stream, bytes)
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_transport::object::{Envelope, GeneratedSource, ObjectSource};
    use std::io::Read;

    fn stream(bytes: u64) -> Vec<u8> {
        let content = Arc::new(GeneratedSource { seed: 1, bytes });
        let envelope = Envelope::new("a.bin", content).unwrap();
        let mut stream = vec![0; envelope.len() as usize];
        envelope.read_at(0, &mut stream).unwrap();
        stream
    }

    /// Pushes a stream in packets; writes after each.
    fn fill(sink: &mut Sink, stream: &[u8]) -> anyhow::Result<(Progress, usize)> {
        let mut returned = 0;
        let mut progress = Progress::Idle;
        for packet in stream.chunks(1432) {
            sink.push(packet.to_vec())?;
            progress = sink.write(&mut |_| returned += 1)?;
        }
        Ok((progress, returned))
    }

    #[test]
    fn a_full_pipe_blocks_until_somebody_reads() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut sink = Sink::new(Some(Target::Descriptor(writer.into())));
        let stream = stream(200_000);
        let (progress, returned) = fill(&mut sink, &stream).unwrap();
        assert_eq!(progress, Progress::Blocked);
        // A pipe holds 16 pages, with one or two packets in each.
        assert!((30..60).contains(&returned), "{returned}");
        sink.end().unwrap();
        assert!(!sink.is_complete());
        let mut content = Vec::new();
        while !sink.is_complete() {
            let mut part = [0; 10_000];
            let n = reader.read(&mut part).unwrap();
            content.extend_from_slice(&part[..n]);
            sink.write(&mut |_| ()).unwrap();
        }
        sink.keep().unwrap();
        reader.read_to_end(&mut content).unwrap();
        assert!(content == stream[stream.len() - 200_000..]);
    }

    #[test]
    fn a_reader_that_has_gone_is_an_error() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut sink = Sink::new(Some(Target::Descriptor(writer.into())));
        let error = fill(&mut sink, &stream(10)).unwrap_err();
        assert!(error.to_string().contains("Broken pipe"), "{error}");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut sink = Sink::new(Some(Target::Descriptor(full.into())));
        let error = fill(&mut sink, &stream(10)).unwrap_err();
        assert!(error.to_string().contains("No space left"), "{error}");
    }

    #[test]
    fn content_waits_for_the_decision() {
        let mut sink = Sink::new(None);
        let (progress, returned) = fill(&mut sink, &stream(5000)).unwrap();
        assert_eq!((progress, returned), (Progress::Undecided, 0));
        sink.end().unwrap();
        assert!(!sink.is_complete());
        sink.decide(Target::Discard);
        let mut returned = 0;
        let progress = sink.write(&mut |_| returned += 1).unwrap();
        assert_eq!((progress, returned), (Progress::Idle, 4));
        assert!(sink.is_complete());
    }

    #[test]
    fn what_is_not_what_was_announced_is_an_error() {
        let mut stream = stream(5000);
        *stream.last_mut().unwrap() ^= 1;
        let mut sink = Sink::new(Some(Target::Discard));
        fill(&mut sink, &stream).unwrap();
        let error = sink.end().unwrap_err();
        assert!(error.to_string().contains("SHA-256"), "{error}");
        let mut sink = Sink::new(Some(Target::Discard));
        assert!(fill(&mut sink, &[&stream[..], b"x"].concat()).is_err());
    }
}
