//! Parts of a workload that come in rounds: every pair of hosts has a transfer of the same size in each, which waits
//! for the end of one of the round before.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_workload::{After, HostId, Kind, Moment, Transfer};

/// The fewest rounds of which some can be skipped.
const FEWEST: usize = 8;

/// The transfers of a part of the workload, by lane and round.
#[derive(Default)]
pub struct Rounds {
    /// Those of each pair of hosts, which are a lane, in the order of the rounds.
    lanes: Vec<Vec<Arc<Transfer>>>,
    /// Places of the transfers, by id.
    places: BTreeMap<u64, Place>,
}

/// Place of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of its pair of hosts.
    pub lane: usize,
    /// Number of its round, from 0.
    pub round: usize,
}

/// Why a part of the workload does not come in rounds.
pub type Irregular = &'static str;

/// The parts of the workload by name, with their rounds.
pub fn by_part(
    transfers: impl Iterator<Item = Transfer>,
) -> BTreeMap<Arc<str>, Result<Rounds, Irregular>> {
    let mut parts: BTreeMap<Arc<str>, Result<Builder, Irregular>> = BTreeMap::new();
    for transfer in transfers {
        let name = transfer.traffic.clone();
        let part = parts.entry(name).or_insert_with(|| Ok(Builder::default()));
        if let Ok(builder) = part
            && let Err(why) = builder.add(transfer)
        {
            *part = Err(why);
        }
    }
    let finish = |part: Result<Builder, Irregular>| part.and_then(Builder::finish);
    let finished = parts.into_iter().map(|(name, part)| (name, finish(part)));
    finished.collect()
}

#[derive(Default)]
struct Builder {
    lanes: BTreeMap<(HostId, HostId), usize>,
    rounds: Rounds,
}

impl Builder {
    fn add(&mut self, transfer: Transfer) -> Result<(), Irregular> {
        if transfer.kind != Kind::SendOneToOne {
            return Err("it has transfers other than sends from one host to another");
        }
        let ends = (transfer.sources[0], transfer.destinations[0]);
        let next = self.lanes.len();
        let lane = *self.lanes.entry(ends).or_insert(next);
        if lane == next {
            self.rounds.lanes.push(Vec::new());
        }
        let rounds = &self.rounds;
        let round = rounds.lanes[lane].len();
        let cause = transfer
            .after
            .and_then(|after| rounds.place(after.transfer));
        let in_turn = match (round, transfer.after, cause) {
            (0, None, _) => true,
            (1, Some(after), Some(cause)) => cause.round == 0 && after.moment == Moment::Finished,
            (_, Some(after), Some(cause)) => rounds.lanes[lane][1].after.is_some_and(|first| {
                let same = Place {
                    round: round - 1,
                    ..cause
                };
                let as_before = After {
                    transfer: after.transfer,
                    ..first
                };
                cause == same && Some(cause.lane) == rounds.cause(lane) && after == as_before
            }),
            _ => false,
        };
        if !in_turn {
            return Err("its transfers do not wait for each other in rounds");
        }
        if let Some(first) = rounds.lanes[lane].first()
            && (
                first.bytes,
                first.priority,
                first.start_ns,
                first.connection,
            ) != (
                transfer.bytes,
                transfer.priority,
                transfer.start_ns,
                transfer.connection,
            )
        {
            return Err("its rounds differ in size, priority or connection");
        }
        let places = &mut self.rounds.places;
        places.insert(transfer.id, Place { lane, round });
        self.rounds.lanes[lane].push(Arc::new(transfer));
        Ok(())
    }

    fn finish(self) -> Result<Rounds, Irregular> {
        let count = self.rounds.count();
        if self.rounds.lanes.iter().any(|lane| lane.len() != count) {
            return Err("its pairs of hosts have unequal numbers of transfers");
        }
        if count < FEWEST {
            return Err("it has fewer than 8 rounds");
        }
        Ok(self.rounds)
    }
}

impl Rounds {
    /// Place of a transfer. None: it is of another part.
    pub fn place(&self, id: u64) -> Option<Place> {
        self.places.get(&id).copied()
    }

    /// The transfer at a place.
    pub fn at(&self, place: Place) -> &Arc<Transfer> {
        &self.lanes[place.lane][place.round]
    }

    /// The lane for whose transfers of the round before those of a lane wait.
    pub fn cause(&self, lane: usize) -> Option<usize> {
        let after = self.lanes[lane].get(1)?.after?;
        Some(self.place(after.transfer)?.lane)
    }

    /// The number of lanes.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The number of rounds.
    pub fn count(&self) -> usize {
        self.lanes.first().map_or(0, Vec::len)
    }

    /// All transfers of a round.
    pub fn round(&self, round: usize) -> impl Iterator<Item = &Arc<Transfer>> {
        self.lanes.iter().map(move |lane| &lane[round])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transfer of a ring of `hosts`, in the order of a ring all-reduce.
    fn of_ring(hosts: u32, id: u64) -> Transfer {
        let (round, at) = (id / u64::from(hosts), (id % u64::from(hosts)) as u32);
        let before = (at + hosts - 1) % hosts;
        Transfer {
            id,
            job: 0,
            job_transfers: 0,
            traffic: "ring".into(),
            start_ns: 5,
            kind: Kind::SendOneToOne,
            sources: vec![HostId(at)],
            destinations: vec![HostId((at + 1) % hosts)],
            bytes: 9,
            priority: 0,
            connection: None,
            after: round.checked_sub(1).map(|round| After {
                transfer: round * u64::from(hosts) + u64::from(before),
                moment: Moment::Finished,
                delay_ns: 0,
                serial: false,
            }),
        }
    }

    fn ring(change: impl Fn(&mut Transfer)) -> Result<Rounds, Irregular> {
        let transfers = (0..40).map(|id| {
            let mut transfer = of_ring(4, id);
            change(&mut transfer);
            transfer
        });
        by_part(transfers)
            .remove("ring")
            .expect("there is one part")
    }

    #[test]
    fn a_ring_has_a_lane_for_each_pair_of_neighbours() {
        let rounds = ring(|_| {}).expect("they are rounds");
        assert_eq!((rounds.lanes(), rounds.count()), (4, 10));
        assert_eq!(rounds.place(39), Some(Place { lane: 3, round: 9 }));
        assert_eq!(rounds.place(40), None);
        let causes = (0..4).map(|lane| rounds.cause(lane));
        assert_eq!(
            causes.collect::<Vec<_>>(),
            [Some(3), Some(0), Some(1), Some(2)]
        );
        let third: Vec<u64> = rounds.round(3).map(|transfer| transfer.id).collect();
        assert_eq!(third, [12, 13, 14, 15]);
    }

    #[test]
    fn rounds_that_differ_are_none() {
        let why = |change: fn(&mut Transfer)| ring(change).err();
        assert!(why(|t| t.bytes += u64::from(t.id == 17)).is_some());
        assert!(why(|t| t.priority += u8::from(t.id == 17)).is_some());
        assert!(why(|t| t.after = t.after.filter(|_| t.id != 17)).is_some());
        let other = |t: &mut Transfer| {
            if let Some(after) = t.after.as_mut().filter(|_| t.id == 17) {
                after.transfer -= 1;
            }
        };
        assert!(why(other).is_some());
        assert!(why(|t| t.kind = Kind::FetchOneToOne).is_some());
        let begun = |t: &mut Transfer| {
            if let Some(after) = &mut t.after {
                after.moment = Moment::Begun;
            }
        };
        assert!(why(begun).is_some());
        let few = by_part((0..28).map(|id| of_ring(4, id))).remove("ring");
        assert!(few.expect("one part").is_err());
        let uneven = by_part((0..39).map(|id| of_ring(4, id))).remove("ring");
        assert!(uneven.expect("one part").is_err());
    }
}
