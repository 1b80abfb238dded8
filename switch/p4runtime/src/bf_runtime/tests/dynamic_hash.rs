//! Hashes that are set at run time, and the member that a hash selects: a program of its own (`hashes.p4`).

use ebb_pipeline::{IngressInput, IngressVerdict};

use super::*;
use crate::proto::bf_runtime::data_field::ContainerArray;
use crate::proto::bf_runtime::data_field::container_array::Container;

const START_BIT: u32 = 65584;
const LENGTH: u32 = 65585;
const ORDER: u32 = 65586;
/// Fields of the configuration: an input, a constant, and two more inputs.
const A: u32 = 1;
const SEVEN: u32 = 2;
const B: u32 = 3;
const C: u32 = 4;
const PRE_DEFINED: u32 = 65581;
const USER_DEFINED: u32 = 65582;

/// The CRC-32 of "1234", 7, "56789", with which the program begins.
const OF_PROGRAM: u32 = 0xfb28_db2e;

fn table(program: &Program, name: &str) -> Option<u32> {
    let mut tables = program.schema.tables();
    let found = tables.find(|table| table.name == format!("pipe.I.{name}"));
    found.map(|table| table.id)
}

/// A hash with its tables.
struct Hash {
    program: Program,
    configure: u32,
    algorithm: u32,
    compute: u32,
}

impl Hash {
    fn new() -> Hash {
        let program = Program::of("hashes");
        let [configure, algorithm, compute] = ["configure", "algorithm", "compute"]
            .map(|end| table(&program, &format!("hash.{end}")).unwrap());
        Hash {
            program,
            configure,
            algorithm,
            compute,
        }
    }

    fn write(&self, kind: Type, table_id: u32, action: u32, fields: &[(u32, Value)]) -> Result<()> {
        self.program
            .write(kind, &default_of(table_id, action, fields))
    }

    fn configure(&self, fields: &[(u32, Value)]) -> Result<()> {
        self.write(Type::Modify, self.configure, 0, fields)
    }

    fn set(&self, action: u32, fields: &[(u32, Value)]) -> Result<()> {
        self.write(Type::Modify, self.algorithm, action, fields)
    }

    fn shown(&self, table: u32) -> bf::TableEntry {
        let read = self.program.read(default_of(table, 0, &[]));
        let [entry] = &read.unwrap()[..] else {
            panic!("one entry");
        };
        entry.clone()
    }

    /// The hash of "1234", "5678" and "9", of a packet with them too.
    fn computed(&self) -> u32 {
        let key = key(vec![exact(1, b"1234"), exact(2, b"5678"), exact(3, b"9")]);
        let found = self
            .program
            .read(of_table(self.compute, key, None))
            .unwrap();
        let fields = &found[0].data.as_ref().unwrap().fields;
        let Some(Value::Stream(value)) = &fields[0].value else {
            panic!("{found:?}");
        };
        let hash = u32::from_be_bytes(value[..].try_into().unwrap());
        let port = port_of(&self.program, b"123456789\0\0\0\0");
        assert_eq!(port, Some(hash & 0x1ff), "the lowest bits of {hash:x}");
        hash
    }
}

/// The port to which a packet goes.
fn port_of(program: &Program, frame: &[u8]) -> Option<u32> {
    let input = IngressInput {
        ingress_port: 1,
        packet_id: 1,
        instance_type: 0,
        preserved: None,
        deflect: None,
    };
    let out = program.forwarding.with_detached(Instant::ZERO, |ctx| {
        ctx.pipeline.ingress(Instant::ZERO, frame.to_vec(), &input)
    });
    match out.unwrap().verdict {
        IngressVerdict::Unicast { egress_spec, .. } => Some(egress_spec.into()),
        _ => None,
    }
}

fn default_of(table_id: u32, action: u32, fields: &[(u32, Value)]) -> bf::TableEntry {
    bf::TableEntry {
        is_default_entry: true,
        ..of_table(table_id, None, data(action, fields))
    }
}

fn wide(number: u64) -> Value {
    bytes(&number.to_be_bytes())
}

/// Slices of an input: from a bit on, a length, a place.
fn slices(list: &[[u64; 3]]) -> Value {
    let container = list.iter().map(|[start, length, order]| {
        let values = [(START_BIT, *start), (LENGTH, *length), (ORDER, *order)];
        let val = values.map(|(field_id, value)| bf::DataField {
            field_id,
            value: Some(wide(value)),
        });
        Container { val: val.into() }
    });
    Value::ContainerArrVal(ContainerArray {
        container: container.collect(),
    })
}

#[test]
fn inputs_take_part_as_they_are_ordered() {
    let hash = Hash::new();
    assert_eq!(hash.computed(), OF_PROGRAM);
    let of_program = [(A, 32, 1), (SEVEN, 8, 2), (B, 32, 3), (C, 8, 4)];
    let of_program = of_program.map(|(id, bits, order)| (id, slices(&[[0, bits, order]])));
    let shown = || hash.shown(hash.configure);
    assert_eq!(shown(), default_of(hash.configure, 0, &of_program));
    // Without the constant it is the check value of the CRC. A length beyond the end is cut.
    let without = [
        (A, slices(&[[0, 99, 2]])),
        (B, slices(&[[0, 32, 5]])),
        (C, slices(&[[0, 8, 9]])),
    ];
    hash.configure(&without).unwrap();
    assert_eq!(hash.computed(), 0xcbf4_3926);
    let cut = [
        (A, slices(&[[0, 32, 2]])),
        without[1].clone(),
        without[2].clone(),
    ];
    assert_eq!(shown(), default_of(hash.configure, 0, &cut));
    // Fields without a value, which the public client sends, are left out.
    let no_value = |field_id| bf::DataField {
        field_id,
        value: None,
    };
    let val = vec![
        no_value(START_BIT),
        no_value(LENGTH),
        bf::DataField {
            field_id: ORDER,
            value: Some(wide(1)),
        },
    ];
    let container = vec![Container { val }];
    let whole = Value::ContainerArrVal(ContainerArray { container });
    let last = [without[1].clone(), without[2].clone()];
    hash.configure(&[(A, whole), last[0].clone(), last[1].clone()])
        .unwrap();
    assert_eq!(hash.computed(), 0xcbf4_3926);
    // Order 0 takes no part.
    hash.configure(&[(A, slices(&[[0, 32, 0]])), (C, slices(&[[0, 8, 1]]))])
        .unwrap();
    let of_nine = hash.computed();
    hash.configure(&[(C, slices(&[[0, 4, 2], [4, 4, 1]]))])
        .unwrap();
    assert_eq!(hash.computed(), of_nine);
    let code = |fields: &[(u32, Value)]| hash.configure(fields).unwrap_err().code;
    assert_eq!(
        code(&[(A, slices(&[[3, 4, 3], [1, 9, 1]]))]),
        Code::InvalidArgument
    );
    assert_eq!(code(&[(A, slices(&[[32, 4, 3]]))]), Code::InvalidArgument);
    assert_eq!(code(&[(9, slices(&[[0, 4, 3]]))]), Code::InvalidArgument);
    assert_eq!(code(&[(A, wide(3))]), Code::InvalidArgument);
    assert_eq!(hash.computed(), of_nine);
    hash.write(Type::Delete, hash.configure, 0, &[]).unwrap();
    assert_eq!(hash.computed(), OF_PROGRAM);
}

#[test]
fn the_algorithm_is_exchanged() {
    let [rotate, seed, msb, extend] = [65577, 65578, 65579, 65580];
    let hash = Hash::new();
    let whole = [
        (A, slices(&[[0, 32, 1]])),
        (B, slices(&[[0, 32, 2]])),
        (C, slices(&[[0, 8, 3]])),
    ];
    hash.configure(&whole).unwrap();
    let named = |name: &str| (1, Value::StrVal(name.into()));
    hash.set(PRE_DEFINED, &[named("crc_16")]).unwrap();
    assert_eq!(hash.computed(), 0xbb3d);
    hash.set(
        PRE_DEFINED,
        &[
            named("CRC_16"),
            (extend, Value::BoolVal(true)),
            (rotate, word(4)),
        ],
    )
    .unwrap();
    assert_eq!(hash.computed(), 0xb3db_b3db);
    let shown = [
        (rotate, word(4)),
        (seed, word(0)),
        (msb, Value::BoolVal(false)),
        (extend, Value::BoolVal(true)),
        named("CRC_16"),
    ];
    let expected = default_of(hash.algorithm, PRE_DEFINED, &shown);
    assert_eq!(hash.shown(hash.algorithm), expected);
    // CRC-16/GSM, which has no name here.
    let polynomial = [(2, wide(0x1021)), (4, wide(0xffff)), (5, wide(16))];
    hash.set(USER_DEFINED, &polynomial).unwrap();
    assert_eq!(hash.computed(), 0xce3c);
    let code = |action, fields: &[(u32, Value)]| hash.set(action, fields).unwrap_err().code;
    assert_eq!(code(PRE_DEFINED, &[named("XOR")]), Code::Unimplemented);
    assert_eq!(
        code(PRE_DEFINED, &[named("crc_16"), (seed, word(1))]),
        Code::Unimplemented
    );
    assert_eq!(code(USER_DEFINED, &polynomial[..1]), Code::InvalidArgument);
    assert_eq!(
        code(USER_DEFINED, &[(2, wide(1)), (5, wide(65))]),
        Code::InvalidArgument
    );
    assert_eq!(hash.computed(), 0xce3c);
    hash.write(Type::Delete, hash.algorithm, 0, &[]).unwrap();
    assert_eq!(hash.computed(), 0xcbf4_3926);
}

#[test]
fn only_a_hash_with_one_call_has_tables() {
    let program = Program::of("hashes");
    assert!(table(&program, "hash.compute").is_some());
    assert_eq!(table(&program, "twice.compute"), None);
}

#[test]
fn clients_are_told_the_member_that_a_hash_selects() {
    let program = Program::of("hashes");
    let [entries, ways, group, selected] =
        ["t", "ways", "group", "group_get_member"].map(|name| table(&program, name).unwrap());
    let send = program.schema.table(ways).unwrap().action_specs[0].id;
    for member in [3, 4, 5u8] {
        let key = key(vec![exact(65539, &[member])]);
        let entry = of_table(ways, key, data(send, &[(1, bytes(&[member]))]));
        program.write(Type::Insert, &entry).unwrap();
    }
    let members = [(65539, numbers(&[3, 4, 5])), (65564, flags(&[true; 3]))];
    let of_group = of_table(group, key(vec![exact(65540, &[1])]), data(0, &members));
    program.write(Type::Insert, &of_group).unwrap();
    let of_nine = of_table(
        entries,
        key(vec![exact(1, &[8])]),
        data(0, &[(65540, bytes(&[1]))]),
    );
    program.write(Type::Insert, &of_nine).unwrap();
    let key_of = |group: u8, hash: u32| {
        let hash = exact(65583, &hash.to_be_bytes());
        of_table(selected, key(vec![exact(65563, &[group]), hash]), None)
    };
    let compute = table(&program, "hash.compute").unwrap();
    for first in 0..8u8 {
        let values = vec![exact(1, &[first, 0, 0, 0]), exact(2, &[0]), exact(3, &[8])];
        let hash = program.read(of_table(compute, key(values), None)).unwrap();
        let Some(Value::Stream(hash)) = &hash[0].data.as_ref().unwrap().fields[0].value else {
            panic!("{hash:?}");
        };
        let hash = u32::from_be_bytes(hash[..].try_into().unwrap());
        let found = program.read(key_of(1, hash)).unwrap();
        let member = &found[0].data.as_ref().unwrap().fields[0].value;
        let port = port_of(&program, &[first, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0]).unwrap();
        assert_eq!(*member, Some(wide(port.into())), "{hash:x}");
    }
    assert_eq!(program.read(key_of(2, 0)).unwrap_err().code, Code::NotFound);
}
