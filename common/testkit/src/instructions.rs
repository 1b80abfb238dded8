//! Counting of the instructions of a part of a program by Valgrind's Callgrind.

/// Requests of `callgrind.h`.
const START_INSTRUMENTATION: usize = 0x4354_0004;
const STOP_INSTRUMENTATION: usize = 0x4354_0005;

/// Runs `work`; `callgrind --instr-atstart=no` counts its instructions and no others. Without Callgrind this costs a
/// dozen instructions.
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    request(START_INSTRUMENTATION);
    let result = work();
    request(STOP_INSTRUMENTATION);
    result
}

/// A client request to Valgrind (`valgrind.h`): instructions that have no effect on a processor, and that Valgrind
/// recognises.
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
