//! The fuzzer: one program for all targets. `WINDLASS_FUZZ_TARGET` selects one.
#![no_main]

use std::sync::OnceLock;

use windlass_fuzz::FuzzTarget;

static TARGET: OnceLock<FuzzTarget> = OnceLock::new();

fn select() -> FuzzTarget {
    let name = std::env::var("WINDLASS_FUZZ_TARGET").unwrap_or_default();
    windlass_fuzz::find(&name).unwrap_or_else(|| panic!("WINDLASS_FUZZ_TARGET names no target: `{name}`"))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.get_or_init(select).run)(data));
