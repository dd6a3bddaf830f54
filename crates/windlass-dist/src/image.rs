//! The container image: an OCI image layout in a tar file, written without a container engine.
//!
//! The same tar file has the `manifest.json` of `docker save`, so that every version of `docker load` and `podman load`
//! reads it. The OCI configuration has no health check; Docker reads `Healthcheck` from it all the same, and other
//! engines ignore it.

use serde_json::{Value as Json, json};

use crate::checksums::sha256_hex;
use crate::error::DistError;
use crate::file_tree::{EXECUTABLE, PackageTree, gzip};
use crate::release::{LICENCE, PackageFile, PackageInput, SBOM, SUMMARY, THIRD_PARTY};

/// The user of the image, without a name outside of it. Other images without a shell use the same number.
pub(crate) const USER: u64 = 65532;

/// The program inside the image.
pub(crate) const PROGRAM: &str = "/usr/bin/windlass";

/// The folder of the server: its settings and its store.
pub(crate) const FOLDER: &str = "/var/lib/windlass";

const SECOND: u64 = 1_000_000_000;

/// Builds the image. The program must be static: the image holds nothing else that it could be linked with.
pub(crate) fn build(input: &PackageInput<'_>) -> Result<PackageFile, DistError> {
    let release = input.release;
    let failed = DistError::package("the container image");
    let layer = layer(input)?.to_tar(release.time).map_err(&failed)?;
    let compressed = gzip(&layer).map_err(&failed)?;
    let config = config(input, &sha256_hex(&layer))?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &compressed)],
    });
    let manifest = manifest.to_string().into_bytes();
    let tag = image_tag(&release.version);
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["platform"] = platform(input);
    entry["annotations"] = json!({
        "org.opencontainers.image.ref.name": tag,
        "io.containerd.image.name": format!("docker.io/library/windlass:{tag}"),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    let docker = json!([{
        "Config": blob_path(&config),
        "RepoTags": [format!("windlass:{tag}")],
        "Layers": [blob_path(&compressed)],
    }]);
    let mut files = PackageTree::default();
    files.add_text("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
    files.add_text("index.json", index.to_string());
    files.add_text("manifest.json", docker.to_string());
    for blob in [config, manifest, compressed] {
        files.add(blob_path(&blob), crate::file_tree::PLAIN, blob);
    }
    let bytes = files.to_tar(release.time).map_err(failed)?;
    let name = format!("windlass-{}-linux-{}.oci.tar", release.version, input.program.target.debian());
    Ok(PackageFile { name, bytes })
}

fn layer(input: &PackageInput<'_>) -> Result<PackageTree, DistError> {
    let mut files = PackageTree::default();
    files.add(&PROGRAM[1..], EXECUTABLE, input.program.bytes.clone());
    files.add_text(
        "etc/passwd",
        format!("root:x:0:0:root:/:/sbin/nologin\nwindlass:x:{USER}:{USER}::{FOLDER}:/sbin/nologin\n"),
    );
    files.add_text("etc/group", format!("root:x:0:\nwindlass:x:{USER}:\n"));
    files.add_folder("tmp", 0o1777, 0);
    files.add_folder(&FOLDER[1..], 0o750, USER);
    let documents = "usr/share/doc/windlass";
    files.add(format!("{documents}/LICENSE"), crate::file_tree::PLAIN, input.release.document("LICENSE")?);
    files.add_text(format!("{documents}/{THIRD_PARTY}"), &input.third_party);
    files.add_text(format!("{documents}/{SBOM}"), &input.sbom);
    Ok(files)
}

/// The configuration of the image: a server that listens on all addresses of its container, as a user without rights.
/// The operator who publishes its port decides how others reach it.
fn config(input: &PackageInput<'_>, layer_digest: &str) -> Result<Vec<u8>, DistError> {
    let release = input.release;
    let created = release.timestamp()?;
    let mut labels = json!({
        "org.opencontainers.image.title": "windlass",
        "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.licenses": LICENCE,
        "org.opencontainers.image.created": created,
    });
    if let Some(commit) = &release.commit {
        labels["org.opencontainers.image.revision"] = json!(commit);
    }
    let config = json!({
        "created": created,
        "architecture": input.program.target.debian(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { "7117/tcp": {} },
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", format!("HOME={FOLDER}")],
            "Entrypoint": [PROGRAM],
            "Cmd": ["serve", "--bind", "0.0.0.0:7117", "--behind-proxy"],
            "Volumes": { (FOLDER): {} },
            "WorkingDir": FOLDER,
            "Labels": labels,
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", PROGRAM, "health"],
                "Interval": 30 * SECOND,
                "Timeout": 5 * SECOND,
                "StartPeriod": 30 * SECOND,
                "Retries": 3,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer_digest}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    });
    Ok(config.to_string().into_bytes())
}

fn platform(input: &PackageInput<'_>) -> Json {
    json!({ "architecture": input.program.target.debian(), "os": "linux" })
}

fn descriptor(media_type: &str, blob: &[u8]) -> Json {
    json!({ "mediaType": media_type, "digest": format!("sha256:{}", sha256_hex(blob)), "size": blob.len() })
}

fn blob_path(blob: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256_hex(blob))
}

/// A tag has no `+`, which begins the build metadata of a version.
fn image_tag(version: &str) -> String {
    version.replace('+', "_")
}
