//! Arrival times of the jobs of one part of a workload, and the hosts that start them.

use crate::draws::Draws;
use crate::error::Error;
use crate::patterns::{JobPattern, check_count};
use crate::spec::{Arrivals, Traffic};

/// Greatest load, as a fraction of the rate of the links. A greater one is probably in percent by mistake.
const MAX_LOAD: f64 = 10.0;

/// Who starts a job at an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Starters {
    /// The host of this number.
    One(usize),
    /// Each of them, this many times in a row.
    Each { rounds: u32 },
}

#[derive(Debug)]
pub struct ArrivalTimes {
    clock: Clock,
    start_ns: u64,
    /// Arrivals before this only.
    stop_ns: u64,
    left: u64,
    starters: usize,
}

#[derive(Debug)]
enum Clock {
    Poisson {
        draws: Box<Draws>,
        mean_gap_ns: f64,
        /// Time of the last arrival since the start. A fraction, so that gaps of few ns keep
        /// their mean; exact to a ns for 100 days.
        elapsed_ns: f64,
    },
    Periodic {
        period_ns: u64,
        ticks: u64,
    },
    Once {
        rounds: u32,
    },
}

impl ArrivalTimes {
    pub fn new(
        traffic: &Traffic,
        pattern: &dyn JobPattern,
        place: &str,
        seed: u64,
        link_rate_bps: f64,
        duration_ns: Option<u64>,
    ) -> Result<Self, Error> {
        let stop_ns = traffic.stop_ns.or(duration_ns);
        let ends = stop_ns.is_some() || traffic.count.is_some();
        let place = format!("{place} arrivals");
        let (clock, endless) = match traffic.arrivals {
            Arrivals::Poisson {
                rate_hz,
                rate_per_host_hz,
                load,
            } => {
                let given = (rate_hz, rate_per_host_hz, load);
                let rate_hz = poisson_rate_hz(given, traffic, pattern, &place, link_rate_bps)?;
                let clock = Clock::Poisson {
                    draws: Box::new(Draws::new(seed, &traffic.name, "arrivals")),
                    mean_gap_ns: 1e9 / rate_hz,
                    elapsed_ns: 0.0,
                };
                (clock, !ends)
            }
            Arrivals::Periodic { period_ns: 0 } => {
                return Err(Error::at(place, "period_ns is 0, expected at least 1"));
            }
            Arrivals::Periodic { period_ns } => (
                Clock::Periodic {
                    period_ns,
                    ticks: 0,
                },
                !ends,
            ),
            Arrivals::Once {} => (Clock::Once { rounds: 1 }, false),
            Arrivals::BackToBack { rounds } => {
                check_count(&place, "rounds", rounds)?;
                if rounds > 1 && !pattern.is_single() {
                    return Err(Error::at(
                        place,
                        "back-to-back works with random, permutation and requests, where a job is \
                         one transfer",
                    ));
                }
                (Clock::Once { rounds }, false)
            }
        };
        if endless {
            return Err(Error::at(
                place,
                "never end; give count or stop_ns, or duration_ns of the workload",
            ));
        }
        if matches!(clock, Clock::Once { .. }) && traffic.count.is_some() {
            return Err(Error::at(
                place,
                "have type \"once\", one for each host that starts; remove count",
            ));
        }
        Ok(Self {
            left: match clock {
                Clock::Once { .. } => 1,
                _ => traffic.count.unwrap_or(u64::MAX),
            },
            clock,
            start_ns: traffic.start_ns,
            stop_ns: stop_ns.unwrap_or(u64::MAX),
            starters: pattern.starters(),
        })
    }

    /// Number of jobs of one arrival.
    pub fn jobs_at_once(&self) -> f64 {
        match self.clock {
            Clock::Poisson { .. } => 1.0,
            Clock::Periodic { .. } => self.starters as f64,
            Clock::Once { rounds } => self.starters as f64 * f64::from(rounds),
        }
    }

    /// Approximate number of jobs in all.
    pub fn expected_jobs(&self) -> f64 {
        let span_ns = self.stop_ns.saturating_sub(self.start_ns) as f64;
        let until_the_end = match self.clock {
            Clock::Poisson { mean_gap_ns, .. } => span_ns / mean_gap_ns,
            Clock::Periodic { period_ns, .. } => span_ns / period_ns as f64,
            Clock::Once { .. } => 1.0,
        };
        until_the_end.min(self.left as f64) * self.jobs_at_once()
    }

    /// The next arrival, never earlier than the one before.
    pub fn next(&mut self) -> Option<(u64, Starters)> {
        self.left = self.left.checked_sub(1)?;
        let (elapsed_ns, starters) = match &mut self.clock {
            Clock::Poisson {
                draws,
                mean_gap_ns,
                elapsed_ns,
            } => {
                *elapsed_ns += draws.exponential() * *mean_gap_ns;
                let starter = draws.below(self.starters);
                (libm::round(*elapsed_ns) as u64, Starters::One(starter))
            }
            Clock::Periodic { period_ns, ticks } => {
                let elapsed_ns = period_ns.saturating_mul(*ticks);
                *ticks += 1;
                (elapsed_ns, Starters::Each { rounds: 1 })
            }
            Clock::Once { rounds } => (0, Starters::Each { rounds: *rounds }),
        };
        let at_ns = self.start_ns.saturating_add(elapsed_ns);
        if at_ns >= self.stop_ns {
            self.left = 0;
            return None;
        }
        Some((at_ns, starters))
    }
}

/// Jobs per second of a Poisson process. `given`: the parameters `rate_hz`, `rate_per_host_hz` and `load`.
fn poisson_rate_hz(
    given: (Option<f64>, Option<f64>, Option<f64>),
    traffic: &Traffic,
    pattern: &dyn JobPattern,
    place: &str,
    link_rate_bps: f64,
) -> Result<f64, Error> {
    let rate_hz = match given {
        (Some(rate), None, None) => rate,
        (None, Some(rate), None) => rate * pattern.starters() as f64,
        (None, None, Some(load)) if load > MAX_LOAD => {
            return Err(Error::at(
                place,
                format!(
                    "load is {load}, expected at most {MAX_LOAD}: it is a fraction, 0.4 of 40 %"
                ),
            ));
        }
        (None, None, Some(load)) => {
            let (sizes, links) = pattern.loaded_links();
            let bits_per_job = 8.0 * sizes * traffic.size.mean_bytes();
            load * link_rate_bps * links as f64 / bits_per_job
        }
        _ => {
            return Err(Error::at(
                place,
                "give exactly one of rate_hz, rate_per_host_hz and load",
            ));
        }
    };
    if !(rate_hz > 0.0 && rate_hz.is_finite()) {
        return Err(Error::at(
            place,
            format!("{rate_hz} jobs per second, expected above 0"),
        ));
    }
    Ok(rate_hz)
}
