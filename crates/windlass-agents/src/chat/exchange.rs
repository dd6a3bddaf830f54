//! One question, one answer: sent, read in one piece or as a stream, given up when the time is over or nobody wants it.

use std::future::Future;
use std::time::Duration as StdDuration;

use hyper::Method;
use tokio::time::Instant;
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::ToolCall;
use windlass_value::{Duration, Map, Value, parse_json, to_json};

use super::answer::{Answer, Usage, text_chars};
use super::deltas::Deltas;
use super::price::Price;
use super::providers::Protocol;
use super::question::Question;
use super::service::Chosen;
use super::sse::{Event, Events, looks_like};
use super::{ToolSpec, anthropic, failure, openai};
use windlass_tools::{ConfiguredRequest, HttpTool, Secret, StreamedReply};

pub(super) struct Exchange<'a> {
    pub(super) http: &'a HttpTool,
    pub(super) call: &'a ToolCall,
    pub(super) chosen: &'a Chosen,
    pub(super) question: &'a Question<'a>,
    pub(super) tools: &'a [ToolSpec],
    pub(super) max_retry_after: Duration,
}

/// No answer, and what it has cost all the same.
#[derive(Debug)]
pub(super) struct Failed {
    error: Box<ErrorInfo>,
    usage: Usage,
    retry_after_ms: Option<i64>,
}

impl From<ErrorInfo> for Failed {
    fn from(error: ErrorInfo) -> Failed {
        Failed { error: Box::new(error), usage: Usage::default(), retry_after_ms: None }
    }
}

impl Failed {
    pub(super) fn outcome(self, price: Option<Price>) -> TaskOutcome {
        let mut meta = Map::new();
        if let Some(ms) = self.retry_after_ms {
            meta.insert("retryAfterMs", ms);
        }
        if self.usage != Usage::default() {
            meta.insert("usage", self.usage.meta(price));
        }
        let meta = if meta.is_empty() { Value::Null } else { Value::map(meta) };
        TaskOutcome { meta, ..TaskOutcome::failure(*self.error) }
    }
}

/// How long a stream may stay open after it has said that it is over.
const END: StdDuration = StdDuration::from_millis(50);

/// The task of a plan that asks the model: no part of the step's name.
const TASK: &str = ".ask";

impl Exchange<'_> {
    /// Asks, unless `stop` comes first; gives up when the time is over.
    pub(super) async fn run(
        &self,
        timeout: Duration,
        publishes_deltas: bool,
        stop: impl Future<Output = ()>,
    ) -> Result<Answer, Failed> {
        let publish = |data: Value| self.call.publish.send(windlass_core::EventKind::AGENT_OUTPUT, data);
        let deltas = Deltas::new(if publishes_deltas { Some(&publish) } else { None }, &self.chosen.redaction);
        let limit = self.call.timeout.into_iter().chain([timeout]).min().unwrap_or(timeout).to_std();
        tokio::select! {
            biased;
            () = stop => Err(self.gave_up("Cancelled", "cancelled", "the question was called off".to_owned())),
            answer = self.ask(deltas) => answer,
            () = tokio::time::sleep(limit) => Err(self.too_late(limit)),
        }
    }

    fn too_late(&self, limit: StdDuration) -> Failed {
        let message = format!(
            "the model `{}` of `{}` gave no complete answer within {limit:?}",
            self.chosen.model, self.chosen.provider
        );
        let hint = "`timeout` of the step, or `limits.max_model_time` in windlass.toml, says how long it may take";
        ErrorInfo::new("timeout", "timeout", message).hint(hint).into()
    }

    fn gave_up(&self, code: &str, kind: &str, message: String) -> Failed {
        ErrorInfo::new(code.to_owned(), kind.to_owned(), message).into()
    }

    pub(super) async fn ask(&self, deltas: Deltas<'_>) -> Result<Answer, Failed> {
        let chosen = self.chosen;
        let body = match chosen.protocol {
            Protocol::OpenAi => openai::body(chosen, self.question, self.tools),
            Protocol::Anthropic => anthropic::body(chosen, self.question, self.tools),
        };
        let headers = self.headers();
        let request = ConfiguredRequest {
            method: Method::POST,
            url: &chosen.url,
            headers: &headers,
            redaction: &chosen.redaction,
            body: Some(&body),
            timeout: None,
            own_origin: true,
        };
        let opened = self.http.open_stream(self.call, &request).await?;
        let status = opened.status();
        if !status.is_success() {
            let retry_after_ms = opened.retry_after_ms();
            // Whatever is wrong with the body, the status says more.
            let body = opened.whole().await.unwrap_or_default();
            let refused = failure::refused(chosen, status, &body);
            let wait = retry_after_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_ms);
            if let Some(wait) = wait.filter(|wait| *wait > self.max_retry_after) {
                return Err(failure::too_long_a_wait(refused, wait, self.max_retry_after).into());
            }
            return Err(Failed { retry_after_ms, ..refused.into() });
        }
        let answer = match opened.media_type() == "text/event-stream" && opened.is_plain() {
            true => self.stream(opened, deltas).await?,
            false => self.whole(opened, deltas).await?,
        };
        Ok(answer.counted(self.prompt_chars()))
    }

    /// The same whatever the protocol puts around it.
    fn prompt_chars(&self) -> u64 {
        let said = ["system", "messages"].into_iter().filter_map(|name| self.call.input.get(name)).map(text_chars);
        let tools = self.tools.iter().map(|tool| {
            let texts = [tool.name.as_str().into(), tool.description.as_str().into(), to_json(&tool.parameters).into()];
            text_chars(&Value::list(texts.to_vec()))
        });
        said.chain(tools).sum()
    }

    fn headers(&self) -> Vec<(String, Secret)> {
        let path = &*self.call.path;
        let step = path.strip_suffix(TASK).unwrap_or(path);
        let turn = self.question.turn.map(|turn| turn.to_string());
        let own = [
            ("x-windlass-step", Some(escaped(step))),
            ("x-windlass-role", self.question.role.map(escaped)),
            ("x-windlass-turn", turn),
        ];
        let own = own.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Secret::plain(text?))));
        self.chosen.headers.iter().cloned().chain(own).collect()
    }

    /// An answer in one piece; or a stream that is packed, or that its service calls something else.
    async fn whole(&self, opened: StreamedReply, mut deltas: Deltas<'_>) -> Result<Answer, Failed> {
        let bytes = opened.whole().await?;
        if looks_like(&bytes) {
            let mut reading = Reading::new(self.chosen);
            reading.piece(&bytes, &mut deltas)?;
            return reading.finish(&mut deltas);
        }
        let body = std::str::from_utf8(&bytes).ok().and_then(|text| parse_json(text.trim()).ok());
        let Some(body) = body.filter(|body| body.as_map().is_some()) else {
            return Err(failure::no_answer(self.chosen, &bytes).into());
        };
        if let Some(error) = failure::reported(self.chosen, &body) {
            return Err(error.into());
        }
        let answer = match self.chosen.protocol {
            Protocol::OpenAi => openai::whole(&body),
            Protocol::Anthropic => anthropic::whole(&body),
        };
        let answer = answer.map_err(|problem| failure::bad_reply(self.chosen, &problem))?;
        if answer.is_none() {
            return Err(Failed { usage: answer.usage, ..failure::empty(self.chosen).into() });
        }
        deltas.push(&answer.content, false, Instant::now());
        deltas.flush(true, Instant::now());
        Ok(answer)
    }

    async fn stream(&self, mut opened: StreamedReply, mut deltas: Deltas<'_>) -> Result<Answer, Failed> {
        let mut reading = Reading::new(self.chosen);
        loop {
            let piece = match deltas.due() {
                None => opened.next_chunk().await,
                Some(due) => tokio::select! {
                    biased;
                    piece = opened.next_chunk() => piece,
                    () = tokio::time::sleep_until(due) => {
                        deltas.flush(false, Instant::now());
                        continue;
                    }
                },
            };
            match piece {
                Ok(Some(piece)) => reading.piece(&piece, &mut deltas)?,
                Ok(None) => return reading.finish(&mut deltas),
                // An answer that is whole is not lost because its connection ended badly.
                Err(error) => return reading.cut(error, &mut deltas),
            }
            if reading.is_over() {
                // With its end read the connection can be used again; a service that never ends is not waited for.
                let _ = tokio::time::timeout(END, opened.next_chunk()).await;
                return reading.finish(&mut deltas);
            }
        }
    }
}

/// Step names are plain in most dialects; what is not is escaped, as in all headers of this crate.
fn escaped(text: &str) -> String {
    String::from_utf8_lossy(windlass_tools::escaped_header(text).as_bytes()).into_owned()
}

/// A stream, as far as it has come.
struct Reading<'a> {
    chosen: &'a Chosen,
    events: Events,
    assembly: Assembly,
    is_over: bool,
}

enum Assembly {
    OpenAi(openai::Assembly),
    Anthropic(anthropic::Assembly),
}

impl<'a> Reading<'a> {
    fn new(chosen: &'a Chosen) -> Reading<'a> {
        let assembly = match chosen.protocol {
            Protocol::OpenAi => Assembly::OpenAi(openai::Assembly::default()),
            Protocol::Anthropic => Assembly::Anthropic(anthropic::Assembly::default()),
        };
        Reading { chosen, events: Events::default(), assembly, is_over: false }
    }

    /// The service has said that nothing follows, whether it closes the stream or not.
    fn is_over(&self) -> bool {
        self.is_over
    }

    fn usage(&self) -> Usage {
        match &self.assembly {
            Assembly::OpenAi(assembly) => assembly.usage(),
            Assembly::Anthropic(assembly) => assembly.usage(),
        }
    }

    fn failed(&self, error: ErrorInfo) -> Failed {
        Failed { usage: self.usage(), ..error.into() }
    }

    fn no_text(&self) -> Failed {
        self.failed(failure::bad_reply(self.chosen, "sent a stream that is not UTF-8"))
    }

    fn piece(&mut self, piece: &[u8], deltas: &mut Deltas<'_>) -> Result<(), Failed> {
        let events = self.events.push(piece).map_err(|_| self.no_text())?;
        events.iter().try_for_each(|event| self.event(event, deltas))
    }

    fn event(&mut self, event: &Event, deltas: &mut Deltas<'_>) -> Result<(), Failed> {
        let data = event.data.trim();
        if self.is_over || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            if let Assembly::OpenAi(assembly) = &mut self.assembly {
                assembly.done();
            }
            self.is_over = true;
            return Ok(());
        }
        let data = parse_json(data).map_err(|error| {
            let problem = format!("sent an event that is {error}");
            self.failed(failure::bad_reply(self.chosen, &problem))
        })?;
        if let Some(error) = failure::reported(self.chosen, &data) {
            return Err(self.failed(error));
        }
        let delta = match &mut self.assembly {
            Assembly::OpenAi(assembly) => assembly.chunk(&data),
            Assembly::Anthropic(assembly) => {
                self.is_over = data.get("type").and_then(Value::as_str) == Some("message_stop");
                assembly.event(&data)
            }
        };
        let now = Instant::now();
        deltas.push(&delta.reasoning, true, now);
        deltas.push(&delta.text, false, now);
        Ok(())
    }

    fn finish(mut self, deltas: &mut Deltas<'_>) -> Result<Answer, Failed> {
        let last = std::mem::take(&mut self.events).finish().map_err(|_| self.no_text())?;
        if let Some(event) = last {
            self.event(&event, deltas)?;
        }
        deltas.flush(true, Instant::now());
        let (broken, empty) = (self.failed(failure::truncated(self.chosen)), self.failed(failure::empty(self.chosen)));
        let answer = match self.assembly {
            Assembly::OpenAi(assembly) => assembly.finish(),
            Assembly::Anthropic(assembly) => assembly.finish(),
        };
        let answer = answer.ok_or(broken)?;
        if answer.is_none() { Err(empty) } else { Ok(answer) }
    }

    fn cut(self, error: ErrorInfo, deltas: &mut Deltas<'_>) -> Result<Answer, Failed> {
        deltas.flush(true, Instant::now());
        let is_limit = &*error.kind == "limit";
        let broken = self.failed(error);
        let answer = match self.assembly {
            _ if is_limit => None,
            Assembly::OpenAi(assembly) => assembly.finish(),
            Assembly::Anthropic(assembly) => assembly.finish(),
        };
        answer.filter(|answer| !answer.is_none()).ok_or(broken)
    }
}
