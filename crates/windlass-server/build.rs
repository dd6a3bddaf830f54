//! Rebuilds the crate when a file of the web UI is added or changed, since the web UI is embedded in the binary.

fn main() {
    println!("cargo:rerun-if-changed=../../ui/dist");
}
