//! The robust soliton distribution of degrees (Luby, FOCS 2002, definition 11).

/// c and delta of the wire format: both ends of a session must have the same. Of the values tried
/// with c = 0.01 .. 0.1 those with the least overhead at 256 to 2048 source symbols.
pub const C: f64 = 0.03;
pub const DELTA: f64 = 0.5;

/// The probabilities of the degrees 1, 2, .. K.
pub fn probabilities(source_symbols: u16, c: f64, delta: f64) -> Vec<f64> {
    let k = f64::from(source_symbols);
    // The size that the ripple is to have: R.
    let ripple = c * (k / delta).ln() * k.sqrt();
    let spike = (k / ripple).floor();
    let weight = |degree: u16| {
        let d = f64::from(degree);
        let ideal = if degree == 1 {
            1.0 / k
        } else {
            1.0 / (d * (d - 1.0))
        };
        let added = if d < spike {
            ripple / (d * k)
        } else if d == spike {
            (ripple * (ripple / delta).ln() / k).max(0.0)
        } else {
            0.0
        };
        ideal + added
    };
    let weights: Vec<f64> = (1..=source_symbols).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Degrees drawn with these probabilities, rounded to multiples of 2^-32.
#[derive(Debug)]
pub struct Degrees {
    /// At `d - 1`: 2^32 times the probability of d or less.
    cumulative: Vec<u64>,
}

impl Degrees {
    pub fn new(source_symbols: u16, c: f64, delta: f64) -> Self {
        let mut sum = 0.0;
        let up_to = probabilities(source_symbols, c, delta)
            .into_iter()
            .map(|p| {
                sum += p;
                (sum * (1u64 << 32) as f64).round() as u64
            });
        Degrees {
            cumulative: up_to.collect(),
        }
    }

    /// The degree that a random number selects: 1 to K, or 0 if K is.
    pub fn select(&self, random: u32) -> usize {
        let below = self
            .cumulative
            .partition_point(|&up_to| up_to <= random.into());
        (below + 1).min(self.cumulative.len())
    }
}
