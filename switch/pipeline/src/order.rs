//! Which headers a packet has: whether the deparser emits what the parser extracts, and what changes that.

use crate::action::{Primitive, Target};
use crate::parser::{ExtractTo, Op, State};
use crate::program::Program;

impl Program {
    /// Whether the parser of v1model extracts the headers that the deparser emits and no others, each once and in that
    /// order, so that together they are as long as what was parsed, and each has its place in the frame.
    pub(crate) fn parses_as_it_emits(&self) -> bool {
        let emitted: Vec<u32> = self.emit.iter().map(|emit| emit.header).collect();
        let is_known = |header: &u32| {
            let h = self.layout.header_at(*header);
            let once = emitted.iter().filter(|other| *other == header).count() == 1;
            let bounded = h.variable.is_none() || h.max_bytes != 0;
            let absent = self.layout.initial[h.valid_at as usize] == 0;
            once && bounded && absent && h.siblings.is_empty() && h.fixed_bits.is_multiple_of(8)
        };
        if !emitted.iter().all(is_known) {
            return false;
        }
        let states = &self.parser.states;
        // By state: how many of the emitted headers may be behind a packet that enters it.
        let mut behind: Vec<Option<usize>> = vec![None; states.len()];
        let mut open: Vec<(u32, usize)> = self.parser.start.map(|s| (s, 0)).into_iter().collect();
        while let Some((number, entered)) = open.pop() {
            let known = &mut behind[number as usize];
            if known.is_some_and(|known| known >= entered) {
                continue;
            }
            *known = Some(entered);
            let state = &states[number as usize];
            let Some(left) = self.extract_in_order(state, &emitted, entered) else {
                return false;
            };
            let next = state.cases.iter().map(|case| case.next);
            open.extend(next.chain([state.default]).flatten().map(|n| (n, left)));
        }
        true
    }

    /// How many of the emitted headers are behind a packet that leaves a state; `None` if it does something else than
    /// to extract those that follow.
    fn extract_in_order(&self, state: &State, emitted: &[u32], mut behind: usize) -> Option<usize> {
        for op in &state.ops {
            match op {
                Op::Extract(ExtractTo::Header(header), _) => {
                    let place = emitted.iter().position(|h| h == header)?;
                    if place < behind {
                        return None;
                    }
                    behind = place + 1;
                }
                Op::Extract(ExtractTo::Stack(..), _) | Op::Advance(_) => return None,
                Op::Set(target, _) | Op::SetLookahead(target, ..) => {
                    if self.sets_headers(target) {
                        return None;
                    }
                }
                Op::Primitives(body) => {
                    if body.iter().any(|primitive| self.changes_headers(primitive)) {
                        return None;
                    }
                }
                Op::Verify(..) => {}
            }
        }
        Some(behind)
    }

    /// Whether a primitive may change which headers are valid, or how long they are.
    pub(crate) fn changes_headers(&self, primitive: &Primitive) -> bool {
        match primitive {
            Primitive::NoOp
            | Primitive::Jump(_)
            | Primitive::JumpUnless(..)
            | Primitive::Exit
            | Primitive::Assert(_)
            | Primitive::Assume(_)
            | Primitive::Log(..)
            | Primitive::MarkToDrop(_)
            | Primitive::Clone { .. }
            | Primitive::Resubmit(_)
            | Primitive::Recirculate(_)
            | Primitive::Digest(_)
            | Primitive::Count(..)
            | Primitive::RegisterWrite { .. }
            | Primitive::Truncate(_) => false,
            Primitive::AssignWord(at, ..) => self.counts_for_headers(*at),
            Primitive::Assign(to, _)
            | Primitive::Hash { to, .. }
            | Primitive::Random { to, .. }
            | Primitive::Meter { to, .. }
            | Primitive::RegisterRead { to, .. } => self.sets_headers(to),
            Primitive::AssignVariable { .. }
            | Primitive::AssignHeader(..)
            | Primitive::AssignUnion(..)
            | Primitive::AssignStack { .. }
            | Primitive::Push(..)
            | Primitive::Pop(..)
            | Primitive::SetValid(_)
            | Primitive::SetInvalid(_)
            | Primitive::Tofino(_) => true,
        }
    }

    /// Whether a number stored there may change which headers are valid, or how long they are.
    pub(crate) fn sets_headers(&self, target: &Target) -> bool {
        match target {
            Target::Field(slot) => {
                (slot.at..slot.at + slot.words).any(|at| self.counts_for_headers(at))
            }
            Target::Register(..) | Target::Nowhere => false,
            Target::Element(..) | Target::Last(..) => true,
        }
    }

    /// Whether a word says if a header is valid, or how long it is.
    fn counts_for_headers(&self, at: u32) -> bool {
        self.layout.headers.iter().any(|header| {
            let mut lengths = header.fields.iter().filter_map(|field| field.length_at);
            header.valid_at == at || lengths.any(|length_at| length_at == at)
        })
    }
}
