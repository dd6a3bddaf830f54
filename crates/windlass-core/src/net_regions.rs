//! Regions of a net: which tokens meet at a place with [`Join::Meeting`], and which can still reach it.
//!
//! The *head* of a meeting place is the last place that every path to it passes and after which tokens on the way to it
//! can multiply: its nearest dominator that dominates a fan-out towards it. All tokens that result from one token at
//! the head, as long as they stay among the places that the head dominates, belong to one *activation* of the head's
//! region; these are the tokens of one fan-out. A path that leads back to the head from inside stays in the activation.
//! Regions of different heads are nested or disjoint, so a token belongs to one activation of each region around its
//! place.
//!
//! Everything here follows from the plan and is computed once, when it is loaded.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::{Join, Net};

/// The regions of one net.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetRegions {
    regions: Vec<NetRegion>,
    /// By place: the regions that contain it.
    containing: Vec<Vec<u32>>,
    /// By place: the region whose tokens meet there.
    meets: Vec<Option<u32>>,
    /// By place: its position in a walk along the arcs, each place before those that only it leads to.
    rank: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NetRegion {
    /// The place at which tokens enter; None for the region of the whole net.
    head: Option<u32>,
    /// By place: the meeting places of the region that a body of the place can still lead to.
    reachable: BTreeMap<u32, Vec<u32>>,
}

impl NetRegions {
    /// Returns the regions of a net; None if no tokens meet in it.
    pub(crate) fn from_net(net: &Net) -> Option<NetRegions> {
        let meeting: Vec<usize> = meeting_places(net).collect();
        if meeting.is_empty() {
            return None;
        }
        let arcs = ArcGraph::from_net(net);
        let order = arcs.reverse_postorder();
        let dominators = arcs.immediate_dominators(&order);
        let mut by_head: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for place in meeting {
            by_head.entry(arcs.head(&order, &dominators, place)).or_default().push(place);
        }
        let mut found = NetRegions {
            containing: vec![Vec::new(); net.places.len()],
            meets: vec![None; net.places.len()],
            rank: vec![u32::MAX; net.places.len()],
            ..NetRegions::default()
        };
        for (rank, place) in order.iter().enumerate().filter(|(_, place)| **place != arcs.root()) {
            found.rank[*place] = rank as u32;
        }
        for (head, places) in by_head {
            found.add(&arcs, head, &places, &dominated(&order, &dominators, head, arcs.root()));
        }
        Some(found)
    }

    fn add(&mut self, arcs: &ArcGraph, head: usize, places: &[usize], inside: &[bool]) {
        let number = self.regions.len() as u32;
        let mut region = NetRegion { head: (head != arcs.root()).then_some(head as u32), ..NetRegion::default() };
        for place in places {
            self.meets[*place] = Some(number);
            region.reachable.entry(*place as u32).or_default();
            for before in arcs.leading_to(*place, inside) {
                region.reachable.entry(before as u32).or_default().push(*place as u32);
            }
        }
        for place in region.reachable.keys() {
            self.containing[*place as usize].push(number);
        }
        self.regions.push(region);
    }

    /// Returns the number of regions.
    pub(crate) fn count(&self) -> usize {
        self.regions.len()
    }

    /// Returns the regions that contain a place.
    pub(crate) fn containing(&self, place: usize) -> &[u32] {
        self.containing.get(place).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the region whose tokens meet at a place.
    pub(crate) fn met_at(&self, place: usize) -> Option<u32> {
        self.meets.get(place).copied().flatten()
    }

    /// Returns true if tokens enter the region at this place.
    pub(crate) fn is_head(&self, region: u32, place: usize) -> bool {
        self.regions.get(region as usize).is_some_and(|region| region.head == Some(place as u32))
    }

    /// Returns the meeting places of a region that a body of the place can still lead to.
    pub(crate) fn reachable(&self, region: u32, place: usize) -> &[u32] {
        let region = self.regions.get(region as usize);
        region.and_then(|region| region.reachable.get(&(place as u32))).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the position of a place in the order in which meetings that wait for each other are released.
    pub(crate) fn rank(&self, place: u32) -> u32 {
        self.rank.get(place as usize).copied().unwrap_or(u32::MAX)
    }
}

/// Returns the places at which tokens meet.
pub(crate) fn meeting_places(net: &Net) -> impl Iterator<Item = usize> {
    let places = net.places.iter().enumerate();
    places.filter(|(_, place)| matches!(place.join, Join::Meeting { .. })).map(|(at, _)| at)
}

/// The arcs between places. The last number is the root, which emits the first token.
struct ArcGraph {
    after: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
    /// By place: the targets of each arc, and those of the kinds that the body's output may contain.
    emitted: Vec<EmittedTargets>,
}

struct EmittedTargets {
    arcs: Vec<Vec<usize>>,
    /// All arcs that match fire.
    inclusive: bool,
    produced: Vec<usize>,
}

impl EmittedTargets {
    /// Returns true if the end of a body can emit several tokens that go to these places.
    fn multiplies(&self, towards: &[bool]) -> bool {
        let count = |targets: &Vec<usize>| targets.iter().filter(|at| towards[**at]).count();
        let arcs = self.arcs.iter().map(count);
        let of_arcs = if self.inclusive { arcs.sum::<usize>() } else { arcs.max().unwrap_or(0) };
        of_arcs > 1 || count(&self.produced) > 0
    }
}

impl ArcGraph {
    fn from_net(net: &Net) -> ArcGraph {
        let mut accepting: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, place) in net.places.iter().enumerate() {
            place.accepts.iter().for_each(|kind| accepting.entry(kind).or_default().push(at));
        }
        let targets = |kind: &str| accepting.get(kind).cloned().unwrap_or_default();
        let (mut after, mut emitted) = (Vec::with_capacity(net.places.len() + 1), Vec::new());
        for place in &net.places {
            let own = EmittedTargets {
                arcs: place.arcs.iter().map(|arc| targets(&arc.emits)).collect(),
                inclusive: place.inclusive,
                produced: place.produces.iter().flat_map(|kind| targets(kind)).collect(),
            };
            let handler = place.handler.map(|handler| handler.place as usize);
            let all = own.arcs.iter().flatten().chain(&own.produced).copied();
            let mut seen = BTreeSet::new();
            after.push(all.chain(handler).filter(|at| seen.insert(*at)).collect::<Vec<usize>>());
            emitted.push(own);
        }
        after.push(targets(&net.start));
        let mut before = vec![Vec::new(); after.len()];
        for (from, all) in after.iter().enumerate() {
            all.iter().for_each(|to| before[*to].push(from));
        }
        ArcGraph { after, before, emitted }
    }

    fn root(&self) -> usize {
        self.after.len() - 1
    }

    /// Returns the nearest dominator of a place that dominates a fan-out towards it.
    fn head(&self, order: &[usize], dominators: &[Option<usize>], place: usize) -> usize {
        let mut towards = vec![false; self.after.len()];
        self.leading_to(place, &vec![true; self.after.len()]).into_iter().for_each(|at| towards[at] = true);
        towards[place] = true;
        let fans_out: Vec<usize> =
            (0..self.emitted.len()).filter(|at| towards[*at] && self.emitted[*at].multiplies(&towards)).collect();
        let mut head = dominators[place];
        while let Some(at) = head.filter(|at| *at != self.root()) {
            let inside = dominated(order, dominators, at, self.root());
            if fans_out.iter().any(|from| inside[*from]) {
                return at;
            }
            head = dominators[at];
        }
        self.root()
    }

    /// Returns the places that the root leads to, the root first.
    fn reverse_postorder(&self) -> Vec<usize> {
        let mut seen = vec![false; self.after.len()];
        let (mut order, mut open) = (Vec::new(), vec![(self.root(), 0)]);
        seen[self.root()] = true;
        while let Some((at, next)) = open.last_mut() {
            match self.after[*at].get(*next) {
                Some(to) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[*to], true) {
                        open.push((*to, 0));
                    }
                }
                None => {
                    order.push(*at);
                    open.pop();
                }
            }
        }
        order.reverse();
        order
    }

    /// Returns the immediate dominator of each place (Cooper, Harvey and Kennedy); None for places that no path from
    /// the root reaches. The root is its own.
    fn immediate_dominators(&self, order: &[usize]) -> Vec<Option<usize>> {
        let mut rank = vec![usize::MAX; self.after.len()];
        order.iter().enumerate().for_each(|(at, place)| rank[*place] = at);
        let mut found: Vec<Option<usize>> = vec![None; self.after.len()];
        found[self.root()] = Some(self.root());
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for place in &order[1..] {
                let known = self.before[*place].iter().copied().filter(|before| found[*before].is_some());
                let nearest = known.reduce(|one, other| common_dominator(&found, &rank, one, other));
                changed |= found[*place] != nearest;
                found[*place] = nearest;
            }
        }
        found
    }

    /// Returns the places inside the region from which some path inside it leads to `place`, itself included if it is
    /// on a cycle.
    fn leading_to(&self, place: usize, inside: &[bool]) -> BTreeSet<usize> {
        let (mut found, mut open) = (BTreeSet::new(), vec![place]);
        while let Some(at) = open.pop() {
            let before = self.before[at].iter().filter(|before| inside[**before] && **before != self.root());
            open.extend(before.filter(|before| found.insert(**before)));
        }
        found
    }
}

fn common_dominator(found: &[Option<usize>], rank: &[usize], mut one: usize, mut other: usize) -> usize {
    while one != other {
        let deeper = if rank[one] > rank[other] { &mut one } else { &mut other };
        match found[*deeper] {
            Some(above) => *deeper = above,
            None => return *deeper,
        }
    }
    one
}

/// Returns, by place, whether `head` dominates it.
fn dominated(order: &[usize], dominators: &[Option<usize>], head: usize, root: usize) -> Vec<bool> {
    let mut inside = vec![head == root; dominators.len()];
    for place in order {
        inside[*place] = *place == head || dominators[*place].is_some_and(|above| above != *place && inside[above]);
    }
    inside
}
