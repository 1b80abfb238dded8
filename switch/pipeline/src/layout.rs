//! Where every header, field and stack of the program lives in a packet's flat array of words.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use ebb_bmv2_json::{FieldRef, FieldWidth};

use crate::bits::words_for;
use crate::error::LoadError;
use crate::wire::Pieces;

/// Widest field, or cell of a register array, in bits.
pub(crate) const MAX_FIELD_BITS: u32 = 1 << 16;
/// Widest header, which may have many fields, in bits.
const MAX_HEADER_BITS: u64 = 1 << 20;
/// Words of 64 bits of all headers and metadata together, at most: a packet is 8 MB then.
const MAX_WORDS: u32 = 1 << 20;

/// Where a field is. Small and copied into the compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub at: u32,
    pub words: u32,
    pub bits: u32,
    pub signed: bool,
}

impl Slot {
    /// The field's words out of all words of a packet.
    #[inline]
    pub fn of(self, words: &[u64]) -> &[u64] {
        &words[self.at as usize..(self.at + self.words) as usize]
    }

    pub fn of_mut(self, words: &mut [u64]) -> &mut [u64] {
        &mut words[self.at as usize..(self.at + self.words) as usize]
    }
}

#[derive(Debug)]
pub(crate) struct Field {
    pub name: String,
    pub slot: Slot,
    /// Word that holds the current width in bits, for the variable-length field.
    pub length_at: Option<u32>,
}

impl Field {
    /// Current width in the packet.
    #[inline]
    pub fn bits(&self, words: &[u64]) -> u32 {
        match self.length_at {
            None => self.slot.bits,
            Some(at) => words[at as usize] as u32,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Header {
    pub name: String,
    pub header_type: String,
    pub fields: Vec<Field>,
    /// Word that is 1 while the header is valid.
    pub valid_at: u32,
    /// All words of the fields.
    pub first: u32,
    pub words: u32,
    /// Width without the variable-length field.
    pub fixed_bits: u32,
    /// Index into `fields`.
    pub variable: Option<u32>,
    /// Longest it can be, in bytes; 0: the fixed width.
    pub max_bytes: u32,
    pub length_exp: Option<json::Value>,
    /// Other members of the union it belongs to.
    pub siblings: Vec<u32>,
    /// The fixed fields, as they lie while the variable-length field is empty.
    pub pieces: Pieces,
}

#[derive(Debug)]
pub(crate) struct Stack {
    pub name: String,
    /// Headers of a header stack, or unions of a union stack.
    pub elements: Vec<u32>,
    /// Word that holds the index of the next free element.
    pub next_at: u32,
}

#[derive(Debug)]
pub(crate) struct Union {
    pub name: String,
    pub headers: Vec<u32>,
    pub member_names: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    pub unions: Vec<Union>,
    pub union_stacks: Vec<Stack>,
    /// The array of a new packet: zeros, but metadata is always valid.
    pub initial: Vec<u64>,
    /// Whether shortcuts are to be taken. Without them everything is done the plain way, which the
    /// tests hold against the other.
    pub shortcuts: bool,
    /// Words of metadata headers, as ranges.
    pub metadata: Vec<(u32, u32)>,
    header_names: HashMap<String, u32>,
    aliases: HashMap<String, FieldRef>,
}

impl Layout {
    pub fn load(program: &json::Program, shortcuts: bool) -> Result<Layout, LoadError> {
        let mut layout = Layout {
            shortcuts,
            aliases: program.field_aliases.iter().cloned().collect(),
            ..Layout::default()
        };
        let types: HashMap<&str, &json::HeaderType> = program
            .header_types
            .iter()
            .map(|t| (t.name.as_str(), t))
            .collect();
        let mut by_id = HashMap::new();
        let mut always_valid = Vec::new();
        let mut at = 0u32;
        let mut take = |n: u32| {
            let first = at;
            at += n;
            first
        };
        // Together, since every packet is asked for all of them, and has the fields of few.
        let valid_bits = take(program.headers.len() as u32);
        let mut headers: Vec<_> = program.headers.iter().zip(valid_bits..).collect();
        headers.sort_by_cached_key(|(h, _)| distance(program, h));
        let mut placed = Vec::new();
        for (h, valid_at) in headers {
            let ty = types.get(h.header_type.as_str()).ok_or_else(|| {
                LoadError::new(
                    format!("header {}", h.name),
                    format!("its type {} is not in header_types", h.header_type),
                )
            })?;
            let header = place_header(h, ty, valid_at, &mut take)?;
            if take(0) > MAX_WORDS {
                return Err(LoadError::new(
                    "headers",
                    format!("together they have more than {MAX_WORDS} words of 64 bits"),
                ));
            }
            placed.push((header, h));
        }
        placed.sort_by_key(|(header, _)| header.valid_at);
        for (header, h) in placed {
            by_id.insert(h.id, layout.headers.len() as u32);
            layout
                .header_names
                .insert(h.name.clone(), layout.headers.len() as u32);
            if h.metadata {
                layout.metadata.push((header.first, header.words));
                always_valid.push(header.valid_at);
            }
            layout.headers.push(header);
        }
        let header_of = |owner: &str, id: &u32| {
            by_id
                .get(id)
                .copied()
                .ok_or_else(|| LoadError::new(owner, format!("there is no header with id {id}")))
        };
        for s in &program.header_stacks {
            let owner = format!("header stack {}", s.name);
            layout.stacks.push(Stack {
                name: s.name.clone(),
                elements: s
                    .header_ids
                    .iter()
                    .map(|id| header_of(&owner, id))
                    .collect::<Result<_, _>>()?,
                next_at: take(1),
            });
        }
        let mut union_by_id = HashMap::new();
        for u in &program.header_unions {
            let owner = format!("header union {}", u.name);
            let headers = u
                .header_ids
                .iter()
                .map(|id| header_of(&owner, id))
                .collect::<Result<Vec<_>, _>>()?;
            for h in &headers {
                layout.headers[*h as usize].siblings =
                    headers.iter().copied().filter(|o| o != h).collect();
            }
            let member_names = program
                .header_union_types
                .iter()
                .find(|t| t.name == u.union_type)
                .ok_or_else(|| {
                    LoadError::new(
                        &owner,
                        format!("its type {} is not in header_union_types", u.union_type),
                    )
                })?
                .headers
                .iter()
                .map(|(name, _)| name.clone())
                .collect();
            union_by_id.insert(u.id, layout.unions.len() as u32);
            layout.unions.push(Union {
                name: u.name.clone(),
                headers,
                member_names,
            });
        }
        for s in &program.header_union_stacks {
            let owner = format!("header union stack {}", s.name);
            let elements = s
                .header_union_ids
                .iter()
                .map(|id| {
                    union_by_id.get(id).copied().ok_or_else(|| {
                        LoadError::new(&owner, format!("there is no header union with id {id}"))
                    })
                })
                .collect::<Result<_, _>>()?;
            layout.union_stacks.push(Stack {
                name: s.name.clone(),
                elements,
                next_at: take(1),
            });
        }
        layout.initial = vec![0; at as usize];
        for valid_at in always_valid {
            layout.initial[valid_at as usize] = 1;
        }
        Ok(layout)
    }

    pub fn header(&self, name: &str) -> Result<u32, LoadError> {
        self.header_names
            .get(name)
            .copied()
            .ok_or_else(|| LoadError::missing("header", name))
    }

    pub fn header_at(&self, index: u32) -> &Header {
        &self.headers[index as usize]
    }

    pub fn stack(&self, name: &str) -> Result<&Stack, LoadError> {
        self.stacks
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| LoadError::missing("header stack", name))
    }

    pub fn union(&self, name: &str) -> Result<u32, LoadError> {
        self.unions
            .iter()
            .position(|u| u.name == name)
            .map(|i| i as u32)
            .ok_or_else(|| LoadError::missing("header union", name))
    }

    pub fn union_stack(&self, name: &str) -> Result<&Stack, LoadError> {
        self.union_stacks
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| LoadError::missing("header union stack", name))
    }

    /// The field, which may be the hidden `$valid$`.
    pub fn slot(&self, field: &FieldRef) -> Result<Slot, LoadError> {
        let header = self.header_at(self.header(field.header())?);
        if field.field() == "$valid$" {
            return Ok(header.valid_slot());
        }
        header.field(field.field()).map(|f| f.slot)
    }

    /// A field that the target knows by a name of its own, `a.b`, if the program has it.
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
    pub fn valid_slot(&self) -> Slot {
        Slot {
            at: self.valid_at,
            words: 1,
            bits: 1,
            signed: false,
        }
    }

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

    /// Current width in the packet.
    pub fn bits(&self, words: &[u64]) -> usize {
        let variable = self
            .variable
            .and_then(|f| self.fields[f as usize].length_at)
            .map_or(0, |at| words[at as usize] as usize);
        self.fixed_bits as usize + variable
    }

    pub fn is_valid(&self, words: &[u64]) -> bool {
        words[self.valid_at as usize] != 0
    }
}

/// How far from the start a header is: what packets that wait in queues are going to need is together there.
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

fn place_header(
    h: &json::Header,
    ty: &json::HeaderType,
    valid_at: u32,
    take: &mut impl FnMut(u32) -> u32,
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
        first: take(0),
        words: 0,
        fixed_bits,
        variable: None,
        max_bytes: ty.max_length.unwrap_or(0),
        length_exp: ty.length_exp.clone(),
        siblings: Vec::new(),
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
                // Without max_length the longest IPv4 or TCP options are assumed.
                let max = ty
                    .max_length
                    .map_or(320, |bytes| (bytes * 8).saturating_sub(fixed_bits));
                (max, Some(take(1)))
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
        let words = words_for(bits) as u32;
        header.fields.push(Field {
            name: f.name.clone(),
            slot: Slot {
                at: take(words),
                words,
                bits,
                signed: f.signed,
            },
            length_at,
        });
    }
    header.words = take(0) - header.first;
    let fixed = header.fields.iter().filter(|f| f.length_at.is_none());
    header.pieces = Pieces::new(fixed.map(|f| f.slot));
    Ok(header)
}
