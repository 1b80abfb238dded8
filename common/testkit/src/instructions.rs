//! Instructions of a piece of a program, counted by Valgrind's Callgrind.

/// Requests of `callgrind.h`.
const START_INSTRUMENTATION: usize = 0x4354_0004;
const STOP_INSTRUMENTATION: usize = 0x4354_0005;

/// Does some work, the only one that `callgrind --instr-atstart=no` counts. Without Callgrind this costs a dozen
/// instructions.
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    request(START_INSTRUMENTATION);
    let result = work();
    request(STOP_INSTRUMENTATION);
    result
}

/// Asks something of Valgrind: a sequence of instructions that do nothing, which it knows (`valgrind.h`).
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn request(request: usize) {
    let arguments = [request, 0, 0, 0, 0, 0];
    // SAFETY: the rotations sum up to 128 bits, which leaves rdi as it was; the exchange of rbx with itself does
    // nothing. Valgrind reads the arguments and writes rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rax") &raw const arguments => _,
            inout("rdx") 0usize => _,
            out("rdi") _,
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize) {}
