//! Maximum lengths of texts. Longer texts are cut, with a marker.

use windlass_core::Limits;

use super::config::Config;

/// Maximum lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PromptCaps {
    /// The result of one dependency.
    pub dependency: usize,
    /// A whole prompt.
    pub prompt: usize,
    /// A prompt with a dependency that is shown whole.
    pub whole: usize,
}

impl PromptCaps {
    pub(crate) fn read(config: &Config<'_>) -> Result<PromptCaps, String> {
        let limits = Limits::default();
        let usual = PromptCaps {
            dependency: limits.max_prompt_dependency_bytes,
            prompt: limits.max_prompt_bytes,
            whole: limits.max_whole_prompt_bytes,
        };
        let Some(caps) = config.inner("caps")? else { return Ok(usual) };
        let read = PromptCaps {
            dependency: caps.count("dependency")?.unwrap_or(usual.dependency),
            prompt: caps.count("prompt")?.unwrap_or(usual.prompt),
            whole: caps.count("whole")?.unwrap_or(usual.whole),
        };
        caps.check_all_read().map(|()| read)
    }
}

/// Cuts the end of a text and adds the number of missing bytes. The marker is included in the maximum.
pub(super) fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let marker = |missing: usize| format!("\n\n[cut here: {missing} more bytes]");
    let mut end = max_bytes.saturating_sub(marker(text.len()).len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &text[..end], marker(text.len() - end))
}

const MARKER: &str = "[cut here: this is not the beginning]\n\n";

/// Cuts the beginning of a text and marks that something is missing.
pub(super) fn cut_front(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let mut start = text.len() - max_bytes.saturating_sub(MARKER.len());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    format!("{MARKER}{}", &text[start..])
}
