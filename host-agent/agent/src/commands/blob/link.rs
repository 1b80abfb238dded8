//! Between the locator and those who ask it: a line of JSON each way, over TCP or a Unix socket.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use ebb_blob::{Ask, Call, Reply};
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

/// The locator of this network namespace.
pub const DEFAULT: &str = "127.0.0.1:7191";
/// Longest question: a commit of 4096 tracts on 15 replicas.
pub const MAX_QUESTION_BYTES: u64 = 2 << 20;
/// Longest answer: what is stored under a name, with all its holders.
const MAX_ANSWER_BYTES: u64 = 4 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    Tcp(SocketAddr),
    Path(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Address::Path(text.into()));
        }
        text.parse().map(Address::Tcp).map_err(|_| {
            format!(
                "`{text}` is no address of a locator; give IP:PORT, or a path with a slash in it"
            )
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Path(path) => path.display().fmt(f),
        }
    }
}

pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn connect(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Tcp(address) => Stream::Tcp(TcpStream::connect_timeout(address, PATIENCE)?),
            Address::Path(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        stream.set_timeout(PATIENCE)?;
        Ok(stream)
    }

    /// Another handle on the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    /// Ends the connection, also for a thread that waits in it.
    pub fn close(&self) {
        // Fails only if the other end has closed already.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// How long reading and writing may wait.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout);
        match self {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buffer),
            Stream::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// A socket in the file system is one that only its owner may use. One that was left by a locator
    /// that was killed is replaced.
    pub fn bind(address: &Address) -> anyhow::Result<Self> {
        let bound = match address {
            Address::Tcp(address) => TcpListener::bind(address).map(Listener::Tcp),
            Address::Path(path) => {
                if UnixStream::connect(path).is_ok() {
                    anyhow::bail!("a locator listens at {address} already");
                }
                let there = std::fs::symlink_metadata(path);
                if there.is_ok_and(|there| there.file_type().is_socket()) {
                    let _ = std::fs::remove_file(path);
                }
                let mask = rustix::process::umask(Mode::from_raw_mode(0o177));
                let bound = UnixListener::bind(path).map(Listener::Unix);
                rustix::process::umask(mask);
                bound
            }
        };
        bound.with_context(|| format!("cannot listen at {address}"))
    }

    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
            Listener::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }
}

/// Reads a line of JSON of bounded length. `None`: the other end has closed.
pub fn read<T: for<'de> Deserialize<'de>>(
    stream: &mut BufReader<Stream>,
    most_bytes: u64,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    stream
        .by_ref()
        .take(most_bytes)
        .read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(|error| {
        let why = match line.ends_with(b"\n") {
            true => error.to_string(),
            false => format!("a message has no end within {most_bytes} bytes"),
        };
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

pub fn write(stream: &mut Stream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// An answer, with the number of its question.
#[derive(Serialize, Deserialize)]
pub struct Answer {
    pub id: u64,
    #[serde(flatten)]
    pub reply: Reply,
}

/// The way to the locator, opened again whenever it fails.
pub struct Link {
    address: Address,
    stream: Option<BufReader<Stream>>,
}

impl Link {
    pub fn new(address: &Address) -> Self {
        Link {
            address: address.clone(),
            stream: None,
        }
    }

    /// Asks, and waits for the answer. `None`: none came; the machine that asks does so again.
    pub fn ask(&mut self, ask: Ask) -> Option<Reply> {
        let Ask { id, request } = ask;
        match self.exchange(&Call { id, request }) {
            Ok(reply) => Some(reply),
            Err(error) => {
                tracing::info!("the locator at {}: {error}", self.address);
                self.stream = None;
                None
            }
        }
    }

    fn exchange(&mut self, call: &Call) -> io::Result<Reply> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = BufReader::new(Stream::connect(&self.address)?);
                self.stream.insert(stream)
            }
        };
        write(stream.get_mut(), call)?;
        match read::<Answer>(stream, MAX_ANSWER_BYTES)? {
            Some(answer) if answer.id == call.id => Ok(answer.reply),
            Some(_) => Err(io::Error::other("it answers another question")),
            None => Err(io::Error::other("it has closed the connection")),
        }
    }
}
