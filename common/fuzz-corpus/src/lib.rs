//! Reads the corpora of the fuzzers, one file for each target. `tools/fuzz-corpus` packs them.

use std::panic::AssertUnwindSafe;
use std::path::Path;

const LENGTH_BYTES: usize = 4;

/// The inputs of a packed corpus: records of a length (32 bits, big-endian) and that many bytes.
///
/// # Panics
///
/// If the file cannot be read or is cut off.
pub fn read(path: &Path) -> Vec<Vec<u8>> {
    let shown = path.display();
    let packed = std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {shown}: {error}"));
    let mut rest = &packed[..];
    let mut inputs = Vec::new();
    while !rest.is_empty() {
        let at = packed.len() - rest.len();
        let record = rest.split_first_chunk::<LENGTH_BYTES>();
        let input = record
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_be_bytes(*length) as usize));
        let Some((input, after)) = input else {
            panic!("{shown}: the record at byte {at} is cut off; pack it again");
        };
        inputs.push(input.to_vec());
        rest = after;
    }
    inputs
}

/// Runs at most `few` inputs of a packed corpus, evenly spaced, or all of them with `EBB_FUZZ_CORPORA=all`.
///
/// # Panics
///
/// If the corpus is empty or cannot be read, and, with the input, if `run` panics.
pub fn replay(path: &Path, few: usize, run: impl Fn(&[u8])) {
    let inputs = read(path);
    let shown = path.display();
    assert!(!inputs.is_empty(), "{shown} is empty");
    let all = std::env::var_os("EBB_FUZZ_CORPORA").is_some_and(|value| value == "all");
    let step = if all { 1 } else { inputs.len().div_ceil(few) };
    for input in inputs.into_iter().step_by(step) {
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run(&input)));
        assert!(outcome.is_ok(), "{shown} fails with {input:?}");
    }
}

#[cfg(test)]
mod tests {
    use ebb_testkit::Folder;

    use super::*;

    #[test]
    fn records_are_inputs() {
        let folder = Folder::new("corpus");
        let path = folder.write("whole", b"\0\0\0\0\0\0\0\x01a\0\0\0\x03bcd");
        assert_eq!(read(&path), [b"".to_vec(), b"a".to_vec(), b"bcd".to_vec()]);
    }

    #[test]
    fn what_is_cut_off_is_named() {
        for (name, bytes) in [
            ("length", &b"\0\0\0\x01a\0\0"[..]),
            ("input", b"\0\0\0\x02a"),
        ] {
            let folder = Folder::new("corpus");
            let path = folder.write(name, bytes);
            let panic = std::panic::catch_unwind(|| read(&path)).unwrap_err();
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(text.contains("is cut off"), "{text}");
        }
    }

    #[test]
    fn a_few_inputs_of_many_are_run_and_the_one_that_fails_is_named() {
        let folder = Folder::new("corpus");
        let path = folder.write("replay", b"\0\0\0\x01a\0\0\0\x01b\0\0\0\x01c\0\0\0\x01d");
        let seen = std::cell::RefCell::new(Vec::new());
        replay(&path, 2, |input| seen.borrow_mut().push(input[0]));
        assert_eq!(*seen.borrow(), [b'a', b'c']);
        let failing = || replay(&path, 4, |input| assert_ne!(input, b"b"));
        let panic = std::panic::catch_unwind(failing).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.ends_with("fails with [98]"), "{text}");
    }

    #[test]
    fn an_empty_corpus_is_not_a_success() {
        let folder = Folder::new("corpus");
        let path = folder.write("empty", b"");
        let panic = std::panic::catch_unwind(|| replay(&path, 4, |_| {})).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.ends_with("is empty"), "{text}");
    }
}
