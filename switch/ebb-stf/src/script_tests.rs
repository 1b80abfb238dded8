use super::*;

fn one(text: &str) -> Command {
    let mut statements = parse(text).expect("valid");
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).command
}

fn problem(text: &str) -> String {
    parse(text).expect_err("invalid").to_string()
}

fn number(text: &str) -> Number {
    Line::new(text).number("a number").expect("valid")
}

#[test]
fn packets_are_hexadecimal_with_blanks_anywhere() {
    let command = one("packet 3 00 11 2 2 aAbB  # to port 3");
    let bytes = vec![0x00, 0x11, 0x22, 0xaa, 0xbb];
    assert_eq!(command, Command::Packet { port: 3, bytes });
    assert!(problem("packet 3 123").contains("no whole number of bytes"));
    assert!(problem("packet 3 0g").contains("`g`"));
}

#[test]
fn an_expected_packet_has_wildcards_and_may_say_where_it_ends() {
    let Command::Expect { port: 1, pattern } = one("EXPECT 1 0* f $") else {
        panic!("not an expectation");
    };
    assert_eq!(pattern.digits, [Some(0), None, Some(15)]);
    assert!(pattern.exact_length);
    let Command::Expect { pattern, .. } = one("expect 1") else {
        panic!("not an expectation");
    };
    assert_eq!(pattern, Pattern::default());
}

#[test]
fn numbers_keep_what_is_not_written() {
    let ternary = number("0x1**4");
    assert_eq!(ternary.value(), [0x10, 0x04]);
    assert_eq!(ternary.mask(), Some(vec![0xf0, 0x0f]));
    assert_eq!(ternary.to_u64(), None);
    assert_eq!(number("0b1*1").mask(), Some(vec![0b101]));
    assert_eq!(number("0o777").value(), [0x01, 0xff]);
    assert_eq!(number("65536").value(), [1, 0, 0]);
    assert_eq!(number("10").mask(), None);
    assert_eq!(number("0x0a01**").prefix_bits(), Some(16));
    assert_eq!(number("0").to_u64(), Some(0));
}

#[test]
fn an_entry_has_all_or_little() {
    let command = one(r#"add "in.t" 7 h.a$0.b:0x0a/8 c:3 set_port(port:2, "x y":0x1) = first"#);
    let Command::Add {
        table,
        priority,
        keys,
        action: EntryAction::Action(action),
        label,
    } = command
    else {
        panic!("not an entry");
    };
    assert_eq!((table.as_str(), priority), ("in.t", Some(7)));
    let expected = [
        ("h.a$0.b".into(), KeyValue::Prefix(number("0x0a"), 8)),
        ("c".into(), KeyValue::Number(number("3"))),
    ];
    assert_eq!(keys, expected);
    assert_eq!(action.name, "set_port");
    assert_eq!(action.arguments[1], ("x y".into(), number("0x1")));
    assert_eq!(label.as_deref(), Some("first"));
    assert!(matches!(one("add t a()"), Command::Add { keys, .. } if keys.is_empty()));
}

#[test]
fn a_label_may_have_a_dollar_sign() {
    let entry = |at| match at {
        Command::CheckCounter {
            at: CounterAt::Entry(label),
            ..
        } => label,
        other => panic!("{other:?}"),
    };
    for spelled in ["A", "$A", "\"$A\""] {
        let check = format!("check_counter hits({spelled}) packets == 2");
        assert_eq!(entry(one(&check)), "A");
        let label = "A".into();
        let remove = Command::Remove { label };
        assert_eq!(one(&format!("remove {spelled}")), remove);
        let add = one(&format!("add t a() = {spelled}"));
        assert!(matches!(add, Command::Add { label: Some(label), .. } if label == "A"));
    }
    assert!(problem("check_counter hits($)").contains("found `$`"));
}

#[test]
fn a_comment_does_not_begin_in_quotes() {
    let command = one(r##"setdefault "in.t#1" "a#2"("x#":1)  # a comment with a " in it"##);
    let Command::SetDefault {
        table,
        action: Some(EntryAction::Action(action)),
    } = command
    else {
        panic!("not a default action");
    };
    assert_eq!((table.as_str(), action.name.as_str()), ("in.t#1", "a#2"));
    assert_eq!(action.arguments, [("x#".into(), number("1"))]);
    assert!(problem(r##"add "t # a()"##).contains("a quote is not closed"));
}

#[test]
fn an_entry_may_lead_to_a_member_or_a_group_and_match_a_range() {
    let Command::Add { keys, action, .. } = one("add t 1 k:0x10->32 group 3 = e") else {
        panic!("not an entry");
    };
    let range = KeyValue::Range(number("0x10"), number("32"));
    assert_eq!(keys, [("k".into(), range)]);
    assert_eq!(action, EntryAction::Group(3));
    let Command::Add { action, .. } = one("add t k:1 member 0") else {
        panic!("not an entry");
    };
    assert_eq!(action, EntryAction::Member(0));
    // An action of that name.
    let Command::SetDefault { action, .. } = one("setdefault t member()") else {
        panic!("not a default action");
    };
    assert!(matches!(action, Some(EntryAction::Action(_))));
    let table = "t".into();
    assert_eq!(
        one("setdefault t"),
        Command::SetDefault {
            table,
            action: None
        }
    );
}

#[test]
fn rates_are_per_microsecond() {
    let Command::MeterSet { index, rates, .. } = one("meter_set_rates m 2 0.5:10 1:20") else {
        panic!("not rates");
    };
    assert_eq!(index, Some(2));
    let rate = |per_second, burst| Rate { per_second, burst };
    assert_eq!(rates, [rate(500_000, 10), rate(1_000_000, 20)]);
}

#[test]
fn counters_are_checked() {
    let Command::CheckCounter { at, check, .. } = one("check_counter c(5) bytes >= 100") else {
        panic!("not a check");
    };
    assert_eq!(at, CounterAt::Index(5));
    let check = check.expect("a check");
    assert_eq!((check.unit, check.value), (CountUnit::Bytes, 100));
    assert!(check.relation.holds(100, 100) && !check.relation.holds(99, 100));
    let at = CounterAt::Entry("e".into());
    let name = "c".into();
    assert_eq!(
        one("check_counter c(e)"),
        Command::CheckCounter {
            name,
            at,
            check: None
        }
    );
}

#[test]
fn problems_name_their_line() {
    assert_eq!(
        problem("wait\n\n# fine\nwait now"),
        "line 4: `now` is too much"
    );
    assert!(problem("send 1 00").starts_with("line 1: `send` is not a command"));
    assert!(problem("add t a:1").contains("the line ends"));
    assert!(problem("mc_mgrp_create 65536").contains("`65536` is no good as a multicast group"));
}
