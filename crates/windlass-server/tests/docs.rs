//! Runs the examples of docs/server.md as written, against a listening server.

use crate::common;

use std::net::SocketAddr;
use std::sync::Arc;

use common::{TOKEN, World};
use windlass_server::{ServerOptions, serve};
use windlass_store::MemoryStore;

const PAGE: &str = include_str!("../../../docs/server.md");

/// Returns the shell blocks of the docs page.
fn examples() -> Vec<&'static str> {
    PAGE.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_run() {
    let options = ServerOptions { bind: SocketAddr::from(([127, 0, 0, 1], 0)), ..ServerOptions::default() };
    let world = World::with(Arc::new(MemoryStore::new()), options);
    world.register(common::HELLO).await;
    world.run("hello", "run-1").await;
    let running = serve(world.app.clone()).await.expect("a server");
    let address = running.address;
    let blocks = examples();
    let (first, rest) = blocks.split_first().expect("examples");
    for block in rest.iter().filter(|block| block.contains("$URL")) {
        let script = format!("set -e\n{first}\n{block}");
        let command = tokio::process::Command::new("sh")
            .args(["-c", &script])
            .envs([("URL", format!("http://{address}")), ("TOKEN", TOKEN.to_owned()), ("RUN", "run-1".to_owned())])
            .output();
        let done = command.await.expect("a shell");
        let (output, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{block}\n{output}\n{error}");
        // One example shows the response to a malformed request.
        let slip = block.contains("defintion");
        assert_eq!(output.contains("/errors/WND-"), slip, "{block}\n{output}");
        assert!(!output.is_empty(), "{block}");
    }
    running.stop().await.expect("an end");
}
