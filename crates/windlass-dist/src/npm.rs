//! The npm package: the program as a command, for one platform.

use serde_json::json;

use crate::error::DistError;
use crate::file_tree::{EXECUTABLE, PLAIN, PackageTree};
use crate::readme;
use crate::release::{LICENCE, PackageFile, PackageInput, SBOM, SUMMARY, THIRD_PARTY};

pub(crate) fn build(input: &PackageInput<'_>) -> Result<PackageFile, DistError> {
    let (release, cpu) = (input.release, input.program.target.node());
    let name = format!("windlass-linux-{cpu}");
    let mut manifest = json!({
        "name": name,
        "version": release.version,
        "description": SUMMARY,
        "license": LICENCE,
        "os": ["linux"],
        "cpu": [cpu],
        "bin": { "windlass": "bin/windlass" },
        "man": release.pages.manual.keys().map(|page| format!("./man/{page}")).collect::<Vec<_>>(),
        "preferUnplugged": true,
    });
    if !input.program.is_static {
        manifest["libc"] = json!(["glibc"]);
    }
    let mut files = PackageTree::default();
    files.add_text("package/package.json", format!("{manifest:#}\n"));
    files.add("package/bin/windlass", EXECUTABLE, input.program.bytes.clone());
    files.add_text("package/README.md", readme::packaged(input));
    files.add("package/LICENSE", PLAIN, release.document("LICENSE")?);
    files.add_text(format!("package/{THIRD_PARTY}"), &input.third_party);
    files.add_text(format!("package/{SBOM}"), &input.sbom);
    for (page, text) in &release.pages.manual {
        files.add(format!("package/man/{page}"), PLAIN, text.as_slice());
    }
    let bytes = files.to_tar_gz(release.time).map_err(DistError::package("the npm package"))?;
    Ok(PackageFile { name: format!("{name}-{}.tgz", release.version), bytes })
}
