//! Output formats of drawings.

mod dot;
mod json;
mod layout;
mod mermaid;
mod svg;

use std::fmt;
use std::str::FromStr;

use windlass_value::Value;

use crate::Drawing;

/// The output format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawingFormat {
    /// Mermaid text, for pages that render it themselves.
    Mermaid,
    /// DOT, for Graphviz.
    Dot,
    /// JSON, for programs.
    Json,
    /// A finished image.
    Svg,
}

impl DrawingFormat {
    pub const ALL: [DrawingFormat; 4] =
        [DrawingFormat::Mermaid, DrawingFormat::Dot, DrawingFormat::Json, DrawingFormat::Svg];

    pub fn as_str(self) -> &'static str {
        match self {
            DrawingFormat::Mermaid => "mermaid",
            DrawingFormat::Dot => "dot",
            DrawingFormat::Json => "json",
            DrawingFormat::Svg => "svg",
        }
    }
}

impl fmt::Display for DrawingFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DrawingFormat {
    type Err = String;

    /// ```
    /// use windlass_draw::DrawingFormat;
    ///
    /// assert_eq!("dot".parse(), Ok(DrawingFormat::Dot));
    /// let error = "unknown drawing format `png`; expected mermaid, dot, json or svg".to_owned();
    /// assert_eq!("png".parse::<DrawingFormat>(), Err(error));
    /// ```
    fn from_str(name: &str) -> Result<DrawingFormat, String> {
        let found = DrawingFormat::ALL.into_iter().find(|format| format.as_str() == name);
        found.ok_or_else(|| {
            let [others @ .., last] = DrawingFormat::ALL.map(DrawingFormat::as_str);
            format!("unknown drawing format `{name}`; expected {} or {last}", others.join(", "))
        })
    }
}

impl Drawing {
    /// Returns the text of a drawing in one of the formats.
    ///
    /// ```
    /// use windlass_draw::{Drawing, DrawingFormat};
    ///
    /// let empty = Drawing { title: "nothing".into(), ..Drawing::default() };
    /// assert_eq!(empty.write(DrawingFormat::Mermaid), empty.to_mermaid());
    /// ```
    pub fn write(&self, format: DrawingFormat) -> String {
        match format {
            DrawingFormat::Mermaid => self.to_mermaid(),
            DrawingFormat::Dot => self.to_dot(),
            DrawingFormat::Svg => self.to_svg(),
            DrawingFormat::Json => windlass_value::to_json_pretty(&self.to_value()) + "\n",
        }
    }

    /// Returns a Mermaid flowchart.
    ///
    /// ```
    /// # use windlass_core::plan::{ExpressionSource, Node, NodeKind, Plan};
    /// # use windlass_value::ExpressionMode;
    /// # let mut plan = Plan::new("hello", "loom", "{}");
    /// # let (language, source) = ("wdl".into(), "hello".into());
    /// # let mode = ExpressionMode::Value;
    /// # let greeting = plan.add_expression(ExpressionSource { language, source, mode, span: Default::default() });
    /// # plan.root = plan.add_node(Node::new("greet", "compose", None, NodeKind::evaluate(greeting)));
    /// let text = windlass_draw::plan(&plan).to_mermaid();
    /// assert_eq!(text, "flowchart TD\n  n0[\"greet<br/>compose\"]\n");
    /// ```
    pub fn to_mermaid(&self) -> String {
        mermaid::write(self)
    }

    /// Returns a directed graph for Graphviz.
    ///
    /// ```
    /// let empty = windlass_draw::Drawing { title: "nothing".into(), ..Default::default() };
    /// assert!(empty.to_dot().starts_with("digraph \"nothing\" {"));
    /// ```
    pub fn to_dot(&self) -> String {
        dot::write(self)
    }

    /// Returns an SVG image with its own layout: no other tool is needed to view it.
    ///
    /// ```
    /// let empty = windlass_draw::Drawing { title: "nothing".into(), ..Default::default() };
    /// assert!(empty.to_svg().contains("<title>nothing</title>"));
    /// ```
    pub fn to_svg(&self) -> String {
        svg::write(self)
    }

    /// Returns `{nodes, edges}`, and for a run also `run` and `notes`.
    ///
    /// ```
    /// let empty = windlass_draw::Drawing::default();
    /// assert_eq!(windlass_value::to_json(&empty.to_value()), r#"{"nodes":[],"edges":[]}"#);
    /// ```
    pub fn to_value(&self) -> Value {
        json::value(self)
    }
}
