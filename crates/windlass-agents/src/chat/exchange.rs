//! One request and its reply, read whole or as a stream, until a timeout or a cancellation.

use std::future::Future;
use std::time::Duration as StdDuration;

use hyper::Method;
use tokio::time::Instant;
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::ToolCall;
use windlass_value::{Duration, Map, Value, parse_json, to_json};

use super::deltas::DeltaBuffer;
use super::price::TokenPrice;
use super::providers::ModelProtocol;
use super::reply::{ModelReply, ModelUsage, text_chars};
use super::request::ChatRequest;
use super::service::ModelEndpoint;
use super::sse::{SseEvent, SseParser, looks_like_sse};
use super::{ToolSpec, anthropic, failure, openai};
use windlass_tools::{ConfiguredRequest, HttpTool, Secret, StreamedReply};

pub(super) struct Exchange<'a> {
    pub(super) http: &'a HttpTool,
    pub(super) call: &'a ToolCall,
    pub(super) endpoint: &'a ModelEndpoint,
    pub(super) request: &'a ChatRequest<'a>,
    pub(super) tools: &'a [ToolSpec],
    pub(super) max_retry_after: Duration,
}

/// A failed exchange, with the usage that the service charges for it nevertheless.
#[derive(Debug)]
pub(super) struct ModelFailure {
    error: Box<ErrorInfo>,
    usage: ModelUsage,
    retry_after_ms: Option<i64>,
}

impl From<ErrorInfo> for ModelFailure {
    fn from(error: ErrorInfo) -> ModelFailure {
        ModelFailure { error: Box::new(error), usage: ModelUsage::default(), retry_after_ms: None }
    }
}

impl ModelFailure {
    pub(super) fn outcome(self, price: Option<TokenPrice>) -> TaskOutcome {
        let mut meta = Map::new();
        if let Some(ms) = self.retry_after_ms {
            meta.insert("retry_after_ms", ms);
        }
        if self.usage != ModelUsage::default() {
            meta.insert("usage", self.usage.meta(price));
        }
        let meta = if meta.is_empty() { Value::Null } else { Value::map(meta) };
        TaskOutcome { meta, ..TaskOutcome::failure(*self.error) }
    }
}

/// The time a stream may stay open after its final event.
const END_GRACE: StdDuration = StdDuration::from_millis(50);

/// The maximum tokens that all models accept.
const SAFE_MAX_TOKENS: u64 = 4_096;

/// The reply to a request, before its body is read.
enum OpenedReply {
    Answer(Box<StreamedReply>),
    Refusal { failure: ModelFailure, rejects_max_tokens: bool },
}

/// The suffix of the plan's task that calls the model; it is not part of the step's name.
const TASK_SUFFIX: &str = ".ask";

impl Exchange<'_> {
    /// Runs the exchange until the timeout, or until `stop` completes.
    pub(super) async fn run(
        &self,
        timeout: Duration,
        publishes_deltas: bool,
        stop: impl Future<Output = ()>,
    ) -> Result<ModelReply, ModelFailure> {
        let publish = |data: Value| self.call.publish.send(windlass_core::EventKind::AGENT_OUTPUT, data);
        let deltas = DeltaBuffer::new(if publishes_deltas { Some(&publish) } else { None }, &self.endpoint.redaction);
        let limit = self.call.timeout.into_iter().chain([timeout]).min().unwrap_or(timeout).to_std();
        tokio::select! {
            biased;
            () = stop => Err(self.failed_with("Cancelled", "cancelled", "the model call was cancelled".to_owned())),
            answer = self.ask(deltas) => answer,
            () = tokio::time::sleep(limit) => Err(self.timed_out(limit)),
        }
    }

    fn timed_out(&self, limit: StdDuration) -> ModelFailure {
        let message = format!(
            "the model `{}` of `{}` gave no complete answer within {limit:?}",
            self.endpoint.model, self.endpoint.provider
        );
        let hint = "`timeout` of the step, or `limits.max_model_time` in windlass.toml, sets the time limit";
        ErrorInfo::new("timeout", "timeout", message).hint(hint).into()
    }

    fn failed_with(&self, code: &str, kind: &str, message: String) -> ModelFailure {
        ErrorInfo::new(code.to_owned(), kind.to_owned(), message).into()
    }

    pub(super) async fn ask(&self, deltas: DeltaBuffer<'_>) -> Result<ModelReply, ModelFailure> {
        let max_tokens = self.request.max_tokens(self.endpoint.max_tokens);
        let mut reply = self.open(max_tokens, None).await?;
        let excessive = max_tokens.filter(|max| self.request.limits_reply() && *max > SAFE_MAX_TOKENS);
        if let (OpenedReply::Refusal { rejects_max_tokens: true, .. }, Some(rejected)) = (&reply, excessive) {
            // The request asks for what a budget leaves, and the model may answer less than was assumed.
            self.warn_of_repeat(rejected);
            // Another request needs another key: a service that remembers the first would repeat its refusal.
            let key = format!("{}-{SAFE_MAX_TOKENS}", self.call.key);
            reply = self.open(Some(SAFE_MAX_TOKENS), Some(&key)).await?;
        }
        let opened = match reply {
            OpenedReply::Answer(opened) => *opened,
            OpenedReply::Refusal { failure, .. } => return Err(failure),
        };
        let answer = match opened.media_type() == "text/event-stream" && opened.is_unencoded() {
            true => self.read_stream(opened, deltas).await?,
            false => self.read_whole(opened, deltas).await?,
        };
        Ok(answer.with_usage(self.prompt_chars()))
    }

    fn warn_of_repeat(&self, rejected: u64) {
        let message = format!(
            "the model `{}` of `{}` does not accept a maximum of {rejected} tokens for its answer, so it is asked for \
             {SAFE_MAX_TOKENS}; set `reply` in the budget to the model's maximum",
            self.endpoint.model, self.endpoint.provider
        );
        self.call.publish.event(&windlass_core::EventKind::AgentWarning { message: message.into() });
    }

    /// Sends the request. A `key` replaces the idempotency key of the call.
    async fn open(&self, max_tokens: Option<u64>, key: Option<&str>) -> Result<OpenedReply, ModelFailure> {
        let chosen = self.endpoint;
        let body = match chosen.protocol {
            ModelProtocol::OpenAi => openai::request_body(chosen, self.request, self.tools, max_tokens),
            ModelProtocol::Anthropic => anthropic::request_body(chosen, self.request, self.tools, max_tokens),
        };
        let mut headers = self.headers();
        headers.extend(key.map(|key| ("idempotency-key".to_owned(), Secret::plain(escape_header(key)))));
        let request = ConfiguredRequest {
            method: Method::POST,
            url: &chosen.url,
            headers: &headers,
            redaction: &chosen.redaction,
            body: Some(&body),
            timeout: None,
            same_origin_only: true,
        };
        let opened = self.http.open_stream(self.call, &request).await?;
        let status = opened.status();
        if status.is_success() {
            return Ok(OpenedReply::Answer(Box::new(opened)));
        }
        let retry_after_ms = opened.retry_after_ms();
        // The status says more than an unreadable body.
        let body = opened.read_to_end().await.unwrap_or_default();
        let refused = failure::refused(chosen, status, &body);
        let wait = retry_after_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_ms);
        if let Some(wait) = wait.filter(|wait| *wait > self.max_retry_after) {
            return Err(failure::retry_after_too_long(refused.error, wait, self.max_retry_after).into());
        }
        let failure = ModelFailure { retry_after_ms, ..refused.error.into() };
        Ok(OpenedReply::Refusal { failure, rejects_max_tokens: refused.rejects_max_tokens })
    }

    /// Counts the characters of the prompt, independent of the protocol's envelope.
    fn prompt_chars(&self) -> u64 {
        let texts = ["system", "messages"].into_iter().filter_map(|name| self.call.input.get(name)).map(text_chars);
        let tools = self.tools.iter().map(|tool| {
            let texts = [tool.name.as_str().into(), tool.description.as_str().into(), to_json(&tool.parameters).into()];
            text_chars(&Value::list(texts.to_vec()))
        });
        texts.chain(tools).sum()
    }

    fn headers(&self) -> Vec<(String, Secret)> {
        let path = &*self.call.path;
        let step = path.strip_suffix(TASK_SUFFIX).unwrap_or(path);
        let turn = self.request.turn.map(|turn| turn.to_string());
        let own = [
            ("x-windlass-step", Some(escape_header(step))),
            ("x-windlass-role", self.request.role.map(escape_header)),
            ("x-windlass-turn", turn),
        ];
        let own = own.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Secret::plain(text?))));
        self.endpoint.headers.iter().cloned().chain(own).collect()
    }

    /// Reads a whole reply, or a stream that is compressed or has another content type.
    async fn read_whole(&self, opened: StreamedReply, mut deltas: DeltaBuffer<'_>) -> Result<ModelReply, ModelFailure> {
        let bytes = opened.read_to_end().await?;
        if looks_like_sse(&bytes) {
            let mut reading = StreamReader::new(self.endpoint);
            reading.push(&bytes, &mut deltas)?;
            return reading.finish(&mut deltas);
        }
        let body = std::str::from_utf8(&bytes).ok().and_then(|text| parse_json(text.trim()).ok());
        let Some(body) = body.filter(|body| body.as_map().is_some()) else {
            return Err(failure::not_json(self.endpoint, &bytes).into());
        };
        if let Some(error) = failure::reported(self.endpoint, &body) {
            return Err(error.into());
        }
        let answer = match self.endpoint.protocol {
            ModelProtocol::OpenAi => openai::parse_reply(&body),
            ModelProtocol::Anthropic => anthropic::parse_reply(&body),
        };
        let answer = answer.map_err(|problem| failure::bad_reply(self.endpoint, &problem))?;
        let answer = complete(self.endpoint, answer)?;
        deltas.push(&answer.content, false, Instant::now());
        deltas.flush(true, Instant::now());
        Ok(answer)
    }

    async fn read_stream(
        &self,
        mut opened: StreamedReply,
        mut deltas: DeltaBuffer<'_>,
    ) -> Result<ModelReply, ModelFailure> {
        let mut reading = StreamReader::new(self.endpoint);
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
                Ok(Some(piece)) => reading.push(&piece, &mut deltas)?,
                Ok(None) => return reading.finish(&mut deltas),
                // A complete answer is kept even if its connection ended badly.
                Err(error) => return reading.finish_broken(error, &mut deltas),
            }
            if reading.is_over() {
                // Reading the end makes the connection reusable; a service that never ends the stream is not waited for.
                let _ = tokio::time::timeout(END_GRACE, opened.next_chunk()).await;
                return reading.finish(&mut deltas);
            }
        }
    }
}

/// Escapes a step name for a header in the same way as the HTTP tool. In most dialects step names need no escape.
fn escape_header(text: &str) -> String {
    String::from_utf8_lossy(windlass_tools::escaped_header(text).as_bytes()).into_owned()
}

/// The state of a stream while it is read.
struct StreamReader<'a> {
    endpoint: &'a ModelEndpoint,
    events: SseParser,
    assembly: ReplyAssembly,
    is_over: bool,
}

enum ReplyAssembly {
    OpenAi(openai::OpenAiAssembly),
    Anthropic(anthropic::AnthropicAssembly),
}

impl<'a> StreamReader<'a> {
    fn new(chosen: &'a ModelEndpoint) -> StreamReader<'a> {
        let assembly = match chosen.protocol {
            ModelProtocol::OpenAi => ReplyAssembly::OpenAi(openai::OpenAiAssembly::default()),
            ModelProtocol::Anthropic => ReplyAssembly::Anthropic(anthropic::AnthropicAssembly::default()),
        };
        StreamReader { endpoint: chosen, events: SseParser::default(), assembly, is_over: false }
    }

    /// Returns whether the service has announced the end, even if it keeps the stream open.
    fn is_over(&self) -> bool {
        self.is_over
    }

    fn usage(&self) -> ModelUsage {
        match &self.assembly {
            ReplyAssembly::OpenAi(assembly) => assembly.usage(),
            ReplyAssembly::Anthropic(assembly) => assembly.usage(),
        }
    }

    fn failed(&self, error: ErrorInfo) -> ModelFailure {
        ModelFailure { usage: self.usage(), ..error.into() }
    }

    fn not_utf8(&self) -> ModelFailure {
        self.failed(failure::bad_reply(self.endpoint, "sent a stream that is not UTF-8"))
    }

    fn push(&mut self, piece: &[u8], deltas: &mut DeltaBuffer<'_>) -> Result<(), ModelFailure> {
        let events = self.events.push(piece).map_err(|_| self.not_utf8())?;
        events.iter().try_for_each(|event| self.event(event, deltas))
    }

    fn event(&mut self, event: &SseEvent, deltas: &mut DeltaBuffer<'_>) -> Result<(), ModelFailure> {
        let data = event.data.trim();
        if self.is_over || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            if let ReplyAssembly::OpenAi(assembly) = &mut self.assembly {
                assembly.mark_done();
            }
            self.is_over = true;
            return Ok(());
        }
        let data = parse_json(data).map_err(|error| {
            let problem = format!("sent an event that is {error}");
            self.failed(failure::bad_reply(self.endpoint, &problem))
        })?;
        if let Some(error) = failure::reported(self.endpoint, &data) {
            return Err(self.failed(error));
        }
        let delta = match &mut self.assembly {
            ReplyAssembly::OpenAi(assembly) => assembly.chunk(&data),
            ReplyAssembly::Anthropic(assembly) => {
                self.is_over = data.get("type").and_then(Value::as_str) == Some("message_stop");
                assembly.event(&data)
            }
        };
        let now = Instant::now();
        deltas.push(&delta.reasoning, true, now);
        deltas.push(&delta.text, false, now);
        Ok(())
    }

    fn finish(mut self, deltas: &mut DeltaBuffer<'_>) -> Result<ModelReply, ModelFailure> {
        let last = std::mem::take(&mut self.events).finish().map_err(|_| self.not_utf8())?;
        if let Some(event) = last {
            self.event(&event, deltas)?;
        }
        deltas.flush(true, Instant::now());
        let (endpoint, broken) = (self.endpoint, self.failed(failure::truncated(self.endpoint)));
        let answer = match self.assembly {
            ReplyAssembly::OpenAi(assembly) => assembly.finish(),
            ReplyAssembly::Anthropic(assembly) => assembly.finish(),
        };
        complete(endpoint, answer.ok_or(broken)?)
    }

    fn finish_broken(self, error: ErrorInfo, deltas: &mut DeltaBuffer<'_>) -> Result<ModelReply, ModelFailure> {
        deltas.flush(true, Instant::now());
        let is_limit = &*error.kind == "limit";
        let broken = self.failed(error);
        let answer = match self.assembly {
            _ if is_limit => None,
            ReplyAssembly::OpenAi(assembly) => assembly.finish(),
            ReplyAssembly::Anthropic(assembly) => assembly.finish(),
        };
        answer.filter(|answer| !answer.is_empty() && answer.interrupted.is_none()).ok_or(broken)
    }
}

/// Rejects a reply that is no answer, or that the service gave up.
fn complete(endpoint: &ModelEndpoint, answer: ModelReply) -> Result<ModelReply, ModelFailure> {
    let error = match &answer.interrupted {
        Some(reason) => failure::interrupted(endpoint, reason),
        None if answer.is_empty() => failure::empty_reply(endpoint),
        None => return Ok(answer),
    };
    Err(ModelFailure { usage: answer.usage, ..error.into() })
}
