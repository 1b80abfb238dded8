//! The tables of the packet generator.

use super::*;

const PORTS: u32 = 0xff03_0001;
const APPLICATIONS: u32 = 0xff03_0002;
const BUFFER: u32 = 0xff03_0003;
const MASKS: u32 = 0xff03_0004;
/// The actions that name triggers.
const ONCE: u32 = 1;
const PATTERN: u32 = 4;

fn row(table: u32, of: u32) -> bf::TableEntry {
    of_table(table, key(vec![exact(1, &of.to_be_bytes())]), None)
}

fn with(entry: &bf::TableEntry, action: u32, fields: &[(u32, Value)]) -> bf::TableEntry {
    bf::TableEntry {
        data: data(action, fields),
        ..entry.clone()
    }
}

fn place(offset: u32, size: u32) -> bf::TableEntry {
    let fields = [offset, size].map(u32::to_be_bytes);
    let fields = (1..).zip(fields).map(|(id, value)| exact(id, &value));
    of_table(BUFFER, key(fields.collect()), None)
}

fn value(found: &bf::TableEntry, field: u32) -> Option<Value> {
    let data = found.data.as_ref().unwrap();
    let found = data.fields.iter().find(|of| of.field_id == field);
    found.and_then(|of| of.value.clone())
}

#[test]
fn an_application_is_written_and_read_and_reset() {
    let program = Program::of("filters");
    let app = row(APPLICATIONS, 3);
    let set = [
        (1, word(1000)),
        (13, bytes(&[0, 100])),
        (14, bytes(&[0, 64])),
        (17, bytes(&[0, 2])),
        (21, word(7)),
        (12, Value::BoolVal(true)),
    ];
    program
        .write(Type::Modify, &with(&app, ONCE, &set))
        .unwrap();
    let found = program.read(app.clone()).unwrap();
    assert_eq!(found[0].data.as_ref().unwrap().action_id, ONCE);
    for (field, wanted) in &set {
        assert_eq!(
            value(&found[0], *field).as_ref(),
            Some(wanted),
            "field {field}"
        );
    }
    // The rest stays, with the trigger.
    let off = with(&app, 0, &[(12, Value::BoolVal(false))]);
    program.write(Type::Modify, &off).unwrap();
    let found = program.read(app.clone()).unwrap();
    assert_eq!(value(&found[0], 1), Some(word(1000)));
    assert_eq!(value(&found[0], 12), Some(Value::BoolVal(false)));
    assert_eq!(
        program
            .read(of_table(APPLICATIONS, None, None))
            .unwrap()
            .len(),
        8
    );
    program
        .write(Type::Delete, &of_table(APPLICATIONS, None, None))
        .unwrap();
    let found = program.read(app).unwrap();
    assert_eq!(found[0].data.as_ref().unwrap().action_id, 0);
    assert_eq!(value(&found[0], 13), Some(bytes(&[0, 0])));
}

#[test]
fn what_the_generator_cannot_do_is_refused_and_changes_nothing() {
    let program = Program::of("filters");
    let app = row(APPLICATIONS, 3);
    let code = |entry: &bf::TableEntry| program.write(Type::Modify, entry).unwrap_err().code;
    let on = (12, Value::BoolVal(true));
    assert_eq!(
        code(&with(&app, 0, std::slice::from_ref(&on))),
        Code::InvalidArgument
    );
    let far = [(14, bytes(&[0x3f, 0xff])), (13, bytes(&[0, 2])), on.clone()];
    assert_eq!(code(&with(&app, ONCE, &far)), Code::OutOfRange);
    assert_eq!(
        code(&with(&app, ONCE, &[(20, word(1))])),
        Code::Unimplemented
    );
    assert_eq!(code(&with(&app, 9, &[])), Code::Unimplemented);
    assert_eq!(
        code(&with(&app, PATTERN, &[(1, word(1))])),
        Code::InvalidArgument
    );
    assert_eq!(code(&with(&row(APPLICATIONS, 8), 0, &[])), Code::OutOfRange);
    let found = program.read(app).unwrap();
    assert_eq!(value(&found[0], 12), Some(Value::BoolVal(false)));
    assert_eq!(code(&with(&row(PORTS, 512), 0, &[])), Code::OutOfRange);
    assert_eq!(
        code(&with(&row(PORTS, 5), 0, &[(1, Value::BoolVal(true))])),
        Code::InvalidArgument
    );
    assert_eq!(code(&with(&place(16380, 8), 0, &[])), Code::OutOfRange);
    assert_eq!(
        code(&with(&place(0, 4), 0, &[(1, bytes(&[1, 2]))])),
        Code::InvalidArgument
    );
    // Masks are Tofino 2's.
    assert_eq!(code(&row(MASKS, 0)), Code::NotFound);
    let v1model = Program::new().write(Type::Modify, &with(&row(PORTS, 5), 0, &[]));
    assert_eq!(v1model.unwrap_err().code, Code::Unimplemented);
}

#[test]
fn ports_and_the_buffer_keep_what_is_written() {
    let program = Program::of("filters");
    let port = row(PORTS, 68);
    let set = [(2, Value::BoolVal(true)), (4, Value::BoolVal(true))];
    program.write(Type::Modify, &with(&port, 0, &set)).unwrap();
    let set = [(3, Value::BoolVal(true))];
    program.write(Type::Modify, &with(&port, 0, &set)).unwrap();
    let found = program.read(of_table(PORTS, None, None)).unwrap();
    assert_eq!(found.len(), 1);
    let flags = [1, 2, 3, 4].map(|field| value(&found[0], field));
    let wanted = [false, true, true, false].map(|flag| Some(Value::BoolVal(flag)));
    assert_eq!(flags, wanted);
    let packet = with(&place(32, 3), 0, &[(1, bytes(&[7, 8, 9]))]);
    program.write(Type::Modify, &packet).unwrap();
    let found = program.read(place(31, 5)).unwrap();
    assert_eq!(value(&found[0], 1), Some(numbers(&[0, 7, 8, 9, 0])));
}
