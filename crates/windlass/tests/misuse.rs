//! Misuse of the macros does not compile, and the compiler's message at the author's own code says what to do.
//!
//! A case is a file in `misuse`, next to the expected compiler output. The command
//! `TRYBUILD=overwrite cargo test -p windlass --test misuse` rewrites the outputs; review the difference.
//! Parts of them are the wording of the compiler (1.95), which may differ in another version.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
