//! Whether rounds repeat each other, and how many more can be taken to do so. No clock and no network.

use std::fmt;

/// By how much what is taken for equal may differ, as a share of its mean; and what a trend may amount to until the
/// end of what is skipped.
const ALIKE: f64 = 0.005;
/// By how many packets counts of a round may differ for each packet that is sent in it.
const ALIKE_COUNTS: f64 = 0.01;
/// The fewest rounds that have to be alike, and the most that are looked at.
const FEWEST: usize = 4;
const MOST: usize = 16;

/// By how much a pair of hosts may shift against the others until the end of what is skipped while transfers of a pair
/// overlap, as a share of what they take: what follows from an overlap depends on its length.
const SHIFTED: f64 = 0.0005;
/// Part of a round within which all pairs begin it, if they shift against each other.
const TOGETHER: f64 = 0.05;

/// How many times as long as its confirmation is under way a transfer takes at least, if pairs shift against each
/// other: other packets at the host may then meet it that did not before, and cost it about that time.
const LONG: f64 = 100.0;

/// The fewest packets of a transfer of which one packet of another flow more or less is not much.
const MANY: f64 = 200.0;

/// A transfer of one round that has ended well; times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Observed {
    /// When it was requested.
    pub started_ns: u64,
    /// When its last byte arrived.
    pub finished_ns: u64,
    /// When its sender knew.
    pub confirmed_ns: u64,
    /// Packets sent, those sent again included.
    pub packets: u64,
    /// Packets sent again, trimmed, returned and marked.
    pub events: [u64; 4],
    /// Timers that expired.
    pub timeouts: u64,
}

/// A pair of hosts.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'a> {
    /// Its transfers that have ended, a round after the other.
    pub ended: &'a [Observed],
    /// The pair for whose transfers of the round before its own wait.
    pub cause: usize,
}

/// Rounds that repeat each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Steady {
    /// Time from one round to the next, in ns.
    pub period_ns: f64,
    /// For how many more rounds this can be said.
    pub reach: usize,
    /// For how many more it is known when each pair begins them, by a small part of what a transfer takes.
    pub exact: usize,
}

/// Why rounds cannot be said to repeat each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsteady {
    /// Too few have ended.
    Early,
    /// A transfer takes longer in one round than in another.
    Durations,
    /// Rounds begin at unequal distances.
    Periods,
    /// Some pairs of hosts get ahead of others.
    Apart,
    /// Transfers of a pair overlap, or come to, by more or less from round to round.
    Overlaps,
    /// More packets are sent again, trimmed, returned or marked in one round than in another.
    Counts,
    /// Timers expired.
    Timeouts,
    /// Durations or distances rise or fall, if only by little.
    Trend,
}

impl fmt::Display for Unsteady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsteady::Early => "too few rounds have ended to be compared",
            Unsteady::Durations => "transfers take unequal times from round to round",
            Unsteady::Periods => "rounds begin at unequal distances",
            Unsteady::Apart => "some pairs of hosts get ahead of others",
            Unsteady::Overlaps => "transfers of a pair overlap by more or less from round to round",
            Unsteady::Counts => {
                "packets sent again, trimmed, returned or marked differ from round to round"
            }
            Unsteady::Timeouts => "retransmission timers expire",
            Unsteady::Trend => "rounds become longer or shorter",
        })
    }
}

/// Compares the last rounds that all lanes have ended. `most`: of how many more one would know at most.
pub fn judge(lanes: &[Lane<'_>], most: usize) -> Result<Steady, Unsteady> {
    let ended = lanes.iter().map(|lane| lane.ended.len()).min().unwrap_or(0);
    // A distance takes the round before.
    let windows = (FEWEST..=ended.saturating_sub(1).min(MOST)).map(|rounds| {
        let window = lanes.iter().map(|lane| Lane {
            ended: &lane.ended[ended - rounds - 1..ended],
            ..*lane
        });
        Window(window.collect())
    });
    let mut best = Err(Unsteady::Early);
    for window in windows {
        match window.judge(most) {
            // The most rounds that are alike say most about a trend.
            Ok(steady) => best = Ok(steady),
            Err(why) => {
                best = best.or(Err(why));
                break;
            }
        }
    }
    best
}

impl Observed {
    fn duration_ns(&self) -> f64 {
        self.finished_ns as f64 - self.started_ns as f64
    }
}

/// A number of rounds of each lane, with the round before.
struct Window<'a>(Vec<Lane<'a>>);

impl Window<'_> {
    fn judge(&self, most: usize) -> Result<Steady, Unsteady> {
        let lanes = || self.0.iter().map(|lane| lane.ended);
        if lanes().any(|lane| lane[1..].iter().any(|one| one.timeouts > 0)) {
            return Err(Unsteady::Timeouts);
        }
        let durations = self.means(|pair| pair[1].duration_ns());
        let distances = self.means(distance_ns);
        let [duration, period] = [mean(&durations), mean(&distances)];
        let of_lanes = |value: fn(&[Observed]) -> f64| {
            lanes().map(move |lane| lane.windows(2).map(value).collect::<Vec<_>>())
        };
        if !of_lanes(|pair| pair[1].duration_ns()).all(|of| alike(&of, mean(&of))) {
            return Err(Unsteady::Durations);
        }
        if !alike(&distances, period) {
            return Err(Unsteady::Periods);
        }
        let mut apart = of_lanes(distance_ns).map(|of| (mean(&of) - period).abs());
        if apart.any(|by| by > ALIKE * period) {
            return Err(Unsteady::Apart);
        }
        let packets = self.means(|pair| pair[1].packets as f64);
        let (slack, per_transfer) = (ALIKE_COUNTS * mean(&packets), mean(&packets));
        let kinds = (0..4).map(|kind| self.means(|pair| pair[1].events[kind] as f64));
        if std::iter::once(packets)
            .chain(kinds)
            .any(|of| spread(&of) > slack)
        {
            return Err(Unsteady::Counts);
        }
        // Skipped rounds are said to take as long as those that were seen, and its distances add up.
        let trend = rounds(ALIKE * duration, slope(&durations))
            .min(rounds(ALIKE * period, slope(&distances) / 2.0));
        let shifted = self.until_shifted(duration);
        let overlaps = shifted.max(self.until_overlap(period, most));
        match (trend, overlaps) {
            (0, _) => Err(Unsteady::Trend),
            (_, 0) => Err(Unsteady::Overlaps),
            _ => Ok(Steady {
                period_ns: period,
                reach: trend.min(overlaps).min(most),
                exact: match per_transfer < MANY {
                    true => 0,
                    false => rounds(SHIFTED * duration, spread(&distances)).min(shifted),
                },
            }),
        }
    }

    /// For how many rounds no pair will shift against the others by what matters.
    fn until_shifted(&self, duration: f64) -> usize {
        let ends = self.means(|pair| pair[1].finished_ns as f64);
        let reach = self.0.iter().map(|lane| {
            let own = lane.ended[1..].iter().map(|one| one.finished_ns as f64);
            let against: Vec<f64> = own.zip(&ends).map(|(own, all)| own - all).collect();
            rounds(SHIFTED * duration, slope(&against))
        });
        reach.min().unwrap_or(0)
    }

    /// For how many rounds no transfer will begin before the one before it of the same pair has ended, if each takes
    /// and waits as long as it did; 0 if that has happened. All pairs have to begin a round at nearly the same time.
    fn until_overlap(&self, period: f64, most: usize) -> usize {
        let overlap = |pair: &[Observed]| pair[1].started_ns < pair[0].confirmed_ns;
        if self.0.iter().any(|lane| lane.ended.windows(2).any(overlap)) {
            return 0;
        }
        let confirmation =
            self.means(|pair| pair[1].confirmed_ns as f64 - pair[1].finished_ns as f64);
        let takes = self.means(|pair| pair[1].duration_ns());
        if mean(&takes) < LONG * mean(&confirmation) {
            return 0;
        }
        let of = |lane: &Lane<'_>, value: fn(&Observed) -> f64| {
            mean(&lane.ended.iter().map(value).collect::<Vec<_>>())
        };
        let takes = |lane: &Lane<'_>| of(lane, Observed::duration_ns);
        let starts = |lane: &Lane<'_>| lane.ended.last().map_or(0.0, |one| one.started_ns as f64);
        let occupies = self
            .0
            .iter()
            .map(|lane| of(lane, |one| one.confirmed_ns as f64 - one.started_ns as f64));
        let waits = self.0.iter().map(|lane| {
            let causes = self.0[lane.cause].ended.iter();
            let waits = lane.ended[1..].iter().zip(causes);
            let waits = waits.map(|(one, cause)| one.started_ns as f64 - cause.finished_ns as f64);
            mean(&waits.collect::<Vec<_>>())
        });
        let (occupies, waits): (Vec<f64>, Vec<f64>) = (occupies.collect(), waits.collect());
        let takes: Vec<f64> = self.0.iter().map(takes).collect();
        let mut starts: Vec<f64> = self.0.iter().map(starts).collect();
        for round in 0..most {
            let next =
                |(lane, wait): (&Lane<'_>, &f64)| starts[lane.cause] + takes[lane.cause] + wait;
            let next: Vec<f64> = self.0.iter().zip(&waits).map(next).collect();
            let ends = starts
                .iter()
                .zip(&occupies)
                .map(|(start, occupies)| start + occupies);
            // Half a ns: times are whole.
            if next.iter().zip(ends).any(|(next, end)| *next < end - 0.5)
                || spread(&next) > TOGETHER * period
            {
                return round;
            }
            starts = next;
        }
        most
    }

    /// Mean of all lanes in each round, of a value of the round and the one before.
    fn means(&self, value: impl Fn(&[Observed]) -> f64) -> Vec<f64> {
        let rounds = self.0.first().map_or(0, |lane| lane.ended.len() - 1);
        let of_round = |round: usize| {
            let values = self
                .0
                .iter()
                .map(|lane| value(&lane.ended[round..round + 2]));
            values.sum::<f64>() / self.0.len() as f64
        };
        (0..rounds).map(of_round).collect()
    }
}

fn distance_ns(pair: &[Observed]) -> f64 {
    pair[1].finished_ns as f64 - pair[0].finished_ns as f64
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    most - least
}

/// In how many rounds something that changes by this much in each has changed by `allowed`.
fn rounds(allowed: f64, change: f64) -> usize {
    match change {
        0.0 => usize::MAX,
        _ => (allowed / change.abs()) as usize,
    }
}

fn alike(values: &[f64], mean: f64) -> bool {
    spread(values) <= ALIKE * mean
}

/// Rise from a value to the next, by least squares.
fn slope(values: &[f64]) -> f64 {
    let (middle, mean) = ((values.len() - 1) as f64 / 2.0, mean(values));
    let places = (0..values.len()).map(|place| place as f64 - middle);
    let (mut above, mut below) = (0.0, 0.0);
    for (place, value) in places.zip(values) {
        above += place * (value - mean);
        below += place * place;
    }
    above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 1_000_000;

    /// Rounds of a ring of three lanes, each as `of` makes it of what would repeat for ever: no two transfers of a lane
    /// overlap.
    fn lanes(rounds: u64, of: impl Fn(u64, u64, &mut Observed)) -> Vec<Vec<Observed>> {
        let observed = |lane: u64, round: u64| {
            let mut one = Observed {
                started_ns: round * PERIOD_NS + 20_000,
                finished_ns: (round + 1) * PERIOD_NS,
                confirmed_ns: (round + 1) * PERIOD_NS + 1_000,
                packets: 500,
                events: [0, 40, 0, 7],
                timeouts: 0,
            };
            of(lane, round, &mut one);
            one
        };
        let lane = |lane| (0..rounds).map(|round| observed(lane, round)).collect();
        (0..3).map(lane).collect()
    }

    fn judged(lanes: &[Vec<Observed>]) -> Result<Steady, Unsteady> {
        let count = lanes.len();
        let lane = |(number, ended): (usize, &'static [Observed])| Lane {
            ended,
            cause: (number + count - 1) % count,
        };
        let lanes = lanes
            .iter()
            .map(|lane| &*Vec::leak(lane.clone()))
            .enumerate();
        judge(&lanes.map(lane).collect::<Vec<_>>(), 1000)
    }

    fn longer(one: &mut Observed, by_ns: u64) {
        one.finished_ns += by_ns;
        one.confirmed_ns += by_ns;
    }

    fn later(one: &mut Observed, by_ns: u64) {
        one.started_ns += by_ns;
        longer(one, by_ns);
    }

    #[test]
    fn rounds_that_repeat_go_on_to_the_end() {
        let steady = judged(&lanes(5, |_, _, _| {})).unwrap();
        assert_eq!(steady.period_ns, PERIOD_NS as f64);
        assert_eq!(steady.reach, 1000);
        assert_eq!(judged(&lanes(4, |_, _, _| {})), Err(Unsteady::Early));
        assert_eq!(judged(&[]), Err(Unsteady::Early));
    }

    #[test]
    fn the_first_rounds_may_differ_once_enough_have_followed() {
        let begin =
            |_, round, one: &mut Observed| one.started_ns -= if round == 0 { 20_000 } else { 0 };
        assert!(judged(&lanes(6, begin)).is_ok());
        let within =
            |_, round, one: &mut Observed| one.started_ns += if round == 3 { 20_000 } else { 0 };
        assert_eq!(judged(&lanes(7, within)), Err(Unsteady::Durations));
        assert!(judged(&lanes(9, within)).is_ok());
    }

    #[test]
    fn each_way_to_differ_has_its_name() {
        let why = |of: fn(u64, u64, &mut Observed)| judged(&lanes(9, of)).unwrap_err();
        let one = why(|lane, round, one| longer(one, 6_000 * u64::from(lane == 1) * (round % 2)));
        assert_eq!(one, Unsteady::Durations);
        let all = why(|_, round, one| later(one, 6_000 * (round % 2)));
        assert_eq!(all, Unsteady::Periods);
        let slower = why(|lane, round, one| later(one, 10_000 * round * u64::from(lane == 2)));
        assert_eq!(slower, Unsteady::Apart);
        let marks = why(|_, round, one| one.events[3] += 6 * (round % 2));
        assert_eq!(marks, Unsteady::Counts);
        let sent = why(|_, round, one| one.packets += 6 * (round % 2));
        assert_eq!(sent, Unsteady::Counts);
        let timer = why(|lane, round, one| one.timeouts = u64::from(lane == 0 && round == 7));
        assert_eq!(timer, Unsteady::Timeouts);
        // Those of a pair overlap, and it falls behind.
        let overlap = why(|lane, round, one| {
            one.started_ns -= 20_000;
            later(one, 2_000 * round * u64::from(lane == 2));
        });
        assert_eq!(overlap, Unsteady::Overlaps);
    }

    #[test]
    fn overlaps_that_stay_as_they_are_repeat() {
        let overlap = |_, _, one: &mut Observed| one.started_ns -= 20_000;
        assert_eq!(judged(&lanes(9, overlap)).unwrap().reach, 1000);
    }

    #[test]
    fn lanes_may_shift_until_the_transfers_of_one_would_overlap() {
        // Every transfer of a lane takes 4 us longer: what it passes on comes later and later, to one lane after the
        // other, until the first is back.
        let mut starts = [20_000; 3];
        let mut ring = vec![Vec::new(); 3];
        for _ in 0..6 {
            let ends = [0, 1, 2].map(|lane| starts[lane] + 980_000 + 4_000 * u64::from(lane == 0));
            for lane in 0..3 {
                let mut one = lanes(1, |_, _, _| {})[0][0];
                one.started_ns = starts[lane];
                one.finished_ns = ends[lane];
                one.confirmed_ns = ends[lane] + 1_000;
                ring[lane].push(one);
            }
            starts = [2, 0, 1].map(|cause| ends[cause] + 20_000);
        }
        assert_eq!(judged(&ring).unwrap().reach, 1000);
        for lane in &mut ring {
            for one in lane {
                // It leaves 1.5 us between two of them.
                one.confirmed_ns += 17_500;
            }
        }
        assert!(judged(&ring).map_or(0, |steady| steady.reach) < 10);
    }

    #[test]
    fn a_trend_is_followed_only_as_far_as_it_matters_little() {
        // 0.01 % longer in each round.
        let longer = |_, round, one: &mut Observed| one.started_ns -= 100 * round;
        let steady = judged(&lanes(9, longer)).unwrap();
        assert!((45..=55).contains(&steady.reach), "{steady:?}");
        let later = |_, round, one: &mut Observed| later(one, 50 * round * round);
        let steady = judged(&lanes(9, later)).unwrap();
        assert!((95..=105).contains(&steady.reach), "{steady:?}");
    }

    #[test]
    fn chance_that_is_small_shortens_the_reach_and_longer_looks_extend_it() {
        let noise = |lane, round, one: &mut Observed| {
            one.started_ns -= (round * 7919 + lane * 104_729) % 1_000;
        };
        let [few, many] = [5, 17].map(|rounds| judged(&lanes(rounds, noise)).unwrap().reach);
        assert!(few >= 5 && many > few, "{few} {many}");
    }
}
