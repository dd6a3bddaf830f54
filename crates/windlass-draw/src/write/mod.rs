//! A drawing, written down.

mod dot;
mod json;
mod layout;
mod mermaid;
mod svg;

use std::fmt;
use std::str::FromStr;

use windlass_value::Value;

use crate::Drawing;

/// How a drawing is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawingFormat {
    /// For pages that draw it themselves.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// For programs.
    Json,
    /// As it is.
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
    /// use windlass_draw::Format;
    ///
    /// assert_eq!("dot".parse(), Ok(Format::Dot));
    /// assert_eq!("png".parse::<Format>(), Err("`png` is no format of drawings: mermaid, dot, json, svg".to_owned()));
    /// ```
    fn from_str(name: &str) -> Result<DrawingFormat, String> {
        let found = DrawingFormat::ALL.into_iter().find(|format| format.as_str() == name);
        found.ok_or_else(|| {
            let all = DrawingFormat::ALL.map(DrawingFormat::as_str).join(", ");
            format!("`{name}` is no format of drawings: {all}")
        })
    }
}

impl Drawing {
    /// The text of a drawing in one of the formats.
    ///
    /// ```
    /// use windlass_draw::{Drawing, Format};
    ///
    /// let empty = Drawing { title: "nothing".into(), ..Drawing::default() };
    /// assert_eq!(empty.write(Format::Mermaid), empty.to_mermaid());
    /// ```
    pub fn write(&self, format: DrawingFormat) -> String {
        match format {
            DrawingFormat::Mermaid => self.to_mermaid(),
            DrawingFormat::Dot => self.to_dot(),
            DrawingFormat::Svg => self.to_svg(),
            DrawingFormat::Json => windlass_value::to_json_pretty(&self.to_value()) + "\n",
        }
    }

    /// A Mermaid flowchart.
    ///
    /// ```
    /// # use windlass_core::plan::{ExpressionSource, Node, NodeKind, Plan};
    /// # use windlass_value::Mode;
    /// # let mut plan = Plan::new("hello", "loom", "{}");
    /// # let (language, source) = ("wdl".into(), "hello".into());
    /// # let said = plan.add_expression(ExpressionSource { language, source, mode: Mode::Value, span: Default::default() });
    /// # plan.root = plan.add_node(Node::new("greet", "compose", None, NodeKind::evaluate(said)));
    /// let text = windlass_draw::plan(&plan).to_mermaid();
    /// assert_eq!(text, "flowchart TD\n  n0[\"greet<br/>compose\"]\n");
    /// ```
    pub fn to_mermaid(&self) -> String {
        mermaid::write(self)
    }

    /// A directed graph for Graphviz.
    ///
    /// ```
    /// let empty = windlass_draw::Drawing { title: "nothing".into(), ..Default::default() };
    /// assert!(empty.to_dot().starts_with("digraph \"nothing\" {"));
    /// ```
    pub fn to_dot(&self) -> String {
        dot::write(self)
    }

    /// An image, laid out by itself: nothing else is needed to look at it.
    ///
    /// ```
    /// let empty = windlass_draw::Drawing { title: "nothing".into(), ..Default::default() };
    /// assert!(empty.to_svg().contains("<title>nothing</title>"));
    /// ```
    pub fn to_svg(&self) -> String {
        svg::write(self)
    }

    /// `{nodes, edges}`, and for a run `run` and `notes`.
    ///
    /// ```
    /// let empty = windlass_draw::Drawing::default();
    /// assert_eq!(windlass_value::to_json(&empty.to_value()), r#"{"nodes":[],"edges":[]}"#);
    /// ```
    pub fn to_value(&self) -> Value {
        json::value(self)
    }
}
