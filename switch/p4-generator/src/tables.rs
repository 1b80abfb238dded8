//! Controls: their actions and tables.

use super::{Block, Function, Generator, Parameter, Place, Table, Ty};

/// A key of a table, for its entries.
struct Key {
    text: String,
    ty: Ty,
    kind: &'static str,
}

impl Generator {
    /// Controls that ingress and egress apply.
    pub(super) fn sub_controls(&mut self) {
        for _ in 0..self.dice.between(0, 2) {
            let params = self.parameters(&["in", "inout", "out"], 2);
            let tabled = self.dice.chance(50);
            let name = self.fresh(if tabled { "Tabled" } else { "Plain" });
            let more = self.signature(&params);
            let comma = if more.is_empty() { "" } else { ", " };
            self.open(&format!(
                "control {name}(inout headers_t hdr, inout userMetadata meta{comma}{more})"
            ));
            let mut scope = self.packet_scope(Block::Control);
            scope.places.retain(|place| !place.path.starts_with("sm."));
            scope.places.extend(Self::parameter_places(&params));
            if tabled {
                let width = self.dice.pick(&[1, 8, 16]);
                self.open(&format!("action act(bit<{width}> data)"));
                let mut inner = self.packet_scope(Block::Control);
                inner.places.retain(|place| !place.path.starts_with("sm."));
                inner.block = Block::Action;
                inner.places.push(Place {
                    path: "data".into(),
                    ty: Ty::Bits(width),
                    writable: false,
                });
                self.arrays.clear();
                self.statements(&mut inner, 2, 1);
                self.close("");
                self.open("table t");
                self.line("key = { hdr.h0x.f0x: exact; }");
                self.line("actions = { act; NoAction; }");
                self.line("default_action = NoAction();");
                self.close("");
            }
            self.open("apply");
            self.initialise(&params);
            if tabled {
                self.line("t.apply();");
            }
            let count = self.dice.between(1, 3);
            self.statements(&mut scope, count, 1);
            self.close("");
            self.close("");
            self.declared_controls.push(Function {
                name,
                params,
                returns: None,
            });
        }
    }

    /// Makes the first header valid, since a packet may be too short for it: fields of invalid headers may be anything.
    fn first_header_is_valid(&mut self) {
        self.open("if (!hdr.h0x.isValid())");
        self.line("hdr.h0x.setValid();");
        for field in self.header_places("hdr.h0x", self.instances[0]) {
            let value = match field.ty {
                Ty::Bits(_) | Ty::Signed(_) => "0".into(),
                Ty::Bool => "false".into(),
                Ty::Enum(index) => format!("{}.M0", self.enums[index].name),
                Ty::Code(index) => format!("{}.M0", self.codes[index].name),
            };
            self.line(&format!("{} = {value};", field.path));
        }
        self.close("");
    }

    pub(super) fn control(&mut self, name: &str, block: Block) {
        self.open(&format!(
            "control {name}(inout headers_t hdr, inout userMetadata meta, inout standard_metadata_t sm)"
        ));
        self.controls = self.declared_controls.clone();
        for control in self.controls.clone() {
            self.line(&format!("{}() {}_i;", control.name, control.name));
        }
        self.arrays();
        self.actions.clear();
        self.tables.clear();
        self.common_actions(block);
        for _ in 0..self.dice.between(1, 4) {
            self.action();
        }
        for _ in 0..self.dice.between(1, 3) {
            self.table();
        }
        self.open("apply");
        let mut scope = self.packet_scope(block);
        if block == Block::Ingress {
            self.line("sm.egress_spec = 9w1;");
        }
        self.first_header_is_valid();
        let count = self.dice.between(2, 6);
        self.statements(&mut scope, count, 2);
        while !self.tables.is_empty() {
            self.table_apply(&scope, 2);
            let count = self.dice.below(3);
            self.statements(&mut scope, count, 2);
        }
        if block == Block::Egress {
            // The parser's result is seen in the packet.
            self.line(
                "if (sm.parser_error != error.NoError) { hdr.h0x.f0x = hdr.h0x.f0x ^ 8w0x55; }",
            );
        }
        self.close("");
        self.close("");
    }

    /// Declares actions that most controls have: packets are dropped, and in ingress sent to a port.
    fn common_actions(&mut self, block: Block) {
        self.line("action discard() { mark_to_drop(sm); }");
        self.actions.push(Function {
            name: "discard".into(),
            params: Vec::new(),
            returns: None,
        });
        if block == Block::Ingress {
            self.line("action forward(bit<9> port) { sm.egress_spec = port & 9w3; }");
            let params = vec![Parameter {
                name: "port".into(),
                ty: Ty::Bits(9),
                direction: "",
            }];
            self.actions.push(Function {
                name: "forward".into(),
                params,
                returns: None,
            });
        }
    }

    fn action(&mut self) {
        let mut params = match self.dice.chance(25) {
            true => self.parameters(&["in", "inout", "out"], 2),
            false => Vec::new(),
        };
        // Parameters from the control plane come last.
        for _ in 0..self.dice.between(0, 2) {
            let ty = Ty::Bits(self.dice.pick(&[1, 7, 8, 9, 16, 32, 48]));
            params.push(Parameter {
                name: self.fresh("d"),
                ty,
                direction: "",
            });
        }
        let name = self.fresh("action");
        if self.dice.chance(15) {
            let own = self.fresh("renamed.action");
            self.line(&format!("@name(\"{own}\")"));
        }
        let signature = self.signature(&params);
        self.open(&format!("action {name}({signature})"));
        self.initialise(&params);
        let mut scope = self.packet_scope(Block::Action);
        scope.places.extend(Self::parameter_places(&params));
        let count = self.dice.between(1, 4);
        self.statements(&mut scope, count, 1);
        self.close("");
        self.actions.push(Function {
            name,
            params,
            returns: None,
        });
    }

    fn table(&mut self) {
        let name = self.fresh("table");
        // Actions whose parameters have directions would take arguments in the table's list; here they are only called.
        let plain = self
            .actions
            .iter()
            .filter(|a| a.params.iter().all(|p| p.direction.is_empty()));
        let mut actions: Vec<Function> = plain.cloned().collect();
        while actions.len() > 1 && self.dice.chance(30) {
            let gone = self.dice.below(actions.len());
            actions.remove(gone);
        }
        let direct = self.direct_objects(&name, &mut actions);
        if self.dice.chance(20) {
            let own = self.fresh("renamed.table");
            self.line(&format!("@name(\"{own}\")"));
        }
        if self.dice.chance(15) {
            let note = self.dice.pick(&[
                "@noted(\"x\", 1)",
                "@paired[key=1, other=\"y\"]",
                "@brief(\"a table\")",
            ]);
            self.line(note);
        }
        self.open(&format!("table {name}"));
        let keys = self.keys();
        let mut names: Vec<String> = actions.iter().map(|a| a.name.clone()).collect();
        names.push("NoAction".into());
        self.line(&format!("actions = {{ {}; }}", names.join("; ")));
        let indirect = match self.dice.below(12) {
            0 => {
                self.line(&format!(
                    "@name(\"{name}_profile\") implementation = action_profile(32w8);"
                ));
                true
            }
            1 if keys.iter().any(|key| key.kind == "selector") => {
                // Without a name p4c makes no P4Info.
                self.line(&format!(
                    "@name(\"{name}_selector\") implementation = \
                     action_selector(HashAlgorithm.crc16, 32w16, 32w14);"
                ));
                true
            }
            _ => {
                self.defaults_and_entries(&actions, &keys);
                false
            }
        };
        // Without a key there is nothing that could have a size.
        if !keys.is_empty() && self.dice.chance(40) {
            let size = self.dice.pick(&[1, 16, 512, 1024]);
            self.line(&format!("size = {size};"));
        }
        for property in direct {
            self.line(&property);
        }
        self.close("");
        self.tables.push(Table {
            name,
            actions: names,
            indirect,
        });
    }

    /// Declares a direct counter or meter for a table. Returns the properties that the table then has.
    fn direct_objects(&mut self, table: &str, actions: &mut Vec<Function>) -> Vec<String> {
        let mut properties = Vec::new();
        if self.dice.chance(25) {
            self.line(&format!(
                "direct_counter(CounterType.packets_and_bytes) {table}_count;"
            ));
            properties.push(format!("counters = {table}_count;"));
            if self.dice.chance(50) {
                let name = format!("{table}_counted");
                self.line(&format!("action {name}() {{ {table}_count.count(); }}"));
                actions.push(Function {
                    name,
                    params: Vec::new(),
                    returns: None,
                });
            }
        }
        if self.dice.chance(10) {
            self.line(&format!(
                "direct_meter<bit<32>>(MeterType.packets) {table}_meter;"
            ));
            let name = format!("{table}_metered");
            self.line(&format!(
                "action {name}() {{ {table}_meter.read(meta.color); }}"
            ));
            *actions = vec![Function {
                name,
                params: Vec::new(),
                returns: None,
            }];
            properties.push(format!("meters = {table}_meter;"));
        }
        properties
    }

    fn keys(&mut self) -> Vec<Key> {
        let scope = self.packet_scope(Block::Ingress);
        let mut keys: Vec<Key> = Vec::new();
        // Two prefixes in a table, or a prefix among masks, are refused by some targets.
        let mut prefix = self.dice.chance(30);
        let masks = !prefix && self.dice.chance(50);
        for _ in 0..self.dice.between(0, 3) {
            let (text, ty) = match self.dice.below(5) {
                0 if !scope.headers.is_empty() => {
                    let header = self.dice.pick(&scope.headers);
                    (format!("hdr.h{header}x.isValid()"), Ty::Bool)
                }
                _ => {
                    let place = self.dice.pick(&scope.places);
                    (place.path, place.ty)
                }
            };
            let kind = match &ty {
                // BMv2 counts the bits of a prefix from the first byte, with the padding in front of other widths.
                Ty::Bits(width) if prefix && width % 8 == 0 => {
                    prefix = false;
                    "lpm"
                }
                Ty::Bits(_) if masks => self
                    .dice
                    .pick(&["exact", "ternary", "ternary", "range", "optional"]),
                Ty::Bool | Ty::Code(_) if masks => self.dice.pick(&["exact", "ternary"]),
                _ => "exact",
            };
            if !matches!(ty, Ty::Enum(_)) && keys.iter().all(|key| key.text != text) {
                keys.push(Key { text, ty, kind });
            }
        }
        if !keys.is_empty() && self.dice.chance(12) {
            keys.push(Key {
                text: "hdr.h0x.f0x".into(),
                ty: Ty::Bits(8),
                kind: "selector",
            });
        }
        self.open("key =");
        let lines: Vec<String> = keys
            .iter()
            .map(|key| format!("{}: {}", key.text, key.kind))
            .collect();
        for line in lines {
            let own = match self.dice.chance(15) {
                true => format!(" @name(\"{}\")", self.fresh("key")),
                false => String::new(),
            };
            self.line(&format!("{line}{own};"));
        }
        self.close("");
        keys
    }

    fn defaults_and_entries(&mut self, actions: &[Function], keys: &[Key]) {
        let default = self.action_with_data(actions);
        match self.dice.below(4) {
            0 => self.line(&format!("const default_action = {default};")),
            1 | 2 => self.line(&format!("default_action = {default};")),
            _ => {}
        }
        if keys.is_empty() || keys.iter().any(|key| key.kind == "selector") || !self.dice.chance(40)
        {
            return;
        }
        self.open("const entries =");
        let mut seen: Vec<String> = Vec::new();
        for _ in 0..self.dice.between(1, 4) {
            let sets: Vec<String> = keys.iter().map(|key| self.entry_set(key)).collect();
            let sets = match &sets[..] {
                [one] => one.clone(),
                many => format!("({})", many.join(", ")),
            };
            let action = self.action_with_data(actions);
            // The same key twice is one entry for some targets and an error for others.
            if !seen.contains(&sets) {
                self.line(&format!("{sets}: {action};"));
                seen.push(sets);
            }
        }
        self.close("");
    }

    fn action_with_data(&mut self, actions: &[Function]) -> String {
        if actions.is_empty() || self.dice.chance(20) {
            return "NoAction()".into();
        }
        let action = self.dice.pick(actions);
        let values: Vec<String> = action.params.iter().map(|p| self.literal(&p.ty)).collect();
        format!("{}({})", action.name, values.join(", "))
    }

    fn entry_set(&mut self, key: &Key) -> String {
        let width = self.width(&key.ty);
        let plain = |generator: &mut Generator| match &key.ty {
            // Few values, so that packets match them.
            Ty::Bits(_) => format!("{width}w{}", generator.dice.below(1 << width.min(3))),
            // p4c's P4Info has no negative numbers.
            Ty::Signed(_) => format!("{width}s{}", generator.dice.below(1 << (width - 1).min(3))),
            other => generator.literal(other),
        };
        let all = u64::MAX >> (64 - width.min(64));
        match (key.kind, &key.ty) {
            ("lpm", _) => {
                let length = self.dice.below(width as usize + 1) as u32;
                let mask = if length == 0 {
                    0
                } else {
                    all & !(all >> 1 >> (length.min(64) - 1))
                };
                let mask = if width > 64 { all } else { mask };
                format!("{width}w{} &&& {width}w{mask}", mask & self.dice.bits())
            }
            ("ternary", Ty::Bits(_)) => match self.dice.below(4) {
                0 => "_".into(),
                1 => plain(self),
                _ => {
                    let mask = self.dice.below(1 << width.min(4));
                    format!("{width}w{} &&& {width}w{mask}", self.dice.below(16) & mask)
                }
            },
            ("range", _) => {
                let low = self.dice.below(1 << width.min(3)) as u64;
                let high = low.max(self.dice.below(1 << width.min(8)) as u64) & all;
                match self.dice.below(4) {
                    // p4c's JSON has the range of a `_` with as many bits as are left over from 32.
                    0 if width < 32 => "_".into(),
                    0 => format!("{width}w0 .. {width}w{all}"),
                    _ => format!("{width}w{low} .. {width}w{high}"),
                }
            }
            ("optional" | "ternary", _) if self.dice.chance(30) => "_".into(),
            _ => plain(self),
        }
    }
}
