//! The BMv2 backend: elaborated program in, BMv2 JSON out.

mod actions;
mod applied;
mod assignments;
mod backend;
mod checksums;
mod controls;
mod deparser;
mod equality;
mod expressions;
mod extern_methods;
mod externs;
mod layout;
mod parsers;
mod psa;
mod successors;
mod tables;
mod tofino;

use ebb_bmv2_json as json;

use crate::diagnostics::Diagnostics;
use crate::elaborate::flat::Flat;
use crate::ir::Program;
use crate::source::SourceMap;
use backend::{Backend, Stage};

/// Generates the JSON. The result is only usable if no error was reported.
pub fn generate(
    program: &Program,
    flat: &Flat,
    sources: &SourceMap,
    diagnostics: &Diagnostics,
    source_name: &str,
) -> json::Program {
    let mut backend = Backend::new(program, flat, sources, diagnostics);
    backend.run(source_name);
    let Backend {
        layout, mut json, ..
    } = backend;
    layout.finish(&mut json);
    json
}

impl Backend<'_> {
    fn run(&mut self, source_name: &str) {
        self.json.errors = self
            .program
            .errors
            .iter()
            .zip(0..)
            .map(|(name, number)| (name.clone(), number))
            .collect();
        self.enums();
        let flat = self.flat;
        match (&flat.tofino, &flat.psa) {
            (Some(tofino), _) => self.tofino(tofino),
            (None, Some(psa)) => self.psa(psa),
            (None, None) => self.v1model(),
        }
        self.json.program = Some(source_name.to_owned());
        self.json.meta = Some(json::Meta {
            compiler: Some(concat!("ebb-p4c ", env!("CARGO_PKG_VERSION")).to_owned()),
            ..json::Meta::default()
        });
    }

    fn v1model(&mut self) {
        let flat = self.flat;
        self.field_list_annotations();
        let parser = self.parser(&flat.parser, "parser", 0);
        self.json.parsers = vec![parser];
        self.value_sets();
        self.deparser();
        self.controls();
        self.checksums();
        self.extern_instances();
    }

    fn controls(&mut self) {
        let flat = self.flat;
        self.stage = Stage::Ingress;
        let ingress = self.pipeline("ingress", 0, &flat.ingress);
        self.stage = Stage::Egress;
        let egress = self.pipeline("egress", 1, &flat.egress);
        self.json.pipelines = vec![ingress, egress];
    }

    /// Enums of the program without representation, whose members have numbers in the JSON only.
    fn enums(&mut self) {
        let used = self.program.enums.iter().filter(|e| {
            let library = self.sources.position(e.span).0.starts_with('<');
            e.underlying.is_none() && !library
        });
        self.json.enums = used
            .map(|e| json::Enum {
                name: e.name.clone(),
                entries: e.members.iter().cloned().zip(0..).collect(),
            })
            .collect();
    }
}
