//! The latest steps of a stream, and the relation of the next step to them.

use super::cluster::{Cluster, Follows, Outline, Size, is_one_model};
use crate::shape::{Form, Shape};

/// Whole graphs remembered: a batch grows and shrinks between the sizes that were captured.
const GRAPHS: usize = 4;
/// The entry of a graph that has changed.
const CHANGED: u64 = u64::MAX;
/// The increase in doublings from which the work has jumped; one more request never does that.
const JUMP: f32 = 1.05;
/// The likeness from which a step continues an earlier one.
const ALIKE: f64 = 0.5;

/// The latest step of a stream, and the whole graphs launched lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    last: Option<Last>,
    graphs: [u64; GRAPHS],
}

#[derive(Clone, Copy, Debug)]
struct Last {
    form: Form,
    is_known: bool,
    /// The index of its cluster.
    at: usize,
    size: Size,
    /// True if it continued an earlier step.
    is_alike: bool,
}

impl Recent {
    /// Adds the next step, of the cluster at index `at`, and returns its relation to earlier ones.
    pub(super) fn follow(&mut self, shape: &Shape, at: usize, clusters: &[Cluster]) -> Follows {
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

    /// Discards the graph with this fingerprint, which has changed.
    pub(super) fn change_graph(&mut self, graph: u64) {
        self.graphs.iter_mut().filter(|g| **g == graph).for_each(|g| *g = CHANGED);
    }

    /// Returns 1 if the graph was launched lately, else 0; `None` for the first.
    fn launch(&mut self, graphs: u64) -> Option<f64> {
        let is_first = self.graphs == [0; GRAPHS];
        let at = self.graphs.iter().position(|g| *g == graphs);
        self.graphs[..=at.unwrap_or(GRAPHS - 1)].rotate_right(1);
        self.graphs[0] = graphs;
        (!is_first).then_some(f64::from(u8::from(at.is_some())))
    }
}

impl Last {
    fn outline(&self) -> Outline {
        Outline { form: self.form, is_known: self.is_known, kernels: self.size.launches }
    }

    /// Returns whether the next step jumps; `None` if it is of the same cluster or another model, or if this one continued
    /// no earlier step: jumps among prompts of all lengths are not evidence.
    fn jumps_to(&self, next: &Last) -> Option<bool> {
        let is_of_model = is_one_model(&self.outline(), &next.outline());
        let is_evidence = is_of_model && self.is_alike && self.at != next.at;
        is_evidence.then_some(next.size.threads - self.size.threads > JUMP)
    }
}
