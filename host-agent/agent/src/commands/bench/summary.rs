//! Summary of a run at one host.

use serde_json::{Map, Value, json};

/// Largest sizes of the classes by which completion times are reported: those of SCDP, table I, and one
/// more. There is a class above the last one.
const CLASS_LIMITS_BYTES: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// Mean and order statistics of what was observed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    /// `None` if there are no values. Percentiles are nearest ranks: values that occurred.
    pub fn of(values: &mut [f64]) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let max = *values.last()?;
        let rank = |percent: usize| values[(percent * values.len()).div_ceil(100) - 1];
        Some(Spread {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max,
        })
    }

    /// An object whose names end in `unit`, such as `_ns`.
    pub fn to_json(self, unit: &str) -> Value {
        let fields = [
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("max", self.max),
        ];
        let named = fields.map(|(name, value)| (format!("{name}{unit}"), Value::from(value)));
        Value::Object(Map::from_iter(named))
    }
}

/// Completion times of transfers, by size.
#[derive(Clone, Default, Debug)]
pub struct Completions {
    /// Size and time from the offered start to the end, in ns.
    times: Vec<(u64, u64)>,
}

impl Completions {
    pub fn add(&mut self, bytes: u64, fct_ns: u64) {
        self.times.push((bytes, fct_ns));
    }

    /// All sizes as one.
    pub fn spread(&self) -> Option<Spread> {
        let mut times: Vec<f64> = self.times.iter().map(|&(_, ns)| ns as f64).collect();
        Spread::of(&mut times)
    }

    /// Count, times and slowdowns of each size class in which there was something. A slowdown is the
    /// time over that of the bytes alone at the rate of the link and the base RTT.
    pub fn classes(&self, link_rate_bps: f64, base_rtt_ns: u64) -> Vec<Value> {
        let lower = std::iter::once(0).chain(CLASS_LIMITS_BYTES);
        let upper = CLASS_LIMITS_BYTES.map(Some).into_iter().chain([None]);
        let class = |(above_bytes, up_to_bytes): (u64, Option<u64>)| {
            let members = self.times.iter().filter(|(bytes, _)| {
                *bytes > above_bytes && up_to_bytes.is_none_or(|limit| *bytes <= limit)
            });
            let (mut times, mut slowdowns): (Vec<f64>, Vec<f64>) = members
                .map(|&(bytes, ns)| {
                    let ideal_ns = bytes as f64 * 8e9 / link_rate_bps + base_rtt_ns as f64;
                    (ns as f64, ns as f64 / ideal_ns)
                })
                .unzip();
            Some(json!({
                "above_bytes": above_bytes,
                "up_to_bytes": up_to_bytes,
                "count": times.len(),
                "fct": Spread::of(&mut times)?.to_json("_ns"),
                "slowdown": Spread::of(&mut slowdowns)?.to_json(""),
            }))
        };
        lower.zip(upper).filter_map(class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let spread = Spread::of(&mut values).unwrap();
        assert_eq!(spread.mean, 100.5);
        assert_eq!((spread.p50, spread.p90), (100.0, 180.0));
        assert_eq!((spread.p99, spread.max), (198.0, 200.0));
        assert_eq!(Spread::of(&mut [7.0]).unwrap().p99, 7.0);
        assert_eq!(Spread::of(&mut []), None);
    }

    #[test]
    fn classes_have_upper_bounds_of_their_own() {
        let mut completions = Completions::default();
        for (bytes, ns) in [(10_000, 160_000), (10_001, 5), (50_000_000, 800_000_000)] {
            completions.add(bytes, ns);
        }
        let classes = completions.classes(1e9, 0);
        let bounds = [
            (0, json!(10_000)),
            (10_000, json!(100_000)),
            (10_000_000, Value::Null),
        ];
        assert_eq!(classes.len(), bounds.len());
        for (class, (above, up_to)) in classes.iter().zip(bounds) {
            assert_eq!(
                (&class["above_bytes"], &class["up_to_bytes"]),
                (&json!(above), &up_to)
            );
            assert_eq!(class["count"], 1);
        }
        assert_eq!(classes[0]["slowdown"]["p50"], 2.0);
        assert_eq!(classes[2]["slowdown"]["p50"], 2.0);
        // 80 us of bytes and 80 us of RTT.
        assert_eq!(completions.classes(1e9, 80_000)[0]["slowdown"]["p50"], 1.0);
    }
}
