//! The bill of materials, in the format CycloneDX 1.5.

use serde_json::{Value as Json, json};

use crate::checksums::sha256_hex;
use crate::dependencies::LinkedLibrary;
use crate::error::DistError;
use crate::release::{LICENCE, Release};
use crate::target::PackageTarget;

/// The identifier of the program inside the document.
const PROGRAM: &str = "windlass";

/// Writes the libraries of a program as CycloneDX. The same libraries give the same text.
pub fn bill_of_materials(
    release: &Release,
    target: PackageTarget,
    libraries: &[LinkedLibrary],
) -> Result<String, DistError> {
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": release.timestamp()?,
            "tools": { "components": [{ "type": "application", "name": "windlass-dist", "version": release.version }] },
            "component": {
                "type": "application",
                "bom-ref": PROGRAM,
                "name": PROGRAM,
                "version": release.version,
                "licenses": [{ "license": { "id": LICENCE } }],
                "properties": [{ "name": "windlass:target", "value": target.rust_target() }],
            },
        },
        "components": libraries.iter().map(component).collect::<Vec<_>>(),
        "dependencies": dependencies(libraries),
    });
    let digest = sha256_hex(document.to_string().as_bytes());
    document["serialNumber"] = json!(format!("urn:uuid:{}", uuid(&digest)));
    Ok(format!("{document:#}\n"))
}

fn component(library: &LinkedLibrary) -> Json {
    let purl = library.purl();
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": library.name,
        "version": library.version,
        "purl": purl,
    });
    if let Some(licence) = &library.licence {
        component["licenses"] = json!([{ "expression": licence }]);
    }
    if let Some((algorithm, content)) = &library.checksum {
        component["hashes"] = json!([{ "alg": algorithm, "content": content }]);
    }
    component
}

/// The program uses the crates of this repository and the web UI's packages; crates use each other.
fn dependencies(libraries: &[LinkedLibrary]) -> Vec<Json> {
    let used: Vec<&String> = libraries.iter().flat_map(|library| &library.uses).collect();
    let roots = libraries.iter().map(LinkedLibrary::purl).filter(|purl| !used.contains(&purl));
    let program = json!({ "ref": PROGRAM, "dependsOn": roots.collect::<Vec<_>>() });
    let others = libraries.iter().map(|library| json!({ "ref": library.purl(), "dependsOn": library.uses }));
    [program].into_iter().chain(others).collect()
}

/// Formats the beginning of a digest as a UUID of version 8, which leaves its contents to the writer.
fn uuid(digest: &str) -> String {
    let part = |from: usize, to: usize| &digest[from..to];
    format!("{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(12, 15), part(15, 18), part(18, 30))
}
