//! Watches files and reports that a rescan is due. Editors write a file in several steps; these count as one change.

use std::path::Path;
use std::time::Duration;

use notify::{Config, PollWatcher, RecommendedWatcher, RecursiveMode};
use tokio::sync::mpsc;

use super::DefinitionRoots;
use crate::failure::CliFailure;

/// A change is reported after this quiet period, when the writer is done, and at the latest after the second
/// duration.
const QUIET_PERIOD: Duration = Duration::from_millis(80);
const MAX_DELAY: Duration = Duration::from_millis(800);

/// The poll interval where the system delivers no file events.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) struct FileWatcher {
    changed: mpsc::UnboundedReceiver<()>,
    /// Stops watching when it is dropped.
    _watcher: Box<dyn notify::Watcher + Send>,
}

impl FileWatcher {
    pub(crate) fn new(roots: &DefinitionRoots) -> Result<FileWatcher, CliFailure> {
        let failed = |error: notify::Error| {
            CliFailure::usage(format!("could not watch the files: {error}"))
                .hint("name fewer files, or a smaller folder")
        };
        match FileWatcher::start::<RecommendedWatcher>(roots, Config::default()) {
            Ok(watcher) => Ok(watcher),
            // The system may be out of watches, or the file system may deliver no events.
            Err(_) => FileWatcher::start::<PollWatcher>(roots, Config::default().with_poll_interval(POLL_INTERVAL))
                .map_err(failed),
        }
    }

    fn start<W: notify::Watcher + Send + 'static>(
        roots: &DefinitionRoots,
        config: Config,
    ) -> Result<FileWatcher, notify::Error> {
        let (sender, changed) = mpsc::unbounded_channel();
        let concerned = roots.clone();
        let on_event = move |event: Result<notify::Event, notify::Error>| {
            let concerns = match &event {
                Ok(event) if event.kind.is_access() => false,
                // Without a path, anything may have changed.
                Ok(event) => event.paths.is_empty() || event.paths.iter().any(|path| concerned.is_relevant(path)),
                Err(_) => true,
            };
            if concerns {
                // The receiver may be gone.
                let _ = sender.send(());
            }
        };
        let mut watcher = W::new(on_event, config)?;
        for (path, below) in roots.watch_paths() {
            let mode = if below { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            let path = std::path::absolute(&path).unwrap_or(path);
            watcher.watch(Path::new(&path), mode)?;
        }
        Ok(FileWatcher { changed, _watcher: Box::new(watcher) })
    }

    /// Waits until something has changed and the quiet period has passed.
    pub(crate) async fn next(&mut self) {
        if self.changed.recv().await.is_none() {
            return std::future::pending().await;
        }
        let until = tokio::time::Instant::now() + MAX_DELAY;
        while tokio::time::Instant::now() < until {
            match tokio::time::timeout(QUIET_PERIOD, self.changed.recv()).await {
                Ok(Some(())) => {}
                Ok(None) | Err(_) => break,
            }
        }
        while self.changed.try_recv().is_ok() {}
    }
}
