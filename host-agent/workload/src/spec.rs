//! The specification of a workload, as people and programs write it: `docs/workloads.md`.

use serde::{Deserialize, Serialize};

use crate::draws::fnv1a;
use crate::error::Error;
use crate::hosts::{Group, HostList, PlacedHost};
use crate::placement::{Placement, ReplicaPlacement};
use crate::sizes::SizeDistribution;
use crate::times::TimeDistribution;

/// A workload file: hosts, groups and parts of the traffic.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Seed of all draws.
    #[serde(default = "one")]
    pub seed: u64,
    /// Rate of a host's link: what a load is a fraction of.
    #[serde(default = "gigabit")]
    pub link_rate_bps: f64,
    /// Nothing arrives at this time or later. A part with an end of its own needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// May be left to a file of hosts.
    #[serde(default, rename = "host", skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<PlacedHost>,
    /// Groups, in the order in which they take hosts.
    #[serde(default, rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Parts of the traffic, all at once.
    pub traffic: Vec<Traffic>,
}

/// One part of a workload.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Names the records, and the random numbers: parts with the same name in two workloads with the
    /// same seed draw the same.
    pub name: String,
    /// Sources and destinations of its transfers.
    pub pattern: Pattern,
    /// When its jobs arrive.
    pub arrivals: Arrivals,
    /// Bytes of each transfer; in storage patterns of the object, in partition-aggregate of each
    /// response.
    pub size: SizeDistribution,
    /// 0 normal .. 7 most urgent.
    #[serde(default)]
    pub priority: u8,
    /// Its clock starts here.
    #[serde(default)]
    pub start_ns: u64,
    /// Nothing of it arrives at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_ns: Option<u64>,
    /// It ends after this many arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// When jobs arrive.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// One job at a time, of a host drawn at random, at exponential distances. Exactly one of the
    /// three is given.
    Poisson {
        /// Jobs per second in the whole network.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_hz: Option<f64>,
        /// Jobs per second of each host that starts some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_per_host_hz: Option<f64>,
        /// Bytes of content over the loaded links of the pattern, as a fraction of their rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        load: Option<f64>,
    },
    /// Each starting host one job, all at `start_ns`.
    Once {},
    /// Each starting host one job every `period_ns`, from `start_ns` on.
    Periodic {
        /// Time between two jobs of a host.
        period_ns: u64,
    },
    /// Each starting host `rounds` jobs, each of which starts when the one before it has finished.
    BackToBack {
        /// Jobs of each host.
        rounds: u32,
    },
}

/// Who sends what to whom. Names of groups; without one: all hosts.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Each host of `from` sends to hosts of `to`, drawn anew for each transfer.
    Random {
        /// Group of the sources.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Group of the destinations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        /// Where a destination may be, as seen from its source.
        #[serde(default)]
        placement: Placement,
    },
    /// Each host sends to one other and receives from one other, always the same: one ring through
    /// all of them, in an order drawn at the start.
    Permutation {
        /// Group of the hosts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hosts: Option<String>,
    },
    /// Each host sends to each other; all of this is one job.
    AllToAll {
        /// Group of the hosts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hosts: Option<String>,
    },
    /// All hosts add up a vector that each has: in each of 2 (n - 1) rounds every host sends an n-th of it to the next
    /// in one ring, in the order of the hosts, once it has what the one before it sent in the round before. All of
    /// this is one job, and `size` the vector.
    RingAllReduce {
        /// Group of the hosts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hosts: Option<String>,
        /// Time from the arrival of a part to the start of the next send, to add and to copy.
        #[serde(default)]
        step_ns: u64,
    },
    /// Several hosts send to one, which is drawn anew for each job.
    Incast {
        /// One number, or several of which each is as likely. More than there are hosts: hosts have several.
        senders: Counts,
        /// Time between the start of one and the next.
        #[serde(default)]
        stagger_ns: u64,
        /// The receiver asks for the bytes.
        #[serde(default)]
        fetch: bool,
        /// Group of the senders.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Group of the receivers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// Two receivers in one rack: one gets few flows from its pod, the other many from other pods.
    Outcast {
        /// Flows from other racks of the pod.
        #[serde(default = "two")]
        near: u32,
        /// Flows from other pods.
        #[serde(default = "twelve")]
        far: u32,
        /// Group of the hosts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hosts: Option<String>,
    },
    /// A client asks several servers at once, each of which works and answers.
    PartitionAggregate {
        /// Servers of a query.
        fan_out: u32,
        /// Bytes of a query.
        query_bytes: u64,
        /// Time that a server works on a query.
        service: TimeDistribution,
        /// A server works on one query at a time.
        #[serde(default = "yes")]
        serial: bool,
        /// Group of the clients.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clients: Option<String>,
        /// Group of the servers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<String>,
    },
    /// A client asks a server for bytes, over one of several permanent connections to it.
    Requests {
        /// Permanent connections from each client to each server.
        #[serde(default = "sixteen")]
        connections: u32,
        /// Choice of the connection of a request.
        #[serde(default)]
        choose: ConnectionChoice,
        /// Group of the clients.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clients: Option<String>,
        /// Group of the servers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<String>,
    },
    /// A client asks one server after another for bytes, each as soon as it has those of the one before.
    Sequence {
        /// How many requests a job has.
        requests: u32,
        /// Group of the clients.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clients: Option<String>,
        /// Group of the servers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<String>,
    },
    /// A client reads an object that several servers have.
    StorageRead {
        /// From how many replicas it is read.
        #[serde(default)]
        mode: ReadMode,
        /// Servers that have each block.
        #[serde(default = "three")]
        replicas: u32,
        /// Blocks of the object, each with replicas of its own; all are read at once.
        #[serde(default = "one_block")]
        blocks: u32,
        /// Where the replicas are.
        #[serde(default)]
        placement: ReplicaPlacement,
        /// Group of the clients.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clients: Option<String>,
        /// Group of the servers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<String>,
    },
    /// A client writes an object to several servers.
    StorageWrite {
        /// How the replicas get the object.
        #[serde(default)]
        mode: WriteMode,
        /// Servers that get each object.
        #[serde(default = "three")]
        replicas: u32,
        /// Where the replicas are.
        #[serde(default)]
        placement: ReplicaPlacement,
        /// Group of the clients.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clients: Option<String>,
        /// Group of the servers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<String>,
    },
}

/// A count: fixed, or drawn for each job.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Counts {
    /// Always this number.
    One(u32),
    /// Each is as likely as the others; one that is there twice is twice as likely.
    OneOf(Vec<u32>),
}

impl Counts {
    /// All numbers that it can be.
    pub fn values(&self) -> &[u32] {
        match self {
            Self::One(count) => std::slice::from_ref(count),
            Self::OneOf(counts) => counts,
        }
    }
}

/// Choice of a permanent connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionChoice {
    /// One at random.
    #[default]
    Random,
    /// Server after server, then the next connection of each.
    RoundRobin,
    /// One that carries nothing: the client's pool has as many as it needs.
    Idle,
}

/// Sources of a read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadMode {
    /// From all replicas at once.
    #[default]
    ManyToOne,
    /// From the replica in the client's rack, or else from one of them at random.
    Nearest,
}

/// Ways of an object to its replicas.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// One transfer to all replicas.
    #[default]
    OneToMany,
    /// One transfer to each, at the same time.
    MultiUnicast,
    /// Each replica sends to the next as soon as the first bytes have arrived.
    DaisyChain,
}

/// How a specification is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// By the extension of the file's name.
    pub fn of(file_name: &str) -> Result<Self, Error> {
        match file_name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("toml") => Ok(Self::Toml),
            Some("json") => Ok(Self::Json),
            _ => Err(Error::at(
                file_name,
                "expected a name that ends in .toml or .json",
            )),
        }
    }

    fn parse<T: serde::de::DeserializeOwned>(self, text: &str) -> Result<T, Error> {
        match self {
            Self::Toml => toml::Deserializer::parse(text)
                .map_err(|error| Error::Syntax(error.to_string()))
                .and_then(at_key),
            Self::Json => {
                let mut input = serde_json::Deserializer::from_str(text);
                let value = at_key(&mut input)?;
                let end = input.end();
                end.map_err(|error| Error::Syntax(error.to_string()))?;
                Ok(value)
            }
        }
    }
}

/// The value, or an error that names the key in whose value it is.
fn at_key<'de, T, D>(input: D) -> Result<T, Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
    D::Error: std::fmt::Display,
{
    serde_path_to_error::deserialize(input).map_err(|error| {
        let place = error.path().to_string();
        // A program writes its text in one line, in which a column tells people nothing.
        let problem = error.into_inner().to_string();
        let problem = problem
            .split(" at line 1 column")
            .next()
            .unwrap_or_default();
        match &*place {
            "." => Error::Syntax(problem.to_owned()),
            _ => Error::at(place, problem),
        }
    })
}

impl HostList {
    /// Reads a list of hosts.
    // Compiled here, not again in each program, as is all that reading takes.
    #[inline(never)]
    pub fn parse(text: &str, format: Format) -> Result<Self, Error> {
        format.parse(text)
    }
}

impl Workload {
    /// `read` gives the text of the files of empirical size distributions, by the name that the
    /// specification has for them.
    pub fn parse(
        text: &str,
        format: Format,
        mut read: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, Error> {
        let mut workload = Self::without_files(text, format)?;
        for traffic in &mut workload.traffic {
            let place = format!("traffic {} size", traffic.name);
            traffic.size.load(&place, &mut read)?;
        }
        Ok(workload)
    }

    /// Reads a specification, without the files that it names. Compiled here, as [`HostList::parse`].
    #[inline(never)]
    fn without_files(text: &str, format: Format) -> Result<Self, Error> {
        format.parse(text)
    }

    /// A number that differs if anything in the schedule can differ: for hosts that must agree.
    pub fn fingerprint(&self) -> u64 {
        // Over the specification with its defaults as JSON, which nothing in it fails to become.
        let text = serde_json::to_string(self).unwrap_or_default();
        fnv1a(&text)
    }
}

fn one() -> u64 {
    1
}
fn gigabit() -> f64 {
    1e9
}
fn one_block() -> u32 {
    1
}
fn two() -> u32 {
    2
}
fn three() -> u32 {
    3
}
fn twelve() -> u32 {
    12
}
fn sixteen() -> u32 {
    16
}
fn yes() -> bool {
    true
}
