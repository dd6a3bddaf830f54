//! The memory of many replies at the same time. Alone in its program, because it measures the memory of the process.

#![allow(clippy::unwrap_used)]

mod support;

use windlass_runtime::{ReplyBudget, Tool, ToolCall};
use windlass_tools::{HttpOptions, HttpTool, Outbound};

use support::{call, class, part, service};

const REPLIES: usize = 16;
const BUDGET_BYTES: usize = 32 << 20;

/// A tool with the default limits.
fn tool() -> HttpTool {
    HttpTool::new(HttpOptions { outbound: Outbound::open(), ..HttpOptions::default() })
}

fn request(uri: &str) -> ToolCall {
    call(&format!(r#"{{"uri": "{uri}"}}"#))
}

/// 16 replies of 12 KiB, each of which decompresses to 12 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_replies_share_the_memory_of_all_replies() {
    let service = service();
    let (tool, budget) = (tool(), ReplyBudget::new(BUDGET_BYTES));
    let before = resident_kib("VmRSS:");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..REPLIES {
        let call = tool.call(ToolCall { memory: budget.call(), ..request(&service.url("/gzip?mb=12")) });
        let budget = budget.clone();
        calls.spawn(async move {
            let outcome = call.await;
            assert!(budget.reserved_bytes() <= BUDGET_BYTES);
            part(&outcome, "body").len()
        });
    }
    for bytes in calls.join_all().await {
        assert_eq!(bytes, (12 << 20) + 2, "every reply arrives");
    }
    assert_eq!(budget.reserved_bytes(), 0, "all memory is given back");
    let grown = resident_kib("VmHWM:") - before;
    assert!(grown < 120 << 10, "{REPLIES} replies of 12 MiB needed {grown} KiB");
}

/// The limit of one reply counts decoded bytes.
#[tokio::test]
async fn a_reply_has_at_most_16_mib() {
    let service = service();
    let over = tool().call(request(&service.url("/gzip?mb=17"))).await;
    assert_eq!(class(&over), ("ReplyTooLarge", "limit", true));
    let within = tool().call(request(&service.url("/gzip?mb=15"))).await;
    assert_eq!(part(&within, "body").len(), (15 << 20) + 2);
}

fn resident_kib(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
