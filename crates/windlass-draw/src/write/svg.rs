//! SVG output with a layout of our own.

use super::layout::{GAP_ACROSS, GAP_DOWN, LETTER, LINE, Layout, LayoutFrame, MAX_LABEL_CHARS, PADDING, label_lines};
use crate::model::{Arrow, Drawing, DrawingItem, ItemShape};
use crate::text;

/// Colour of arrows; boxes of a run have the colours of their state.
const INK: &str = "#456";

/// Number of lanes next to the boxes for arrows that go around them. Further arrows share the lanes.
const LANES: u32 = 8;
const LANE: f64 = 10.0;

/// Maximum number of characters of a note in one line of the drawing.
const MAX_NOTE_CHARS: usize = 120;

pub(crate) fn write(drawing: &Drawing) -> String {
    let mut layout = Layout::new(&drawing.arrows);
    let notes: Vec<String> = drawing.notes.iter().map(|note| text::truncate(note, MAX_NOTE_CHARS)).collect();
    let top = PADDING + notes.len() as f64 * LINE;
    let (width, height) = layout.place_items(&drawing.items, PADDING, top);
    let mut body = String::new();
    for (at, note) in notes.iter().enumerate() {
        let y = PADDING + LINE * (at as f64 + 0.6);
        body.push_str(&format!("<text x=\"{PADDING:.1}\" y=\"{y:.1}\" fill=\"{INK}\">{}</text>\n", escaped(note)));
    }
    drawing.items.iter().for_each(|item| draw(&layout, item, &mut body));
    let mut lanes = 0;
    let reach =
        drawing.arrows.iter().map(|arrow| draw_arrow(&layout, arrow, &mut lanes, &mut body)).fold(0.0, f64::max);
    let letters = notes.iter().map(|note| note.chars().count()).max().unwrap_or(0) as f64;
    let width = (width.max(letters * LETTER) + 2.0 * PADDING).max(reach + PADDING);
    let height = height + PADDING + top;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"monospace\" font-size=\"12\">\n<title>{}</title>\n<defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n{body}</svg>\n",
        escaped(&drawing.title)
    )
}

fn draw(layout: &Layout<'_>, item: &DrawingItem, text: &mut String) {
    let Some(LayoutFrame { x, y, width, height }) = layout.frames.get(&*item.id) else { return };
    let (fill, corner) = match item.shape {
        ItemShape::Plain => ("#ffffff", 3),
        ItemShape::Choice => ("#fff6d8", 12),
        ItemShape::Group => ("#f2f5f9", 6),
        ItemShape::Event(_) => ("#eef7ff", 18),
        ItemShape::Outside => ("#e9e9e9", 24),
    };
    let state = item.activity.as_ref().map(|passage| passage.state);
    let (fill, line) = state.map_or((fill, INK), |state| state.colours());
    let class = state.map(|state| format!(" class=\"{}\"", state.as_str())).unwrap_or_default();
    text.push_str(&format!(
        "<rect{class} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{corner}\" fill=\"{fill}\" stroke=\"{line}\"/>\n"
    ));
    for (at, line) in label_lines(item).iter().enumerate() {
        let (x, y) = (x + PADDING, y + PADDING + LINE * (at as f64 + 0.6));
        let weight = if at == 0 { " font-weight=\"bold\"" } else { "" };
        text.push_str(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{weight}>{}</text>\n", escaped(line)));
    }
    item.items.iter().for_each(|item| draw(layout, item, text));
}

/// Returns how far right an arrow must go to pass the boxes in between; `None` if the straight way is free.
fn way_round(layout: &Layout<'_>, from: &LayoutFrame, to: &LayoutFrame) -> Option<f64> {
    let (top, bottom) = (from.y.min(to.y), (from.y + from.height).max(to.y + to.height));
    let leads_back = to.y < from.y + from.height;
    if !leads_back && to.y - (from.y + from.height) <= GAP_DOWN {
        return None;
    }
    let (left, right) = (from.x.min(to.x), (from.x + from.width).max(to.x + to.width));
    let between = layout.frames.values().filter(|frame| {
        // A box that contains one of the two is not an obstacle.
        frame.y > top && frame.y + frame.height < bottom && frame.x < right && frame.x + frame.width > left
    });
    let reach = between.map(|frame| frame.x + frame.width).fold(f64::MIN, f64::max);
    (leads_back || reach > f64::MIN).then(|| reach.max(right))
}

/// Draws an arrow from the middle of one box to the middle of the other, or around the boxes between; returns its
/// right edge.
fn draw_arrow(layout: &Layout<'_>, arrow: &Arrow, lanes: &mut u32, text: &mut String) -> f64 {
    let (Some(from), Some(to)) = (layout.frames.get(&*arrow.from), layout.frames.get(&*arrow.to)) else { return 0.0 };
    let dashes = if arrow.is_dashed() { " stroke-dasharray=\"5 4\"" } else { "" };
    let label = text::truncate(&arrow.label, MAX_LABEL_CHARS);
    let (way, x, y) = match way_round(layout, from, to) {
        None => {
            let (x1, y1) = (from.x + from.width / 2.0, from.y + from.height);
            let (x2, y2) = (to.x + to.width / 2.0, to.y);
            let bend = ((y2 - y1) / 2.0).max(GAP_DOWN / 2.0);
            let way = format!("M{x1:.1},{y1:.1} C{x1:.1},{:.1} {x2:.1},{:.1} {x2:.1},{y2:.1}", y1 + bend, y2 - bend);
            (way, (x1 + x2) / 2.0 + 4.0, (y1 + y2) / 2.0)
        }
        Some(reach) => {
            let (x1, y1) = (from.x + from.width, from.y + from.height * 0.7);
            let (x2, y2) = (to.x + to.width, to.y + to.height * 0.3);
            let lane_x = reach + GAP_ACROSS + f64::from(*lanes % LANES) * LANE;
            *lanes += 1;
            let bend = if y2 > y1 { GAP_DOWN } else { -GAP_DOWN }.clamp(-(y2 - y1).abs() / 2.0, (y2 - y1).abs() / 2.0);
            let way = format!(
                "M{x1:.1},{y1:.1} C{lane_x:.1},{y1:.1} {lane_x:.1},{y1:.1} {lane_x:.1},{:.1} L{lane_x:.1},{:.1} C{lane_x:.1},{y2:.1} {lane_x:.1},{y2:.1} {x2:.1},{y2:.1}",
                y1 + bend,
                y2 - bend
            );
            (way, lane_x + 4.0, (y1 + y2) / 2.0)
        }
    };
    text.push_str(&format!("<path d=\"{way}\" fill=\"none\" stroke=\"{INK}\"{dashes} marker-end=\"url(#tip)\"/>\n"));
    if !label.is_empty() {
        text.push_str(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{INK}\">{}</text>\n", escaped(&label)));
    }
    x + label.chars().count() as f64 * LETTER
}

/// Escapes text. XML cannot represent some control characters at all.
fn escaped(text: &str) -> String {
    let text = text::one_line(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
