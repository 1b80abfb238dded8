//! The parser, the checksums and the deparser.

use std::collections::BTreeSet;

use super::{Block, Field, Generator, Place, STACK_SIZE, Scope, Ty};

impl Generator {
    /// Writes the parser: a chain of headers, each of which may be left out; then the stack.
    pub(super) fn parser(&mut self) {
        let sub = self.dice.chance(20);
        if sub {
            self.sub_parser();
        }
        self.open(
            "parser Parse(packet_in pkt, out headers_t hdr, inout userMetadata meta, \
             inout standard_metadata_t sm)",
        );
        if sub {
            self.line("SubParse() sub;");
        }
        let last = self.instances.len() - 1;
        for index in 0..=last {
            let name = if index == 0 {
                "start".into()
            } else {
                format!("parse_h{index}")
            };
            self.open(&format!("state {name}"));
            if index == 1 && sub {
                self.line("sub.apply(pkt, hdr);");
            } else {
                self.line(&format!("pkt.extract(hdr.h{index}x);"));
            }
            let mut scope = self.packet_scope(Block::Parser);
            if index > 0 {
                let path = format!("hdr.h{index}x");
                scope
                    .places
                    .extend(self.header_places(&path, self.instances[index]));
            }
            self.parser_statements(&mut scope);
            let mut targets: Vec<String> =
                (index + 1..=last).map(|i| format!("parse_h{i}")).collect();
            if self.stack.is_some() {
                targets.push("parse_stack".into());
            }
            if self.varbit {
                targets.push("parse_tail".into());
            }
            self.transition(&scope, &targets);
            self.close("");
        }
        if let Some(ty) = self.stack {
            self.stack_state(ty);
        }
        if self.varbit {
            self.open("state parse_tail");
            self.line("pkt.extract(hdr.tail, ((bit<32>)hdr.h0x.f0x[2:0]) << 3);");
            self.line("transition accept;");
            self.close("");
        }
        self.close("");
    }

    fn sub_parser(&mut self) {
        self.open("parser SubParse(packet_in pkt, inout headers_t hdr)");
        self.open("state start");
        self.line("pkt.extract(hdr.h1x);");
        let target = self.dice.pick(&["accept", "accept", "more"]);
        self.line(&format!(
            "transition select(hdr.h0x.f0x[0:0]) {{ 1w1: {target}; default: accept; }}"
        ));
        self.close("");
        self.open("state more");
        self.line("transition accept;");
        self.close("");
        self.close("");
    }

    fn parser_statements(&mut self, scope: &mut Scope) {
        if self.dice.chance(20) {
            let width = self.dice.pick(&[8u32, 16]);
            let name = self.fresh("ahead");
            self.line(&format!(
                "bit<{width}> {name} = pkt.lookahead<bit<{width}>>();"
            ));
            scope.places.push(Place {
                path: name,
                ty: Ty::Bits(width),
                writable: true,
            });
        }
        let count = self.dice.below(3);
        self.statements(scope, count, 1);
        if self.dice.chance(15) {
            let condition = self.value(scope, &Ty::Bool, 2);
            let error = self.dice.pick(&["Odd", "Even"]);
            self.line(&format!("verify({condition}, error.{error});"));
        }
    }

    /// A transition to one of the states or to `accept`, by few bits of what is known, so that random packets go
    /// everywhere.
    fn transition(&mut self, scope: &Scope, targets: &[String]) {
        if targets.is_empty() {
            self.line("transition accept;");
            return;
        }
        if self.dice.chance(15) {
            let target = self.dice.pick(targets);
            self.line(&format!("transition {target};"));
            return;
        }
        let mut keys = Vec::new();
        for _ in 0..self.dice.between(1, 2) {
            let wide: Vec<_> = scope
                .places
                .iter()
                .filter(|p| matches!(p.ty, Ty::Bits(_)))
                .cloned()
                .collect();
            let place = self.dice.pick(&wide);
            let all = self.width(&place.ty);
            let width = self.dice.between(1, 3).min(all as usize) as u32;
            let low = self.dice.below((all - width + 1) as usize) as u32;
            let key = format!("{}[{}:{low}]", place.path, low + width - 1);
            keys.push((key, width));
        }
        let list: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
        self.open(&format!("transition select({})", list.join(", ")));
        let mut chosen = BTreeSet::new();
        for _ in 0..self.dice.between(1, 4) {
            let mut sets: Vec<String> = keys.iter().map(|(_, width)| self.set(*width)).collect();
            if sets.len() > 1 && self.dice.chance(30) {
                sets[1] = "_".into();
            }
            let sets = match &sets[..] {
                [one] => one.clone(),
                many => format!("({})", many.join(", ")),
            };
            let target = self.target(targets);
            self.line(&format!("{sets}: {target};"));
            let ends = target == "reject";
            chosen.insert(if ends { "accept".into() } else { target });
        }
        if self.dice.chance(85) {
            let target = self.target(targets);
            self.line(&format!("default: {target};"));
        } else if chosen.len() == 1 {
            // Where all cases lead to one place p4c goes there without a choice, whatever matches.
            self.line("default: accept;");
        }
        self.close("");
    }

    fn target(&mut self, targets: &[String]) -> String {
        match self.dice.below(10) {
            0 | 1 => "accept".into(),
            2 => "reject".into(),
            _ => self.dice.pick(targets),
        }
    }

    /// A set of values of a key with few bits. Never of all of them: p4c takes such a set for
    /// `default`, of which BMv2 has only one.
    fn set(&mut self, width: u32) -> String {
        let most = (1usize << width) - 1;
        let value = self.dice.between(0, most);
        match self.dice.below(7) {
            // Bits beyond the mask stay 0: p4c leaves them in its JSON, where nothing matches then.
            1 => {
                let mask = self.dice.between(1, most);
                format!("{width}w{} &&& {width}w{mask}", value & mask)
            }
            2 if value > 0 => format!("{width}w{value} .. {width}w{most}"),
            3 => format!("{value}"),
            _ => format!("{width}w{value}"),
        }
    }

    fn stack_state(&mut self, ty: usize) {
        self.open("state parse_stack");
        self.line("pkt.extract(hdr.stack.next);");
        let fields = self.headers[ty].fields.iter();
        let bits: Vec<(String, u32)> = fields
            .filter(|f| matches!(f.ty, Ty::Bits(_)))
            .map(|f| (f.name.clone(), self.width(&f.ty)))
            .collect();
        match bits.is_empty() {
            true => self.line("transition accept;"),
            false => {
                let (name, width) = self.dice.pick(&bits);
                let bit = self.dice.below(width as usize);
                self.open(&format!(
                    "transition select(hdr.stack.last.{name}[{bit}:{bit}])"
                ));
                self.line("1w1: parse_stack;");
                self.line("default: accept;");
                self.close("");
            }
        }
        self.close("");
    }

    pub(super) fn checksum_control(&mut self, name: &str, function: &str, percent: usize) {
        self.open(&format!(
            "control {name}(inout headers_t hdr, inout userMetadata meta)"
        ));
        self.open("apply");
        for (index, ty) in self.instances.clone().into_iter().enumerate() {
            if !self.headers[ty].checksum || !self.dice.chance(percent) {
                continue;
            }
            let path = |field: &Field| format!("hdr.h{index}x.{}", field.name);
            let mut fields: Vec<String> = self.headers[ty].fields.iter().map(path).collect();
            let Some(target) = fields.pop() else { continue };
            let algorithm = self.dice.pick(&["csum16", "crc16"]);
            self.line(&format!(
                "{function}(hdr.h{index}x.isValid(), {{ {} }}, {target}, HashAlgorithm.{algorithm});",
                fields.join(", ")
            ));
        }
        self.close("");
        self.close("");
    }

    pub(super) fn deparser(&mut self) {
        self.open("control Deparse(packet_out pkt, in headers_t hdr)");
        self.open("apply");
        if self.dice.chance(30) {
            self.line("pkt.emit(hdr);");
        } else {
            for index in 0..self.instances.len() {
                self.line(&format!("pkt.emit(hdr.h{index}x);"));
            }
            if self.stack.is_some() {
                match self.dice.chance(70) {
                    true => self.line("pkt.emit(hdr.stack);"),
                    false => (0..STACK_SIZE)
                        .for_each(|i| self.line(&format!("pkt.emit(hdr.stack[{i}]);"))),
                }
            }
            if self.varbit {
                self.line("pkt.emit(hdr.tail);");
            }
        }
        self.close("");
        self.close("");
    }
}
