//! Descriptions of tools: inputs, outputs and errors, for `windlass tools`.

use crate::registry::registrations;

/// The description of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolInfo {
    pub name: &'static str,
    /// One sentence.
    pub description: &'static str,
    pub inputs: &'static [ToolField],
    pub outputs: &'static [ToolField],
    /// The errors of the tool: kind and condition.
    pub errors: &'static [(&'static str, &'static str)],
}

/// One field of an input or an output.
#[derive(Clone, Copy, Debug)]
pub struct ToolField {
    pub name: &'static str,
    /// `text`, `number`, `object`…; alternatives are separated by `|`.
    pub kind: &'static str,
    pub required: bool,
    pub description: &'static str,
}

/// Describes an optional field.
pub const fn field(name: &'static str, kind: &'static str, description: &'static str) -> ToolField {
    ToolField { name, kind, required: false, description }
}

/// Describes a required field.
pub const fn required(name: &'static str, kind: &'static str, description: &'static str) -> ToolField {
    ToolField { name, kind, required: true, description }
}

/// Returns the tools of this crate in this build, sorted by name.
pub fn tool_infos() -> Vec<&'static ToolInfo> {
    let mut infos: Vec<&'static ToolInfo> = registrations().into_iter().map(|tool| tool.info).collect();
    infos.push(&crate::model::INFO);
    infos.sort_by_key(|info| info.name);
    infos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_described_once_and_whole() {
        let infos = tool_infos();
        assert!(infos.windows(2).all(|pair| pair[0].name < pair[1].name));
        for info in infos {
            assert!(
                !info.description.is_empty() && !info.inputs.is_empty() && !info.outputs.is_empty(),
                "{}",
                info.name
            );
            for field in info.inputs.iter().chain(info.outputs) {
                assert!(
                    !field.name.is_empty() && !field.kind.is_empty() && !field.description.is_empty(),
                    "{}",
                    info.name
                );
            }
        }
    }
}
