//! SVG by a layout of our own: each group stacks its items in rows, a row further down than all it waits for.

use std::collections::BTreeMap;

use super::drawing::{Arrow, Drawing, Item, Shape};
use crate::text;

const LETTER: f64 = 7.2;
const LINE: f64 = 16.0;
const PADDING: f64 = 12.0;
const GAP_ACROSS: f64 = 24.0;
const GAP_DOWN: f64 = 40.0;

/// Longer labels are cut: a box as wide as a condition helps nobody.
const LABEL_MAX: usize = 48;

#[derive(Clone, Copy)]
struct Frame {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

struct Layout<'a> {
    arrows: &'a [Arrow],
    frames: BTreeMap<&'a str, Frame>,
}

pub fn write(drawing: &Drawing) -> String {
    let mut layout = Layout { arrows: &drawing.arrows, frames: BTreeMap::new() };
    let (width, height) = layout.place(&drawing.items, PADDING, PADDING);
    let (width, height) = (width + 2.0 * PADDING, height + 2.0 * PADDING);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"monospace\" font-size=\"12\">\n<title>{}</title>\n",
        escaped(&drawing.title)
    );
    text.push_str("<defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n");
    drawing.items.iter().for_each(|item| layout.draw(item, &mut text));
    drawing.arrows.iter().for_each(|arrow| layout.draw_arrow(arrow, &mut text));
    text + "</svg>\n"
}

impl<'a> Layout<'a> {
    /// Gives every item its frame, and back how much room all of them take.
    fn place(&mut self, items: &'a [Item], x: f64, y: f64) -> (f64, f64) {
        let (mut width, mut down) = (0.0_f64, y);
        for row in self.rows(items) {
            let (mut across, mut height) = (x, 0.0_f64);
            for item in row {
                let frame = self.frame(item, across, down);
                across += frame.width + GAP_ACROSS;
                height = height.max(frame.height);
            }
            width = width.max(across - GAP_ACROSS - x);
            down += height + GAP_DOWN;
        }
        (width, (down - GAP_DOWN - y).max(0.0))
    }

    fn frame(&mut self, item: &'a Item, x: f64, y: f64) -> Frame {
        let (inner_width, inner_height) = match item.items.is_empty() {
            true => (0.0, 0.0),
            false => self.place(&item.items, x + PADDING, y + head(item) + PADDING),
        };
        let letters = lines(item).iter().map(|line| line.chars().count()).max().unwrap_or(0) as f64;
        let width = (letters * LETTER).max(inner_width) + 2.0 * PADDING;
        let below = if item.items.is_empty() { 0.0 } else { inner_height + PADDING };
        let frame = Frame { x, y, width, height: head(item) + PADDING + below };
        self.frames.insert(&item.id, frame);
        frame
    }

    /// Neighbours by how long the longest way to them is. A net may go round in circles: the count of items bounds it.
    fn rows(&self, items: &'a [Item]) -> Vec<Vec<&'a Item>> {
        let index: BTreeMap<&str, usize> = items.iter().enumerate().map(|(at, item)| (&*item.id, at)).collect();
        let pairs: Vec<(usize, usize)> =
            self.arrows.iter().filter_map(|arrow| Some((*index.get(&*arrow.from)?, *index.get(&*arrow.to)?))).collect();
        let mut ranks = vec![0; items.len()];
        for _ in 0..items.len() {
            for (from, to) in &pairs {
                ranks[*to] = ranks[*to].max(ranks[*from] + 1).min(items.len());
            }
        }
        let mut rows: BTreeMap<usize, Vec<&Item>> = BTreeMap::new();
        items.iter().zip(ranks).for_each(|(item, rank)| rows.entry(rank).or_default().push(item));
        rows.into_values().collect()
    }

    fn draw(&self, item: &Item, text: &mut String) {
        let Some(Frame { x, y, width, height }) = self.frames.get(&*item.id) else { return };
        let (fill, corner) = match item.shape {
            Shape::Plain => ("#ffffff", 3),
            Shape::Choice => ("#fff6d8", 12),
            Shape::Group => ("#f2f5f9", 6),
        };
        text.push_str(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{corner}\" fill=\"{fill}\" stroke=\"#456\"/>\n"
        ));
        for (at, line) in lines(item).iter().enumerate() {
            let (x, y) = (x + PADDING, y + PADDING + LINE * (at as f64 + 0.6));
            let weight = if at == 0 { " font-weight=\"bold\"" } else { "" };
            text.push_str(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{weight}>{}</text>\n", escaped(line)));
        }
        item.items.iter().for_each(|item| self.draw(item, text));
    }

    fn draw_arrow(&self, arrow: &Arrow, text: &mut String) {
        let (Some(from), Some(to)) = (self.frames.get(&*arrow.from), self.frames.get(&*arrow.to)) else { return };
        let (x1, y1) = (from.x + from.width / 2.0, from.y + from.height);
        let (x2, y2) = (to.x + to.width / 2.0, to.y);
        let bend = ((y2 - y1) / 2.0).max(GAP_DOWN / 2.0);
        text.push_str(&format!(
            "<path d=\"M{x1:.1},{y1:.1} C{x1:.1},{:.1} {x2:.1},{:.1} {x2:.1},{y2:.1}\" fill=\"none\" stroke=\"#456\" marker-end=\"url(#tip)\"/>\n",
            y1 + bend,
            y2 - bend
        ));
        if !arrow.label.is_empty() {
            let (x, y) = ((x1 + x2) / 2.0 + 4.0, (y1 + y2) / 2.0);
            let label = escaped(&text::cut(&arrow.label, LABEL_MAX));
            text.push_str(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#456\">{label}</text>\n"));
        }
    }
}

fn lines(item: &Item) -> Vec<String> {
    [&item.title, &item.detail]
        .into_iter()
        .filter(|line| !line.is_empty())
        .map(|line| text::cut(line, LABEL_MAX))
        .collect()
}

fn head(item: &Item) -> f64 {
    lines(item).len() as f64 * LINE + PADDING
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
