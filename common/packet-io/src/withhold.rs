//! Packets that only packet sockets see: an extended BPF program at the interface (tcx, Linux 6.6) drops them behind
//! the sockets and before the kernel's IP.
//!
//! A packet that the kernel cannot use costs it a lookup of routes and, over a veth, its sender an eighth of the time:
//! IP runs in the call that sends.

use std::io;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::PacketSocket;

/// IPv4 packets to one address that the kernel does not get. VLAN-tagged packets and fragments it always gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    address: Ipv4Addr,
    /// Protocols, and their destination ports; none: whatever follows the IPv4 header.
    rules: Vec<(u8, Option<RangeInclusive<u16>>)>,
}

/// A program that is attached to an interface. Dropping it detaches the program, as does the end of the process.
#[derive(Debug)]
pub struct Withholding {
    /// The program stays attached as long as this is open.
    _link: OwnedFd,
}

impl Withheld {
    /// Nothing to `address`.
    pub fn to(address: Ipv4Addr) -> Self {
        let rules = Vec::new();
        Withheld { address, rules }
    }

    /// Packets of a protocol as well.
    #[must_use]
    pub fn or(mut self, protocol: u8) -> Self {
        self.rules.push((protocol, None));
        self
    }

    /// Packets of TCP or UDP to these ports as well.
    #[must_use]
    pub fn or_ports(mut self, protocol: u8, ports: RangeInclusive<u16>) -> Self {
        self.rules.push((protocol, Some(ports)));
        self
    }

    fn program(&self) -> Vec<Instruction> {
        let mut program = vec![
            copy(CONTEXT, FIRST_ARGUMENT),
            load_context(ACCUMULATOR, VLAN_PRESENT_AT),
        ];
        require(&mut program, op(JUMP_IF_EQUAL, 2, 0));
        program.push(op(LOAD_HALF, 0, ETHERTYPE_AT));
        require(&mut program, op(JUMP_IF_EQUAL, 2, libc::ETH_P_IP));
        program.push(op(LOAD_WORD, 0, DESTINATION_AT));
        let address = i32::from_be_bytes(self.address.octets());
        require(&mut program, op(JUMP_IF_EQUAL, 2, address));
        // Neither more fragments nor an offset.
        program.extend([op(LOAD_HALF, 0, FRAGMENT_AT), op(AND, 0, 0x3fff)]);
        require(&mut program, op(JUMP_IF_EQUAL, 2, 0));
        // Four times the words of the IPv4 header.
        program.extend([
            op(LOAD_BYTE, 0, ETHERNET_BYTES),
            op(AND, 0, 0x0f),
            op(SHIFT_LEFT, 0, 2),
            copy(HEADER_BYTES, ACCUMULATOR),
        ]);
        for (protocol, ports) in &self.rules {
            let to_next = if ports.is_some() { 5 } else { 2 };
            program.extend([
                op(LOAD_BYTE, 0, PROTOCOL_AT),
                op(JUMP_UNLESS_EQUAL, to_next, (*protocol).into()),
            ]);
            if let Some(ports) = ports {
                program.extend([
                    load_half_behind(HEADER_BYTES, ETHERNET_BYTES + PORT_AT),
                    op(JUMP_IF_LESS, 3, (*ports.start()).into()),
                    op(JUMP_IF_GREATER, 2, (*ports.end()).into()),
                ]);
            }
            program.extend([op(SET, 0, DROP), op(EXIT, 0, 0)]);
        }
        program.extend([op(SET, 0, NEXT_PROGRAM), op(EXIT, 0, 0)]);
        program
    }
}

impl PacketSocket {
    /// Keeps packets that arrive at the interface of this socket from the kernel, and not from packet sockets that take
    /// frames of all types, as all of this crate do. Needs CAP_BPF and CAP_NET_ADMIN. An error: this kernel or whoever
    /// confines this process does not allow it; the kernel still gets the packets.
    pub fn withhold(&self, packets: &Withheld) -> io::Result<Withholding> {
        let instructions = packets.program();
        let load = LoadProgram {
            kind: PROGRAM_OF_QUEUEING,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            licence: c"Apache-2.0".as_ptr() as u64,
        };
        // SAFETY: the program and the licence outlive the call, which reads as many instructions as `count` says.
        let program = unsafe { bpf(LOAD_PROGRAM, &load) }?;
        let link = CreateLink {
            program: program.as_raw_fd(),
            interface: self.index(),
            at: INGRESS,
            flags: 0,
        };
        // SAFETY: no pointers.
        let _link = unsafe { bpf(CREATE_LINK, &link) }?;
        Ok(Withholding { _link })
    }
}

/// The beginning of `union bpf_attr` for [`LOAD_PROGRAM`]; the kernel takes the rest for zeroes.
#[repr(C)]
struct LoadProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
}

/// The same for [`CREATE_LINK`].
#[repr(C)]
struct CreateLink {
    program: libc::c_int,
    interface: libc::c_int,
    at: u32,
    flags: u32,
}

// linux/bpf.h
const LOAD_PROGRAM: libc::c_int = 5;
const CREATE_LINK: libc::c_int = 28;
const PROGRAM_OF_QUEUEING: u32 = 3;
const INGRESS: u32 = 46;
/// Results of a program.
const NEXT_PROGRAM: i32 = -1;
const DROP: i32 = 2;
/// Offset of `vlan_present` in the context of a program, `struct __sk_buff`.
const VLAN_PRESENT_AT: i16 = 20;

/// A system call of which the result is a new descriptor.
///
/// # Safety
/// `attributes` must be those of the command, and its pointers good.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the attributes, whose size it is told; the caller vouches for the rest.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

const ETHERNET_BYTES: i32 = 14;
const ETHERTYPE_AT: i32 = 12;
const FRAGMENT_AT: i32 = ETHERNET_BYTES + 6;
const PROTOCOL_AT: i32 = ETHERNET_BYTES + 9;
const DESTINATION_AT: i32 = ETHERNET_BYTES + 16;
/// The destination port, from the end of the IPv4 header.
const PORT_AT: i32 = 2;

/// Registers. Loads of the packet want the context in `CONTEXT` and leave their result in `ACCUMULATOR`.
const ACCUMULATOR: u8 = 0;
const FIRST_ARGUMENT: u8 = 1;
const CONTEXT: u8 = 6;
const HEADER_BYTES: u8 = 7;

const LOAD_BYTE: u8 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u8;
const LOAD_HALF: u8 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u8;
const LOAD_WORD: u8 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u8;
const LOAD_HALF_INDEXED: u8 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u8;
const LOAD_CONTEXT: u8 = (libc::BPF_LDX | libc::BPF_W | libc::BPF_MEM) as u8;
/// Classes and operations that extended BPF adds: 64-bit arithmetic in place of returns, 32-bit jumps.
const ARITHMETIC_64: u8 = 0x07;
const JUMP_32: u8 = 0x06;
const AND: u8 = ARITHMETIC_64 | libc::BPF_AND as u8;
const SHIFT_LEFT: u8 = ARITHMETIC_64 | libc::BPF_LSH as u8;
const SET: u8 = ARITHMETIC_64 | 0xb0;
const COPY: u8 = SET | libc::BPF_X as u8;
const JUMP_IF_EQUAL: u8 = JUMP_32 | libc::BPF_JEQ as u8;
const JUMP_UNLESS_EQUAL: u8 = JUMP_32 | 0x50;
const JUMP_IF_GREATER: u8 = JUMP_32 | libc::BPF_JGT as u8;
const JUMP_IF_LESS: u8 = JUMP_32 | 0xa0;
const EXIT: u8 = libc::BPF_JMP as u8 | 0x90;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    /// The destination in the low four bits, the source in the others.
    registers: u8,
    /// Instructions that a jump leaves out.
    offset: i16,
    immediate: i32,
}

/// An instruction on the accumulator.
fn op(code: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers: ACCUMULATOR,
        offset,
        immediate,
    }
}

fn copy(to: u8, from: u8) -> Instruction {
    Instruction {
        registers: registers(to, from),
        ..op(COPY, 0, 0)
    }
}

fn load_context(to: u8, offset: i16) -> Instruction {
    Instruction {
        registers: registers(to, CONTEXT),
        ..op(LOAD_CONTEXT, offset, 0)
    }
}

fn load_half_behind(register: u8, at: i32) -> Instruction {
    Instruction {
        registers: registers(ACCUMULATOR, register),
        ..op(LOAD_HALF_INDEXED, 0, at)
    }
}

const fn registers(to: u8, from: u8) -> u8 {
    if cfg!(target_endian = "little") {
        to | from << 4
    } else {
        to << 4 | from
    }
}

/// Lets the kernel have the packet unless the jump, over two instructions, is taken.
fn require(program: &mut Vec<Instruction>, jump: Instruction) {
    program.extend([jump, op(SET, 0, NEXT_PROGRAM), op(EXIT, 0, 0)]);
}
