//! Layout of the SVG boxes: each group stacks its items in rows, a row further down than everything it waits for.

use std::collections::BTreeMap;

use crate::model::{Arrow, DrawingItem};
use crate::text;

pub(crate) const LETTER: f64 = 7.2;
pub(crate) const LINE: f64 = 16.0;
pub(crate) const PADDING: f64 = 12.0;
pub(crate) const GAP_ACROSS: f64 = 24.0;
pub(crate) const GAP_DOWN: f64 = 40.0;

/// Longer labels are truncated: a box as wide as a condition is not readable.
pub(crate) const MAX_LABEL_CHARS: usize = 48;

#[derive(Clone, Copy)]
pub(crate) struct LayoutFrame {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

pub(crate) struct Layout<'a> {
    arrows: Vec<(&'a str, &'a str)>,
    pub frames: BTreeMap<&'a str, LayoutFrame>,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(arrows: &'a [Arrow]) -> Layout<'a> {
        let arrows = arrows.iter().map(|arrow| (&*arrow.from, &*arrow.to)).collect();
        Layout { arrows, frames: BTreeMap::new() }
    }

    /// Assigns a frame to every item and returns the total width and height.
    pub(crate) fn place_items(&mut self, items: &'a [DrawingItem], x: f64, y: f64) -> (f64, f64) {
        let (mut widest, mut down) = (0.0_f64, y);
        let mut rows = Vec::new();
        for row in self.rows(items) {
            let (mut across, mut height) = (x, 0.0_f64);
            for item in &row {
                let frame = self.frame(item, across, down);
                across += frame.width + GAP_ACROSS;
                height = height.max(frame.height);
            }
            let width = across - GAP_ACROSS - x;
            widest = widest.max(width);
            rows.push((row, width));
            down += height + GAP_DOWN;
        }
        for (row, width) in rows {
            row.into_iter().for_each(|item| self.shift(item, (widest - width) / 2.0));
        }
        (widest, (down - GAP_DOWN - y).max(0.0))
    }

    fn shift(&mut self, item: &'a DrawingItem, by: f64) {
        if by > 0.0 {
            item.each(&mut |item| {
                if let Some(frame) = self.frames.get_mut(&*item.id) {
                    frame.x += by;
                }
            });
        }
    }

    fn frame(&mut self, item: &'a DrawingItem, x: f64, y: f64) -> LayoutFrame {
        let (inner_width, inner_height) = match item.items.is_empty() {
            true => (0.0, 0.0),
            false => self.place_items(&item.items, x + PADDING, y + head_height(item) + PADDING),
        };
        let letters = label_lines(item).iter().map(|line| line.chars().count()).max().unwrap_or(0) as f64;
        let width = (letters * LETTER).max(inner_width) + 2.0 * PADDING;
        let below = if item.items.is_empty() { 0.0 } else { inner_height + PADDING };
        let frame = LayoutFrame { x, y, width, height: head_height(item) + PADDING + below };
        self.frames.insert(&item.id, frame);
        frame
    }

    /// Groups neighbours into rows by the longest path to them. Back edges do not count.
    fn rows(&self, items: &'a [DrawingItem]) -> Vec<Vec<&'a DrawingItem>> {
        let index: BTreeMap<&str, usize> = items.iter().enumerate().map(|(at, item)| (&*item.id, at)).collect();
        let mut after = vec![Vec::new(); items.len()];
        for (from, to) in &self.arrows {
            if let (Some(from), Some(to)) = (index.get(from), index.get(to))
                && from != to
            {
                after[*from].push(*to);
            }
        }
        let mut rows: BTreeMap<usize, Vec<&DrawingItem>> = BTreeMap::new();
        items.iter().zip(ranks(&after)).for_each(|(item, rank)| rows.entry(rank).or_default().push(item));
        rows.into_values().collect()
    }
}

/// Returns the longest path to each node, over all arrows except back edges.
fn ranks(after: &[Vec<usize>]) -> Vec<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnTheWay,
        Done,
    }
    let mut led_to = vec![false; after.len()];
    after.iter().flatten().for_each(|to| led_to[*to] = true);
    // The search starts at nodes without incoming arrows: in a cycle, the starting node decides which arrow is the back
    // edge.
    let begins = (0..after.len()).filter(|at| !led_to[*at]).chain(0..after.len());
    let (mut seen, mut ended, mut forward) = (vec![Seen::No; after.len()], Vec::new(), Vec::new());
    for begin in begins {
        let mut way = vec![(begin, 0)];
        while let Some((at, next)) = way.pop() {
            if next == 0 && seen[at] != Seen::No {
                continue;
            }
            seen[at] = Seen::OnTheWay;
            match after[at].get(next) {
                None => {
                    seen[at] = Seen::Done;
                    ended.push(at);
                }
                Some(to) => {
                    way.push((at, next + 1));
                    if seen[*to] != Seen::OnTheWay {
                        forward.push((at, *to));
                    }
                    if seen[*to] == Seen::No {
                        way.push((*to, 0));
                    }
                }
            }
        }
    }
    let mut forward_of = vec![Vec::new(); after.len()];
    forward.into_iter().for_each(|(from, to)| forward_of[from].push(to));
    let mut ranks = vec![0; after.len()];
    // In reverse order of completion every node precedes its successors.
    for at in ended.into_iter().rev() {
        for to in &forward_of[at] {
            ranks[*to] = ranks[*to].max(ranks[at] + 1);
        }
    }
    ranks
}

/// Returns the lines of a box. The line about the run is never truncated: it is short and the most important.
pub(crate) fn label_lines(item: &DrawingItem) -> Vec<String> {
    let mut lines = item.label_lines();
    let authored = lines.len() - usize::from(item.activity.is_some());
    lines.iter_mut().take(authored).for_each(|line| *line = text::truncate(line, MAX_LABEL_CHARS));
    lines
}

pub(crate) fn head_height(item: &DrawingItem) -> f64 {
    label_lines(item).len() as f64 * LINE + PADDING
}

#[cfg(test)]
mod tests {
    use super::ranks;

    #[test]
    fn ranks_follow_the_longest_way_and_circles_end() {
        assert_eq!(ranks(&[vec![1, 2], vec![2], vec![]]), [0, 1, 2]);
        assert_eq!(ranks(&[vec![1], vec![2], vec![1]]), [0, 1, 2], "a cycle after a start");
        assert_eq!(ranks(&[vec![1], vec![0]]), [0, 1], "nothing but a cycle");
        assert_eq!(ranks(&[]), Vec::<usize>::new());
        let long: Vec<Vec<usize>> = (0..100_000).map(|at| vec![(at + 1) % 100_000]).collect();
        assert_eq!(ranks(&long)[99_999], 99_999, "without a call for every step of the way");
    }
}
