use ebb_bmv2_json::{HexStr, Nothing, Value};

#[test]
fn hex_numbers_keep_their_width() {
    assert_eq!(HexStr::padded(0x800, 16).0, "0x0800");
    assert_eq!(HexStr::padded(0xaba, 12).to_bytes(), Ok(vec![0x0a, 0xba]));
    assert_eq!(HexStr("0xabc".into()).to_bytes(), Ok(vec![0x0a, 0xbc]));
    assert_eq!(HexStr("-0x0f".into()).magnitude(), Ok(Some(15)));
    assert!(HexStr("-0x0f".into()).is_negative());
    assert!(HexStr("0xg1".into()).to_bytes().is_err());
    assert!(HexStr("0x".into()).to_bytes().is_err());
    assert_eq!(HexStr::bytes(&[1; 17]).magnitude(), Ok(None));
}

#[test]
fn a_wrapped_expression_reads_as_it_was_written() {
    let json = concat!(
        r#"{"type":"expression","value":{"type":"expression","value":{"op":"access_field","#,
        r#""left":{"type":"expression","value":{"op":"dereference_header_stack","#,
        r#""left":{"type":"header_stack","value":"h2"},"#,
        r#""right":{"type":"field","value":["h1","idx"]}}},"right":0}}}"#,
    );
    let expected = Value::access(
        "access_field",
        Value::binary(
            "dereference_header_stack",
            Value::HeaderStack("h2".into()),
            Value::field("h1", "idx"),
        ),
        0,
    )
    .wrapped();
    assert_eq!(serde_json::from_str::<Value>(json).unwrap(), expected);
    assert_eq!(serde_json::to_string(&expected).unwrap(), json);
}

#[test]
fn unary_operations_have_a_null_left_side() {
    let v = Value::unary("d2b", Value::field("tcp", "$valid$"));
    let json = concat!(
        r#"{"type":"expression","value":{"op":"d2b","left":null,"#,
        r#""right":{"type":"field","value":["tcp","$valid$"]}}}"#,
    );
    assert_eq!(serde_json::to_string(&v).unwrap(), json);
    assert_eq!(serde_json::from_str::<Value>(json).unwrap(), v);
}

#[test]
fn payload_is_written_with_a_null_value_which_nobody_reads() {
    let json = serde_json::to_string(&Value::Payload(Nothing)).unwrap();
    assert_eq!(json, r#"{"type":"payload","value":null}"#);
    for json in [
        &json,
        r#"{"type":"payload"}"#,
        r#"{"type":"payload","value":["x"]}"#,
    ] {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(value, Value::Payload(Nothing), "{json}");
    }
}
