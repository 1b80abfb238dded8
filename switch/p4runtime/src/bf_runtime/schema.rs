//! The schema of a program, `bf-rt.json`.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{EntityError, Result};

/// The longest schema that is read: with 2,000 tables of ten keys and actions it has 20 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Reasons why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum SchemaError {
    #[error("cannot read {}: {problem}", path.display())]
    File {
        path: PathBuf,
        problem: std::io::Error,
    },
    #[error(
        "{} is no schema of BF Runtime: {problem}; give the file that --bf-rt-schema of ebb-p4c or p4c wrote",
        path.display()
    )]
    Json { path: PathBuf, problem: String },
}

/// Tables of BF Runtime, and the file as clients get it.
#[derive(Debug)]
pub struct Schema {
    /// Name of the program, by which clients ask for it.
    pub name: String,
    /// The file.
    pub text: Vec<u8>,
    tables: HashMap<u32, Table>,
    /// By id in P4Info.
    digests: HashMap<u32, Digest>,
}

/// A digest: its id here, and its fields.
#[derive(Debug, Deserialize)]
pub struct Digest {
    pub id: u32,
    pub fields: Vec<Field>,
}

/// First byte of the ids of digests in P4Info.
const P4_DIGEST: u32 = 0x17 << 24;

impl Digest {
    /// The id in P4Info of a digest with this id.
    pub fn p4_id(id: u32) -> u32 {
        P4_DIGEST | id & 0x00ff_ffff
    }
}

impl Schema {
    /// Reads the schema of a program with this name.
    pub fn read(name: &str, path: &Path) -> std::result::Result<Schema, SchemaError> {
        let file = |problem| SchemaError::File {
            path: path.to_owned(),
            problem,
        };
        let text = File::open(path)
            .and_then(|source| ebb_files::read_bounded(source, MAX_BYTES))
            .map_err(file)?;
        Schema::parse(name, text).map_err(|problem| SchemaError::Json {
            path: path.to_owned(),
            problem,
        })
    }

    /// The schema in a text; the error says what is wrong with it.
    pub fn parse(name: &str, text: Vec<u8>) -> std::result::Result<Schema, String> {
        let content: Content = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        let tables = content.tables.into_iter().map(|table| (table.id, table));
        let digests = content.learn_filters.into_iter();
        Ok(Schema {
            name: name.to_owned(),
            tables: tables.collect(),
            digests: digests.map(|of| (Digest::p4_id(of.id), of)).collect(),
            text,
        })
    }

    /// The digest with this id in P4Info.
    pub fn digest(&self, p4_id: u32) -> Option<&Digest> {
        self.digests.get(&p4_id)
    }

    /// Ids of all digests in P4Info.
    pub fn digests(&self) -> impl Iterator<Item = u32> {
        self.digests.keys().copied()
    }

    /// The match table with this id.
    pub fn match_table(&self, id: u32) -> Option<&Table> {
        self.tables
            .get(&id)
            .filter(|table| table.kind == Kind::Match)
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// The table with this id.
    pub fn table(&self, id: u32) -> Result<&Table> {
        let unknown = || EntityError::not_found(format!("the program has no table {id}"));
        self.tables.get(&id).ok_or_else(unknown)
    }
}

#[derive(Deserialize)]
struct Content {
    tables: Vec<Table>,
    #[serde(default)]
    learn_filters: Vec<Digest>,
}

/// A table: its key, its data and its actions.
#[derive(Debug, Deserialize)]
pub struct Table {
    pub name: String,
    pub id: u32,
    #[serde(rename = "table_type")]
    pub kind: Kind,
    #[serde(default)]
    pub depends_on: Vec<u32>,
    pub key: Vec<Key>,
    #[serde(default)]
    data: Vec<Data>,
    #[serde(default)]
    pub action_specs: Vec<Action>,
    /// Names of the attributes that clients may set.
    #[serde(default)]
    pub attributes: Vec<String>,
}

/// Kind of a table in P4Runtime.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Kind {
    #[serde(
        rename = "MatchAction_Direct",
        alias = "MatchAction_Indirect",
        alias = "MatchAction_Indirect_Selector"
    )]
    Match,
    #[serde(rename = "Action")]
    Member,
    #[serde(rename = "Selector")]
    Group,
    Counter,
    Meter,
    Register,
    #[serde(rename = "ParserValueSet")]
    ValueSet,
    PortMetadata,
    RegisterParam,
    #[serde(rename = "Lpf", alias = "Wred")]
    Filter,
    #[serde(rename = "SelectorGetMember")]
    SelectedMember,
    #[serde(rename = "DynHashConfigure")]
    HashInputs,
    #[serde(rename = "DynHashAlgorithm")]
    HashAlgorithm,
    #[serde(rename = "DynHashCompute")]
    HashValue,
    /// None: it describes the chip.
    #[serde(other)]
    Other,
}

/// A field of a key.
#[derive(Debug, Deserialize)]
pub struct Key {
    pub id: u32,
    pub name: String,
    pub match_type: Match,
    #[serde(rename = "type")]
    ty: Type,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Match {
    #[serde(alias = "ATCAM", alias = "DLEFT_HASH")]
    Exact,
    #[serde(rename = "LPM")]
    Lpm,
    Ternary,
    Range,
    Optional,
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Deserialize)]
struct Type {
    /// Bits; none: a number of the type's own size.
    width: Option<usize>,
    #[serde(rename = "type")]
    name: String,
}

impl Type {
    fn width(&self) -> usize {
        match (self.width, self.name.as_str()) {
            (Some(width), _) => width,
            (None, "uint64") => 64,
            (None, "bool") => 1,
            (None, _) => 32,
        }
    }
}

#[derive(Debug, Deserialize)]
struct Data {
    singleton: Option<Field>,
    #[serde(default)]
    oneof: Vec<Field>,
}

/// A data field.
#[derive(Debug, Deserialize)]
pub struct Field {
    pub id: u32,
    pub name: String,
    /// Its type; values that are groups of fields have none.
    #[serde(rename = "type", default)]
    ty: Type,
    #[serde(default)]
    annotations: Vec<Annotation>,
}

#[derive(Debug, Deserialize)]
struct Annotation {
    name: String,
    value: Option<String>,
}

impl Field {
    /// Bits.
    pub fn width(&self) -> usize {
        self.ty.width()
    }

    /// The register that has the field in its cells.
    pub fn register(&self) -> Option<&str> {
        let is_class = |of: &Annotation| of.name == "$bfrt_field_class";
        let class = self.annotations.iter().find(|of| is_class(of))?;
        let (register, _) = self.name.rsplit_once('.')?;
        (class.value.as_deref() == Some("register_data")).then_some(register)
    }
}

/// An action with its parameters.
#[derive(Debug, Deserialize)]
pub struct Action {
    pub id: u32,
    pub data: Vec<Field>,
}

impl Key {
    /// Bits.
    pub fn width(&self) -> usize {
        self.ty.width()
    }
}

impl Table {
    /// The id of the object in P4Info.
    pub fn p4_id(&self) -> u32 {
        let with = |prefix: u32, id: u32| prefix << 24 | id & 0x00ff_ffff;
        match self.kind {
            Kind::Match
            | Kind::PortMetadata
            | Kind::RegisterParam
            | Kind::Filter
            | Kind::SelectedMember
            | Kind::HashInputs
            | Kind::HashAlgorithm
            | Kind::HashValue
            | Kind::Other => self.id,
            Kind::Member => with(0x11, self.id),
            // A group is one of the profile that the selector is made of.
            Kind::Group => with(0x11, self.depends_on.first().copied().unwrap_or(self.id)),
            Kind::Counter => with(0x12, self.id),
            Kind::Meter => with(0x14, self.id),
            Kind::Register => with(0x16, self.id),
            Kind::ValueSet => with(0x03, self.id),
        }
    }

    /// The action with this id.
    pub fn action(&self, id: u32) -> Result<&Action> {
        let unknown = || EntityError::invalid(format!("{} has no action {id}", self.name));
        self.action_specs
            .iter()
            .find(|a| a.id == id)
            .ok_or_else(unknown)
    }

    /// Data fields that belong to no action.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.data
            .iter()
            .flat_map(|d| d.singleton.iter().chain(&d.oneof))
    }

    /// Whether entries count.
    pub fn has_counts(&self) -> bool {
        self.has(fixed::COUNTER_BYTES) || self.has(fixed::COUNTER_PACKETS)
    }

    /// Whether entries have a meter.
    pub fn has_meter(&self) -> bool {
        self.has(fixed::METER_BYTES[0]) || self.has(fixed::METER_PACKETS[0])
    }

    /// Whether entries have a field of this number.
    pub fn has(&self, field: u32) -> bool {
        self.fields().any(|f| f.id == field)
    }
}

/// Numbers of fixed fields, as compilers write them: those behind `$MAX_GROUP_SIZE` differ between releases and are
/// not used.
pub mod fixed {
    pub const PRIORITY: u32 = 65537;
    pub const MEMBER: u32 = 65539;
    pub const GROUP: u32 = 65540;
    pub const TTL: u32 = 65543;
    pub const HIT_STATE: u32 = 65544;
    /// CIR, PIR, CBS, PBS in kbit/s and kbit.
    pub const METER_BYTES: [u32; 4] = [65545, 65546, 65547, 65548];
    /// CIR, PIR, CBS, PBS in packets.
    pub const METER_PACKETS: [u32; 4] = [65549, 65550, 65551, 65552];
    pub const COUNTER_BYTES: u32 = 65553;
    pub const COUNTER_PACKETS: u32 = 65554;
    /// Whether a field is one of a meter.
    pub fn is_meter(id: u32) -> bool {
        (METER_BYTES[0]..=METER_PACKETS[3]).contains(&id)
    }
    pub const MEMBER_STATUS: u32 = 65564;
    pub const MAX_GROUP_SIZE: u32 = 65565;
}

/// Names of fixed fields whose numbers differ between releases.
pub mod name {
    pub const LPF_TYPE: &str = "$LPF_SPEC_TYPE";
    pub const LPF_GAIN: &str = "$LPF_SPEC_GAIN_TIME_CONSTANT_NS";
    pub const LPF_DECAY: &str = "$LPF_SPEC_DECAY_TIME_CONSTANT_NS";
    pub const LPF_SCALE: &str = "$LPF_SPEC_OUT_SCALE_DOWN_FACTOR";
    pub const WRED_TIME: &str = "$WRED_SPEC_TIME_CONSTANT_NS";
    pub const WRED_LEAST: &str = "$WRED_SPEC_MIN_THRESH_CELLS";
    pub const WRED_LARGEST: &str = "$WRED_SPEC_MAX_THRESH_CELLS";
    pub const WRED_PROBABILITY: &str = "$WRED_SPEC_MAX_PROBABILITY";
}
