use crate::ids::*;
pub type Placeholder = DigestId;
#[derive(Clone, Debug)]
pub struct Packet {
    _p: (),
}
impl Packet {
    /// Bytes the packet would have if deparsed now.
    pub fn wire_len(&self) -> usize {
        unimplemented!("the next commit")
    }
    pub fn ingress_port(&self) -> u16 {
        unimplemented!("the next commit")
    }
    pub fn packet_id(&self) -> u64 {
        unimplemented!("the next commit")
    }
    /// Cuts the packet when it is deparsed; the shortest call counts.
    pub fn truncate(&mut self, _bytes: usize) {
        unimplemented!("the next commit")
    }
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preserved {
    _p: (),
}
