//! The log of model requests, which can be counted even after the calling process was killed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use windlass_value::{Value, to_json};

use super::ModelRequest;
use super::model::ModelQuery;

pub(super) struct ModelLog {
    state: Mutex<ModelLogState>,
}

struct ModelLogState {
    file: Option<File>,
    requests: u64,
    times: BTreeMap<ModelRequest, u64>,
}

impl ModelLog {
    /// Opens the log. An existing file is appended to.
    pub(super) fn open(path: Option<&Path>) -> io::Result<ModelLog> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
        Ok(ModelLog { state: Mutex::new(ModelLogState { file, requests: 0, times: BTreeMap::new() }) })
    }

    /// Appends one line before the response is sent.
    pub(super) fn append(&self, question: &ModelQuery, status: u16, by: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requests += 1;
        let number = state.requests;
        let times = state.times.entry(question.request()).or_default();
        *times += 1;
        let times = *times;
        let Some(file) = &mut state.file else { return };
        let count = |count: Option<u64>| count.and_then(|count| i64::try_from(count).ok());
        let line = Value::object([
            ("request", Value::from(count(Some(number)))),
            ("run", Value::from(question.run.as_str())),
            ("step", Value::from(question.step.clone())),
            ("role", Value::from(question.role.clone())),
            ("turn", Value::from(count(question.turn))),
            ("attempt", Value::from(count(question.attempt))),
            ("times", Value::from(count(Some(times)))),
            ("key", Value::from(question.key.as_str())),
            ("model", Value::from(question.model())),
            ("tools", Value::list(question.tools.iter().map(|name| Value::from(name.as_str())).collect())),
            ("status", Value::Int(i64::from(status))),
            ("by", Value::from(by)),
            ("body", question.body.clone()),
        ]);
        // One write, so that no partial line is visible. A log that cannot be written must not change the replies.
        let _ = file.write_all(format!("{}\n", to_json(&line)).as_bytes()).and_then(|()| file.flush());
    }

    pub(super) fn request_counts(&self) -> BTreeMap<ModelRequest, u64> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).times.clone()
    }
}
