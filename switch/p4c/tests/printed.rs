//! Output of `-E` and `--pp`: the same program.

use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::preprocess::{Options, preprocess};
use ebb_p4c::print;
use ebb_p4c::source::SourceMap;
use serde_json::Value;

use crate::compiled;

/// The program as BMv2 sees it, without the places in the source and the names that are made of them.
fn seen(text: &str) -> (Value, String) {
    let compiled = compiled(text);
    let mut json = serde_json::from_str(&compiled.json.to_json()).expect("JSON");
    forget_places(&mut json, &mut Vec::new());
    (json, ebb_p4c::p4info::to_text(&compiled.p4info))
}

/// Actions and tables of single statements are called after their line, such as `t12` and
/// `tbl_t12_0`: here after the order in which they appear.
fn forget_places(value: &mut Value, seen: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            // The keys of the second are names of actions; in the third are those enums that are
            // not the library's, which is no longer to be seen in a program that the preprocessor
            // has read.
            for gone in ["source_info", "next_tables", "enums"] {
                fields.remove(gone);
            }
            fields.values_mut().for_each(|v| forget_places(v, seen));
        }
        Value::Array(items) => items.iter_mut().for_each(|v| forget_places(v, seen)),
        Value::String(text) => {
            let number = text.trim_start_matches("tbl_").strip_prefix('t');
            let made = number.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
            if made {
                let at = seen.iter().position(|known| known == text);
                let at = at.unwrap_or_else(|| {
                    seen.push(text.clone());
                    seen.len() - 1
                });
                *text = format!("made {at}");
            }
        }
        _ => {}
    }
}

/// The program after the preprocessor, and as the parser has read it.
fn printed(text: &str) -> (String, String) {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let file = sources.add("t.p4", text);
    let program = preprocess(file, &mut sources, &Options::default(), &diagnostics);
    (program.text, print::pretty(&program.tokens, &sources))
}

#[test]
fn printed_programs_are_the_same_programs() {
    let own = include_str!("programs/described.p4").to_owned();
    let made_up = (0..8).map(ebb_p4_generator::program);
    for text in std::iter::once(own).chain(made_up) {
        let expected = seen(&text);
        let (preprocessed, pretty) = printed(&text);
        assert!(seen(&preprocessed) == expected, "{text}\n{preprocessed}");
        assert!(pretty.contains("#include <v1model.p4>\n"), "{pretty}");
        assert!(seen(&pretty) == expected, "{text}\n{pretty}");
    }
}
