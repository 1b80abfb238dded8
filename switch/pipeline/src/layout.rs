//! Where every header, field and stack of the program lies in the flat array of words that a packet
//! has.

use std::collections::HashMap;
use std::fmt;

use ebb_bmv2_json as json;
use ebb_bmv2_json::{FieldRef, FieldWidth};

use crate::bits::words_for;
use crate::error::LoadError;
use crate::slot::Slot;
use crate::wire::Pieces;

/// Widest field, or cell of a register array, in bits.
pub(crate) const MAX_FIELD_BITS: u32 = 1 << 16;
/// Widest header, in bits; it may have many fields.
const MAX_HEADER_BITS: u64 = 1 << 20;
/// Most 64-bit words of all headers and metadata together: a packet then takes 8 MB.
const MAX_WORDS: u32 = 1 << 20;

/// The header is not what the frame has at any place.
pub(crate) const NO_HOME: u64 = u64::MAX;

/// A field of a header.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in P4.
    pub name: String,
    /// Where it lies.
    pub slot: Slot,
    /// Word that holds its current width in bits, if it is the variable-length field.
    pub length_at: Option<u32>,
}

impl Field {
    /// Its current width in the packet, in bits.
    #[inline]
    pub fn bits(&self, words: &[u64]) -> u32 {
        match self.length_at {
            None => self.slot.bits,
            Some(at) => words[at as usize] as u32,
        }
    }
}

/// A header or metadata struct.
#[derive(Debug)]
pub(crate) struct Header {
    /// Its name in P4.
    pub name: String,
    /// The name of its type.
    pub header_type: String,
    /// Its fields, in order.
    pub fields: Vec<Field>,
    /// Word that is 1 while the header is valid and 0 otherwise.
    pub valid_at: u32,
    /// Index of the first word of its fields.
    pub first: u32,
    /// How many words its fields have.
    pub words: u32,
    /// Width in bits, without the variable-length field.
    pub fixed_bits: u32,
    /// Index of the variable-length field in `fields`.
    pub variable: Option<u32>,
    /// Greatest length in bytes; 0 if the header has its fixed width.
    pub max_bytes: u32,
    /// Computes the length of the variable-length field, if the type says how.
    pub length_exp: Option<json::Value>,
    /// The other members of the header union that it belongs to.
    pub siblings: Vec<u32>,
    /// Word that holds the place in the frame that the header was extracted from, in bytes, as long
    /// as it has nothing but the fields stored since that differs from the frame; else
    /// [`NO_HOME`], as while its variable-length field is not empty. `None` for headers of which this is not kept.
    pub home_at: Option<u32>,
    /// The fixed fields as they lie while the variable-length field is empty.
    pub pieces: Pieces,
}

/// A stack of headers or of header unions.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Its name in P4.
    pub name: String,
    /// Numbers of its headers or unions.
    pub elements: Vec<u32>,
    /// Word that holds the index of the next free element.
    pub next_at: u32,
}

/// A header union.
#[derive(Debug)]
pub(crate) struct Union {
    /// Its name in P4.
    pub name: String,
    /// Numbers of its headers.
    pub headers: Vec<u32>,
    /// Their names in the union.
    pub member_names: Vec<String>,
}

/// The layout of a packet.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// All headers and metadata structs.
    pub headers: Vec<Header>,
    /// The header stacks.
    pub stacks: Vec<Stack>,
    /// The header unions.
    pub unions: Vec<Union>,
    /// The stacks of header unions.
    pub union_stacks: Vec<Stack>,
    /// The words of a new packet: zeros, except that metadata is valid.
    pub initial: Vec<u64>,
    /// Whether shortcuts are taken. Without them everything is done the plain way, which the tests
    /// compare with the other.
    pub shortcuts: bool,
    /// Words of the metadata structs, as pairs of first word and length.
    pub metadata: Vec<(u32, u32)>,
    /// Numbers of headers by name.
    header_names: HashMap<String, u32>,
    /// Fields by the names that the target has for them.
    aliases: HashMap<String, FieldRef>,
}

/// How many words of a packet have been given away.
#[derive(Default)]
struct Words(u32);

impl Words {
    /// Gives away `n` words; returns the index of the first.
    fn take(&mut self, n: u32) -> u32 {
        self.0 += n;
        self.0 - n
    }
}

/// From the ids of the JSON file to the numbers of headers or unions, which count from 0.
struct Numbers {
    /// Kind of thing that has these ids, for errors.
    kind: &'static str,
    /// The number of each id.
    by_id: HashMap<u32, u32>,
}

impl Numbers {
    /// The numbers of objects with these ids, in this order.
    fn new(kind: &'static str, ids: impl Iterator<Item = u32>) -> Numbers {
        let by_id = ids.zip(0..).collect();
        Numbers { kind, by_id }
    }

    /// The numbers for these ids, which `owner` lists.
    fn find(&self, ids: &[u32], owner: fmt::Arguments) -> Result<Vec<u32>, LoadError> {
        let number = |id: &u32| {
            self.by_id.get(id).copied().ok_or_else(|| {
                LoadError::new(
                    owner.to_string(),
                    format!("there is no {} with id {id}", self.kind),
                )
            })
        };
        ids.iter().map(number).collect()
    }
}

impl Layout {
    /// Lays out the headers of a program.
    pub fn load(program: &json::Program, shortcuts: bool) -> Result<Layout, LoadError> {
        let mut layout = Layout {
            shortcuts,
            aliases: program.field_aliases.iter().cloned().collect(),
            ..Layout::default()
        };
        let mut words = Words::default();
        layout.add_headers(program, &mut words)?;
        let headers = Numbers::new("header", program.headers.iter().map(|h| h.id));
        for s in &program.header_stacks {
            layout.stacks.push(Stack {
                name: s.name.clone(),
                elements: headers.find(&s.header_ids, format_args!("header stack {}", s.name))?,
                next_at: words.take(1),
            });
        }
        layout.add_unions(program, &headers)?;
        let unions = Numbers::new("header union", program.header_unions.iter().map(|u| u.id));
        for s in &program.header_union_stacks {
            layout.union_stacks.push(Stack {
                name: s.name.clone(),
                elements: unions.find(
                    &s.header_union_ids,
                    format_args!("header union stack {}", s.name),
                )?,
                next_at: words.take(1),
            });
        }
        let headers = layout.headers.iter_mut().zip(&program.headers);
        for (header, _) in
            headers.filter(|(header, h)| !h.metadata && header.fixed_bits.is_multiple_of(8))
        {
            header.home_at = Some(words.take(1));
        }
        layout.initial = vec![0; words.0 as usize];
        for home_at in layout.headers.iter().filter_map(|header| header.home_at) {
            layout.initial[home_at as usize] = NO_HOME;
        }
        for (header, h) in layout.headers.iter().zip(&program.headers) {
            if h.metadata {
                layout.metadata.push((header.first, header.words));
                layout.initial[header.valid_at as usize] = 1;
            }
        }
        Ok(layout)
    }

    /// Lays out the headers and metadata structs, which stay in the order of the program.
    fn add_headers(&mut self, program: &json::Program, words: &mut Words) -> Result<(), LoadError> {
        let types = program.header_types.iter().map(|t| (t.name.as_str(), t));
        let types: HashMap<&str, &json::HeaderType> = types.collect();
        // The validity words lie together: every packet is asked for all of them, and has the
        // fields of few headers.
        let valid_bits = words.take(program.headers.len() as u32);
        let mut headers: Vec<_> = program.headers.iter().zip(valid_bits..).collect();
        headers.sort_by_cached_key(|(h, _)| distance(program, h));
        for (h, valid_at) in headers {
            let ty = types.get(h.header_type.as_str()).ok_or_else(|| {
                LoadError::new(
                    format!("header {}", h.name),
                    format!("its type {} is not in header_types", h.header_type),
                )
            })?;
            self.headers.push(place_header(h, ty, valid_at, words)?);
            if words.0 > MAX_WORDS {
                return Err(LoadError::new(
                    "headers",
                    format!("together they have more than {MAX_WORDS} words of 64 bits"),
                ));
            }
        }
        self.headers.sort_by_key(|header| header.valid_at);
        let names = self.headers.iter().map(|header| header.name.clone());
        self.header_names = names.zip(0..).collect();
        Ok(())
    }

    /// Adds the header unions, whose members are laid out already.
    fn add_unions(&mut self, program: &json::Program, numbers: &Numbers) -> Result<(), LoadError> {
        for u in &program.header_unions {
            let owner = format!("header union {}", u.name);
            let headers = numbers.find(&u.header_ids, format_args!("{owner}"))?;
            for h in &headers {
                self.headers[*h as usize].siblings =
                    headers.iter().copied().filter(|o| o != h).collect();
            }
            let mut types = program.header_union_types.iter();
            let ty = types.find(|t| t.name == u.union_type).ok_or_else(|| {
                let problem = format!("its type {} is not in header_union_types", u.union_type);
                LoadError::new(owner, problem)
            })?;
            self.unions.push(Union {
                name: u.name.clone(),
                headers,
                member_names: ty.headers.iter().map(|(name, _)| name.clone()).collect(),
            });
        }
        Ok(())
    }

    /// The number of the header with this name.
    pub fn header(&self, name: &str) -> Result<u32, LoadError> {
        self.header_names
            .get(name)
            .copied()
            .ok_or_else(|| LoadError::missing("header", name))
    }

    /// The header with this number.
    pub fn header_at(&self, index: u32) -> &Header {
        &self.headers[index as usize]
    }

    /// The header stack with this name.
    pub fn stack(&self, name: &str) -> Result<&Stack, LoadError> {
        self.stacks
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| LoadError::missing("header stack", name))
    }

    /// The number of the header union with this name.
    pub fn union(&self, name: &str) -> Result<u32, LoadError> {
        self.unions
            .iter()
            .position(|u| u.name == name)
            .map(|i| i as u32)
            .ok_or_else(|| LoadError::missing("header union", name))
    }

    /// The stack of header unions with this name.
    pub fn union_stack(&self, name: &str) -> Result<&Stack, LoadError> {
        self.union_stacks
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| LoadError::missing("header union stack", name))
    }

    /// Where a field lies, which may be the hidden `$valid$`.
    pub fn slot(&self, field: &FieldRef) -> Result<Slot, LoadError> {
        let header = self.header_at(self.header(field.header())?);
        if field.field() == "$valid$" {
            return Ok(header.valid_slot());
        }
        header.field(field.field()).map(|f| f.slot)
    }

    /// Where a field lies that the target knows as `a.b`; `None` if the program lacks it.
    pub fn known(&self, name: &str) -> Option<Slot> {
        let field = match self.aliases.get(name) {
            Some(field) => field.clone(),
            None => {
                let (header, field) = name.split_once('.')?;
                FieldRef::new(header, field)
            }
        };
        self.slot(&field).ok()
    }
}

impl Header {
    /// The validity as a field of one bit.
    pub fn valid_slot(&self) -> Slot {
        Slot {
            at: self.valid_at,
            words: 1,
            bits: 1,
            signed: false,
        }
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Result<&Field, LoadError> {
        self.fields.iter().find(|f| f.name == name).ok_or_else(|| {
            LoadError::new(
                format!("header {}", self.name),
                format!(
                    "it has no field {name}; its type {} has: {}",
                    self.header_type,
                    self.fields
                        .iter()
                        .map(|f| f.name.as_str())
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            )
        })
    }

    /// Current width in the packet, in bits.
    pub fn bits(&self, words: &[u64]) -> usize {
        let variable = self
            .variable
            .and_then(|f| self.fields[f as usize].length_at)
            .map_or(0, |at| words[at as usize] as usize);
        self.fixed_bits as usize + variable
    }

    /// Whether the header is valid in the packet.
    pub fn is_valid(&self, words: &[u64]) -> bool {
        words[self.valid_at as usize] != 0
    }
}

/// How far from the start of a packet a header lies. What packets that wait in queues are going to
/// need comes first.
fn distance(program: &json::Program, header: &json::Header) -> u8 {
    let deparsers = &program.deparsers;
    let emitted = deparsers.iter().any(|d| d.order.contains(&header.name));
    match header.name.as_str() {
        "standard_metadata" => 0,
        _ if emitted => 1,
        _ if header.metadata => 2,
        _ => 3,
    }
}

/// Lays out the fields of a header in words of their own.
fn place_header(
    h: &json::Header,
    ty: &json::HeaderType,
    valid_at: u32,
    words: &mut Words,
) -> Result<Header, LoadError> {
    let owner = || format!("header type {}", ty.name);
    let widths = ty.fields.iter().map(|f| match f.width {
        FieldWidth::Bits(n) => u64::from(n),
        FieldWidth::Variable => 0,
    });
    let fixed_bits: u64 = widths.sum();
    let longest = fixed_bits.max(u64::from(ty.max_length.unwrap_or(0)) * 8);
    if longest > MAX_HEADER_BITS {
        return Err(LoadError::new(
            owner(),
            format!("it has {longest} bits, at most {MAX_HEADER_BITS} are supported"),
        ));
    }
    let fixed_bits = fixed_bits as u32;
    let mut header = Header {
        name: h.name.clone(),
        header_type: ty.name.clone(),
        fields: Vec::new(),
        valid_at,
        first: words.0,
        words: 0,
        fixed_bits,
        variable: None,
        max_bytes: ty.max_length.unwrap_or(0),
        length_exp: ty.length_exp.clone(),
        siblings: Vec::new(),
        home_at: None,
        pieces: Pieces::new([]),
    };
    for f in &ty.fields {
        let (bits, length_at) = match f.width {
            FieldWidth::Bits(bits) => (bits, None),
            FieldWidth::Variable => {
                if header.variable.is_some() {
                    return Err(LoadError::new(owner(), "it has two variable-length fields"));
                }
                header.variable = Some(header.fields.len() as u32);
                // Without max_length, the longest IPv4 or TCP options are assumed.
                let max = ty
                    .max_length
                    .map_or(320, |bytes| (bytes * 8).saturating_sub(fixed_bits));
                (max, Some(words.take(1)))
            }
        };
        if bits > MAX_FIELD_BITS {
            return Err(LoadError::new(
                owner(),
                format!(
                    "field {} has {bits} bits, at most {MAX_FIELD_BITS} are supported",
                    f.name
                ),
            ));
        }
        let count = words_for(bits) as u32;
        header.fields.push(Field {
            name: f.name.clone(),
            slot: Slot {
                at: words.take(count),
                words: count,
                bits,
                signed: f.signed,
            },
            length_at,
        });
    }
    header.words = words.0 - header.first;
    let fixed = header.fields.iter().filter(|f| f.length_at.is_none());
    header.pieces = Pieces::new(fixed.map(|f| f.slot));
    Ok(header)
}
