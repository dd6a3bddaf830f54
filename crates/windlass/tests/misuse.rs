//! Misuse of the macros does not compile, and the compiler says what to do, at the author's own code.
//!
//! A case is a file in `misuse`, beside what the compiler says of it. `TRYBUILD=overwrite cargo test -p windlass --test misuse`
//! writes those again: read the difference. Parts of them are the compiler's own words (1.95): another one may word them otherwise.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
