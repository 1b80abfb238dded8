//! Types, constants, functions, and the headers and metadata of a packet.

use super::{
    Array, Block, EnumType, Field, Function, Generator, HeaderType, Parameter, Place, STACK_SIZE,
    Scope, Ty,
};

/// Widths of fields: those that programs have, and odd ones.
const WIDTHS: [u32; 16] = [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 20, 24, 32, 48, 64];

impl Generator {
    pub(super) fn types(&mut self) {
        for index in 0..self.dice.between(0, 2) {
            let width = self.dice.pick(&WIDTHS);
            self.line(&format!("typedef bit<{width}> alias{index}_t;"));
            self.aliases.push((format!("alias{index}_t"), width));
        }
        // At least one of each, so that there is always one to refer to.
        for index in 0..self.dice.between(1, 2) {
            let name = format!("Kind{index}");
            let members = self.dice.between(2, 4);
            let list: Vec<String> = (0..members).map(|m| format!("M{m}")).collect();
            self.line(&format!("enum {name} {{ {} }}", list.join(", ")));
            let width = 32;
            self.enums.push(EnumType {
                name,
                members,
                width,
            });
        }
        for index in 0..self.dice.between(1, 2) {
            let name = format!("Code{index}");
            let width = self.dice.pick(&[4, 8, 16]);
            let members = self.dice.between(2, 4);
            let first = self.dice.below(8);
            let list: Vec<String> = (0..members)
                .map(|m| format!("M{m} = {}", first + m))
                .collect();
            self.line(&format!(
                "enum bit<{width}> {name} {{ {} }}",
                list.join(", ")
            ));
            self.codes.push(EnumType {
                name,
                members,
                width,
            });
        }
        self.line("error { Odd, Even }");
        for _ in 0..self.dice.between(1, 2) {
            let fields = self.struct_fields();
            let name = self.fresh("record");
            self.open(&format!("struct {name}"));
            for field in &fields {
                let ty = self.type_name(&field.ty);
                self.line(&format!("{ty} {};", field.name));
            }
            self.close("");
            self.structs.push(HeaderType {
                name,
                fields,
                checksum: false,
            });
        }
    }

    fn scalar(&mut self) -> Ty {
        match self.dice.below(12) {
            0 => Ty::Bool,
            1 => Ty::Signed(self.dice.pick(&WIDTHS).max(2)),
            2 => Ty::Code(self.dice.below(self.codes.len())),
            3 => Ty::Enum(self.dice.below(self.enums.len())),
            _ => Ty::Bits(self.dice.pick(&WIDTHS)),
        }
    }

    fn struct_fields(&mut self) -> Vec<Field> {
        let count = self.dice.between(1, 4);
        let field = |index: usize, ty| Field {
            name: format!("s{index}x"),
            ty,
        };
        (0..count)
            .map(|index| field(index, self.scalar()))
            .collect()
    }

    pub(super) fn constants(&mut self) {
        let scope = Scope::default();
        for _ in 0..self.dice.between(0, 3) {
            let ty = match self.dice.chance(80) {
                true => Ty::Bits(self.dice.pick(&WIDTHS)),
                false => Ty::Signed(self.dice.pick(&WIDTHS).max(2)),
            };
            let path = self.fresh("CONSTANT_");
            let value = self.value(&scope, &ty, 2);
            let name = self.type_name(&ty);
            self.line(&format!("const {name} {path} = {value};"));
            let writable = false;
            self.constants.push(Place { path, ty, writable });
        }
    }

    /// Header types, headers of the packet, metadata.
    pub(super) fn packet_types(&mut self) {
        for index in 0..self.dice.between(2, 4) {
            self.header_type(index);
        }
        let types = self.headers.len();
        // The first header is always there, and has a byte to branch on.
        let instances = self.dice.between(2, 5);
        self.instances = (0..instances)
            .map(|i| if i == 0 { 0 } else { self.dice.below(types) })
            .collect();
        self.stack = self.dice.chance(35).then(|| self.dice.below(types));
        self.varbit = self.dice.chance(12);
        if self.varbit {
            self.line("header tail_t { bit<8> first; varbit<56> rest; }");
        }
        self.open("struct headers_t");
        for (index, ty) in self.instances.clone().into_iter().enumerate() {
            let name = self.headers[ty].name.clone();
            self.line(&format!("{name} h{index}x;"));
        }
        if let Some(ty) = self.stack {
            let name = self.headers[ty].name.clone();
            self.line(&format!("{name}[{STACK_SIZE}] stack;"));
        }
        if self.varbit {
            self.line("tail_t tail;");
        }
        self.close("");
        self.metadata_type();
    }

    fn header_type(&mut self, index: usize) {
        let mut fields: Vec<Field> = Vec::new();
        let mut push = |ty| {
            let name = format!("f{}x", fields.len());
            fields.push(Field { name, ty });
        };
        if index == 0 {
            push(Ty::Bits(8));
        }
        let checksum = self.dice.chance(40);
        for _ in 0..self.dice.between(1, 5) {
            push(match self.scalar() {
                Ty::Enum(_) => Ty::Bits(32),
                Ty::Bool | Ty::Code(_) if checksum => Ty::Bits(8),
                other => other,
            });
        }
        if checksum {
            push(Ty::Bits(16));
        }
        let total: u32 = fields.iter().map(|field| self.width(&field.ty)).sum();
        if !total.is_multiple_of(8) {
            let name = format!("f{}x", fields.len());
            let ty = Ty::Bits(8 - total % 8);
            // In front of the checksum, so that this stays the last one.
            let at = fields.len() - usize::from(checksum);
            fields.insert(at, Field { name, ty });
        }
        let name = format!("type{index}_t");
        self.open(&format!("header {name}"));
        for field in &fields {
            let ty = self.type_name(&field.ty);
            self.line(&format!("{ty} {};", field.name));
        }
        self.close("");
        self.headers.push(HeaderType {
            name,
            fields,
            checksum,
        });
    }

    fn metadata_type(&mut self) {
        self.field_lists = self.dice.chance(30);
        if self.field_lists {
            self.line("const bit<8> KEPT = 3;");
        }
        self.open("struct userMetadata");
        let mut found = Vec::new();
        for index in 0..self.dice.between(3, 7) {
            let ty = match index {
                0 => Ty::Bits(8),
                1 => Ty::Bits(32),
                _ => self.scalar(),
            };
            let name = self.type_name(&ty);
            if self.field_lists && self.dice.chance(40) {
                let list = self.dice.pick(&["KEPT", "3", "1 + 2"]);
                self.line(&format!("@field_list({list})"));
            }
            self.line(&format!("{name} m{index}x;"));
            found.push(Field {
                name: format!("m{index}x"),
                ty,
            });
        }
        for index in 0..self.structs.len() {
            let name = self.structs[index].name.clone();
            self.line(&format!("{name} r{index}x;"));
            let inner = self.structs[index].fields.iter();
            found.extend(inner.map(|field| Field {
                name: format!("r{index}x.{}", field.name),
                ty: field.ty.clone(),
            }));
        }
        self.line("bit<32> color;");
        self.close("");
        self.metadata = found;
    }

    /// The places of a header that is valid.
    pub(super) fn header_places(&self, path: &str, ty: usize) -> Vec<Place> {
        let fields = self.headers[ty].fields.iter();
        let place = |field: &Field| Place {
            path: format!("{path}.{}", field.name),
            ty: field.ty.clone(),
            writable: true,
        };
        fields.map(place).collect()
    }

    /// Scope of controls and parsers: metadata and the header that is always valid.
    pub(super) fn packet_scope(&self, block: Block) -> Scope {
        let metadata = self.metadata.iter().map(|field| Place {
            path: format!("meta.{}", field.name),
            ty: field.ty.clone(),
            writable: true,
        });
        let mut places: Vec<Place> = metadata.collect();
        places.extend(self.header_places("hdr.h0x", self.instances[0]));
        if block != Block::Parser {
            places.push(Place {
                path: "sm.ingress_port".into(),
                ty: Ty::Bits(9),
                writable: false,
            });
        }
        Scope {
            places,
            headers: (1..self.instances.len()).collect(),
            valid: Vec::new(),
            block,
        }
    }

    pub(super) fn parameters(
        &mut self,
        directions: &[&'static str],
        most: usize,
    ) -> Vec<Parameter> {
        let mut params = Vec::new();
        for _ in 0..self.dice.between(0, most) {
            params.push(Parameter {
                name: self.fresh("p"),
                ty: match self.scalar() {
                    Ty::Enum(_) => Ty::Bits(8),
                    other => other,
                },
                direction: self.dice.pick(directions),
            });
        }
        params
    }

    /// The parameters as places. What is `out` must be written first: the caller does that.
    pub(super) fn parameter_places(params: &[Parameter]) -> Vec<Place> {
        let place = |param: &Parameter| Place {
            path: param.name.clone(),
            ty: param.ty.clone(),
            writable: matches!(param.direction, "out" | "inout"),
        };
        params.iter().map(place).collect()
    }

    /// Writes statements that give every `out` parameter a value.
    pub(super) fn initialise(&mut self, params: &[Parameter]) {
        for param in params.iter().filter(|p| p.direction == "out") {
            let value = self.literal(&param.ty);
            self.line(&format!("{} = {value};", param.name));
        }
    }

    pub(super) fn functions(&mut self) {
        for _ in 0..self.dice.between(0, 2) {
            let directions: &[&str] = match self.dice.chance(50) {
                true => &["in"],
                false => &["in", "inout", "out"],
            };
            let params = self.parameters(directions, 3);
            let returns = match self.dice.chance(70) {
                true => Some(Ty::Bits(self.dice.pick(&[1, 8, 16, 32]))),
                false => None,
            };
            let name = self.fresh("function");
            let head = match &returns {
                Some(ty) => self.type_name(ty),
                None => "void".into(),
            };
            let signature = self.signature(&params);
            self.open(&format!("{head} {name}({signature})"));
            self.initialise(&params);
            let mut scope = Scope {
                places: Self::parameter_places(&params),
                ..Scope::default()
            };
            let count = self.dice.between(1, 3);
            self.statements(&mut scope, count, 2);
            if let Some(ty) = &returns {
                let value = self.value(&scope, ty, 2);
                self.line(&format!("return {value};"));
            }
            self.close("");
            self.functions.push(Function {
                name,
                params,
                returns,
            });
        }
    }

    /// Declares registers, counters and meters of a control.
    pub(super) fn arrays(&mut self) {
        self.arrays.clear();
        for _ in 0..self.dice.between(0, 3) {
            let kind = self
                .dice
                .pick(&["register", "register", "counter", "meter"]);
            let ty = Ty::Bits(self.dice.pick(&[1, 8, 16, 32, 48, 64]));
            let size = self.dice.pick(&[1u32, 4, 16]);
            let name = self.fresh(kind);
            let declaration = match kind {
                "register" => {
                    let cell = self.type_name(&ty);
                    format!("register<{cell}>({size}) {name};")
                }
                "counter" => {
                    let unit = self.dice.pick(&["packets", "bytes", "packets_and_bytes"]);
                    format!("counter({size}, CounterType.{unit}) {name};")
                }
                _ => format!("meter({size}, MeterType.packets) {name};"),
            };
            let declaration = match self.indexed {
                false => declaration,
                // Newer versions choose the type of the index.
                true => match kind {
                    "register" => {
                        let cell = self.type_name(&ty);
                        format!("register<{cell}, bit<32>>({size}) {name};")
                    }
                    "counter" => declaration.replace("counter(", "counter<bit<32>>("),
                    _ => declaration.replace("meter(", "meter<bit<32>>("),
                },
            };
            self.line(&declaration);
            self.arrays.push(Array {
                name,
                kind,
                ty,
                size,
            });
        }
    }
}
