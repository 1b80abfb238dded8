//! Which object of the program a name in an STF file means.
//!
//! As in p4c's runner: the whole name, or an end of it that only one object has.

/// The one of `names` that `wanted` means.
pub fn resolve<'a>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<&'a str, String> {
    if let Some(name) = names.clone().find(|name| *name == wanted) {
        return Ok(name);
    }
    let after_dot = format!(".{wanted}");
    let ends: [&str; 2] = [&after_dot, wanted];
    for end in ends {
        let mut candidates: Vec<&str> = names.clone().filter(|name| name.ends_with(end)).collect();
        candidates.dedup();
        match candidates.as_slice() {
            [] => {}
            [name] => return Ok(name),
            several => {
                return Err(format!(
                    "{kind} `{wanted}` may be {}; give more of the name",
                    several.join(" or ")
                ));
            }
        }
    }
    let all: Vec<&str> = names.collect();
    Err(match all.is_empty() {
        true => format!("there is no {kind} `{wanted}`; the program has none"),
        false => format!(
            "there is no {kind} `{wanted}`; there are {}",
            all.join(", ")
        ),
    })
}

/// Which key field is meant. Besides ends of names: `a$0` for `a[0]`, and `valid` for the `$valid$`
/// that BMv2 JSON calls the validity of a header.
pub fn key_field(wanted: &str, fields: &[&str]) -> Result<usize, String> {
    let wanted = indexed(wanted);
    let header = wanted
        .strip_suffix("$valid")
        .or_else(|| wanted.strip_suffix("valid"));
    let mut spellings = vec![
        wanted.clone(),
        format!("{wanted}$"),
        format!("{wanted}.$valid$"),
    ];
    spellings.extend(header.map(|header| format!("{header}$valid$")));
    for spelling in &spellings {
        if let Some(at) = fields.iter().position(|field| field == spelling) {
            return Ok(at);
        }
    }
    // The last one, where several end like this: so does p4c's runner.
    let ends = |field: &&str| {
        let end = |spelling: &String| field.ends_with(&format!(".{spelling}"));
        spellings.iter().any(end)
    };
    fields.iter().rposition(ends).ok_or_else(|| {
        format!(
            "there is no key field `{wanted}`; there are {}",
            fields.join(", ")
        )
    })
}

/// `a$0.b` is `a[0].b`.
fn indexed(name: &str) -> String {
    let Some(at) = name.rfind('$') else {
        return name.into();
    };
    let (before, after) = (&name[..at], &name[at + 1..]);
    let digits = after.find(|c: char| !c.is_ascii_digit());
    let (index, rest) = after.split_at(digits.unwrap_or(after.len()));
    match index.is_empty() {
        true => name.into(),
        false => format!("{before}[{index}]{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_is_enough_if_only_one_has_it() {
        let names = ["in.t1", "in.sub.t2", "out.t1"];
        let find = |wanted| resolve("table", wanted, names.into_iter());
        assert_eq!(find("t2"), Ok("in.sub.t2"));
        assert_eq!(find("out.t1"), Ok("out.t1"));
        assert!(find("t1").unwrap_err().contains("in.t1 or out.t1"));
        assert!(find("t3").unwrap_err().contains("there are in.t1"));
    }

    #[test]
    fn key_fields_have_several_spellings() {
        let fields = ["h.stack[0].a", "h.eth.$valid$", "h.eth.dst"];
        assert_eq!(key_field("h.stack$0.a", &fields), Ok(0));
        assert_eq!(key_field("stack[0].a", &fields), Ok(0));
        assert_eq!(key_field("h.eth.valid", &fields), Ok(1));
        assert_eq!(key_field("eth.$valid", &fields), Ok(1));
        assert_eq!(key_field("h.eth", &fields), Ok(1));
        assert_eq!(key_field("dst", &fields), Ok(2));
        assert!(key_field("src", &fields).is_err());
    }
}
