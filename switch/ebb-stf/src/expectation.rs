//! Frames that were expected against frames that left.

use crate::script::Pattern;

/// A frame that left the switch.
#[derive(Clone, Debug)]
pub struct Sent {
    pub frame: Vec<u8>,
    /// The line of the `packet` that made it leave, from 1.
    pub cause: usize,
}

#[derive(Clone, Debug)]
pub struct Expected {
    pub line: usize,
    pub pattern: Pattern,
}

/// Differences at one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub text: String,
    /// The line of the `packet` that a trace should be of; none if no packet can be named.
    pub cause: Option<usize>,
}

/// Compares what was expected with what was sent at one port, in order; there have to be as many frames. `packets` are
/// the lines of all `packet` commands.
pub fn compare(
    port: u16,
    expected: &[Expected],
    sent: &[Sent],
    packets: &[usize],
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (expected, sent) in expected.iter().zip(sent) {
        if let Some(problem) = mismatch(&expected.pattern, &sent.frame) {
            differences.push(Difference {
                text: format!(
                    "line {}: port {port}: {problem}\n  expected {}\n  got      {}\n  from the packet of line {}",
                    expected.line,
                    pattern_text(&expected.pattern),
                    hex(&sent.frame),
                    sent.cause
                ),
                cause: Some(sent.cause),
            });
        }
    }
    for missing in expected.iter().skip(sent.len()) {
        differences.push(Difference {
            text: format!(
                "line {}: port {port}: this packet did not leave\n  expected {}",
                missing.line,
                pattern_text(&missing.pattern)
            ),
            // Most likely it is the last packet before it that should have left.
            cause: packets.iter().copied().rfind(|line| *line < missing.line),
        });
    }
    for extra in sent.iter().skip(expected.len()) {
        differences.push(Difference {
            text: format!(
                "line {}: port {port}: a packet left that nobody expects\n  got      {}",
                extra.cause,
                hex(&extra.frame)
            ),
            cause: Some(extra.cause),
        });
    }
    differences
}

/// Frames may be longer than the pattern, unless it ends with `$`.
fn mismatch(pattern: &Pattern, frame: &[u8]) -> Option<String> {
    let digit = |at: usize| {
        frame
            .get(at / 2)
            .map(|b| if at.is_multiple_of(2) { b >> 4 } else { b & 15 })
    };
    let length = frame.len() * 2;
    if let Some(at) = (0..pattern.digits.len().min(length))
        .find(|at| pattern.digits[*at].is_some_and(|expected| digit(*at) != Some(expected)))
    {
        return Some(format!("byte {} differs", at / 2));
    }
    if length < pattern.digits.len() {
        let wanted = pattern.digits.len().div_ceil(2);
        return Some(format!(
            "{} bytes are too few, {wanted} are expected",
            frame.len()
        ));
    }
    (pattern.exact_length && length > pattern.digits.len()).then(|| {
        let wanted = pattern.digits.len() / 2;
        format!("{} bytes are too many, {wanted} are expected", frame.len())
    })
}

fn pattern_text(pattern: &Pattern) -> String {
    let digits = pattern.digits.iter().map(|digit| match digit {
        Some(digit) => format!("{digit:X}"),
        None => "*".into(),
    });
    let mut text: String = digits.collect();
    if pattern.digits.is_empty() {
        text = "any packet".into();
    } else if pattern.exact_length {
        text.push('$');
    }
    text
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
