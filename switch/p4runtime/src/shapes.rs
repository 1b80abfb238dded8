//! Memory of a message once it is decoded, computed from its bytes before anything is allocated.
//!
//! An element of a repeated field may be two bytes on the wire and a struct of 400 in memory, so a length in
//! bytes is no bound. The layout of the messages is worked out once from their descriptors: a message in a
//! message is a part of its struct, elements of lists and maps and the bytes of strings are not.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use ebb_p4_proto::DESCRIPTORS;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

/// How many bytes in memory any message may take.
const FLOOR_BYTES: usize = 4 << 20;
/// How many bytes in memory a message may take beyond that for each of its bytes on the wire. Updates of table
/// entries take 10 to 15, reads of single cells 25 to 33.
const FACTOR: usize = 32;
/// How deep messages may nest: as deep as prost decodes.
const MAX_DEPTH: usize = 100;
/// Bytes of a `Vec`, a `String` or a `BTreeMap` beside its content.
const HEADER_BYTES: usize = 24;
/// The least that the allocator spends on a string that is not empty, above its length.
const ALLOCATION_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "the message has {length} bytes and would take more than {allowed} in memory, because it consists of \
         nearly empty parts; send fewer of them at once"
    )]
    TooManyParts { length: usize, allowed: usize },
    #[error(
        "the message is not in the protobuf format, or its parts nest more than {MAX_DEPTH} deep"
    )]
    Malformed,
}

/// Whether a message may be decoded, by its full name.
pub fn check(message: &str, bytes: &[u8]) -> Result<(), Refused> {
    let Some(shape) = SHAPES.by_name.get(message) else {
        return Ok(()); // No message of a service: there are none without a descriptor.
    };
    let allowed = FLOOR_BYTES + FACTOR.saturating_mul(bytes.len());
    let mut walk = Walk { left: allowed };
    match walk.message(*shape, bytes, 0) {
        Err(Stop::Exhausted) => Err(Refused::TooManyParts {
            length: bytes.len(),
            allowed,
        }),
        Err(Stop::Malformed) => Err(Refused::Malformed),
        Ok(()) => Ok(()),
    }
}

/// The layout of a message.
#[derive(Debug, Default)]
struct Shape {
    /// Bytes of its struct, or a little more.
    bytes: usize,
    /// By number, in ascending order; scalars that are alone are left out.
    fields: Vec<(u32, Field)>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    /// Index of the shape.
    Message(usize),
    Messages(usize),
    /// A map, with the shape of its entries.
    Map(usize),
    String,
    Strings,
    Numbers,
}

#[derive(Default)]
struct Shapes {
    all: Vec<Shape>,
    by_name: HashMap<String, usize>,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    // They are part of the program, and a test reads them.
    let files = FileDescriptorSet::decode(DESCRIPTORS).expect("the descriptors of this crate");
    let mut messages = Messages::new();
    for file in &files.file {
        for message in &file.message_type {
            collect(&mut messages, file.package(), message);
        }
    }
    let mut shapes = Shapes::default();
    for name in messages.keys() {
        shapes.add(&messages, name);
    }
    shapes
});

/// Descriptors of messages by full name.
type Messages<'a> = BTreeMap<String, &'a DescriptorProto>;

/// Adds a message and those that are defined in it.
fn collect<'a>(messages: &mut Messages<'a>, scope: &str, message: &'a DescriptorProto) {
    let name = format!("{scope}.{}", message.name());
    for inner in &message.nested_type {
        collect(messages, &name, inner);
    }
    messages.insert(name, message);
}

/// The full name of the message that a field is of.
fn message_of(field: &FieldDescriptorProto) -> &str {
    field.type_name().trim_start_matches('.')
}

fn is_list(field: &FieldDescriptorProto) -> bool {
    field.label() == Label::Repeated
}

impl Shapes {
    fn add(&mut self, messages: &Messages, name: &str) -> usize {
        if let Some(index) = self.by_name.get(name) {
            return *index; // Perhaps not complete: the message contains itself.
        }
        let index = self.all.len();
        self.all.push(Shape::default());
        self.by_name.insert(name.to_owned(), index);
        let message = messages[name];
        let mut fields = Vec::new();
        let mut alone = 0;
        // One of the fields of each, and which.
        let mut choices = vec![0; message.oneof_decl.len()];
        for field in &message.field {
            if let Some(kind) = self.field(messages, field) {
                fields.push((u32::try_from(field.number()).unwrap_or_default(), kind));
            }
            let bytes = self.bytes_in_struct(field);
            match field.oneof_index.and_then(|n| usize::try_from(n).ok()) {
                Some(oneof) => choices[oneof] = bytes.max(choices[oneof]),
                None => alone += bytes,
            }
        }
        let choices: usize = choices.iter().map(|bytes| bytes + 8).sum();
        fields.sort_by_key(|(number, _)| *number);
        let bytes = (alone + choices).next_multiple_of(8);
        self.all[index] = Shape { bytes, fields };
        index
    }

    fn field(&mut self, messages: &Messages, field: &FieldDescriptorProto) -> Option<Field> {
        Some(match field.r#type() {
            Type::Message => {
                let name = message_of(field);
                let shape = self.add(messages, name);
                let options = messages[name].options.as_ref();
                match is_list(field) {
                    true if options.is_some_and(|o| o.map_entry()) => Field::Map(shape),
                    true => Field::Messages(shape),
                    false => Field::Message(shape),
                }
            }
            Type::String | Type::Bytes if is_list(field) => Field::Strings,
            Type::String | Type::Bytes => Field::String,
            _ if is_list(field) => Field::Numbers,
            _ => return None,
        })
    }

    /// Bytes of a field in its struct, once its own message was added.
    fn bytes_in_struct(&self, field: &FieldDescriptorProto) -> usize {
        match field.r#type() {
            _ if is_list(field) => HEADER_BYTES,
            // A message that contains itself is behind a pointer, and its size not known yet.
            Type::Message => 8 + self.all[self.by_name[message_of(field)]].bytes,
            Type::String | Type::Bytes => HEADER_BYTES,
            Type::Int64 | Type::Uint64 | Type::Double => 8,
            Type::Sint64 | Type::Fixed64 | Type::Sfixed64 => 8,
            _ => 4,
        }
    }
}

enum Stop {
    Exhausted,
    Malformed,
}

struct Walk {
    /// Bytes in memory that are still allowed.
    left: usize,
}

impl Walk {
    fn take(&mut self, bytes: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(bytes).ok_or(Stop::Exhausted)?;
        Ok(())
    }

    fn message(&mut self, shape: usize, mut bytes: &[u8], depth: usize) -> Result<(), Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::Malformed);
        }
        let shape = &SHAPES.all[shape];
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let field = u32::try_from(key >> 3).map_err(|_| Stop::Malformed)?;
            let found = shape.fields.binary_search_by_key(&field, |(n, _)| *n);
            let field = found.ok().map(|index| shape.fields[index].1);
            match key & 7 {
                0 => drop(varint(&mut bytes)?),
                1 => drop(split(&mut bytes, 8)?),
                5 => drop(split(&mut bytes, 4)?),
                2 => {
                    let length = varint(&mut bytes)?;
                    let length = usize::try_from(length).map_err(|_| Stop::Malformed)?;
                    let part = split(&mut bytes, length)?;
                    match field {
                        Some(field) => self.part(field, part, depth)?,
                        None => continue,
                    }
                }
                // Groups, which proto3 has not.
                _ => return Err(Stop::Malformed),
            }
            if let (Some(Field::Numbers), 0 | 1 | 5) = (field, key & 7) {
                self.take(8)?;
            }
        }
        Ok(())
    }

    fn part(&mut self, field: Field, part: &[u8], depth: usize) -> Result<(), Stop> {
        let string = match part.len() {
            0 => 0,
            length => length + ALLOCATION_BYTES,
        };
        match field {
            Field::Message(shape) => self.message(shape, part, depth + 1),
            Field::Messages(shape) => {
                self.take(SHAPES.all[shape].bytes)?;
                self.message(shape, part, depth + 1)
            }
            Field::Map(entry) => {
                // Nodes of a B-tree are about half full at least.
                self.take(2 * SHAPES.all[entry].bytes)?;
                self.message(entry, part, depth + 1)
            }
            Field::String => self.take(string),
            Field::Strings => self.take(HEADER_BYTES + string),
            // Packed: a byte each at least, eight in memory at most.
            Field::Numbers => self.take(8 * part.len()),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Stop> {
    if let [byte, rest @ ..] = *bytes
        && *byte < 0x80
    {
        *bytes = rest;
        return Ok(u64::from(*byte));
    }
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err(Stop::Malformed)
}

fn split<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Stop> {
    let (part, rest) = bytes.split_at_checked(length).ok_or(Stop::Malformed)?;
    *bytes = rest;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use prost::Name;

    use super::*;
    use crate::proto::{config, p4};

    fn checked<M: Name>(bytes: &[u8]) -> Result<(), Refused> {
        check(&M::full_name(), bytes)
    }

    fn is_estimated<M: Name>() {
        let (told, real) = (
            SHAPES.all[SHAPES.by_name[&M::full_name()]].bytes,
            size_of::<M>(),
        );
        assert!(
            (real..=real * 3 / 2).contains(&told),
            "{} {told} {real}",
            M::NAME
        );
    }

    #[test]
    fn sizes_of_structs_are_told_from_descriptors() {
        is_estimated::<p4::Update>();
        is_estimated::<p4::Entity>();
        is_estimated::<p4::TableEntry>();
        is_estimated::<p4::FieldMatch>();
        is_estimated::<p4::action::Param>();
        is_estimated::<p4::Replica>();
        is_estimated::<p4::ActionProfileAction>();
        is_estimated::<p4::PacketMetadata>();
        is_estimated::<p4::P4Data>();
        is_estimated::<config::Table>();
        is_estimated::<config::MatchField>();
        is_estimated::<config::Preamble>();
    }

    #[test]
    fn empty_parts_are_refused_and_a_few_are_not() {
        for (name, part) in [
            ("updates", &b"\x22\x00"[..]),
            ("cut short", b"\x22\x02\x12\x00"),
        ] {
            let many = part.repeat(100_000);
            let refused = checked::<p4::WriteRequest>(&many);
            assert!(
                matches!(refused, Err(Refused::TooManyParts { .. })),
                "{name}: {refused:?}"
            );
            assert_eq!(checked::<p4::WriteRequest>(&part.repeat(1000)), Ok(()));
        }
        // The parts of one entry.
        let matches = b"\x12\x00".repeat(1 << 20);
        let nest = |field: u8, inner: Vec<u8>| {
            let mut outer = vec![field << 3 | 2];
            prost::encoding::encode_varint(inner.len() as u64, &mut outer);
            outer.extend(inner);
            outer
        };
        let update = nest(4, nest(2, nest(2, matches)));
        let refused = checked::<p4::WriteRequest>(&update);
        assert!(matches!(refused, Err(Refused::TooManyParts { .. })));
        let tables = nest(1, b"\x12\x00".repeat(1 << 20));
        let refused = checked::<p4::ForwardingPipelineConfig>(&tables);
        assert!(matches!(refused, Err(Refused::TooManyParts { .. })));
    }

    #[test]
    fn large_batches_of_the_smallest_useful_parts_are_decoded() {
        let read = |index| {
            let index = Some(p4::Index { index });
            let cell = p4::CounterEntry {
                counter_id: 0x1200_0001,
                index,
                data: None,
            };
            p4::Entity {
                entity: Some(p4::entity::Entity::CounterEntry(cell)),
            }
        };
        let request = p4::ReadRequest {
            entities: (1..=100_000).map(read).collect(),
            ..Default::default()
        };
        assert_eq!(checked::<p4::ReadRequest>(&request.encode_to_vec()), Ok(()));
        let replica = p4::Replica {
            instance: 1,
            port_kind: Some(p4::replica::PortKind::Port(vec![1])),
            ..Default::default()
        };
        let group = p4::MulticastGroupEntry {
            multicast_group_id: 1,
            replicas: vec![replica; 100_000],
            ..Default::default()
        };
        assert_eq!(
            checked::<p4::MulticastGroupEntry>(&group.encode_to_vec()),
            Ok(())
        );
        let program = p4::ForwardingPipelineConfig {
            p4_device_config: vec![b'{'; 10 << 20],
            ..Default::default()
        };
        let bytes = program.encode_to_vec();
        assert_eq!(checked::<p4::ForwardingPipelineConfig>(&bytes), Ok(()));
    }

    #[test]
    fn what_is_no_protobuf_is_refused() {
        for bytes in [
            &b"\x22"[..],    // no length
            b"\x22\x05\x00", // too short
            b"\x23\x24",     // a group
            &[0xff; 11],     // a number without an end
            b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert_eq!(
                checked::<p4::WriteRequest>(bytes),
                Err(Refused::Malformed),
                "{bytes:?}"
            );
        }
        // Unknown fields are skipped, whatever is in them.
        assert_eq!(
            checked::<p4::WriteRequest>(b"\xa2\x06\x03\xff\xff\xff"),
            Ok(())
        );
    }
}
