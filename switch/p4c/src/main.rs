use std::process::ExitCode;
fn main() -> ExitCode {
    let (mut ok, mut bad) = (0, 0);
    for path in std::env::args().skip(1) {
        let mut sources = ebb_p4c::source::SourceMap::default();
        let text = std::fs::read_to_string(&path).unwrap();
        let d = ebb_p4c::diagnostics::Diagnostics::default();
        match ebb_p4c::compile(&path, &text, &Default::default(), &mut sources, &d) {
            Some(c) => { ok += 1; std::fs::write(format!("/tmp/out/{}.json", path.rsplit('/').next().unwrap()), c.json.to_json()).unwrap(); }
            None => { bad += 1; println!("== {path}\n{}", d.render(&sources, false)); }
        }
    }
    println!("ok {ok} bad {bad}");
    ExitCode::SUCCESS
}
