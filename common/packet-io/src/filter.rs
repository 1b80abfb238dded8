//! Which frames a socket sees: classic BPF over IPv4 protocol, a port, and bits beside it; and MAC
//! control frames.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

use crate::system::set_option;

const ETHERNET_BYTES: u32 = 14;
const ETHERTYPE_AT: u32 = 12;
const PROTOCOL_AT: u32 = ETHERNET_BYTES + 9;
const WHOLE_FRAME: u32 = u32::MAX;
/// The type of MAC control frames (IEEE 802.3 clause 31), those of PFC among them.
const MAC_CONTROL: u32 = 0x8808;

const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
/// X becomes the length of the IPv4 header.
const LOAD_HEADER_BYTES: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const LOAD_HALF_INDEXED: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
const LOAD_BYTE_INDEXED: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const JUMP_IF_GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const JUMP_IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Where a protocol has a port: bytes from the end of the IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOffset(pub u8);

impl PortOffset {
    /// The destination port.
    pub const TCP: PortOffset = PortOffset(2);
    /// Destination port of UDP, which is where TCP has it.
    pub const UDP: PortOffset = PortOffset::TCP;
}

/// Bits of which at least one must be set: in the byte `at` from the end of the IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Bytes from the end of the IPv4 header.
    pub at: u8,
    /// Bits that are compared.
    pub mask: u8,
}

/// IPv4 packets of some protocols to some ports, and perhaps MAC control frames. Without any rule
/// nothing passes. The kernel wakes a process only for frames that pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub(crate) rules: Vec<Rule>,
    /// Whether MAC control frames pass.
    pub(crate) mac_control: bool,
    /// How many bytes of a frame that passes are handed over, at most.
    pub(crate) keep_bytes: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Filter {
            rules: Vec::new(),
            mac_control: false,
            keep_bytes: WHOLE_FRAME,
        }
    }
}

/// Packets that pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) protocol: u8,
    pub(crate) port_at: PortOffset,
    pub(crate) ports: RangeInclusive<u16>,
    /// Bits of which one must be set. `None`: the port alone decides.
    pub(crate) bits: Option<Bits>,
}

impl Filter {
    /// A filter that lets nothing pass.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cuts frames that pass to their first `bytes`, for who wants headers alone: the rest is not
    /// copied. [`ReceivedFrame::wire_bytes`](crate::ReceivedFrame::wire_bytes) is their length.
    #[must_use]
    pub fn keeping(mut self, bytes: u32) -> Self {
        self.keep_bytes = bytes;
        self
    }

    /// Lets packets of IP protocol `protocol` to one of `ports` pass as well.
    #[must_use]
    pub fn or(mut self, protocol: u8, port_at: PortOffset, ports: RangeInclusive<u16>) -> Self {
        self.rules.push(Rule {
            protocol,
            port_at,
            ports,
            bits: None,
        });
        self
    }

    /// The same for packets that have one of `bits` set.
    #[must_use]
    pub fn or_if(
        mut self,
        protocol: u8,
        bits: Bits,
        port_at: PortOffset,
        ports: RangeInclusive<u16>,
    ) -> Self {
        self.rules.push(Rule {
            protocol,
            port_at,
            ports,
            bits: Some(bits),
        });
        self
    }

    /// Lets MAC control frames pass as well, or no longer.
    #[must_use]
    pub fn with_mac_control(mut self, pass: bool) -> Self {
        self.mac_control = pass;
        self
    }

    /// How many bytes of a frame are handed over, or `None` if it does not pass: what the kernel does at a packet
    /// socket, for frames that come another way. Frames with a VLAN tag do not pass here; the kernel takes the tag off
    /// before it looks.
    pub fn kept(&self, frame: &[u8]) -> Option<usize> {
        let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        let kept = frame.len().min(self.keep_bytes as usize);
        let ethertype = u32::from(half(ETHERTYPE_AT as usize)?);
        if self.mac_control && ethertype == MAC_CONTROL {
            return Some(kept);
        }
        if ethertype != libc::ETH_P_IP as u32 {
            return None;
        }
        let ip = ETHERNET_BYTES as usize;
        let payload = ip + 4 * usize::from(frame.get(ip)? & 0x0f);
        for rule in &self.rules {
            if *frame.get(PROTOCOL_AT as usize)? != rule.protocol {
                continue;
            }
            if let Some(bits) = rule.bits
                && frame.get(payload + usize::from(bits.at))? & bits.mask == 0
            {
                continue;
            }
            if rule
                .ports
                .contains(&half(payload + usize::from(rule.port_at.0))?)
            {
                return Some(kept);
            }
        }
        None
    }

    /// Whether a frame is one of MAC control, and these pass.
    pub fn wants_mac_control(&self, frame: &[u8]) -> bool {
        let ethertype = (MAC_CONTROL as u16).to_be_bytes();
        self.mac_control
            && frame.get(ETHERTYPE_AT as usize..ETHERNET_BYTES as usize) == Some(&ethertype[..])
    }

    fn program(&self) -> Vec<libc::sock_filter> {
        // Every jump but JUMP is to one of the next five instructions.
        let mut program = vec![op(LOAD_HALF, 0, 0, ETHERTYPE_AT)];
        if self.mac_control {
            program.extend([
                op(JUMP_IF_EQUAL, 0, 1, MAC_CONTROL),
                op(RETURN, 0, 0, self.keep_bytes),
            ]);
        }
        program.extend([
            op(JUMP_IF_EQUAL, 1, 0, libc::ETH_P_IP as u32),
            op(RETURN, 0, 0, 0),
            op(LOAD_HEADER_BYTES, 0, 0, ETHERNET_BYTES),
        ]);
        for rule in &self.rules {
            let port_at = ETHERNET_BYTES + u32::from(rule.port_at.0);
            program.extend([
                op(LOAD_BYTE, 0, 0, PROTOCOL_AT),
                op(JUMP_IF_EQUAL, 1, 0, rule.protocol.into()),
                op(JUMP, 0, 0, if rule.bits.is_some() { 6 } else { 4 }),
            ]);
            // A packet that ends before its bits or its port does not pass.
            if let Some(bits) = rule.bits {
                program.extend([
                    op(LOAD_BYTE_INDEXED, 0, 0, ETHERNET_BYTES + u32::from(bits.at)),
                    op(JUMP_IF_ANY_BIT, 0, 4, bits.mask.into()),
                ]);
            }
            program.extend([
                op(LOAD_HALF_INDEXED, 0, 0, port_at),
                op(JUMP_IF_AT_LEAST, 0, 2, (*rule.ports.start()).into()),
                op(JUMP_IF_GREATER, 1, 0, (*rule.ports.end()).into()),
                op(RETURN, 0, 0, self.keep_bytes),
            ]);
        }
        program.push(op(RETURN, 0, 0, 0));
        program
    }

    pub(crate) fn attach(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut program = self.program();
        let Ok(len) = program.len().try_into() else {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        };
        let program = libc::sock_fprog {
            len,
            filter: program.as_mut_ptr(),
        };
        set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }
}

fn op(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}
