//! How much a property test tries: little each day, much in `make test-long`.

/// How many times as many cases a long run tries.
const LONGER: u32 = 40;

/// Whether the environment variable `EBB_LONG` asks for the long run.
pub fn is_long() -> bool {
    std::env::var_os("EBB_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// How many cases a property test tries: those of every day, or many more.
pub fn cases(daily: u32) -> u32 {
    if is_long() { daily * LONGER } else { daily }
}
