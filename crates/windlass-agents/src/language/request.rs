//! Requests to a model, and the budget they reserve.

use windlass_value::{EvalError, Map, Value};

use super::CompiledFunction;
use super::config::Config;
use super::reader::ScopeReader;
use super::reply::demand_count;

/// The parts of a request besides the conversation, as the compiler of the workflow wrote them.
const FIXED_KEYS: [&str; 9] =
    ["model", "system", "tools", "result", "temperature", "top_p", "max_tokens", "price", "role"];

/// The approximate bytes of text per token.
const BYTES_PER_TOKEN: u64 = 4;

const MILLION: u128 = 1_000_000;

pub(super) fn request(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let fixed = config.inner("fixed")?.ok_or("missing `fixed`")?;
    let mut map = Map::new();
    for key in FIXED_KEYS {
        map.insert(key, fixed.value(key).cloned().unwrap_or_default());
    }
    fixed.check_all_read()?;
    let tool = config.optional_text("tool")?;
    Ok(Box::new(move |reader| {
        let forced = match &tool {
            Some(tool) if demand_count(reader)? > 0 => Some(tool),
            _ => None,
        };
        let mut request = map.clone();
        request.insert("messages", reader.own_variable("conversation")?);
        request.insert("require", forced.map_or(Value::Null, |tool| Value::Str(tool.clone())));
        request.insert("turn", reader.visit());
        Ok(Value::map(request))
    }))
}

/// Returns the tokens to reserve, and the money if there is a price.
pub(super) fn reserve(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let max_tokens = config.count("max_tokens")?.ok_or("missing `max_tokens`")? as u64;
    let fixed = config.count("fixed")?.unwrap_or(0) as u64;
    let price = config.inner("price")?.map(|price| {
        let part = |key: &'static str| Ok::<u64, String>(price.count(key)?.unwrap_or(0) as u64);
        Ok::<_, String>((part("input")?, part("output")?))
    });
    let price = price.transpose()?;
    Ok(Box::new(move |reader| {
        let read = (fixed + conversation_bytes(reader)?).div_ceil(BYTES_PER_TOKEN);
        let mut reserved = vec![("tokens", Value::from(read + max_tokens))];
        if let Some((input, output)) = price {
            let cost = u128::from(read) * u128::from(input) + u128::from(max_tokens) * u128::from(output);
            reserved.push(("money", Value::from(u64::try_from(cost.div_ceil(MILLION)).unwrap_or(u64::MAX))));
        }
        Ok(Value::object(reserved))
    }))
}

/// Returns the bytes of the conversation so far.
fn conversation_bytes(reader: &mut ScopeReader<'_>) -> Result<u64, EvalError> {
    let conversation = reader.own_variable("conversation")?;
    let messages = conversation.as_list().map_or(0, <[Value]>::len);
    reader.spend(messages)?;
    Ok((conversation.size_up_to(usize::MAX) as u64).saturating_add(conversation.stored_bytes()))
}
