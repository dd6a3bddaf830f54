//! Compiles playbooks and prints their problems: `cargo run -p windlass-noetl --example check -- FILE…`

use std::fs;

use windlass_noetl::{NoetlOptions, compile};
use windlass_syntax::{Colour, SourceText};

fn main() {
    let tools = ["http_call", "postgres", "sqlite", "python", "shell"].map(str::to_owned);
    let options = NoetlOptions { tools: tools.to_vec(), ..NoetlOptions::default() };
    for path in std::env::args().skip(1) {
        let Ok(text) = fs::read_to_string(&path) else {
            println!("{path}: cannot be read");
            continue;
        };
        let source = SourceText::new(path.as_str(), text);
        match compile(&source, &options) {
            Ok(compiled) => println!("{path}: good\n{}", compiled.warnings.render(&source, Colour::Never)),
            Err(problems) => println!("{path}: refused\n{}", problems.render(&source, Colour::Never)),
        }
    }
}
