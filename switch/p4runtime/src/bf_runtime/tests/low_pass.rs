//! `Lpf`, `Wred`, key masks and meters: a program of its own (`filters.p4`).

use ebb_pipeline::{IngressInput, IngressVerdict};

use super::*;

#[test]
fn a_filter_is_configured_read_and_reset() {
    use filters::{LPF, LPF_INDEX, MEAN};
    let program = Program::of("filters");
    let lpf = |kind: &str, gain: f32, decay: f32, scale| {
        let values = [
            Value::StrVal(kind.into()),
            Value::FloatVal(gain),
            Value::FloatVal(decay),
            word(scale),
        ];
        LPF.into_iter().zip(values).collect::<Vec<_>>()
    };
    let cell = |index: u32, fields: &[(u32, Value)]| {
        let key = key(vec![exact(LPF_INDEX, &index.to_be_bytes())]);
        of_table(MEAN, key, data(0, fields))
    };
    let all = || program.read(of_table(MEAN, None, None)).unwrap();
    let fresh = lpf("SAMPLE", 0.0, 0.0, 0);
    let expected: Vec<_> = (0..4).map(|index| cell(index, &fresh)).collect();
    assert_eq!(all(), expected);
    let rate = lpf("RATE", 10.0, 20.5, 3);
    program.write(Type::Insert, &cell(2, &rate)).unwrap();
    assert_eq!(program.read(cell(2, &[])).unwrap(), [cell(2, &rate)]);
    // Fields that are left out stay.
    program
        .write(Type::Modify, &cell(2, &[(LPF[3], word(4))]))
        .unwrap();
    let changed = [cell(2, &lpf("RATE", 10.0, 20.5, 4))];
    assert_eq!(program.read(cell(2, &[])).unwrap(), changed);
    let code = |entry| program.write(Type::Modify, &entry).unwrap_err().code;
    assert_eq!(code(cell(4, &rate)), Code::OutOfRange);
    assert_eq!(
        code(cell(2, &lpf("MEAN", 1.0, 1.0, 0))),
        Code::InvalidArgument
    );
    assert_eq!(
        code(cell(2, &lpf("RATE", -1.0, 1.0, 0))),
        Code::InvalidArgument
    );
    assert_eq!(
        code(cell(2, &lpf("RATE", 1.0, 1.0, 32))),
        Code::InvalidArgument
    );
    assert_eq!(code(cell(2, &[(LPF[1], word(1))])), Code::InvalidArgument);
    assert_eq!(program.read(cell(2, &[])).unwrap(), changed);
    program
        .write(Type::Delete, &of_table(MEAN, None, None))
        .unwrap();
    assert_eq!(all(), expected);
}

#[test]
fn an_entry_has_a_filter() {
    use filters::{JUDGE, QUEUES, WRED};
    let program = Program::of("filters");
    let wred = |time: f32, least, largest, probability: f32| {
        let values = [
            Value::FloatVal(time),
            word(least),
            word(largest),
            Value::FloatVal(probability),
        ];
        WRED.into_iter().zip(values).collect::<Vec<_>>()
    };
    let entry = |action, fields: &[(u32, Value)]| {
        of_table(QUEUES, key(vec![exact(1, &[0, 7])]), data(action, fields))
    };
    let read = || program.read(of_table(QUEUES, None, None)).unwrap();
    program.write(Type::Insert, &entry(JUDGE, &[])).unwrap();
    // The thresholds of the chip that no queue reaches.
    let never = 0xff00_0000;
    assert_eq!(read(), [entry(JUDGE, &wred(0.0, never, never, 0.0))]);
    program
        .write(Type::Modify, &entry(0, &wred(8.0, 10, 20, 0.5)))
        .unwrap();
    assert_eq!(read(), [entry(JUDGE, &wred(8.0, 10, 20, 0.5))]);
    program
        .write(Type::Modify, &entry(0, &[(WRED[2], word(30))]))
        .unwrap();
    let configured = [entry(JUDGE, &wred(8.0, 10, 30, 0.5))];
    assert_eq!(read(), configured);
    // A refused configuration changes nothing, and a refused entry is not there.
    let refused = program.write(Type::Modify, &entry(0, &[(WRED[1], word(31))]));
    assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
    let other = bf::TableEntry {
        key: key(vec![exact(1, &[0, 8])]),
        ..entry(JUDGE, &wred(8.0, 10, 20, 1.5))
    };
    let refused = program.write(Type::Insert, &other);
    assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
    assert_eq!(read(), configured);
}

#[test]
fn a_key_is_compared_under_the_mask_of_its_table() {
    use bf::table_attribute::Attribute;
    use filters::{FORWARD, QUEUES, SEND};
    let program = Program::of("filters");
    let attribute = |table_id, masks: &[(u32, &[u8])]| {
        let fields = masks.iter().map(|(field_id, mask)| bf::KeyFieldMask {
            field_id: *field_id,
            mask: mask.to_vec(),
        });
        Entity::TableAttribute(bf::TableAttribute {
            table_id,
            attribute: Some(Attribute::DynKeyMask(bf::DynKeyMask {
                fields: fields.collect(),
            })),
        })
    };
    let masks = || program.get(attribute(FORWARD, &[])).unwrap();
    let are = |id: [u8; 2], value: [u8; 2]| {
        let entity = attribute(FORWARD, &[(1, &id), (2, &value)]);
        [bf::Entity {
            entity: Some(entity),
        }]
    };
    assert_eq!(masks(), are([255; 2], [255; 2]));
    let set = |masks: &[(u32, &[u8])]| program.update(Type::Insert, attribute(FORWARD, masks));
    set(&[(1, &[0x0f, 0xff])]).unwrap();
    assert_eq!(masks(), are([0x0f, 0xff], [255; 2]));
    let entry = |id: [u8; 2]| {
        let key = key(vec![exact(1, &id), exact(2, &[0, 1])]);
        of_table(FORWARD, key, data(SEND, &[(1, bytes(&[0, 3]))]))
    };
    program.write(Type::Insert, &entry([0, 5])).unwrap();
    let port_of = |id: [u8; 2]| {
        let frame = vec![id[0], id[1], 0, 1, 0, 0];
        let input = IngressInput {
            ingress_port: 1,
            packet_id: 1,
            instance_type: 0,
            preserved: None,
            deflect: None,
        };
        let out = program.forwarding.with_detached(Instant::ZERO, |ctx| {
            ctx.pipeline.ingress(Instant::ZERO, frame, &input)
        });
        match out.unwrap().verdict {
            IngressVerdict::Unicast { egress_spec, .. } => Some(egress_spec),
            _ => None,
        }
    };
    assert_eq!(
        [[0, 5], [0xf0, 5], [1, 5]].map(port_of),
        [Some(3), Some(3), None]
    );
    // The two differ in bits only that are not compared.
    let same = program.write(Type::Insert, &entry([0xf0, 5])).unwrap_err();
    assert_eq!(same.code, Code::AlreadyExists, "{same}");
    // With entries the mask stays.
    let refused = set(&[(2, &[0])]).unwrap_err();
    assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
    assert_eq!(masks(), are([0x0f, 0xff], [255; 2]));
    let code = |entity| program.update(Type::Insert, entity).unwrap_err().code;
    assert_eq!(
        code(attribute(FORWARD, &[(9, &[1])])),
        Code::InvalidArgument
    );
    assert_eq!(
        code(attribute(FORWARD, &[(1, &[1, 0, 0])])),
        Code::OutOfRange
    );
    assert_eq!(code(attribute(QUEUES, &[(1, &[1])])), Code::InvalidArgument);
}

#[test]
fn an_unlimited_meter_shows_the_largest_rates_of_the_chip() {
    let program = Program::of("filters");
    let of = |fields: &[u64; 4]| {
        let ids = fixed::METER_BYTES.into_iter();
        let fields = ids
            .zip(fields)
            .map(|(id, value)| (id, bytes(&value.to_be_bytes())));
        let key = key(vec![exact(65555, &[0, 0, 0, 1])]);
        of_table(filters::LIMIT, key, data(0, &fields.collect::<Vec<_>>()))
    };
    let without_data = bf::TableEntry {
        data: None,
        ..of(&[0; 4])
    };
    let most = [5_195_848_221, 5_195_848_221, 4_380_866_642, 4_380_866_642];
    assert_eq!(program.read(without_data.clone()).unwrap(), [of(&most)]);
    program.write(Type::Insert, &of(&[1, 2, 3, 4])).unwrap();
    assert_eq!(
        program.read(without_data.clone()).unwrap(),
        [of(&[1, 2, 3, 4])]
    );
    program.write(Type::Delete, &without_data).unwrap();
    assert_eq!(program.read(without_data).unwrap(), [of(&most)]);
}
