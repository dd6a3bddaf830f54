//! What tasks of `windlass run` can do. It trusts its file: private addresses are open.

use windlass_core::Limits;
use windlass_runtime::Tools;
use windlass_tools::{HttpOptions, standard_tools};

pub fn tools(limits: &Limits) -> Tools {
    let options =
        HttpOptions { allow_private: true, reply_bytes_max: limits.tool_reply_bytes_max, ..HttpOptions::default() };
    standard_tools(options)
}
