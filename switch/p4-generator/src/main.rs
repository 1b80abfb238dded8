//! `p4-generator SEED`: prints a random P4 program for v1model; `p4-generator FIRST..END FOLDER`
//! writes one file for each seed.

use std::process::ExitCode;

use ebb_p4_generator::program;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("p4-generator: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("`{text}` is not a seed"))
    };
    match words {
        [seed] => {
            print!("{}", program(number(seed)?));
            Ok(())
        }
        [range, folder] => {
            let (first, end) = range
                .split_once("..")
                .ok_or("the first word is FIRST..END")?;
            for seed in number(first)?..number(end)? {
                let file = std::path::Path::new(folder).join(format!("generated-{seed}.p4"));
                let written = std::fs::write(&file, program(seed));
                written.map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
            }
            Ok(())
        }
        _ => Err("usage: p4-generator SEED, or p4-generator FIRST..END FOLDER".into()),
    }
}
