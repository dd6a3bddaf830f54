//! Changes of files, as one word: look again. Editors write a file in several steps; nobody wants to hear of each.

use std::path::Path;
use std::time::Duration;

use notify::{Config, PollWatcher, RecommendedWatcher, RecursiveMode};
use tokio::sync::mpsc;

use super::DefinitionRoots;
use crate::failure::CliFailure;

/// It has been quiet for so long: whoever was writing is done. Nobody waits for longer than the second of them.
const QUIET_PERIOD: Duration = Duration::from_millis(80);
const MAX_DELAY: Duration = Duration::from_millis(800);

/// Where the system tells nothing, files are looked at this often.
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
            // There may be too many watches already, or a file system that tells nothing.
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
                // Nobody listens any more.
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

    /// When something has changed and it has become quiet.
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
