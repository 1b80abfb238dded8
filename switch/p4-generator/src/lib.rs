//! Random P4 programs for v1model that are well-typed, so that most of them compile: for comparing
//! compilers and executors.
//!
//! A program is a function of its seed. What the specification leaves undefined is left out, since
//! two right compilers may differ there: variables begin with a value, fields of headers are only
//! used where the header is valid, indices of arrays of state are within them, and nothing depends
//! on a clock or on chance.
//!
//! Names of fields end in a letter, and the metadata's type is called `userMetadata`: p4c appends
//! numbers to names, and makes the names of metadata from that type, so that a comparison of its
//! output with ours can tell them.

mod declarations;
mod dice;
mod expressions;
mod parsers;
mod statements;
mod tables;

pub use dice::Dice;

/// A type that one field can have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ty {
    Bits(u32),
    Signed(u32),
    Bool,
    /// Index in [`Generator::enums`].
    Enum(usize),
    /// A serializable enum: index in [`Generator::codes`].
    Code(usize),
}

/// Something that an expression can name.
#[derive(Clone, Debug)]
struct Place {
    path: String,
    ty: Ty,
    writable: bool,
}

/// Names in scope where a statement stands.
#[derive(Clone, Debug, Default)]
struct Scope {
    places: Vec<Place>,
    /// The headers of the packet whose validity may be asked and changed, as indices in [`Generator::instances`].
    headers: Vec<usize>,
    /// Those of `headers` that are known to be valid here.
    valid: Vec<usize>,
    block: Block,
}

impl Scope {
    /// Headers that may be valid or not.
    fn doubtful_headers(&self) -> Vec<usize> {
        let headers = self.headers.iter().copied();
        headers.filter(|h| !self.valid.contains(h)).collect()
    }
}

/// The kind of body that a statement is in: what it may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Block {
    #[default]
    Function,
    Parser,
    Action,
    /// The body of a control that has no tables of its own.
    Control,
    Ingress,
    Egress,
}

#[derive(Debug)]
struct Field {
    name: String,
    ty: Ty,
}

#[derive(Debug)]
struct HeaderType {
    name: String,
    fields: Vec<Field>,
    /// Whether the last field, of 16 bits, holds a checksum of the others.
    checksum: bool,
}

#[derive(Debug)]
struct EnumType {
    name: String,
    members: usize,
    /// The width of a value in bits: that of its type if it is serializable, else 32 as on BMv2.
    width: u32,
}

#[derive(Clone, Debug)]
struct Parameter {
    name: String,
    ty: Ty,
    direction: &'static str,
}

#[derive(Clone, Debug)]
struct Function {
    name: String,
    params: Vec<Parameter>,
    returns: Option<Ty>,
}

/// A table that a control may apply.
struct Table {
    name: String,
    actions: Vec<String>,
    /// Whether its entries name members of a profile, not actions.
    indirect: bool,
}

/// An array of state.
#[derive(Clone, Debug)]
struct Array {
    name: String,
    kind: &'static str,
    /// The type of the cells of a register.
    ty: Ty,
    /// The number of cells, a power of two.
    size: u32,
}

/// Number of members of the header stack.
const STACK_SIZE: usize = 3;

#[derive(Default)]
struct Generator {
    dice: Dice,
    out: String,
    indent: usize,
    /// How many names were made that are used once.
    names: u32,
    headers: Vec<HeaderType>,
    enums: Vec<EnumType>,
    codes: Vec<EnumType>,
    /// Names of types `bit<w>`, with the width w.
    aliases: Vec<(String, u32)>,
    structs: Vec<HeaderType>,
    /// The fields of the metadata, named by their path in it.
    metadata: Vec<Field>,
    constants: Vec<Place>,
    functions: Vec<Function>,
    /// The headers of the packet: the index of the type of each in [`Generator::headers`].
    instances: Vec<usize>,
    /// The type of the elements of `hdr.stack`, if the program has one.
    stack: Option<usize>,
    varbit: bool,
    arrays: Vec<Array>,
    actions: Vec<Function>,
    declared_controls: Vec<Function>,
    /// The declared controls that the control in work may still apply.
    controls: Vec<Function>,
    /// The tables of the control in work that are declared and not applied yet.
    tables: Vec<Table>,
    field_lists: bool,
    /// Whether the program uses the version of v1model whose arrays have a type of index.
    indexed: bool,
}

/// The program of a seed.
pub fn program(seed: u64) -> String {
    let mut generator = Generator {
        dice: Dice::new(seed),
        ..Generator::default()
    };
    generator.line(&format!("// Program {seed} of the generator."));
    generator.program();
    generator.out
}

impl Generator {
    fn program(&mut self) {
        self.line("#include <core.p4>");
        self.indexed = self.dice.chance(30);
        if self.indexed {
            self.line("#define V1MODEL_VERSION 20200408");
        }
        self.line("#include <v1model.p4>");
        self.types();
        self.constants();
        self.packet_types();
        self.functions();
        self.sub_controls();
        self.parser();
        self.checksum_control("Verify", "verify_checksum", 20);
        self.control("Incoming", Block::Ingress);
        self.control("Outgoing", Block::Egress);
        self.checksum_control("Compute", "update_checksum", 40);
        self.deparser();
        self.line(
            "V1Switch(Parse(), Verify(), Incoming(), Outgoing(), Compute(), Deparse()) main;",
        );
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(&"    ".repeat(self.indent));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn open(&mut self, text: &str) {
        self.line(&format!("{text} {{"));
        self.indent += 1;
    }

    fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.line(&format!("}}{text}"));
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn type_name(&mut self, ty: &Ty) -> String {
        match ty {
            Ty::Bits(width) => {
                let alias = self.aliases.iter().find(|(_, w)| w == width).cloned();
                match alias.filter(|_| self.dice.chance(50)) {
                    Some((name, _)) => name,
                    None => format!("bit<{width}>"),
                }
            }
            Ty::Signed(width) => format!("int<{width}>"),
            Ty::Bool => "bool".into(),
            Ty::Enum(index) => self.enums[*index].name.clone(),
            Ty::Code(index) => self.codes[*index].name.clone(),
        }
    }

    fn width(&self, ty: &Ty) -> u32 {
        match ty {
            Ty::Bits(width) | Ty::Signed(width) => *width,
            Ty::Bool => 1,
            Ty::Enum(_) => 32,
            Ty::Code(index) => self.codes[*index].width,
        }
    }

    /// Parameters as they are declared.
    fn signature(&mut self, params: &[Parameter]) -> String {
        let mut list = Vec::new();
        for param in params {
            let ty = self.type_name(&param.ty);
            let space = if param.direction.is_empty() { "" } else { " " };
            list.push(format!("{}{space}{ty} {}", param.direction, param.name));
        }
        list.join(", ")
    }
}
