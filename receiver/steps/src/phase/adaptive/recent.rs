//! What a stream did last, and how the next step follows it.

use super::cluster::{Cluster, Follows, Sight, Size, is_one_model};
use crate::shape::{Form, Shape};

/// Whole graphs that are remembered: a batch grows and shrinks between the sizes that were captured.
const GRAPHS: usize = 4;
/// Where a graph was that is another now.
const FORGOTTEN: u64 = u64::MAX;
/// From this many doublings on the work has jumped; one request more never does that.
const JUMP: f32 = 1.05;
/// A step this much like one before it goes on with what that did.
const ALIKE: f64 = 0.5;

/// The last step of a stream, and the whole graphs it launched lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    last: Option<Last>,
    graphs: [u64; GRAPHS],
}

#[derive(Clone, Copy, Debug)]
struct Last {
    form: Form,
    is_known: bool,
    /// The place of its cluster.
    at: usize,
    size: Size,
    /// It was like one before it.
    is_alike: bool,
}

impl Recent {
    /// Takes the next step, of the cluster at this place, and says how it follows.
    pub(super) fn take(&mut self, shape: &Shape, at: usize, clusters: &[Cluster]) -> Follows {
        let size = Size::of(shape);
        let likeness = match shape.form {
            Form::Whole => self.launch(shape.graphs),
            form => {
                let peers = clusters.iter().filter(|c| c.form == form).filter_map(Cluster::last);
                peers.map(|last| last.likeness(&size)).max_by(f64::total_cmp)
            }
        };
        let is_alike = likeness.is_some_and(|likeness| likeness >= ALIKE);
        let new = Last { form: shape.form, is_known: shape.is_known, at, size, is_alike };
        let last = self.last.replace(new);
        Follows { likeness, is_jump: last.and_then(|last| last.jumps_to(&new)) }
    }

    /// The graph with this fingerprint is another from here on.
    pub(super) fn forget_graph(&mut self, graph: u64) {
        self.graphs.iter_mut().filter(|g| **g == graph).for_each(|g| *g = FORGOTTEN);
    }

    /// 1 where the graph was launched lately, else 0; `None` for the first.
    fn launch(&mut self, graphs: u64) -> Option<f64> {
        let is_first = self.graphs == [0; GRAPHS];
        let at = self.graphs.iter().position(|g| *g == graphs);
        self.graphs[..=at.unwrap_or(GRAPHS - 1)].rotate_right(1);
        self.graphs[0] = graphs;
        (!is_first).then_some(f64::from(u8::from(at.is_some())))
    }
}

impl Last {
    fn sight(&self) -> Sight {
        Sight { form: self.form, is_known: self.is_known, kernels: self.size.launches }
    }

    /// `None` where the next one is of the same cluster or another model, or this one was itself like none before:
    /// among prompts of all lengths there are jumps that say nothing.
    fn jumps_to(&self, next: &Last) -> Option<bool> {
        let is_of_model = is_one_model(&self.sight(), &next.sight());
        let is_telling = is_of_model && self.is_alike && self.at != next.at;
        is_telling.then_some(next.size.threads - self.size.threads > JUMP)
    }
}
