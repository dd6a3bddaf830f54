//! The search for damage in the background.

use std::time::Duration;

use tracing::{info, warn};

use crate::App;

/// The first search begins after this time, or after the interval if that is shorter.
const FIRST_AFTER: Duration = Duration::from_secs(10 * 60);

/// Findings that one search logs; `windlass doctor` lists all of them.
const MAX_LOGGED: usize = 10;

/// Searches the store for damage again and again. Does not return, unless the interval is zero.
pub(crate) async fn search_for_damage(app: App) {
    let (every, percent) = (app.options.scrub_every, app.options.scrub_percent);
    let mut delay = every.min(FIRST_AFTER);
    while !every.is_zero() {
        tokio::time::sleep(delay).await;
        let store = app.store.clone();
        let Ok(searched) = tokio::task::spawn_blocking(move || store.scrub(percent)).await else { return };
        match searched {
            Ok(report) if !report.is_complete => return,
            Ok(report) => {
                app.metrics.record_scrub(report.findings.len());
                for finding in report.findings.iter().take(MAX_LOGGED) {
                    warn!(event = "damage", "{finding}");
                }
                match report.findings.len() {
                    0 => info!(event = "scrubbed", rows = report.rows, "no damage in the store"),
                    findings => warn!(
                        event = "scrubbed",
                        rows = report.rows,
                        findings,
                        "the store is damaged: `windlass doctor` lists the findings"
                    ),
                }
            }
            Err(error) => warn!(event = "scrub_failed", %error, "the store could not be searched for damage"),
        }
        delay = every;
    }
}
