//! Requests to a model, and the budget they reserve.

use windlass_value::{EvalError, Map, Value};

use super::CompiledFunction;
use super::config::Config;
use super::reader::ScopeReader;
use super::reply::demand_count;
use crate::reply_limit::max_reply_tokens;

/// The parts of a request besides the conversation, as the compiler of the workflow wrote them.
const FIXED_KEYS: [&str; 9] =
    ["model", "system", "tools", "result", "temperature", "top_p", "max_tokens", "price", "role"];

/// The approximate bytes of text per token.
const BYTES_PER_TOKEN: u64 = 4;

const MILLION: u128 = 1_000_000;

/// Builds a request. Under a budget, `reply` limits the answer to what is left.
pub(super) fn request(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let fixed = config.inner("fixed")?.ok_or("missing `fixed`")?;
    let mut map = Map::new();
    for key in FIXED_KEYS {
        map.insert(key, fixed.value(key).cloned().unwrap_or_default());
    }
    fixed.check_all_read()?;
    let tool = config.optional_text("tool")?;
    let reply = config.inner("reply")?.map(|reply| {
        let room = ReplyRoom::read(&reply)?;
        reply.check_all_read().map(|()| room)
    });
    let reply = reply.transpose()?;
    Ok(Box::new(move |reader| {
        let forced = match &tool {
            Some(tool) if demand_count(reader)? > 0 => Some(tool),
            _ => None,
        };
        let mut request = map.clone();
        request.insert("messages", reader.own_variable("conversation")?);
        request.insert("require", forced.map_or(Value::Null, |tool| Value::Str(tool.clone())));
        request.insert("turn", reader.visit());
        if let Some(reply) = &reply {
            request.insert("max_tokens", reply.max_tokens(reader)?);
        }
        Ok(Value::map(request))
    }))
}

/// Returns the tokens to reserve for the request, and the money if there is a price.
pub(super) fn reserve(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let reply = ReplyRoom::read(config)?;
    Ok(Box::new(move |reader| {
        let request = reader.local("_input")?;
        let max_tokens = reader.part(&request, "max_tokens")?.as_int().and_then(|max| u64::try_from(max).ok());
        let (read, max_tokens) = (reply.prompt_tokens(reader)?, max_tokens.unwrap_or(reply.max));
        let mut reserved = vec![("tokens", Value::from(read.saturating_add(max_tokens)))];
        if let Some(price) = &reply.price {
            let cost = price.cost(read, max_tokens).div_ceil(MILLION);
            reserved.push(("money", Value::from(u64::try_from(cost).unwrap_or(u64::MAX))));
        }
        Ok(Value::object(reserved))
    }))
}

/// The answer that a call may get under a budget of tokens or money.
struct ReplyRoom {
    /// The bytes of the request besides the conversation.
    fixed_bytes: u64,
    price: Option<PromptPrice>,
    /// The maximum tokens: those that the definition sets, else those of the model.
    max: u64,
    /// The definition sets the maximum, so it is sent to the model in any case.
    is_set: bool,
    /// With less left, no call is made.
    min: u64,
}

/// Millionths of money per million tokens.
struct PromptPrice {
    input: u64,
    output: u64,
}

impl PromptPrice {
    /// Returns the cost in millionths of a millionth.
    fn cost(&self, read: u64, written: u64) -> u128 {
        u128::from(read) * u128::from(self.input) + u128::from(written) * u128::from(self.output)
    }
}

impl ReplyRoom {
    fn read(config: &Config<'_>) -> Result<ReplyRoom, String> {
        let number = |key: &'static str| Ok::<Option<u64>, String>(config.count(key)?.map(|count| count as u64));
        let price = config.inner("price")?.map(|price| {
            let part = |key: &'static str| Ok::<u64, String>(price.count(key)?.unwrap_or(0) as u64);
            Ok::<_, String>(PromptPrice { input: part("input")?, output: part("output")? })
        });
        let model = config.optional_text("model")?;
        let known = model.and_then(|model| max_reply_tokens(&model));
        let (set, default) = (number("max_tokens")?, number("default_max_tokens")?.ok_or("no `default_max_tokens`")?);
        let max = set.or(known).unwrap_or(default);
        Ok(ReplyRoom {
            fixed_bytes: number("fixed")?.unwrap_or(0),
            price: price.transpose()?,
            max,
            is_set: set.is_some(),
            min: number("min_tokens")?.unwrap_or(1).min(max),
        })
    }

    /// Returns the maximum tokens to send: none if the budgets leave more than the model may answer. The amounts left
    /// include those that calls in flight have reserved. They mostly return most of it, so the reservation waits for
    /// them, and no answer is cut short because others run at the same time.
    fn max_tokens(&self, reader: &mut ScopeReader<'_>) -> Result<Value, EvalError> {
        let left = reader.local("_left")?;
        let amount = |what: &str| left.get(what).and_then(Value::as_int).and_then(|left| u64::try_from(left).ok());
        let read = self.prompt_tokens(reader)?;
        let by_tokens = amount("tokens").map(|left| left.saturating_sub(read));
        let by_money = amount("money").zip(self.price.as_ref()).and_then(|(left, price)| {
            let left = (u128::from(left) * MILLION).saturating_sub(price.cost(read, 0));
            left.checked_div(u128::from(price.output)).map(|tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
        });
        let room = by_tokens.into_iter().chain(by_money).min().unwrap_or(u64::MAX).max(self.min);
        Ok(match self.is_set || room < self.max {
            true => Value::from(room.min(self.max)),
            false => Value::Null,
        })
    }

    /// Estimates the tokens of the prompt.
    fn prompt_tokens(&self, reader: &mut ScopeReader<'_>) -> Result<u64, EvalError> {
        Ok(self.fixed_bytes.saturating_add(conversation_bytes(reader)?).div_ceil(BYTES_PER_TOKEN))
    }
}

/// Returns the bytes of the conversation so far.
fn conversation_bytes(reader: &mut ScopeReader<'_>) -> Result<u64, EvalError> {
    let conversation = reader.own_variable("conversation")?;
    let messages = conversation.as_list().map_or(0, <[Value]>::len);
    reader.spend(messages)?;
    Ok((conversation.size_up_to(usize::MAX) as u64).saturating_add(conversation.stored_bytes()))
}
