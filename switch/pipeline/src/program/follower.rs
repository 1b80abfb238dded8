//! Follows a program forward, from the parser to the deparser, with the words that are written on every way to a place.
//! Words that are read there and are not among them must be initialised. Fields of a valid header are written, because
//! every operation that makes a header valid writes them all; so to read a field only of a valid header (emitting,
//! calculations) is no such reading. Programs with operations that are not followed (stacks, unions) have all words
//! initialised.

use super::usage::Usage;
use super::written::{Written, join, set, set_slot};
use super::{Checksum, Emit, Next, Node, Place, Program, TableNode};
use crate::action::{Primitive, Target, TofinoPrimitive};
use crate::calculation::Input;
use crate::expr::{HeaderRef, Number, Word};
use crate::parser::{ExtractTo, KeyPart, Op, State};
use crate::slot::Slot;

impl Usage {
    /// As if the program read and wrote all words.
    pub(super) fn all(program: &Program) -> Usage {
        let words = program.layout.initial.len();
        Usage::all_words(words, program.verify.len(), program.update.len())
    }

    /// Words that a program for Tofino reads and writes, which parses packets in each gress. The target sets and reads
    /// the fields at `places` itself.
    pub(super) fn of_tofino<'a>(
        program: &'a Program,
        places: impl Iterator<Item = Place>,
        halves: impl Iterator<Item = Half<'a>>,
    ) -> Usage {
        let mut follower = Follower::new(program);
        follower.follow_tofino(places, halves);
        let all = Usage::all(program);
        if follower.lost {
            return all;
        }
        let mut usage = Usage {
            unset: follower.unset,
            stored: follower.stored,
            read: follower.read,
            ..all
        };
        usage.leave(&program.layout.headers);
        usage
    }

    /// Words that this program reads and writes.
    pub(super) fn of(program: &Program) -> Usage {
        let words = program.layout.initial.len();
        let mut follower = Follower::new(program);
        follower.follow();
        let (verified_in_frame, updated_in_frame) = follower.own_checksums();
        if follower.lost {
            return Usage {
                in_order: program.parses_as_it_emits(),
                ..Usage::all(program)
            };
        }
        let mut usage = Usage {
            unset: follower.unset,
            stored: follower.stored,
            read: follower.read,
            left: vec![false; words],
            in_order: program.parses_as_it_emits(),
            queueing_times: false,
            verified_in_frame,
            updated_in_frame,
        };
        let standard = &program.standard;
        usage.queueing_times =
            usage.reads(standard.enq_timestamp) || usage.reads(standard.deq_timedelta);
        if usage.in_order {
            usage.leave(&program.layout.headers);
        }
        usage
    }
}

/// Half a pipeline of Tofino: where parser and control begin, and the deparser.
pub(super) struct Half<'a> {
    pub parser: Option<u32>,
    pub control: Next,
    pub deparser: &'a [Primitive],
}

/// Follows a program.
pub(super) struct Follower<'a> {
    pub(super) program: &'a Program,
    /// The words that must be initialised, as far as is known.
    unset: Vec<bool>,
    /// The words that are written one by one, as far as is known.
    stored: Vec<bool>,
    /// Those of them that the parser writes.
    parsed: Vec<bool>,
    /// The words that are read, as far as is known.
    read: Vec<bool>,
    /// Whether there is something that cannot be followed.
    pub(super) lost: bool,
}

impl<'a> Follower<'a> {
    /// Knows nothing yet but which words say what headers there are, and where.
    fn new(program: &'a Program) -> Follower<'a> {
        let layout = &program.layout;
        let words = layout.initial.len();
        let mut unset = vec![false; words];
        for header in &layout.headers {
            unset[header.valid_at as usize] = true;
            // Whatever makes a header valid says where it is; on Tofino that is asked of others, too.
            if let Some(home_at) = header.home_at {
                unset[home_at as usize] = program.tofino().is_some();
            }
        }
        Follower {
            program,
            unset,
            stored: vec![false; words],
            parsed: Vec::new(),
            read: vec![false; words],
            lost: !(layout.stacks.is_empty() && layout.unions.is_empty()),
        }
    }

    fn follow_tofino(
        &mut self,
        places: impl Iterator<Item = Place>,
        halves: impl Iterator<Item = Half<'a>>,
    ) {
        let program = self.program;
        let nothing = vec![false; self.unset.len()];
        for place in program.standard.places().chain(places) {
            self.read_place(place, &nothing);
        }
        for half in halves {
            let parsed = self.parser(half.parser, nothing.clone());
            let done = self.pipeline(half.control, parsed);
            self.body(half.deparser, done, &mut None);
        }
        self.requested(&nothing);
    }

    fn follow(&mut self) {
        let program = self.program;
        let standard = &program.standard;
        let mut written = vec![false; self.unset.len()];
        set(&mut written, standard.ingress_port);
        set(&mut written, standard.packet_length);
        set(&mut written, standard.instance_type);
        set(&mut written, standard.ingress_global_timestamp);
        let mut parsed = self.parser(program.parser.start, written);
        self.parsed.clone_from(&self.stored);
        for checksum in &program.verify {
            self.checksum(checksum, &parsed);
        }
        set(&mut parsed, standard.parser_error);
        set(&mut parsed, standard.checksum_error);
        let mut queued = self.pipeline(program.ingress, parsed);
        self.read_place(standard.egress_spec, &queued);
        self.read_place(standard.mcast_grp, &queued);
        self.read_place(standard.priority, &queued);
        set(&mut queued, standard.instance_type);
        let mut leaving = queued.clone();
        for place in [standard.egress_port, standard.egress_spec] {
            set(&mut leaving, place);
        }
        set(&mut leaving, standard.packet_length);
        for place in [
            standard.egress_rid,
            standard.egress_global_timestamp,
            standard.enq_timestamp,
            standard.enq_qdepth,
            standard.deq_timedelta,
            standard.deq_qdepth,
            standard.qid,
        ] {
            set(&mut leaving, place);
        }
        // A packet is deparsed after egress, or after ingress if it is deflected.
        let mut deparsed = Some(self.pipeline(program.egress, leaving));
        join(&mut deparsed, &queued);
        let deparsed = deparsed.unwrap_or(queued);
        for checksum in &program.update {
            self.checksum(checksum, &deparsed);
            set_slot(&mut self.stored, checksum.target);
        }
        self.body(&program.deparser_calls, deparsed, &mut None);
        self.requested(&vec![false; self.unset.len()]);
    }

    /// Fields that packets may take along, and digests: whatever asks for them, they may be read
    /// wherever a pipeline ends.
    fn requested(&mut self, nothing: &Written) {
        let program = self.program;
        for list in program.field_lists.values() {
            for (at, words) in &list.ranges {
                (*at..*at + *words).for_each(|at| self.read(at, nothing));
            }
        }
        for digest in &program.digests {
            self.read_slots(&digest.fields, nothing);
        }
    }

    /// A word is read.
    pub(super) fn read(&mut self, at: u32, written: &Written) {
        self.read[at as usize] = true;
        self.unset[at as usize] |= !written[at as usize];
    }

    fn read_place(&mut self, place: impl Into<Option<Place>>, written: &Written) {
        if let Some(place) = place.into() {
            self.read(place.at, written);
        }
    }

    pub(super) fn read_slots(&mut self, slots: &[Slot], written: &Written) {
        for slot in slots {
            (slot.at..slot.at + slot.words).for_each(|at| self.read(at, written));
        }
    }

    /// All fields of a header are copied, by an operation that reads those before which are left in the frame.
    fn copy_header(&mut self, header: &HeaderRef, written: &Written) {
        let HeaderRef::Fixed(header) = header else {
            return self.lost = true;
        };
        let header = self.program.layout.header_at(*header);
        for at in header.first..header.first + header.words {
            self.unset[at as usize] |= !written[at as usize];
        }
    }

    /// All fields of a header are read.
    pub(super) fn read_header(&mut self, header: &HeaderRef, written: &Written) {
        let HeaderRef::Fixed(header) = header else {
            return self.lost = true;
        };
        let header = self.program.layout.header_at(*header);
        (header.first..header.first + header.words).for_each(|at| self.read(at, written));
    }

    /// A number is stored in a target. `always`: whatever happens.
    fn store(&mut self, target: &Target, always: bool, written: &mut Written) {
        match target {
            Target::Field(slot) => {
                let mut headers = self.program.layout.headers.iter();
                // Only operations on whole headers may make them valid.
                self.lost |= headers.any(|header| header.valid_at == slot.at);
                set_slot(&mut self.stored, *slot);
                if always {
                    set_slot(written, *slot);
                }
            }
            Target::Register(_, index) => self.number(index, written),
            Target::Nowhere => {}
            Target::Element(..) | Target::Last(..) => self.lost = true,
        }
    }

    /// Words that the parser has written wherever it may end.
    fn parser(&mut self, start: Option<u32>, entry: Written) -> Written {
        let parser = &self.program.parser;
        let mut states: Vec<Option<Written>> = vec![None; parser.states.len()];
        let (mut end, mut open) = (None, Vec::new());
        match start {
            Some(start) => {
                states[start as usize] = Some(entry.clone());
                open.push(start);
            }
            None => end = Some(entry.clone()),
        }
        while let Some(number) = open.pop() {
            let state = &parser.states[number as usize];
            let Some(written) = states[number as usize].clone() else {
                continue;
            };
            // A state that is entered too often ends the parser.
            join(&mut end, &written);
            let Some(written) = self.state(state, written, &mut end) else {
                continue;
            };
            for next in state
                .cases
                .iter()
                .map(|case| case.next)
                .chain([state.default])
            {
                match next {
                    None => _ = join(&mut end, &written),
                    Some(next) if join(&mut states[next as usize], &written) => open.push(next),
                    Some(_) => {}
                }
            }
        }
        end.unwrap_or(entry)
    }

    /// Words that are written behind the operations of a state, unless these always end the parser.
    fn state(
        &mut self,
        state: &State,
        mut written: Written,
        end: &mut Option<Written>,
    ) -> Option<Written> {
        for op in &state.ops {
            match op {
                Op::Extract(ExtractTo::Header(header), length) => {
                    length
                        .iter()
                        .for_each(|length| self.number(length, &written));
                    join(end, &written);
                    let header = self.program.layout.header_at(*header);
                    let fields = header.fields.iter();
                    for field in fields.filter(|f| f.length_at.is_none() && f.slot.bits > 0) {
                        set_slot(&mut written, field.slot);
                    }
                }
                Op::Extract(ExtractTo::Stack(..), _) => self.lost = true,
                Op::Set(target, number) => {
                    self.number(number, &written);
                    self.store(target, true, &mut written);
                }
                Op::SetLookahead(target, ..) => {
                    join(end, &written);
                    self.store(target, true, &mut written);
                }
                Op::Verify(condition, error) => {
                    self.condition(condition, &written);
                    self.number(error, &written);
                    join(end, &written);
                }
                Op::Advance(bits) => {
                    self.number(bits, &written);
                    join(end, &written);
                }
                Op::Primitives(body) => written = self.body(body, written, end)?,
            }
        }
        for part in state.key() {
            match part {
                KeyPart::Field(slot) => self.read_slots(&[*slot], &written),
                KeyPart::Last(..) => self.lost = true,
                KeyPart::Lookahead(..) => {}
            }
        }
        Some(written)
    }

    /// Words that a pipeline has written wherever it may end.
    fn pipeline(&mut self, start: Next, entry: Written) -> Written {
        let nodes = &self.program.nodes;
        let mut states: Vec<Option<Written>> = vec![None; nodes.len()];
        let (mut end, mut open) = (None, Vec::new());
        let mut ways = vec![(start, entry.clone())];
        loop {
            for (next, written) in ways.drain(..) {
                match next {
                    None => _ = join(&mut end, &written),
                    Some(next) if join(&mut states[next as usize], &written) => open.push(next),
                    Some(_) => {}
                }
            }
            let Some(number) = open.pop() else {
                return end.unwrap_or(entry);
            };
            let Some(written) = states[number as usize].clone() else {
                continue;
            };
            match &nodes[number as usize] {
                Node::Condition {
                    condition,
                    then,
                    otherwise,
                    ..
                } => {
                    self.condition(condition, &written);
                    let [holds, fails] =
                        [true, false].map(|is| self.behind(condition, is, &written));
                    ways.extend([(*then, holds), (*otherwise, fails)]);
                }
                Node::Call { action, next } => {
                    let body = &self.program.actions[*action as usize].body;
                    let written = self.body(body, written, &mut end);
                    ways.extend(written.map(|written| (*next, written)));
                }
                Node::Table(table) => ways = self.table(table, written, &mut end),
            }
        }
    }

    /// Where packets go on behind a table, and what is written then.
    fn table(
        &mut self,
        node: &TableNode,
        mut written: Written,
        end: &mut Option<Written>,
    ) -> Vec<(Next, Written)> {
        let program = self.program;
        let spec = &program.blueprint.tables[node.table as usize].spec;
        for field in &spec.key {
            self.read_slots(&[field.slot], &written);
        }
        if let Some(meter) = &spec.meter {
            self.store(&Target::Field(meter.target), false, &mut written);
        }
        let profile = spec.profile.map(|p| &program.blueprint.profiles[p.index()]);
        if let Some(selector) = profile.and_then(|profile| profile.selector) {
            self.calculation(selector, &written);
        }
        let mut ways = Vec::new();
        let mut go_on = |action: Option<u32>, written: Written| match node.by_hit {
            Some((hit, miss)) => ways.extend([(hit, written.clone()), (miss, written)]),
            None => ways.push((node.next(false, action), written)),
        };
        // Members of a shared profile may have actions that only another of its tables lists.
        let shared = profile.into_iter().flat_map(|profile| &profile.actions);
        let shared = shared.filter(|action| !spec.actions.contains(action));
        for action in spec.actions.iter().chain(shared).map(|action| action.0) {
            let body = &program.actions[action as usize].body;
            if let Some(written) = self.body(body, written.clone(), end) {
                go_on(Some(action), written);
            }
        }
        go_on(None, written);
        ways
    }

    /// Words that are written behind primitives, unless all ways through them end in `exits`.
    fn body(
        &mut self,
        body: &[Primitive],
        written: Written,
        exits: &mut Option<Written>,
    ) -> Option<Written> {
        let mut places: Vec<Option<Written>> = vec![None; body.len() + 1];
        places[0] = Some(written);
        for (at, primitive) in body.iter().enumerate() {
            let Some(mut written) = places[at].take() else {
                continue;
            };
            let mut jump = |follower: &mut Self, to: &Number, written: &Written| match to.word {
                Some(Word::Const(to)) if to > at as u64 => {
                    let to = usize::try_from(to).unwrap_or(usize::MAX);
                    join(&mut places[to.min(body.len())], written);
                }
                _ => follower.lost = true,
            };
            match primitive {
                Primitive::Jump(to) => {
                    jump(self, to, &written);
                    continue;
                }
                Primitive::JumpUnless(condition, to) => {
                    self.condition(condition, &written);
                    let fails = self.behind(condition, false, &written);
                    jump(self, to, &fails);
                    written = self.behind(condition, true, &written);
                }
                Primitive::Exit => {
                    join(exits, &written);
                    continue;
                }
                other => self.primitive(other, &mut written),
            }
            join(&mut places[at + 1], &written);
        }
        places.pop()?
    }

    /// A primitive that is no jump.
    fn primitive(&mut self, primitive: &Primitive, written: &mut Written) {
        match primitive {
            Primitive::NoOp | Primitive::SetInvalid(HeaderRef::Fixed(_)) => {}
            Primitive::Assign(target, number) => {
                self.number(number, written);
                self.store(target, true, written);
            }
            Primitive::AssignWord(to, _, word) => {
                self.word(word, written);
                let slot = Slot {
                    at: *to,
                    words: 1,
                    bits: 64,
                    signed: false,
                };
                self.store(&Target::Field(slot), true, written);
            }
            Primitive::AssignHeader(to, from) => {
                if !self.is_copied_if_written(from) {
                    self.copy_header(from, written);
                }
                match to {
                    HeaderRef::Fixed(to) => {
                        // Those that the other header does not have are not written.
                        self.lost |= self.words_of(from) != self.words_of(&HeaderRef::Fixed(*to));
                    }
                    HeaderRef::Element(..) => self.lost = true,
                }
            }
            Primitive::SetValid(HeaderRef::Fixed(header)) => {
                // On Tofino they stay what they were.
                if self.program.tofino().is_some() {
                    self.read_header(&HeaderRef::Fixed(*header), written);
                }
                let header = self.program.layout.header_at(*header);
                let fields = header.first as usize..(header.first + header.words) as usize;
                written[fields].fill(true);
            }
            Primitive::Tofino(primitive) => self.tofino(primitive, written),
            Primitive::Assert(condition) | Primitive::Assume(condition) => {
                self.condition(condition, written);
            }
            Primitive::Log(_, numbers) => {
                numbers
                    .iter()
                    .for_each(|number| self.number(number, written));
            }
            Primitive::MarkToDrop(to) => {
                set(written, to.egress_spec);
                set(written, to.mcast_grp);
            }
            Primitive::Clone {
                session,
                field_list,
            } => {
                self.number(session, written);
                self.number(field_list, written);
            }
            Primitive::Resubmit(number)
            | Primitive::Recirculate(number)
            | Primitive::Digest(number)
            | Primitive::Count(_, number)
            | Primitive::Truncate(number) => self.number(number, written),
            Primitive::Hash {
                to,
                base,
                calculation,
                size,
            } => {
                self.number(base, written);
                self.number(size, written);
                self.calculation(*calculation, written);
                self.store(to, true, written);
            }
            Primitive::Random { to, low, high } => {
                self.number(low, written);
                self.number(high, written);
                self.store(to, false, written);
            }
            // A cell that there is not leaves the target alone.
            Primitive::Meter { index, to, .. } => {
                self.number(index, written);
                self.store(to, false, written);
            }
            Primitive::RegisterRead {
                to,
                register,
                index,
            } => {
                self.number(index, written);
                let size = self.program.blueprint.registers[register.number as usize]
                    .array
                    .size;
                self.store(to, index.bits_inside(size).is_some(), written);
            }
            Primitive::RegisterWrite { index, value, .. } => {
                self.number(index, written);
                self.number(value, written);
            }
            Primitive::AssignVariable { .. }
            | Primitive::AssignUnion(..)
            | Primitive::AssignStack { .. }
            | Primitive::Push(..)
            | Primitive::Pop(..)
            | Primitive::SetValid(_)
            | Primitive::SetInvalid(_)
            | Primitive::Jump(_)
            | Primitive::JumpUnless(..)
            | Primitive::Exit => self.lost = true,
        }
    }

    fn tofino(&mut self, primitive: &TofinoPrimitive, written: &mut Written) {
        let mut header_of = |header: &Option<u32>| {
            if let Some(header) = header {
                self.read_header(&HeaderRef::Fixed(*header), written);
            }
        };
        match primitive {
            // Fields of valid headers are written.
            TofinoPrimitive::Emit(_) | TofinoPrimitive::CountDeparting(None) => {}
            TofinoPrimitive::Mirror(session, header) => {
                header_of(header);
                self.number(session, written);
            }
            TofinoPrimitive::Resubmit(header) => header_of(header),
            TofinoPrimitive::CountDeparting(Some((_, index))) => self.number(index, written),
            TofinoPrimitive::CountLess(_, index, less) => {
                self.number(index, written);
                self.number(less, written);
            }
            TofinoPrimitive::WholeHash(to, calculation) => {
                self.calculation(*calculation, written);
                self.store(to, true, written);
            }
            TofinoPrimitive::EntryIndex(to) => self.store(to, true, written),
            TofinoPrimitive::Filter { to, index, of, .. } => {
                self.number(index, written);
                self.number(of, written);
                self.store(to, true, written);
            }
            TofinoPrimitive::Math { to, of, .. } => {
                self.number(of, written);
                self.store(to, true, written);
            }
        }
    }

    /// Whether a copy of a header has only words that are written. It is made of a valid header
    /// alone; metadata are valid from the start, and a variable-length field leaves words unused.
    fn is_copied_if_written(&self, header: &HeaderRef) -> bool {
        let HeaderRef::Fixed(header) = header else {
            return false;
        };
        let layout = &self.program.layout;
        let header = layout.header_at(*header);
        layout.initial[header.valid_at as usize] == 0 && header.variable.is_none()
    }

    /// How many words a header has; `None` if it is chosen by an index.
    fn words_of(&self, header: &HeaderRef) -> Option<u32> {
        match header {
            HeaderRef::Fixed(header) => Some(self.program.layout.header_at(*header).words),
            HeaderRef::Element(..) => None,
        }
    }

    fn checksum(&mut self, checksum: &Checksum, written: &Written) {
        if let Some(condition) = &checksum.condition {
            self.condition(condition, written);
        }
        if checksum.own.is_none() {
            self.calculation(checksum.calculation, written);
            self.read_slots(&[checksum.target], &vec![true; self.unset.len()]);
        }
    }

    /// Which checksums to verify, and which to update, can be computed of bytes; the others read the words.
    fn own_checksums(&mut self) -> (Vec<bool>, Vec<bool>) {
        let program = self.program;
        let written = vec![true; self.unset.len()];
        let in_frame = |follower: &mut Self, checksum: &Checksum, can_be: bool| {
            if !can_be {
                follower.calculation(checksum.calculation, &written);
                follower.read_slots(&[checksum.target], &written);
            }
            can_be
        };
        let mut verified = Vec::new();
        for checksum in &program.verify {
            let can_be = checksum.own.is_some_and(|own| {
                let pieces = &program.layout.header_at(own.header).pieces.pieces;
                !pieces.iter().any(|piece| self.parsed[piece.at as usize])
            });
            verified.push(in_frame(self, checksum, can_be));
        }
        let mut updated = Vec::new();
        for checksum in &program.update {
            let can_be = checksum.own.is_some_and(|own| {
                let same = |c: &&Checksum| c.own.is_some_and(|other| other.header == own.header);
                let emitted = |emit: &&Emit| emit.header == own.header;
                program.update.iter().filter(same).count() == 1
                    && program.emit.iter().filter(emitted).count() == 1
                    && program.deparser_calls.is_empty()
                    && !self.read[checksum.target.at as usize]
            });
            updated.push(in_frame(self, checksum, can_be));
        }
        (verified, updated)
    }

    /// The inputs of a calculation. Those of headers count only where these are valid.
    fn calculation(&mut self, calculation: u32, written: &Written) {
        let layout = &self.program.layout;
        let all = vec![true; self.unset.len()];
        let written_if = |valid_at: u32| match layout.initial[valid_at as usize] {
            0 => &all,
            _ => written,
        };
        for input in &self.program.calculations[calculation as usize].inputs {
            match input {
                Input::Field(slot, valid_at, length_at) => {
                    let written = written_if(*valid_at);
                    self.read_slots(&[*slot], written);
                    length_at.iter().for_each(|at| self.read(*at, written));
                }
                Input::Header(header) => {
                    let written = written_if(layout.header_at(*header).valid_at);
                    self.read_header(&HeaderRef::Fixed(*header), written);
                }
                Input::Constant(..) | Input::Payload => {}
            }
        }
    }
}
