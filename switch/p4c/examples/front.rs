use ebb_p4c::*;
fn main() {
    let (mut ok, mut bad) = (0, 0);
    for path in std::env::args().skip(1) {
        let mut sources = source::SourceMap::default();
        let text = std::fs::read_to_string(&path).unwrap();
        let f = sources.add(&path, text);
        let d = diagnostics::Diagnostics::default();
        let t = preprocess::preprocess(f, &mut sources, &preprocess::Options::default(), &d);
        let ast = parse::parse(&t, &d);
        if !d.has_errors() { check::check(&ast, &d); }
        if d.has_errors() { bad += 1; println!("== {path}\n{}", d.render(&sources, false)); } else { ok += 1; }
    }
    println!("ok {ok} bad {bad}");
}
