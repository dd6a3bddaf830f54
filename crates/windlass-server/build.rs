//! The page is compiled in: a new file of it must be seen, also where no line of code has changed.

fn main() {
    println!("cargo:rerun-if-changed=../../ui/dist");
}
