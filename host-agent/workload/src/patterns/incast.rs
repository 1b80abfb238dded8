//! Several hosts send to one, which is drawn anew for each job.

use super::job::{Draft, JobDraws, JobPattern};
use super::scope::Scope;
use crate::error::Error;
use crate::hosts::HostId;
use crate::spec::Counts;
use crate::transfer::Kind;

pub struct Incast {
    from: Vec<HostId>,
    to: Vec<HostId>,
    /// One of these for each job; not empty.
    senders: Vec<usize>,
    stagger_ns: u64,
    kind: Kind,
}

impl Incast {
    /// The kind of its transfers; `fetch`: the receiver asks for the bytes.
    pub fn kind(fetch: bool) -> Kind {
        match fetch {
            true => Kind::FetchOneToOne,
            false => Kind::SendOneToOne,
        }
    }

    pub fn new(
        scope: &Scope,
        senders: &Counts,
        from: &Option<String>,
        to: &Option<String>,
        stagger_ns: u64,
        kind: Kind,
    ) -> Result<Self, Error> {
        let senders = senders.values();
        if senders.is_empty() {
            let problem = "senders is an empty list, expected one number or several";
            return Err(scope.error(problem));
        }
        let senders = senders.iter().map(|&count| scope.count("senders", count));
        let senders = senders.collect::<Result<_, _>>()?;
        let [to, from] = scope.clients_and_servers(to, from, 1)?;
        Ok(Self {
            from,
            to,
            senders,
            stagger_ns,
            kind,
        })
    }

    /// A single number takes no draw, so that a list of one is the same workload.
    fn draw_senders(&self, draws: &mut JobDraws) -> usize {
        match self.senders[..] {
            [count] => count,
            _ => self.senders[draws.places().below(self.senders.len())],
        }
    }
}

impl JobPattern for Incast {
    fn starters(&self) -> usize {
        1
    }

    fn transfers_per_job(&self) -> usize {
        self.senders.iter().copied().max().unwrap_or(0)
    }

    fn loaded_links(&self) -> (f64, usize) {
        let mean = self.senders.iter().sum::<usize>() as f64 / self.senders.len() as f64;
        (mean, self.to.len())
    }

    fn job(&mut self, _starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let receiver = self.to[draws.places().below(self.to.len())];
        let count = self.draw_senders(draws);
        let chosen = draws.several(&self.from, count, |id| id != receiver);
        let drafts = (0..).zip(chosen).map(|(index, sender)| Draft {
            offset_ns: self.stagger_ns.saturating_mul(index),
            ..Draft::new(self.kind, sender, receiver, draws.bytes())
        });
        drafts.collect()
    }
}
