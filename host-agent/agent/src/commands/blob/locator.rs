//! `ebb-agent blob locator`: the locator as a process. One thread for each connection; a question is
//! handled, and its changes are on the disk, before the next one has its turn.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;
use ebb_blob::{Call, Config, Locator, Reply};
use ebb_printable::printable;
use serde_json::json;

use super::database::Database;
use super::link::{self, Address, Answer, Listener, MAX_QUESTION_BYTES, Stream};
use crate::commands::output::Output;
use crate::machine::clock;
use crate::machine::lock::lock;
use crate::machine::signals::Signals;
use crate::machine::waker::Waker;
use crate::machine::warning_limit::WarningLimit;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;
/// Who says nothing for so long is disconnected.
const IDLE: Duration = Duration::from_secs(60);
/// How often the locator looks for servers that are silent.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub struct LocatorArgs {
    /// File of the table and of the names; made if it is not there
    #[arg(long, value_name = "FILE")]
    pub database: PathBuf,
    /// Addresses of all hosts that store tracts
    #[arg(long, value_name = "IP", num_args = 1.., required = true)]
    pub server: Vec<Ipv4Addr>,
    /// Replicas of a tract; by default 3, or as many as there are servers
    #[arg(long)]
    pub copies: Option<usize>,
    /// Replicas that hold a tract before a put succeeds; by default more than half of the copies
    #[arg(long)]
    pub least: Option<usize>,
    /// Rows of a new table
    #[arg(long, default_value_t = 64)]
    pub rows: usize,
    /// Seconds after which a silent server leaves its rows
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub dead_after: u64,
    /// Where to listen: IP:PORT, or the path of a socket
    #[arg(long, value_name = "ADDRESS", default_value = link::DEFAULT)]
    pub listen: Address,
    /// One JSON object per line, also on a terminal
    #[arg(long)]
    pub json: bool,
}

/// State of the locator and its database, shared by the threads.
struct Shared {
    locator: Locator,
    database: Database,
}

impl LocatorArgs {
    fn config(&self) -> Config {
        let mut config = Config::new(self.server.clone());
        config.copies = self.copies.unwrap_or(config.copies);
        config.least = self.least.unwrap_or(config.copies / 2 + 1);
        config.rows = self.rows;
        config.dead_after = ebb_units::Duration::from_secs(self.dead_after);
        config
    }
}

pub fn run(args: &LocatorArgs) -> anyhow::Result<bool> {
    let waker = Waker::new().context("cannot create a pipe")?;
    let signals = Signals::install(&waker).context("cannot handle signals")?;
    let database = Database::open(&args.database)?;
    let shown = args.database.display();
    let snapshot = database
        .read()
        .with_context(|| format!("cannot read {shown}"))?;
    let opened = Locator::open(clock::now(), args.config(), snapshot);
    let (locator, changes) = opened.map_err(|reason| anyhow!(reason))?;
    database
        .write(&changes)
        .with_context(|| format!("cannot write {shown}"))?;
    let shared = Arc::new(Mutex::new(Shared { locator, database }));
    let listener = Listener::bind(&args.listen)?;
    let accepting = shared.clone();
    std::thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || accept(&listener, &accepting))
        .context("cannot start a thread")?;
    let listen = args.listen.to_string();
    let ready = json!({"locator": listen});
    let output = Output::new(args.json);
    output.report("ready", [ready], || {
        format!("the locator listens at {listen}")
    });
    while !signals.asked_to_end() {
        let mut polled = [ebb_packet_io::PollFd::readable(std::os::fd::AsFd::as_fd(
            &waker,
        ))];
        ebb_packet_io::wait(&mut polled, Some(LOOK)).context("cannot wait")?;
        let shared = &mut *lock(&shared);
        let changes = shared.locator.handle_deadline(clock::now());
        if !changes.is_empty() {
            shared.write(&changes);
        }
    }
    if let Address::Path(path) = &args.listen {
        let _ = std::fs::remove_file(path);
    }
    Ok(true)
}

impl Shared {
    /// Makes changes durable. A locator that cannot write ends as if it had crashed, before it answers.
    fn write(&self, changes: &[ebb_blob::Change]) {
        if let Err(error) = self.database.write(changes) {
            eprintln!("ebb-agent: cannot write the database of the locator: {error:#}");
            std::process::exit(2);
        }
    }

    fn answer(&mut self, call: Call) -> Option<Answer> {
        let (changes, reply) = self.locator.handle(clock::now(), call.request);
        if !changes.is_empty() {
            self.write(&changes);
        }
        let id = call.id;
        reply.map(|reply| Answer { id, reply })
    }
}

fn accept(listener: &Listener, shared: &Arc<Mutex<Shared>>) {
    let connections = Arc::<Mutex<Connections>>::default();
    let mut closed = WarningLimit::default();
    loop {
        let accepted = listener.accept().and_then(|stream| {
            let handle = stream.try_clone()?;
            let mut connections = lock(&connections);
            if connections.make_room()
                && let Some(times) = closed.count(Instant::now())
            {
                tracing::warn!(
                    "{MAX_CONNECTIONS} connections were open: the most silent was closed, {times} times"
                );
            }
            Ok((stream, connections.add(handle)))
        });
        let Ok((stream, number)) = accepted else {
            // Without descriptors, for example.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let (shared, open) = (shared.clone(), connections.clone());
        let serving = std::thread::Builder::new().spawn(move || {
            if let Err(error) = serve(stream, &shared, || lock(&open).asks(number)) {
                tracing::info!("a connection ends: {}", printable(&error.to_string()));
            }
            lock(&open).remove(number);
        });
        if serving.is_err() {
            lock(&connections).remove(number);
        }
    }
}

/// The connections that are open, by number.
#[derive(Default)]
struct Connections {
    open: BTreeMap<u64, Connection>,
    last: u64,
}

struct Connection {
    stream: Stream,
    /// Whether it has asked something, and when it did or began. The smallest has been silent for longest.
    asked: (bool, Instant),
}

impl Connections {
    /// Closes the connection that has been silent for longest, one without any question first, if there are as many as
    /// there may be.
    fn make_room(&mut self) -> bool {
        let silent = self.open.iter().min_by_key(|(_, open)| open.asked);
        let silent = silent.map(|(number, _)| *number);
        match silent.filter(|_| self.open.len() >= MAX_CONNECTIONS) {
            Some(number) => {
                self.remove(number);
                true
            }
            None => false,
        }
    }

    fn add(&mut self, stream: Stream) -> u64 {
        self.last += 1;
        let asked = (false, Instant::now());
        self.open.insert(self.last, Connection { stream, asked });
        self.last
    }

    fn asks(&mut self, number: u64) {
        if let Some(open) = self.open.get_mut(&number) {
            open.asked = (true, Instant::now());
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(open) = self.open.remove(&number) {
            open.stream.close();
        }
    }
}

/// Answers the questions of one connection, each of which is told to `asks`.
fn serve(stream: Stream, shared: &Mutex<Shared>, mut asks: impl FnMut()) -> std::io::Result<()> {
    stream.set_timeout(IDLE)?;
    let mut stream = BufReader::new(stream);
    loop {
        let call: Call = match link::read(&mut stream, MAX_QUESTION_BYTES) {
            Ok(Some(call)) => call,
            Ok(None) => return Ok(()),
            Err(error) => {
                let reason = format!("the locator does not understand this: {error}");
                let reply = Reply::Refused { reason };
                let _ = link::write(stream.get_mut(), &Answer { id: 0, reply });
                return Err(error);
            }
        };
        asks();
        let answer = lock(shared).answer(call);
        // A question that has been overtaken gets none: who asked it is gone.
        if let Some(answer) = answer {
            link::write(stream.get_mut(), &answer)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_most_silent_connection_makes_room_and_those_that_never_asked_before_others() {
        let mut connections = Connections::default();
        let mut ends = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            assert!(!connections.make_room());
            let (ours, theirs) = UnixStream::pair().unwrap();
            ends.push(theirs);
            connections.add(Stream::Unix(ours));
        }
        connections.asks(1);
        let closed = |end: &mut UnixStream| {
            end.set_nonblocking(true).unwrap();
            matches!(end.read(&mut [0]), Ok(0))
        };
        for expected in 2..=MAX_CONNECTIONS {
            assert!(connections.make_room());
            let numbers: Vec<_> = (1..=MAX_CONNECTIONS)
                .filter(|n| closed(&mut ends[n - 1]))
                .collect();
            assert_eq!(numbers, Vec::from_iter(2..=expected));
            let (ours, theirs) = UnixStream::pair().unwrap();
            ends.push(theirs);
            let number = connections.add(Stream::Unix(ours));
            connections.asks(number);
        }
        // All have asked now, the first one before all others.
        assert!(connections.make_room());
        assert!(closed(&mut ends[0]));
    }
}
